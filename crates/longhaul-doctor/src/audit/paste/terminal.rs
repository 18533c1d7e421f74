//! What a terminal adds to a line: colours, movements of the cursor, frames of a 5250 screen, and typographic characters that
//! a mail program or a wiki put in place of ASCII.

use crate::say::is_invisible;
use std::iter::Peekable;
use std::str::Chars;

/// A line as it is seen on the screen.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// The text, without blanks at its end.
    pub(super) text: String,
    /// Columns of the screen up to the end of the text; 0 inside a frame.
    pub(super) columns: usize,
}

/// Returns the lines that `raw` shows: one, or more if the cursor moves between lines.
pub(super) fn seen(raw: &str) -> Vec<Seen> {
    let mut screen = Screen::default();
    if raw.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        // Most lines are of this kind.
        screen.line = raw.into();
        screen.columns = raw.trim_end().len();
        screen.end_line();
        return screen.lines;
    }
    let mut chars = raw.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            ESCAPE => screen.escape(&mut chars),
            CONTROL_SEQUENCE => screen.control(&mut chars),
            '\u{8}' => screen.back(),
            '\t' => screen.tab(),
            // The lines of frames.
            '\u{2500}'..='\u{257f}' => screen.push(' '),
            '\u{2010}'..='\u{2015}' | '\u{2212}' => screen.push('-'),
            '\u{2018}' | '\u{2019}' => screen.push('\''),
            '\u{201c}'..='\u{201e}' => screen.push('"'),
            char if is_invisible(char) => {}
            // No-break spaces, and wide ones.
            char if char.is_whitespace() => screen.push(' '),
            char => screen.push(char),
        }
    }
    screen.end_line();
    screen.lines
}

/// The lines so far, and the one that is being written.
#[derive(Default)]
struct Screen {
    lines: Vec<Seen>,
    line: String,
    /// The column of the cursor, from 0.
    column: usize,
    /// The column behind the last character that is no blank.
    columns: usize,
}

impl Screen {
    /// Reads the rest of an escape sequence (ECMA-48 5.3, ECMA-35).
    fn escape(&mut self, chars: &mut Peekable<Chars<'_>>) {
        match chars.next() {
            Some('[') => self.control(chars),
            // A string up to BEL or ESC \. In a paste its end may be missing: then the line ends it.
            Some(']' | 'P' | 'X' | '^' | '_') => {
                while let Some(char) = chars.next() {
                    match char {
                        BELL => break,
                        ESCAPE if chars.next_if_eq(&'\\').is_some() => break,
                        _ => {}
                    }
                }
            }
            Some(' '..='/') => drop(chars.next()),
            _ => {}
        }
    }

    /// Reads the rest of a control sequence: parameters, and a last byte that says what it does (ECMA-48 5.4).
    fn control(&mut self, chars: &mut Peekable<Chars<'_>>) {
        let mut number = 0usize;
        while let Some(char) = chars.next_if(|char| (' '..='~').contains(char)) {
            match char {
                '0'..='9' => number = (number * 10 + char as usize - '0' as usize).min(MAX_COLUMNS),
                ' '..='?' => {}
                // Cursor forward, and to a column.
                'C' => (0..number.max(1)).for_each(|_| self.push(' ')),
                'G' => (self.column + 1..number).for_each(|_| self.push(' ')),
                // To another line, and erase the display.
                'A' | 'B' | 'E' | 'F' | 'H' | 'J' | 'd' | 'f' => self.end_line(),
                _ => {}
            }
            if !(' '..='?').contains(&char) {
                return;
            }
        }
    }

    fn push(&mut self, char: char) {
        self.line.push(char);
        self.column += 1;
        if char != ' ' {
            self.columns = self.column;
        }
    }

    fn back(&mut self) {
        self.line.pop();
        self.column = self.column.saturating_sub(1);
    }

    /// Adds two blanks, so that columns stay apart. A terminal goes to the next multiple of eight.
    fn tab(&mut self) {
        self.line.push_str("  ");
        self.column = (self.column + 1).next_multiple_of(TAB_STOP);
    }

    fn end_line(&mut self) {
        let ended = std::mem::take(self);
        self.lines = ended.lines;
        let text = ended.line.trim_end();
        if !text.is_empty() || self.lines.is_empty() {
            let inner = unframed(text);
            // Inside a frame, a line is whole, however wide the frame is.
            let columns = if inner.len() < text.len() { 0 } else { ended.columns };
            self.lines.push(Seen { text: inner.into(), columns });
        }
    }
}

/// Returns a line without the sides of a frame. The frames of windows on a 5250 screen have `:` at both sides.
fn unframed(line: &str) -> &str {
    let begun = line.trim_start();
    let both = |side: char| begun.strip_prefix(side).and_then(|inner| inner.strip_suffix(side));
    if let Some(inner) = [':', '!', '*'].iter().find_map(|side| both(*side)) {
        return inner.trim_end();
    }
    let inner = begun.strip_prefix(SIDES).unwrap_or(line);
    inner.strip_suffix(SIDES).unwrap_or(inner).trim_end()
}

const ESCAPE: char = '\u{1b}';
const CONTROL_SEQUENCE: char = '\u{9b}';
const BELL: char = '\u{7}';
/// The sides of frames. The last two are the sides in code page 850, read as ISO 8859-1.
const SIDES: [char; 4] = ['|', '¦', '³', 'º'];
const TAB_STOP: usize = 8;
/// A cursor that goes further right is no part of a line that is looked for.
const MAX_COLUMNS: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(raw: &str) -> Vec<String> {
        seen(raw).into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn colours_titles_and_overstrikes_vanish() {
        assert_eq!(
            texts("\u{1b}[1;32mroot\u{1b}[0m\u{1b}]0;title\u{7}# n\u{8}no -a \u{1b}(B\u{1b}[K"),
            ["root# no -a"]
        );
        assert_eq!(texts("\u{1b}]0;a title without an end"), [""]);
        assert_eq!(texts("a\u{a0}\u{2013}b \u{201c}c\u{201d}\u{200b}\0"), ["a -b \"c\""]);
        assert_eq!(texts("a\u{1b}[3Cb\u{1b}[99999999999999999999C\u{1b}[10Gc"), [format!("a   b{}c", " ".repeat(200))]);
    }

    #[test]
    fn a_cursor_that_moves_to_another_line_begins_one() {
        assert_eq!(texts("\u{1b}[1;1HTCP receive\u{1b}[2;1HTCP send\u{1b}[2J"), ["", "TCP receive", "TCP send"]);
    }

    #[test]
    fn frames_vanish() {
        for line in ["| TCP |", "│ TCP │", ": TCP  :", "³ TCP ³", "║ TCP", "! TCP !"] {
            assert_eq!(texts(line)[0].trim(), "TCP", "{line}");
        }
        assert_eq!(texts("├────┤"), [""]);
        assert_eq!(texts("tcp:"), ["tcp:"]);
    }

    #[test]
    fn tabs_count_to_the_next_stop() {
        let columns = |raw: &str| seen(raw)[0].columns;
        assert_eq!([columns("\tx"), columns("1234567\tx"), columns("12345678\tx"), columns("a\tb\tx")], [9, 9, 17, 17]);
        assert_eq!(columns("x\t"), 1, "blanks at the end do not count");
    }
}
