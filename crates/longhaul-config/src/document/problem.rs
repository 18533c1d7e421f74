//! The messages about a file, with their places.

use std::cell::Cell;
use std::fmt;
use std::ops::Range;
use toml::de::DeTable;

/// Severity of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The whole file is refused.
    Error,
    /// The file is used, but a value is probably a mistake or will not work.
    Warning,
    /// The file is used and the value works, but it has a known trade-off.
    Note,
}

/// A place in a file.
#[derive(Clone, Copy)]
struct FilePlace {
    /// Line, from 1.
    line: usize,
    /// Column in characters, from 1.
    column: usize,
}

/// An error, warning or note about a file. [`Display`](fmt::Display) writes one line with the severity as a word,
/// `longhaul.toml:3:10: error: listen = "x": ..`. The log has a level instead of the word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Severity of the problem.
    pub severity: Severity,
    /// The file with line and column, the file alone if the whole file is meant, or the flag.
    pub place: String,
    /// The key, its value as written, what is wrong and what to write instead.
    pub text: String,
}

/// The reasons why a file was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// All errors, warnings and notes about the file; never empty.
    pub messages: Vec<Message>,
}

impl Refused {
    /// Returns the messages, one line each.
    pub fn lines(&self) -> Vec<String> {
        self.messages.iter().map(ToString::to_string).collect()
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines().join("\n"))
    }
}

impl std::error::Error for Refused {}

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

/// A file's name and text, and the messages about it.
pub struct Findings<'t> {
    name: &'t str,
    text: &'t str,
    /// Offset of each line's first byte.
    lines: Vec<usize>,
    /// The last byte whose place was asked for, and its column. The column of a later byte of the same line counts from it, so
    /// a line with many problems is counted once.
    last: Cell<(usize, usize)>,
    /// The first line in brackets, such as `[admin]`, without what follows the brackets.
    first_header: Option<Range<usize>>,
    /// Each with the byte that it is about.
    found: Vec<(usize, Message)>,
}

impl<'t> Findings<'t> {
    /// Returns empty findings about `text`. Messages call the file `name`.
    pub(super) fn new(name: &'t str, text: &'t str) -> Findings<'t> {
        let lines = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Findings { name, text, lines, last: Cell::new((0, 1)), first_header: None, found: Vec::new() }
    }

    /// Adds a message about `span`, or about the whole file.
    pub fn add(&mut self, severity: Severity, span: Option<Range<usize>>, mut text: String) {
        // A message is one line. Control characters from the file must not reach the reader's terminal.
        text.retain(|c| !c.is_control());
        let start = span.as_ref().map_or(usize::MAX, |span| span.start);
        let place = match span.map(|span| self.place(span.start)) {
            Some(FilePlace { line, column }) => format!("{}:{line}:{column}", self.name),
            None => self.name.into(),
        };
        self.found.push((start, Message { severity, place, text }));
    }

    /// Adds an error at `span`.
    pub fn error(&mut self, span: Range<usize>, text: String) {
        self.add(Severity::Error, Some(span), text);
    }

    /// Returns the text at `span` in one line of at most 60 characters.
    pub fn written(&self, span: &Range<usize>) -> String {
        let raw = self.text.get(span.clone()).unwrap_or_default();
        // Only the start, because a value may have a megabyte and many remarks.
        let start: String = raw.chars().take(READ_MAX).collect();
        let words: Vec<&str> = start.split_whitespace().collect();
        let mut shown: String = words.join(" ").chars().take(WRITTEN_MAX).collect();
        shown.retain(|c| !c.is_control());
        if raw.chars().nth(WRITTEN_MAX).is_some() { shown + ".." } else { shown }
    }

    /// Finds the first line in brackets by the keys of `root`, because a bracket may also begin a line of a list or a text.
    pub(super) fn find_first_header(&mut self, root: &DeTable<'_>) {
        let headers = root.keys().filter_map(|key| self.header_at(key.span().start));
        self.first_header = headers.min_by_key(|header| header.start);
    }

    /// Returns the header whose name begins at the byte `name`. Returns `None` if no bracket precedes the name.
    fn header_at(&self, name: usize) -> Option<Range<usize>> {
        let before = self.text.get(..name)?;
        let start = before.trim_end_matches(['[', ' ', '\t']).len();
        let start = start + before[start..].find('[')?;
        let line = self.text[start..].lines().next()?;
        let (name, after) = line.split_once(']')?;
        let closing = 1 + usize::from(after.starts_with(']'));
        Some(start..start + name.len() + closing)
    }

    /// Returns the first line in brackets, such as `[admin]`. Returns `None` if the file has none.
    pub(super) fn first_header(&self) -> Option<String> {
        self.first_header.as_ref().map(|header| self.written(header))
    }

    /// Returns the line number of a byte, from 1.
    pub fn line(&self, byte: usize) -> usize {
        self.place(byte).line
    }

    /// Returns the place of a byte.
    fn place(&self, byte: usize) -> FilePlace {
        let line = self.lines.partition_point(|start| *start <= byte);
        let mut start = self.lines[line - 1]; // the first line starts at 0
        // Editors do not show a byte order mark, so it has no column.
        if line == 1 && self.text.starts_with(BOM) {
            start = BOM.len_utf8();
        }
        let (from, before) = match self.last.get() {
            (last, column) if (start..=byte).contains(&last) => (last, column),
            _ => (start, 1),
        };
        let column = before + self.text.get(from..byte).unwrap_or_default().chars().count();
        self.last.set((byte.max(start), column));
        FilePlace { line, column }
    }

    /// Returns the number of errors so far.
    pub fn errors(&self) -> usize {
        self.found.iter().filter(|(_, message)| message.severity == Severity::Error).count()
    }

    /// Returns all messages in the order of the file.
    pub(super) fn in_order(mut self) -> Vec<Message> {
        self.found.sort_by_key(|(start, _)| *start);
        self.found.into_iter().map(|(_, message)| message).collect()
    }
}

/// Byte order mark: a character at the start of a text that is not part of it. TOML parsers ignore it.
pub(super) const BOM: char = '\u{feff}';
/// Maximum number of characters of a value that a message repeats.
const WRITTEN_MAX: usize = 60;
/// Maximum number of characters that are searched for them: a list may begin with blanks.
const READ_MAX: usize = 1000;
