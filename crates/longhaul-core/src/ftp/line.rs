//! Reads the lines of one side of a control connection, and decides byte by byte what is passed on.
//!
//! A line ends at LF. Telnet sequences (RFC 854) are passed on at once, before held bytes. They are not part of its text:
//!
//! ```text
//! IAC WILL|WONT|DO|DONT option     3 bytes
//! IAC 240..=249                    2 bytes
//! IAC IAC                          one byte 255 of text
//! ```
//! Receivers differ in how they read anything else after IAC. Here CR, LF, letters and digits are always text, so that no sequence
//! hides the end of a line or a verb. In the place of an option they follow a sequence that is left out, or replaced by IAC NOP if its
//! IAC has passed, so that every receiver reads them as text. That is not done in the rest of a line that passes.

/// How a line is treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is held: more bytes decide.
    #[default]
    Undecided,
    /// It is passed on, each byte at once.
    Pass,
    /// It is held to its end, and then handed to the session.
    Hold,
}

/// The line that one side is sending.
#[derive(Debug)]
pub(super) struct ControlLine {
    /// The first `max_bytes` bytes of the line, without telnet sequences.
    text: Vec<u8>,
    /// The bytes that are not passed on yet, at most `max_bytes`.
    held: Vec<u8>,
    fate: Fate,
    is_long: bool,
    /// Whether an IAC that is a part of the text is passed on already.
    has_passed_iac: bool,
    telnet: Telnet,
    max_bytes: usize,
}

/// How much of a telnet sequence has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Telnet {
    None,
    /// IAC. `is_passed`: it is passed on already.
    Iac {
        is_passed: bool,
    },
    /// WILL, WONT, DO or DONT, which waits for the option. `is_passed`: its IAC is passed on already.
    Verb {
        verb: u8,
        is_passed: bool,
    },
    /// WILL, WONT, DO or DONT, which is passed on already.
    PassedVerb,
}

impl Telnet {
    fn is_verb_behind_passed_iac(self) -> bool {
        matches!(self, Telnet::Verb { is_passed: true, .. })
    }
}

impl ControlLine {
    /// Returns an empty line. At most `max_bytes` bytes of it are held.
    pub(super) fn new(max_bytes: usize) -> ControlLine {
        ControlLine {
            text: Vec::new(),
            held: Vec::new(),
            fate: Fate::Undecided,
            is_long: false,
            has_passed_iac: false,
            telnet: Telnet::None,
            max_bytes,
        }
    }

    /// Takes bytes from the front of `bytes` up to the end of the line, and appends to `out` those that pass. `decide`
    /// returns the fate of a line that begins with the text it gets. Returns whether the line ended. The caller then reads
    /// the line and calls [`ControlLine::clear`].
    pub(super) fn take(&mut self, bytes: &mut &[u8], out: &mut Vec<u8>, decide: impl Fn(&[u8]) -> Fate) -> bool {
        while let Some((&byte, rest)) = bytes.split_first() {
            *bytes = rest;
            self.push(byte, out);
            // `decide` reads the text from its beginning. Asked at each byte of a long line of blanks, it would take quadratic time.
            let is_due = self.text.len() <= EAGER_BYTES || byte == LF || self.is_long;
            if self.fate == Fate::Undecided && !self.text.is_empty() && is_due {
                self.settle(decide(&self.text), byte, out);
            }
            if byte == LF {
                return true;
            }
        }
        false
    }

    /// Sets the fate. A line that is undecided at its end passes.
    fn settle(&mut self, fate: Fate, last: u8, out: &mut Vec<u8>) {
        self.fate = match fate {
            Fate::Undecided if last == LF => Fate::Pass,
            Fate::Undecided if self.is_long => Fate::Hold,
            fate => fate,
        };
        match self.fate {
            Fate::Pass => out.append(&mut self.held),
            Fate::Undecided | Fate::Hold => {}
        }
    }

    fn push(&mut self, byte: u8, out: &mut Vec<u8>) {
        let telnet = std::mem::replace(&mut self.telnet, Telnet::None);
        match (telnet, byte) {
            (Telnet::None, IAC) => {
                // It waits only behind bytes that wait already: urgent data often ends with an IAC, which must not wait.
                let is_passed = self.fate == Fate::Pass || (self.fate == Fate::Undecided && self.held.is_empty());
                if is_passed {
                    out.push(IAC);
                }
                self.telnet = Telnet::Iac { is_passed };
            }
            (Telnet::Iac { is_passed: true }, WILL..=DONT) if self.fate == Fate::Pass => {
                out.push(byte);
                self.telnet = Telnet::PassedVerb;
            }
            (Telnet::Iac { is_passed }, WILL..=DONT) => self.telnet = Telnet::Verb { verb: byte, is_passed },
            (Telnet::Iac { is_passed }, FIRST_COMMAND..=LAST_COMMAND) => {
                if !is_passed {
                    out.push(IAC);
                }
                out.push(byte);
            }
            (Telnet::Iac { is_passed }, _) => {
                self.note(IAC);
                match is_passed {
                    true => self.has_passed_iac |= self.text.len() == 1,
                    false => self.pass(IAC, out),
                }
                if byte != IAC {
                    self.note(byte);
                }
                self.pass(byte, out);
            }
            (Telnet::PassedVerb, option) if !is_always_text(option) => out.push(option),
            (Telnet::Verb { verb, is_passed }, option) if !is_always_text(option) => {
                if !is_passed {
                    out.push(IAC);
                }
                out.extend([verb, option]);
            }
            (Telnet::None | Telnet::Verb { .. } | Telnet::PassedVerb, _) => {
                if telnet.is_verb_behind_passed_iac() {
                    out.push(NOP);
                }
                self.note(byte);
                self.pass(byte, out);
            }
        }
    }

