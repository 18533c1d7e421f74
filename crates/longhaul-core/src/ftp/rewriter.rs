//! Rewrites the lines of one control connection.
//!
//! ```text
//! client:  PWD  RETR f  PORT (a third host)  NOOP
//! server:  PWD  RETR f                       NOOP       the server never gets the refused command
//!          257  150  226                     200
//! client:  257  150  226  504                200        its reply comes when all replies before it have come
//! ```
//! A line that is rewritten or refused waits for its turn: until each command before it has had its reply. No command behind it
//! is sent to the server meanwhile. So the session's own replies stand in the order of the commands, and a reply to PASV cannot
//! be mistaken for another. If the server owes a reply that never comes, the session ends the wait. A command for a data connection
//! waits also until there is room for one more. It does not wait for a transfer that has begun without a data connection, as STOU may:
//! that waits for this command.

use super::action::{Action, Out};
use super::dialogue::Dialogue;
use super::line::{ControlLine, Fate};
use super::refused::Refused;
use super::rules::Rules;
use super::side::{Ends, Side};
use super::verb;

/// The lines of a control connection.
///
/// `commands.rs` decides about the client's lines, `replies.rs` about the server's.
#[derive(Debug)]
pub(super) struct Rewriter {
    /// The line that the client is sending.
    command: ControlLine,
    /// Whether this line is whole and waits for its turn.
    has_turn_due: bool,
    /// The line that the server is sending.
    reply: ControlLine,
    pub(super) dialogue: Dialogue,
    /// Whether the server agreed to encrypt the connection (234). Every byte then passes at once, in both directions.
    pub(super) is_opaque: bool,
    /// Whether the client has sent a byte.
    has_begun: bool,
    /// Whether it has ended the connection: by [`leave`](Rewriter::leave), or because the client began with TLS.
    pub(super) has_left: bool,
}

impl Rewriter {
    /// Returns the rewriter of a new connection.
    pub(super) fn new(rules: Rules) -> Rewriter {
        let ends = Ends { client: rules.ends.client.to_canonical(), server: rules.ends.server.to_canonical() };
        Rewriter {
            command: ControlLine::new(MAX_COMMAND_BYTES),
            has_turn_due: false,
            reply: ControlLine::new(MAX_REPLY_BYTES),
            dialogue: Dialogue::new(Rules { ends, ..rules }),
            is_opaque: false,
            has_begun: false,
            has_left: false,
        }
    }

    /// Takes bytes of a side from the front of `bytes`, up to the end of a line. There is one at least, and of the client it is called
    /// only while no command [waits](Rewriter::is_waiting). Returns whether a line ended.
    pub(super) fn take(&mut self, side: Side, bytes: &mut &[u8], out: &mut Out) -> bool {
        if self.is_opaque {
            out.to[side.other()].extend_from_slice(std::mem::take(bytes));
        } else if self.has_left {
            *bytes = &[];
        } else if side == Side::Server {
            return self.take_reply(bytes, out);
        } else if !std::mem::replace(&mut self.has_begun, true) && bytes[0] == TLS_HANDSHAKE {
            *bytes = &[];
            self.refuse_tls(out);
        } else if self.command.take(bytes, &mut out.to.server, |text| self.dialogue.command_fate(text)) {
            self.has_turn_due = self.command.fate() == Fate::Hold;
            if !self.has_turn_due {
                self.dialogue.passed(&self.command, out);
                self.command.clear();
            }
            return true;
        }
        false
    }

    fn take_reply(&mut self, bytes: &mut &[u8], out: &mut Out) -> bool {
        let has_ended = self.reply.take(bytes, &mut out.to.client, |text| self.dialogue.fate(text));
        if has_ended {
            self.is_opaque = self.dialogue.reply(&self.reply, out);
            self.reply.clear();
        }
        if self.is_opaque {
            out.to.server.append(&mut self.command.release());
            out.actions.push_back(Action::Encrypted);
        }
        has_ended
    }

    /// Whether it is the turn of the line that waits.
    pub(super) fn has_turn(&self) -> bool {
        let Dialogue { due, begun, asking, has_data, .. } = &self.dialogue;
        let is_between = self.reply.is_at_start() && begun.is_none() && asking.is_none();
        let is_due = due.is_none() || due.has_only_begun() && !has_data;
        self.has_turn_due && !self.is_opaque && is_between && is_due
    }

