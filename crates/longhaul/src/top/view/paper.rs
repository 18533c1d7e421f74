//! A part of the screen on which lines are written from the top. A line that has no room is left out.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// The rest of a part of the screen.
pub(super) struct Paper<'a> {
    buffer: &'a mut Buffer,
    left: Rect,
}

impl<'a> Paper<'a> {
    /// Returns the paper for `area` of `buffer`.
    pub(super) fn new(buffer: &'a mut Buffer, area: Rect) -> Paper<'a> {
        Paper { left: area.intersection(buffer.area), buffer }
    }

    /// Returns the width of the lines.
    pub(super) fn width(&self) -> usize {
        self.left.width.into()
    }

    /// Returns the number of lines that are left.
    pub(super) fn lines(&self) -> usize {
        self.left.height.into()
    }

    /// Writes a line. What does not fit is cut off, and `~` marks it. The style is that of the whole line.
    pub(super) fn write(&mut self, text: &str, style: Style) {
        if self.left.is_empty() {
            return;
        }
        let Rect { x, y, width, .. } = self.left;
        self.buffer.set_style(Rect::new(x, y, width, 1), style);
        self.buffer.set_string(x, y, clip(text, width.into()), Style::new());
        self.skip(1);
    }

    /// Leaves lines empty.
    pub(super) fn skip(&mut self, lines: usize) {
        let lines = u16::try_from(lines).unwrap_or(u16::MAX).min(self.left.height);
        self.left.y += lines;
        self.left.height -= lines;
    }

    /// Takes the last lines away. Returns a paper for them.
    pub(super) fn bottom(&mut self, lines: usize) -> Paper<'_> {
        let lines = u16::try_from(lines).unwrap_or(u16::MAX).min(self.left.height);
        self.left.height -= lines;
        let Rect { x, width, .. } = self.left;
        Paper { left: Rect::new(x, self.left.bottom(), width, lines), buffer: self.buffer }
    }
}

/// Returns the first `width` characters of `text`. If it is longer, the last of them is `~`, except in a width that has no
/// room for it.
pub(super) fn clip(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.into();
    }
    if width < MIN_WIDTH_FOR_MARK {
        return text.chars().take(width).collect();
    }
    text.chars().take(width - 1).chain(['~']).collect()
}

/// Breaks `text` into lines of at most `width` characters, at blanks where there are some. The lines after the first one are
/// indented by two.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split_whitespace() {
        let mut word: Vec<char> = word.chars().collect();
        let has_words = !line.trim().is_empty();
        if has_words && line.chars().count() + 1 + word.len() > width {
            lines.push(std::mem::replace(&mut line, INDENT.into()));
        } else if has_words {
            line.push(' ');
        }
        // A word that is longer than a line is broken anywhere.
        while line.chars().count() + word.len() > width && width > INDENT.len() {
            let rest = word.split_off(word.len().min(width.saturating_sub(line.chars().count())));
            line.extend(std::mem::replace(&mut word, rest));
            lines.push(std::mem::replace(&mut line, INDENT.into()));
        }
        line.extend(word);
    }
    if !line.trim().is_empty() || lines.is_empty() {
        lines.push(line);
    }
    lines
}

const INDENT: &str = "  ";
/// Width from which on a line that is cut off is marked. `WHO` says more than `WH~`.
const MIN_WIDTH_FOR_MARK: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_broken_at_blanks() {
        assert_eq!(wrap("one two three", 20), ["one two three"]);
        assert_eq!(wrap("one two three four", 9), ["one two", "  three", "  four"]);
        assert_eq!(wrap("one 0123456789", 6), ["one", "  0123", "  4567", "  89"]);
        assert_eq!(wrap("0123456789", 6), ["012345", "  6789"]);
        assert_eq!(wrap("", 6), [""]);
        for width in 0..30 {
            for text in ["a b c", "0123456789 0 0123456789", "   ", "one two three four five"] {
                let lines = wrap(text, width);
                assert!(width < 3 || lines.iter().all(|line| line.chars().count() <= width), "{width}: {lines:?}");
                let kept: String = lines.concat().replace(' ', "");
                assert_eq!(kept, text.replace(' ', ""), "{width}");
            }
        }
        assert_eq!([clip("abc", 3), clip("abcd", 3), clip("abc", 0)], ["abc", "abc", ""]);
        assert_eq!([clip("abcdef", 6), clip("abcdefg", 6)], ["abcdef", "abcde~"]);
    }

    #[test]
    fn paper_of_any_size_takes_lines() {
        for (width, height) in [(0, 0), (1, 1), (5, 2), (0, 3), (3, 0)] {
            let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
            let mut paper = Paper::new(&mut buffer, Rect::new(0, 0, 10, 10));
            paper.bottom(1).write("bottom", Style::new());
            paper.write("one\ttwo\u{7}", Style::new());
            paper.write("two", Style::new());
            paper.skip(7);
            paper.write("three", Style::new());
            assert_eq!(paper.lines(), 0);
        }
    }
}
