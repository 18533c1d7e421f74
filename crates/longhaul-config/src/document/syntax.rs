//! Says why a file is not TOML. The parser says where, in words of its grammar; the mistakes that people make most get words of their
//! own, with what to write: a text without quotes, a bracket too few, `[tunnel]` for `[[tunnel]]`.

use super::problem::BOM;
use toml::de::{DeTable, Error};

/// One mistake in a text.
pub(super) struct Mistake {
    /// Offset of the mistake in the text.
    pub(super) at: usize,
    /// Names the mistake and what to write.
    pub(super) text: String,
    /// Whether what the parser says of the lines below may follow from it.
    is_last: bool,
}

/// Returns the first mistake of each line of `text`, in the order of the file, up to the first one that only the parser can name: what
/// the parser says below it may follow from it. `errors` are the parser's.
pub(super) fn mistakes(text: &str, errors: &[Error]) -> Vec<Mistake> {
    let mut errors: Vec<(usize, &Error)> =
        errors.iter().map(|err| (err.span().unwrap_or_default().start, err)).collect();
    errors.sort_by_key(|(at, _)| *at);
    let mut found = Vec::new();
    let mut next_line = 0;
    for (at, err) in errors {
        // A long line may have an error at each byte.
        if at < next_line {
            continue;
        }
        let line = FileLine::around(text, at);
        next_line = line.end;
        let of_parser = || Mistake { at, text: format!("this is not TOML: {}", err.message().trim()), is_last: true };
        let mistake = explain(text, &line).unwrap_or_else(of_parser);
        let is_last = mistake.is_last || found.len() + 1 == MISTAKES_MAX;
        found.push(mistake);
        if is_last {
            break;
        }
    }
    found
}

/// One line of the text.
struct FileLine<'t> {
    /// Offset of the line's first byte, and of the one behind its end.
    start: usize,
    end: usize,
    text: &'t str,
}

