//! The bracket that a line is in.

/// A kind of bracket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bracket {
    /// `[`, a list.
    Square,
    /// `{`, a table that stands as a value.
    Brace,
}

impl Bracket {
    /// Returns what it encloses.
    pub(super) fn name(self) -> &'static str {
        match self {
            Bracket::Square => "list",
            Bracket::Brace => "table",
        }
    }

    /// Returns its end.
    pub(super) fn closing(self) -> char {
        match self {
            Bracket::Square => ']',
            Bracket::Brace => '}',
        }
    }
}

/// A bracket that is open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    /// Its byte.
    pub(super) at: usize,
    /// Its kind.
    pub(super) bracket: Bracket,
}

/// Returns the innermost bracket that is open where the line at `line_start` begins.
pub(super) fn around(text: &str, line_start: usize) -> Option<Open> {
    let mut open: Vec<Open> = Vec::new();
    let mut start = 0;
    for line in text.get(..line_start).unwrap_or_default().split_inclusive('\n') {
        // Only a value opens a bracket: not a header that lacks one, nor the brace of `tunnel {`.
        let is_value = line.split_once('=').is_some_and(|(key, _)| !key.contains(['[', '{']));
        if is_value || !open.is_empty() {
            follow(line, start, &mut open);
        }
        start += line.len();
    }
    open.pop()
}

/// Returns where the text in three quotes begins that the line at `line_start` is in.
pub(super) fn open_text(text: &str, line_start: usize) -> Option<usize> {
    let above = text.get(..line_start)?;
    let last = |quotes: &str| above.rfind(quotes).filter(|_| above.matches(quotes).count() % 2 == 1);
    last("\"\"\"").or_else(|| last("'''"))
}

/// Returns whether a line below `from` begins with `}` before the next header.
pub(super) fn is_closed_below(text: &str, from: usize) -> bool {
    let lines = text.get(from..).unwrap_or_default().lines().map(str::trim_start);
    lines.take_while(|line| !line.starts_with("[[")).any(|line| line.starts_with('}'))
}

/// Follows the brackets of one line. A text ends with its line, closed or not.
fn follow(line: &str, start: usize, open: &mut Vec<Open>) {
    let mut quote = None;
    let mut chars = line.char_indices();
    while let Some((at, c)) = chars.next() {
        match (quote, c) {
            (Some('"'), '\\') => drop(chars.next()),
            (Some(end), c) if c == end => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '#') => return,
            (None, '[') => open.push(Open { at: start + at, bracket: Bracket::Square }),
            (None, '{') => open.push(Open { at: start + at, bracket: Bracket::Brace }),
            (None, ']' | '}') => drop(open.pop()),
            (None, _) => {}
        }
    }
}
