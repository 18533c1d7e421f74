//! Explains to an administrator why a file is not TOML: names the mistake and shows the correct line.
//!
//! The parser reports where a file stops being TOML, but its messages are about its grammar. So this module examines the line
//! again: `line.rs` explains the line, `value.rs` the text after its `=`, and `brackets.rs` finds the bracket that encloses it.

mod brackets;
mod line;
mod value;

use super::problem::BOM;
use brackets::{Bracket, Open};
use std::ops::Range;
use value::{Below, SHOWN_MAX};

/// One mistake in a text.
pub(super) struct Mistake {
    /// Offset of the mistake in the text.
    pub(super) at: usize,
    /// Names the mistake and what to write.
    pub(super) text: String,
    /// Whether the lines below can be read.
    below: Below,
}

/// Returns the first mistake of each line of `text`, in the order of the file. `errors` are the parser's errors.
pub(super) fn mistakes(text: &str, errors: &[toml::de::Error]) -> Vec<Mistake> {
    if let Some(mistake) = yaml(text).filter(|_| !errors.is_empty()) {
        return vec![mistake];
    }
    let mut spans: Vec<(Range<usize>, &str)> =
        errors.iter().map(|err| (err.span().unwrap_or_default(), err.message())).collect();
    spans.sort_by_key(|(span, _)| span.start);
    let mut found: Vec<Mistake> = Vec::new();
    let (mut next_line, mut repeated_table) = (0, false);
    for (span, message) in spans {
        // A long line may have an error at each byte, so the line is looked for once.
        if span.start < next_line {
            continue;
        }
        let line = Line::around(text, span.start);
        next_line = text[line.start..].find('\n').map_or(usize::MAX, |newline| line.start + newline + 1);
        let mistake = match message {
            // The keys of a repeated table are repeated with it.
            DUPLICATE if repeated_table => continue,
            DUPLICATE => {
                repeated_table = line.text.trim_start().starts_with('[');
                duplicate(text, &line, &span)
            }
            _ => explain(text, &line, message),
        };
        let is_last = mistake.below == Below::Unreadable || found.len() + 1 == MISTAKES_MAX;
        found.push(mistake);
        if is_last {
            break;
        }
    }
    found
}

/// Returns the mistake of a text that is YAML: its first line of content is a key without a value, such as `tunnels:`.
fn yaml(text: &str) -> Option<Mistake> {
    let without_mark = text.strip_prefix(BOM).unwrap_or(text);
    let mut at = text.len() - without_mark.len();
    let first = without_mark.split_inclusive('\n').find(|line| {
        let is_content = !matches!(line.trim(), "" | "---") && !line.trim_start().starts_with('#');
        at += if is_content { 0 } else { line.len() };
        is_content
    })?;
    let key = first.split(" #").next().unwrap_or_default().trim().strip_suffix(':')?;
    let is_word = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if !is_word {
        return None;
    }
    // A scenario has runs, and a configuration has tunnels.
    let table = if matches!(key, "run" | "runs") { "run" } else { "tunnel" };
    let text = format!(
        "this looks like YAML, and the file must be TOML; write a table as [[{table}]], and below it each KEY = VALUE \
         on a line of its own"
    );
    Some(Mistake { at, text, below: Below::Unreadable })
}

/// One line of the text.
struct Line<'t> {
    /// Offset of the line's first byte.
    start: usize,
    text: &'t str,
}

impl<'t> Line<'t> {
    /// Returns the line that contains the byte at `at`.
    fn around(text: &'t str, at: usize) -> Line<'t> {
        let mut at = at.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        let first = if text.starts_with(BOM) { BOM.len_utf8() } else { 0 };
        let start = text[..at].rfind('\n').map_or(first, |newline| newline + 1);
        let line = text[start..].split('\n').next().unwrap_or_default();
        Line { start, text: line.strip_suffix('\r').unwrap_or(line) }
    }
}

fn duplicate(text: &str, line: &Line<'_>, span: &Range<usize>) -> Mistake {
    let key: String = text.get(span.clone()).unwrap_or_default().chars().take(SHOWN_MAX).collect();
    let text = match line.text.trim_start().starts_with('[') {
        true => format!("the file already has a table {key}; if several are meant, write each as [[{key}]]"),
        false => format!("{key}: this key is already set; write it once"),
    };
    Mistake { at: span.start, text, below: Below::Readable }
}

fn explain(text: &str, line: &Line<'_>, message: &str) -> Mistake {
    if message.contains("recurs") {
        let text = "too many nested brackets; write one list or one table".into();
        return Mistake { at: line.start, text, below: Below::Unreadable };
    }
    if let Some(at) = brackets::open_text(text, line.start) {
        let text = "the text that begins here with three quotes is not closed; write three quotes at its end".into();
        return Mistake { at, text, below: Below::Unreadable };
    }
    match brackets::around(text, line.start) {
        Some(open) => in_brackets(text, line, &open),
        None => {
            let mistake = line::explain(line.text);
            Mistake { at: line.start + mistake.offset, text: mistake.text, below: mistake.below }
        }
    }
}

/// Explains a line inside a bracket that was opened on a line above.
fn in_brackets(text: &str, line: &Line<'_>, open: &Open) -> Mistake {
    let trimmed = line.text.trim_start();
    let at = line.start + (line.text.len() - trimmed.len());
    let readable = |text: String| Mistake { at, text, below: Below::Readable };
    let is_new = trimmed.starts_with("[[") || trimmed.is_empty() || line::is_assignment(trimmed);
    let closing = open.bracket.closing();
    if !is_new {
        return readable(match value::bare_element(trimmed) {
            Some(element) => format!("{}: write {}", value::NEEDS_QUOTES, value::quoted(element)),
            None => format!("write one comma after each value, and {closing} after the last"),
        });
    }
    if open.bracket == Bracket::Brace && !trimmed.starts_with("[[") && brackets::is_closed_below(text, line.start) {
        return readable("a comma is missing at the end of the line above; write a comma between two values".into());
    }
    let name = open.bracket.name();
    let text = format!("the {name} that begins here is not closed; write {closing} at its end");
    Mistake { at: open.at, text, below: Below::Unreadable }
}

/// The parser's message about a key that is in a table twice.
const DUPLICATE: &str = "duplicate key";
/// Maximum number of mistakes reported. More are of no use to a reader, and the search for the bracket around each mistake
/// starts at the beginning of the text.
const MISTAKES_MAX: usize = 20;