    /// Whether the line that waits asks for a data connection, and is not refused.
    pub(super) fn needs_room(&self) -> bool {
        self.dialogue.needs_room(&self.command)
    }

    /// Takes the line that waits, unless it needs another turn. It [has its turn](Rewriter::has_turn).
    pub(super) fn take_turn(&mut self, out: &mut Out) {
        self.has_turn_due = !self.dialogue.held(&self.command, out);
        if !self.has_turn_due {
            self.command.clear();
        }
    }

    /// Notes that the client sent its FIN. Appends the held bytes of its unfinished line, which are passed on before the FIN.
    ///
    /// A line that would be rewritten is dropped, because some servers execute a command that FIN ends.
    pub(super) fn end_client(&mut self, out: &mut Out) {
        let ended = [self.command.text(), b"\n"].concat();
        let is_rewritten = !self.is_opaque && self.dialogue.command_fate(&ended) == Fate::Hold;
        let mut held = self.command.release();
        if !is_rewritten {
            out.to.server.append(&mut held);
        }
    }

    /// Notes that no more bytes of the server come. Appends the held bytes of its unfinished line. Returns whether there is none, so that
    /// the command that waits has its last turn before [`Dialogue::close`].
    pub(super) fn end_server(&mut self, out: &mut Out) -> bool {
        let is_between = self.reply.is_at_start();
        let is_rewritten = self.dialogue.fate(self.reply.text()) == Fate::Hold;
        let mut held = self.reply.release();
        if !is_rewritten {
            out.to.client.append(&mut held);
        }
        self.dialogue.forget();
        is_between
    }

    /// Ends the connection in order: the server gets QUIT, and the client 421. Everything that comes afterwards is dropped. A line that
    /// has begun ends before that; what is held of it is dropped. Not for an opaque connection.
    pub(super) fn leave(&mut self, out: &mut Out) {
        self.leave_with("421 The relay is going down, try again later\r\n", out);
    }

    /// A reply of several lines may have begun: the client then reads 421 inside it.
    fn leave_with(&mut self, reply: &str, out: &mut Out) {
        for (line, out, text) in
            [(&mut self.command, &mut out.to.server, "QUIT\r\n"), (&mut self.reply, &mut out.to.client, reply)]
        {
            if !line.is_at_start() {
                out.extend_from_slice(b"\r\n");
            }
            line.clear();
            out.extend_from_slice(text.as_bytes());
        }
        self.has_left = true;
    }

    /// Ends the connection of a client that begins with TLS. A server without TLS would read the rest as commands that the session
    /// has not seen, so it does not pass.
    fn refuse_tls(&mut self, out: &mut Out) {
        let why = Refused::ImplicitTls;
        let code = why.code();
        let reply = out.refuse(why, code);
        self.leave_with(&reply, out);
    }

    /// Whether commands wait for a reply, or for room.
    pub(super) fn is_waiting(&self) -> bool {
        !self.is_opaque && (self.has_turn_due || self.dialogue.expected.is_some() || self.dialogue.asking.is_some())
    }

    /// Whether this byte may be urgent (tcp(7)) if it is the next one of `side`. A receiver without SO_OOBINLINE does not find an
    /// urgent byte among the others, so urgent text would make it read another line than this session. Telnet's are no text, and
    /// without its LF an ABOR only gets longer.
    pub(super) fn may_be_urgent(&self, side: Side, byte: u8) -> bool {
        let line = match side {
            Side::Client => &self.command,
            Side::Server => &self.reply,
        };
        self.is_opaque || line.is_telnet(byte) || side == Side::Client && byte == b'\n' && verb::is_abort(line.text())
    }

    /// Whether no command is held back, so that it may [leave](Rewriter::leave). The server may still owe replies. Never true if
    /// the connection is opaque or was left.
    pub(super) fn may_leave(&self) -> bool {
        !self.is_waiting() && !self.is_opaque && !self.has_left
    }

    /// Whether no line and no reply has begun, in either direction.
    pub(super) fn is_between_lines(&self) -> bool {
        self.command.is_at_start() && self.reply.is_at_start() && self.dialogue.begun.is_none()
    }
}

/// RFC 8446 5.1: the first byte of a TLS connection. No command begins with it.
const TLS_HANDSHAKE: u8 = 22;

/// Maximum number of bytes that are held of a client's line.
pub const MAX_COMMAND_BYTES: usize = 4096;

/// Maximum number of bytes that are held of a server's line.
pub const MAX_REPLY_BYTES: usize = 4096;
