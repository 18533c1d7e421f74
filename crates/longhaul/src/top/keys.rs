//! The keys of the main screen, and those of the lists that open above it. The help and the last line of the screen are
//! written from this table.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Command of a key of the main screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Moves the selection or the text by some lines.
    Move(ListStep),
    /// Shows the selected flow.
    Details,
    /// Asks whether to kill the selected flow.
    Kill,
    /// Begins to type a filter.
    Filter,
    /// Shows the list of what to sort by.
    Sort,
    /// Reverses the order.
    Reverse,
    /// Freezes the table of flows, or lets it go on.
    Pause,
    /// Shows all problems.
    Problems,
    /// Shows all tunnels with their next hops.
    Tunnels,
    /// Shows the figures of the tunnels over another time.
    Span,
    /// Shows the help.
    Help,
    /// Closes what was opened last. On the main screen: drops the filter, then quits.
    Close,
    /// Ends the program.
    Quit,
}

/// A move in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListStep {
    /// One line up.
    Up,
    /// One line down.
    Down,
    /// One screen up.
    PageUp,
    /// One screen down.
    PageDown,
    /// To the first line.
    First,
    /// To the last line.
    Last,
}

/// A key and its command.
pub(super) struct Binding {
    /// The key.
    pub(super) code: KeyCode,
    /// Its name on the screen. Empty: the key is a second one for the same command.
    pub(super) key: &'static str,
    /// A word for the last line of the screen. Empty: only the help shows it.
    pub(super) word: &'static str,
    /// A sentence for the help.
    pub(super) help: &'static str,
    /// Its command.
    pub(super) command: Command,
}

const fn row(code: KeyCode, key: &'static str, word: &'static str, help: &'static str, command: Command) -> Binding {
    Binding { code, key, word, help, command }
}

/// The keys, in the order of the help and of the last line.
pub(super) const BINDINGS: &[Binding] = &[
    row(KeyCode::Char('q'), "q", "quit", "quit; so does Ctrl-C", Command::Quit),
    row(KeyCode::Char('?'), "?", "help", "show the keys and the columns", Command::Help),
    row(KeyCode::Char('h'), "", "", "", Command::Help),
    row(KeyCode::Enter, "Enter", "details", "show everything about the selected flow", Command::Details),
    row(KeyCode::Char('k'), "k", "kill", "kill the selected flow; asks first", Command::Kill),
    row(KeyCode::Char('/'), "/", "filter", "show only flows that contain every word of a text", Command::Filter),
    row(KeyCode::Char('s'), "s", "sort", "choose what the flows are sorted by", Command::Sort),
    row(KeyCode::Char('r'), "r", "reverse", "reverse the order", Command::Reverse),
    row(KeyCode::Char('p'), "p", "pause", "freeze the table of flows; the rest stays live", Command::Pause),
    row(KeyCode::Char(' '), "", "", "", Command::Pause),
    row(KeyCode::Char('w'), "w", "problems", "show every problem in full", Command::Problems),
    row(KeyCode::Char('t'), "t", "tunnels", "show every tunnel and next hop", Command::Tunnels),
    row(KeyCode::Char('c'), "c", "", "behind t: show the curves of 10 minutes, an hour, 24 hours", Command::Span),
    row(KeyCode::Up, "Up, Down", "", "select a flow, or scroll a text", Command::Move(ListStep::Up)),
    row(KeyCode::Down, "", "", "", Command::Move(ListStep::Down)),
    row(KeyCode::PageUp, "PgUp, PgDn", "", "the same by a screen", Command::Move(ListStep::PageUp)),
    row(KeyCode::PageDown, "", "", "", Command::Move(ListStep::PageDown)),
    row(KeyCode::Home, "Home, End", "", "go to the first or last line", Command::Move(ListStep::First)),
    row(KeyCode::End, "", "", "", Command::Move(ListStep::Last)),
    row(KeyCode::Esc, "Esc", "", "close what was opened last, then drop the filter, then quit", Command::Close),
];

/// Returns the command of a key, or `None` if it has none.
pub(super) fn command(key: KeyEvent) -> Option<Command> {
    if is_interrupt(key) {
        return Some(Command::Quit);
    }
    if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
        return None;
    }
    BINDINGS.iter().find(|binding| binding.code == key.code).map(|binding| binding.command)
}

/// Whether it is Ctrl-C, which quits from everywhere.
pub(super) fn is_interrupt(key: KeyEvent) -> bool {
    key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_one_command() {
        for (at, binding) in BINDINGS.iter().enumerate() {
            assert!(BINDINGS[..at].iter().all(|other| other.code != binding.code), "{}", binding.key);
            assert_eq!(command(KeyEvent::from(binding.code)), Some(binding.command));
        }
        assert_eq!(command(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), Some(Command::Quit));
        assert_eq!(command(KeyEvent::new(KeyCode::Char('k'), KeyModifiers::CONTROL)), None);
        assert_eq!(command(KeyEvent::from(KeyCode::F(1))), None);
    }
}
