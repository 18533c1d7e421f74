//! What is wrong in a file that somebody wrote, and where.

use std::fmt;
use std::ops::Range;

/// Whether the file can be used all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The whole file is refused.
    Error,
    /// The file is used; whoever wrote it may have meant something else.
    Warning,
    /// The file is used and does what it says: a known trade-off of an option.
    Note,
}

/// One thing to say about a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Whether the file can be used.
    pub severity: Severity,
    /// Where it is; `None` when it is about the file as a whole.
    pub at: Option<Place>,
    /// The key, its value as written, what is wrong and what to write instead.
    pub text: String,
}

/// A place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

/// A problem and where it is, for people. [`Display`](fmt::Display) is one line with its severity in words,
/// `longhaul.toml:3:10: error: listen = "x": ..`; the log has a level in place of the word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Whether what was asked for can be used.
    pub severity: Severity,
    /// The file with line and column, or the flag.
    pub place: String,
    /// What is wrong and what to write instead.
    pub text: String,
}

impl Problem {
    /// What to tell who wrote `file`.
    pub fn message(&self, file: &str) -> Message {
        let place = match self.at {
            Some(Place { line, column }) => format!("{file}:{line}:{column}"),
            None => file.to_string(),
        };
        Message { severity: self.severity, place, text: self.text.clone() }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.place, self.severity, self.text)
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        })
    }
}

/// A file's text, and what was found wrong in it.
pub struct Findings<'t> {
    text: &'t str,
    /// Where each line starts.
    lines: Vec<usize>,
    found: Vec<(usize, Problem)>,
}

impl<'t> Findings<'t> {
    /// Findings in `text`, none so far.
    pub fn new(text: &'t str) -> Findings<'t> {
        let lines = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Findings { text, lines, found: Vec::new() }
    }

    /// Notes a problem at `span`, or of the whole file.
    pub fn add(&mut self, severity: Severity, span: Option<Range<usize>>, mut text: String) {
        // A message is one line, and what somebody wrote must not steer the reader's terminal.
        text.retain(|c| !c.is_control());
        let start = span.as_ref().map_or(usize::MAX, |span| span.start);
        let at = span.map(|span| self.place(span.start));
        self.found.push((start, Problem { severity, at, text }));
    }

    /// Notes an error at `span`.
    pub fn error(&mut self, span: Range<usize>, text: String) {
        self.add(Severity::Error, Some(span), text);
    }

    /// What somebody wrote at `span`, on one line and no longer than a line.
    pub fn written(&self, span: &Range<usize>) -> String {
        let raw = self.text.get(span.clone()).unwrap_or_default();
        let mut shown: String =
            raw.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(WRITTEN_MAX).collect();
        shown.retain(|c| !c.is_control());
        if raw.chars().count() > WRITTEN_MAX { shown + ".." } else { shown }
    }

    /// The line of a byte, from 1.
    pub fn line(&self, byte: usize) -> usize {
        self.place(byte).line
    }

    /// Returns the place of a byte.
    fn place(&self, byte: usize) -> Place {
        let line = self.lines.partition_point(|start| *start <= byte);
        let start = self.lines[line - 1]; // the first line starts at 0
        Place { line, column: self.text.get(start..byte).unwrap_or_default().chars().count() + 1 }
    }

    /// How many errors so far.
    pub fn errors(&self) -> usize {
        self.found.iter().filter(|(_, problem)| problem.severity == Severity::Error).count()
    }

    /// All of it in the order of the file.
    pub fn in_order(mut self) -> Vec<Problem> {
        self.found.sort_by_key(|(start, _)| *start);
        self.found.into_iter().map(|(_, problem)| problem).collect()
    }
}

const WRITTEN_MAX: usize = 60;
