//! Explains a line that is not TOML: a header, or KEY = VALUE.

use super::value::{self, Below, SHOWN_MAX};

/// A mistake in a line.
pub(super) struct LineMistake {
    /// Offset of the mistake in the line.
    pub(super) offset: usize,
    /// Names the mistake and what to write.
    pub(super) text: String,
    /// Whether the lines below can be read.
    pub(super) below: Below,
}

/// Finds the mistake in `line`.
pub(super) fn explain(line: &str) -> LineMistake {
    let trimmed = line.trim();
    let offset = line.len() - line.trim_start().len();
    let mistake = |text: String| LineMistake { offset, text, below: Below::Readable };
    if let Some((offset, c)) = invisible(line) {
        let text = format!(
            "an invisible character, U+{:04X}, is in this line; delete it, or write a plain blank",
            u32::from(c)
        );
        return LineMistake { offset, text, below: Below::Readable };
    }
    if trimmed.starts_with("//") || trimmed.starts_with(';') || trimmed.starts_with("--") {
        return mistake("a comment begins with #".into());
    }
    if trimmed.starts_with('[') {
        return mistake(header(trimmed));
    }
    let Some((key, rest)) = trimmed.split_once('=') else { return mistake(without_equals(trimmed)) };
    let given = rest.trim();
    let key = key.trim();
    match key_as_meant(key) {
        Meant::Good => {}
        Meant::Missing => return mistake("there is no key before the =; write KEY = VALUE".into()),
        Meant::Other(meant) => {
            let why = if key.ends_with(':') { value::EQUALS } else { "a key has no blanks in it" };
            return mistake(format!("{why}: write {}", value::line(&meant, &value::as_meant(given))));
        }
        Meant::Unknown => return mistake("a key has letters, digits, - and _; write KEY = VALUE".into()),
    }
    let wrong = value::explain(key, given);
    let offset = line.find('=').map_or(0, |equals| equals + 1);
    let blanks = line[offset..].len() - line[offset..].trim_start().len();
    LineMistake { offset: offset + blanks, text: wrong.text, below: wrong.below }
}

/// Returns the first invisible character that TOML refuses, with its offset: a control character anywhere, or a blank other
/// than space and tab outside quotes, as copied from web pages.
fn invisible(line: &str) -> Option<(usize, char)> {
    let mut quote = None;
    line.char_indices().find(|(_, c)| {
        match quote {
            Some(end) if end == *c => quote = None,
            None if matches!(c, '"' | '\'') => quote = Some(*c),
            _ => {}
        }
        let is_blank =
            c.is_whitespace() && !matches!(c, ' ' | '\t') || matches!(c, '\u{200b}'..='\u{200f}' | '\u{feff}');
        c.is_control() && *c != '\t' || is_blank && quote.is_none()
    })
}

/// Returns whether `line` begins with KEY =.
pub(super) fn is_assignment(line: &str) -> bool {
    line.split_once('=').is_some_and(|(key, _)| matches!(key_as_meant(key.trim()), Meant::Good))
}

/// Correction of a key.
enum Meant {
    /// The key is correct as written.
    Good,
    /// The key was probably meant as this one.
    Other(String),
    /// No key is before the =.
    Missing,
    /// No correction is known.
    Unknown,
}

fn key_as_meant(key: &str) -> Meant {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_quoted = key.len() > 2 && ['"', '\''].iter().any(|quote| key.starts_with(*quote) && key.ends_with(*quote));
    if key.is_empty() {
        return Meant::Missing;
    }
    if key.chars().all(is_plain) || is_quoted {
        return Meant::Good;
    }
    let meant = key.trim_end_matches(':').split_whitespace().collect::<Vec<_>>().join("_");
    if !meant.is_empty() && meant.chars().all(is_plain) { Meant::Other(meant) } else { Meant::Unknown }
}

/// Explains a line such as `[[tunnel]` or `[tunnel ssh]`.
fn header(line: &str) -> String {
    let inside = line.trim_start_matches(['[', ' ']);
    let end = inside.find([' ', ']', '{', '"', '\'']).unwrap_or(inside.len());
    let name: String = inside[..end].chars().take(SHOWN_MAX).collect();
    let name = if name.is_empty() { "NAME".into() } else { name };
    let count = |bracket| line.chars().filter(|c| *c == bracket).count();
    // [tunnel ssh] means one of several tunnels.
    let has_name = inside[end..].trim_start().starts_with(|c: char| c.is_alphanumeric() || c == '"');
    let header = match count('[') > 1 || count(']') > 1 || has_name {
        true => format!("[[{name}]]"),
        false => format!("[{name}]"),
    };
    format!("a table begins with its name in brackets; write {header} alone on the line")
}

/// Explains a line without =.
fn without_equals(line: &str) -> String {
    let line = line.strip_prefix("- ").unwrap_or(line);
    let end = line.find(|c: char| c == ':' || c == '{' || c.is_whitespace()).unwrap_or(line.len());
    let (word, rest) = (line[..end].trim_matches('"'), line[end..].trim());
    // A message repeats the word, so a file of one long word is not one.
    let is_key = (1..=SHOWN_MAX).contains(&word.len()) && matches!(key_as_meant(word), Meant::Good);
    let given = rest.strip_prefix(':').unwrap_or(rest).trim();
    if !is_key || given.split_whitespace().count() > 1 && !given.starts_with(['"', '\'', '[', '{']) {
        return "this is neither KEY = VALUE nor [[TABLE]]; a comment begins with #".into();
    }
    match rest.chars().next() {
        Some('{') => format!("a table begins with its name in brackets; write [[{word}]], and no braces"),
        Some(':') if !given.is_empty() => {
            format!("{}: write {}", value::EQUALS, value::line(word, &value::as_meant(given)))
        }
        Some(':') | None => format!("{word} has no value; write {word} = VALUE"),
        Some(_) => format!("the = is missing: write {}", value::line(word, &value::as_meant(given))),
    }
}