impl<'t> FileLine<'t> {
    /// Returns the line that contains the byte at `at`.
    fn around(text: &'t str, at: usize) -> FileLine<'t> {
        let mut at = at.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        let first = if text.starts_with(BOM) { BOM.len_utf8() } else { 0 };
        let start = text[..at].rfind('\n').map_or(first, |newline| newline + 1);
        let line = text[start..].split('\n').next().unwrap_or_default();
        FileLine { start, end: start + line.len() + 1, text: line.trim_end_matches('\r') }
    }

    /// Returns a mistake where the line's text begins.
    fn mistake(&self, text: String) -> Mistake {
        Mistake { at: self.start + (self.text.len() - self.text.trim_start().len()), text, is_last: false }
    }

    /// Whether it is no element of a list: empty, a header, or KEY = VALUE.
    fn is_new(&self) -> bool {
        let trimmed = self.text.trim();
        trimmed.is_empty()
            || trimmed.starts_with('[') && !trimmed.contains([',', '"'])
            || trimmed.split_once('=').is_some_and(|(key, _)| !key.contains('"'))
    }
}

/// Explains a line; `None` if only the parser can.
fn explain(text: &str, line: &FileLine<'_>) -> Option<Mistake> {
    let trimmed = line.text.trim();
    if let Some(at) = open_list(text, line) {
        let element = without_comment(trimmed).trim_end_matches(',');
        return match quoted(element).filter(|_| !line.is_new()) {
            Some(meant) => Some(line.mistake(format!("{NEEDS_QUOTES}: write {}", shown(&meant)))),
            None if line.is_new() => {
                let text = "the list that begins here is not closed; write ] at its end".into();
                Some(Mistake { at, text, is_last: true })
            }
            None => None,
        };
    }
    if trimmed.starts_with('[') && !trimmed.contains('=') {
        return repeated(text, line).or_else(|| half_closed(line));
    }
    let (key, given) = trimmed.split_once('=').map(|(key, given)| (key.trim(), without_comment(given)))?;
    let meant = quoted(given)?;
    let written = format!("{key} = {meant}");
    let equals = line.text.find('=').map_or(0, |equals| equals + 1);
    let blanks = line.text[equals..].len() - line.text[equals..].trim_start().len();
    let text = match SWITCH_WORDS.contains(&given.to_ascii_lowercase().as_str()) {
        // The key may want a text: user-timeout = "off".
        true => format!("{} = {given}: write true or false; if a text is meant, write {meant}", shown(key)),
        false => format!("{NEEDS_QUOTES}: write {}", shown(&written)),
    };
    let is_right = DeTable::parse(&written).is_ok();
    is_right.then_some(Mistake { at: line.start + equals + blanks, text, is_last: false })
}

/// Explains the header of a table that has one above, too.
fn repeated(text: &str, line: &FileLine<'_>) -> Option<Mistake> {
    let header = without_comment(line.text.trim());
    let name = header.strip_prefix('[')?.strip_suffix(']').filter(|name| !name.starts_with('['))?;
    let above = text.get(..line.start)?.lines().map(|row| without_comment(row.trim()));
    let is_above = above.map(|row| row.trim_matches(['[', ']'])).any(|row| row == name);
    let name = is_above.then(|| shown(name.trim()))?;
    let text = format!("the file already has a table {name}; if several are meant, write each as [[{name}]]");
    // The keys below it are there twice, too.
    Some(Mistake { is_last: true, ..line.mistake(text) })
}

/// Explains a header without one of its brackets: `[tunnel`, `[[tunnel]`.
fn half_closed(line: &FileLine<'_>) -> Option<Mistake> {
    let header = without_comment(line.text.trim());
    let name = header.trim_matches(['[', ']', ' ']);
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    let (open, closed) = (header.matches('[').count(), header.matches(']').count());
    let (left, right) = if open.max(closed) > 1 { ("[[", "]]") } else { ("[", "]") };
    let text = || format!("a table begins with its name in brackets; write {left}{}{right}", shown(name));
    (is_name && open != closed).then(|| line.mistake(text()))
}

/// Returns a value without quotes as it was meant: in quotes, also each text of a list. `None` if it has quotes, or is no text.
fn quoted(given: &str) -> Option<String> {
    let inside = given.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    // An address in brackets is no list.
    if let Some(inside) = inside.filter(|inside| !inside.contains(['[', ']'])) {
        let elements = || inside.split(',').map(str::trim).filter(|element| !element.is_empty());
        let meant: Vec<String> = elements().map(|element| quoted(element).unwrap_or_else(|| element.into())).collect();
        return elements().any(|element| quoted(element).is_some()).then(|| format!("[{}]", meant.join(", ")));
    }
    let is_word = |char: char| char.is_ascii_alphanumeric() || "[]:./%@-_ ".contains(char);
    let has_sign = given.contains(|char: char| char.is_ascii_alphabetic() || ":/".contains(char));
    let is_text = given.chars().all(is_word) && (has_sign || given.matches('.').count() > 1);
    (is_text && given.len() <= TEXT_MAX).then(|| format!("\"{given}\""))
}

/// Returns where the list begins that the last key above has as its value, and nothing has closed.
fn open_list(text: &str, line: &FileLine<'_>) -> Option<usize> {
    let above = text.get(..line.start)?;
    let mut start = above.len();
    let key = above.split_inclusive('\n').rev().find(|row| {
        start -= row.len();
        row.split_once('=').is_some_and(|(key, _)| !key.contains(['[', '"', '#', ',']))
    })?;
    let value = key.split_once('=')?.1.trim_start();
    let depth: i64 = value.starts_with('[').then(|| text[start..line.start].lines().map(brackets).sum())?;
    (depth > 0).then(|| start + key.len() - value.len())
}

/// Returns how many more brackets of lists a line begins than it ends, outside of texts and comments.
fn brackets(line: &str) -> i64 {
    let (mut quote, mut depth) = (None, 0);
    for char in line.chars() {
        match (quote, char) {
            (Some(end), _) if char == end => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(char),
            (None, '#') => break,
            (None, '[') => depth += 1,
            (None, ']') => depth -= 1,
            (None, _) => {}
        }
    }
    depth
}

/// Returns `text` without the comment at its end.
fn without_comment(text: &str) -> &str {
    text.split(" #").next().unwrap_or_default().trim()
}

/// Cuts `text` to the length that a message repeats.
fn shown(text: &str) -> String {
    match text.chars().count() > SHOWN_MAX {
        true => text.chars().take(SHOWN_MAX).collect::<String>() + "..",
        false => text.into(),
    }
}

const NEEDS_QUOTES: &str = "a text needs quotes";
/// Words for `true` and `false` in other formats, in lower case.
const SWITCH_WORDS: [&str; 6] = ["true", "yes", "on", "false", "no", "off"];
/// The longest text in bytes that is shown in quotes.
const TEXT_MAX: usize = 300;
/// Maximum number of mistakes reported. More are of no use to a reader.
const MISTAKES_MAX: usize = 20;
/// Maximum number of characters of a key or value that a message repeats.
const SHOWN_MAX: usize = 60;