    /// Appends a byte to the text.
    fn note(&mut self, byte: u8) {
        if self.text.len() < self.max_bytes {
            self.text.push(byte);
        }
    }

    fn pass(&mut self, byte: u8, out: &mut Vec<u8>) {
        match self.fate {
            Fate::Pass => out.push(byte),
            Fate::Undecided | Fate::Hold if self.held.len() < self.max_bytes => self.held.push(byte),
            Fate::Undecided | Fate::Hold => self.is_long = true,
        }
    }

    /// The text so far, with CR and LF, without telnet sequences. It is cut after `max_bytes` bytes.
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Whether this byte is the first or the second one of a telnet sequence if it comes next.
    pub(super) fn is_telnet(&self, byte: u8) -> bool {
        byte == IAC || matches!(self.telnet, Telnet::Iac { .. }) && (FIRST_COMMAND..=DONT).contains(&byte)
    }

    /// The bytes that are not passed on yet.
    pub(super) fn held(&self) -> &[u8] {
        &self.held
    }

    /// Returns the fate of the line.
    pub(super) fn fate(&self) -> Fate {
        self.fate
    }

    /// Whether an IAC that is a part of the text is passed on already, although the rest may be held.
    pub(super) fn has_passed_iac(&self) -> bool {
        self.has_passed_iac
    }

    /// Whether more than `max_bytes` bytes would be held. The bytes after them are lost.
    pub(super) fn is_long(&self) -> bool {
        self.is_long
    }

    /// Whether no byte of a line has come yet.
    pub(super) fn is_at_start(&self) -> bool {
        self.text.is_empty() && self.held.is_empty() && self.telnet == Telnet::None
    }

    /// Returns the held bytes, which the caller passes on, and begins a new line. Returns none if the line is too long.
    pub(super) fn release(&mut self) -> Vec<u8> {
        match self.telnet {
            Telnet::Iac { is_passed: false } => self.pass(IAC, &mut Vec::new()),
            Telnet::Verb { verb, is_passed } => {
                if !is_passed {
                    self.pass(IAC, &mut Vec::new());
                }
                self.pass(verb, &mut Vec::new());
            }
            Telnet::None | Telnet::Iac { is_passed: true } | Telnet::PassedVerb => {}
        }
        let mut held = std::mem::take(&mut self.held);
        if self.is_long {
            held.clear();
        }
        self.clear();
        held
    }

    /// Begins a new line.
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.held.clear();
        self.fate = Fate::Undecided;
        self.is_long = false;
        self.has_passed_iac = false;
        self.telnet = Telnet::None;
    }
}

/// Whether this byte is never the option of a telnet sequence here. No option in use has the number of a letter or a digit.
fn is_always_text(byte: u8) -> bool {
    matches!(byte, CR | LF) || byte.is_ascii_alphanumeric()
}

/// The byte that begins a telnet sequence (RFC 854).
pub(super) const IAC: u8 = 255;
const FIRST_COMMAND: u8 = 240;
/// SB is no command here: some servers skip everything up to the end of its sequence.
const LAST_COMMAND: u8 = 249;
/// The sequence of two bytes that does nothing.
pub(super) const NOP: u8 = 241;
/// Number of bytes of a line after each of which it may be decided. A line that is undecided then waits for its end.
const EAGER_BYTES: usize = 64;
const WILL: u8 = 251;
const DONT: u8 = 254;

const CR: u8 = b'\r';
const LF: u8 = b'\n';

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_long_line_is_not_decided_at_each_byte() {
        let decisions = Cell::new(0);
        let decide = |_: &[u8]| {
            decisions.set(decisions.get() + 1);
            Fate::Undecided
        };
        let mut line = ControlLine::new(4096);
        let mut out = Vec::new();
        assert!(!line.take(&mut &[b' '; 4000][..], &mut out, decide));
        assert_eq!((decisions.get(), out.len()), (EAGER_BYTES, 0));
        assert!(line.take(&mut &b"\n"[..], &mut out, decide));
        assert_eq!((decisions.get(), out.len(), line.fate()), (EAGER_BYTES + 1, 4001, Fate::Pass));
    }
}
