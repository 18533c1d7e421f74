//! Counts the replies that the server owes.
//!
//! The count may be too high, because no server answers everything: pure-ftpd drops commands that come during a transfer, and
//! few answer an empty line. So a session waits for zero, but not for ever (see `session.rs`).

/// The three digits of a reply.
pub(super) type Code = [u8; 3];

/// How a reply ends a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It does not.
    No,
    /// The server refuses it before it begins, for another reason than its data connection.
    Refused,
    /// It has no data connection, or has lost it.
    WithoutData,
    /// In another way.
    Yes,
}

/// The replies that the server owes.
#[derive(Debug)]
pub(super) struct Due {
    /// Number of commands without a reply, and of empty lines behind the first of them.
    commands: usize,
    /// Number of empty lines before these commands. Most servers do not reply to them, and others reply 500.
    blanks: usize,
    /// Whether a transfer has begun since the last reply to a command.
    has_begun: bool,
    /// Number of replies until that to the latest transfer command has come. `None`: none is due.
    transfer: Option<usize>,
    /// Whether one of these replies may never come.
    is_doubtful: bool,
    /// Whether no reply will come any more.
    is_closed: bool,
}

impl Due {
    /// Returns the count of a new connection. The greeting comes without a command.
    pub(super) fn new() -> Due {
        Due { commands: 1, blanks: 0, has_begun: false, transfer: None, is_doubtful: false, is_closed: false }
    }

    /// Counts a command that was passed on.
    pub(super) fn command(&mut self) {
        self.commands += usize::from(!self.is_closed);
    }

    /// Notes that the command that was counted last is a transfer.
    pub(super) fn is_transfer(&mut self) {
        self.transfer = Some(self.commands).filter(|commands| *commands > 0);
    }

    /// Notes that the command that was counted last may never have a reply.
    pub(super) fn doubt(&mut self) {
        self.is_doubtful |= !self.is_none();
    }

    /// Counts an empty line that was passed on.
    pub(super) fn blank(&mut self) {
        match self.commands {
            0 => self.blanks += usize::from(!self.is_closed),
            _ => self.command(),
        }
        self.doubt();
    }

    /// Takes the code of a whole reply. Returns how it ends a transfer.
    pub(super) fn reply(&mut self, code: Code) -> Ended {
        let (has_begun, had_transfer) = (self.has_begun, self.transfer.is_some());
        self.count(code);
        match code[0] {
            _ if !had_transfer || self.transfer.is_some() => Ended::No,
            b'4' | b'5' if NO_DATA.contains(&&code) => Ended::WithoutData,
            b'4' | b'5' if !has_begun => Ended::Refused,
            _ => Ended::Yes,
        }
    }

    fn count(&mut self, code: Code) {
        let is_beginning = BEGINNINGS.contains(&&code);
        // A transfer begins once. For a client that closes early, the last reply of pure-ftpd has the code 150, too.
        if code[0] == b'1' && !(is_beginning && self.has_begun) {
            self.has_begun |= is_beginning;
            return;
        }
        // Most servers reply to NOOP and STAT at once, before the last reply to the transfer.
        let is_next = self.has_begun || self.transfer == Some(1);
        let are_more_behind = self.transfer.is_some_and(|transfer| transfer < self.commands);
        let is_other = match code[0] {
            b'2' | b'3' => !LAST.contains(&&code),
            _ => self.has_begun && UNKNOWN.contains(&&code),
        };
        if is_next && are_more_behind && is_other {
            self.commands -= 1;
            return;
        }
        self.has_begun = false;
        if code == *UNKNOWN_COMMAND && self.blanks > 0 {
            self.blanks -= 1;
        } else {
            self.blanks = 0;
            self.commands = self.commands.saturating_sub(1);
            self.transfer = self.transfer.map(|replies| replies - 1).filter(|replies| *replies > 0);
        }
        self.is_doubtful &= !self.is_none();
    }

    /// Forgets the replies that are due once a request for a data connection has had its own. A transfer that waits for this connection
    /// still owes its last one.
    pub(super) fn answered(&mut self) {
        let has_begun = self.has_begun && self.transfer == Some(1);
        self.forget();
        if has_begun {
            (self.commands, self.transfer, self.has_begun) = (1, Some(1), true);
        }
    }

    /// Forgets the replies that are due.
    pub(super) fn forget(&mut self) {
        *self = Due { commands: 0, is_closed: self.is_closed, ..Due::new() };
    }

    /// Forgets the replies that are due, and those of commands that come later: the server sends no reply any more.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
        self.forget();
    }

    /// Whether no reply is due.
    pub(super) fn is_none(&self) -> bool {
        self.commands == 0 && self.blanks == 0
    }

    /// Whether nothing is due but the last reply to a transfer that has begun.
    pub(super) fn has_only_begun(&self) -> bool {
        self.has_begun && self.transfer == Some(1) && self.commands == 1 && self.blanks == 0
    }

    /// Whether a transfer has no last reply yet.
    pub(super) fn has_transfer(&self) -> bool {
        self.has_begun || self.transfer.is_some()
    }

    /// Whether one of the replies may never come.
    pub(super) fn is_doubtful(&self) -> bool {
        self.is_doubtful
    }

    /// Whether the server sends no reply any more.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }
}

/// RFC 959 4.2: the data connection cannot be opened, or is closed.
const NO_DATA: &[&Code] = &[b"425", b"426"];
/// RFC 959 4.2: the command is unknown, or not possible now.
const UNKNOWN: &[&Code] = &[b"500", b"502", b"503"];
/// RFC 959 4.2: the command is unknown.
const UNKNOWN_COMMAND: &Code = b"500";
/// RFC 959 5.4: a transfer was completed, or nothing was to be done.
const LAST: &[&Code] = &[b"225", b"226", b"250"];
/// RFC 959 4.2: a transfer begins.
pub(super) const BEGINNINGS: &[&Code] = &[b"125", b"150"];
