//! Styles. Without colour, they differ by bold, underlined, reversed and dim letters.

use crate::top::verdict::Tone;
use ratatui::style::{Color, Modifier, Style};

/// The styles of the screen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Palette {
    /// Whether there are colours.
    pub(crate) colour: bool,
}

impl Palette {
    /// Returns the style of a verdict.
    pub(super) fn verdict(self, tone: Tone) -> Style {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        match (tone, self.colour) {
            (Tone::Plain | Tone::Past, _) => bold,
            (Tone::Good, true) => bold.fg(Color::Black).bg(Color::Green),
            (Tone::Warning, true) => bold.fg(Color::Black).bg(Color::Yellow),
            (Tone::Bad, true) => bold.fg(Color::White).bg(Color::Red),
            (_, false) => bold.add_modifier(Modifier::REVERSED),
        }
    }

    /// Returns the style of a line that brings good or bad news.
    pub(super) fn line(self, tone: Tone) -> Style {
        match (tone, self.colour) {
            (Tone::Warning, true) => Style::new().fg(Color::Yellow),
            (Tone::Bad, true) => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
            (Tone::Bad, false) => Style::new().add_modifier(Modifier::BOLD),
            (Tone::Past, _) => self.dim(),
            _ => Style::new(),
        }
    }

    /// Returns the style of the headings of a table.
    pub(super) fn heading(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED)
    }

    /// Returns the style of the selected row.
    pub(super) fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// Returns the style of a question and of a text that is being typed.
    pub(super) fn prompt(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD)
    }

    /// Returns the style of a picture that is not from now, and of what matters less.
    pub(super) fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }
}
