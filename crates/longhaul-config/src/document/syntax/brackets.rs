//! Finds the bracket that encloses a line.

/// A kind of bracket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bracket {
    /// `[`, a list.
    Square,
    /// `{`, an inline table.
    Brace,
}

impl Bracket {
    /// Returns the name of what the bracket encloses.
    pub(super) fn name(self) -> &'static str {
        match self {
            Bracket::Square => "list",
            Bracket::Brace => "table",
        }
    }

    /// Returns the closing bracket.
    pub(super) fn closing(self) -> char {
        match self {
            Bracket::Square => ']',
            Bracket::Brace => '}',
        }
    }
}

/// An open bracket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    /// Offset of the bracket in the text.
    pub(super) at: usize,
    /// Kind of bracket.
    pub(super) bracket: Bracket,
}

/// Returns the innermost bracket that is open where the line at `line_start` begins.
pub(super) fn around(text: &str, line_start: usize) -> Option<Open> {
    let mut open: Vec<Open> = Vec::new();
    let mut start = 0;
    for line in text.get(..line_start).unwrap_or_default().split_inclusive('\n') {
        // Only a value opens a bracket. A header without its closing bracket and the brace of `tunnel {` do not.
        let is_value = line.split_once('=').is_some_and(|(key, _)| !key.contains(['[', '{']));
        if is_value || !open.is_empty() {
            follow(line, start, &mut open);
        }
        start += line.len();
    }
    open.pop()
}

/// Returns the start of the unclosed multi-line string (three quotes) that contains the line at `line_start`.
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

/// Updates `open` by the brackets of one line. A string ends with its line, closed or not.
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
