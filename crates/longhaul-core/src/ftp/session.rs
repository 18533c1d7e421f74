//! A session: one control connection, as a machine over bytes.
//!
//! ```text
//! client:  PWD  RETR f  PORT (a third host)  NOOP
//! server:  PWD  RETR f                       NOOP       the server never gets the refused command
//!          257  150  226                     200
//! client:  257  150  226  504                200        its reply comes when all replies before it have come
//! ```
//! A line that is rewritten or refused waits for its turn: until each command before it has had its reply. No command behind it
//! is sent to the server meanwhile. So the session's own replies stand in the order of the commands, and a reply to PASV cannot
//! be mistaken for another. If the server owes a reply that never comes, the caller ends the wait. A command for a data connection
//! waits also until there is room for one more.

use super::channels::Channels;
use super::dialogue::Dialogue;
use super::line::{Fate, Line};
use super::refused::Refused;
use super::rules::Rules;
use super::side::{Ends, Side};
use super::verb;

/// A control connection. Each relay of a chain has one for it.
///
/// `commands.rs` decides about the client's lines, `replies.rs` about the server's.
#[derive(Debug)]
pub struct Session {
    /// The line that the client is sending.
    command: Line,
    /// Whether this line is whole and waits for its turn.
    has_turn_due: bool,
    /// The client's bytes behind a command that waits.
    pending: Vec<u8>,
    /// The line that the server is sending.
    reply: Line,
    dialogue: Dialogue,
    is_opaque: bool,
    /// Whether the client has sent a byte.
    has_begun: bool,
    has_left: bool,
}

impl Session {
    /// Returns the session of a new connection.
    pub fn new(rules: Rules) -> Session {
        let ends = Ends { client: rules.ends.client.to_canonical(), server: rules.ends.server.to_canonical() };
        Session {
            command: Line::new(MAX_COMMAND_BYTES),
            has_turn_due: false,
            pending: Vec::new(),
            reply: Line::new(MAX_REPLY_BYTES),
            dialogue: Dialogue::new(Rules { ends, ..rules }),
            is_opaque: false,
            has_begun: false,
            has_left: false,
        }
    }

    /// Takes bytes from the client. Appends to `to_server` what the server gets, and to `to_client` the session's own replies.
    pub fn from_client(
        &mut self,
        mut bytes: &[u8],
        channels: &mut impl Channels,
        to_client: &mut Vec<u8>,
        to_server: &mut Vec<u8>,
    ) {
        while !bytes.is_empty() && !self.is_waiting() {
            if self.is_opaque {
                return to_server.extend_from_slice(bytes);
            }
            if self.has_left {
                return;
            }
            if !std::mem::replace(&mut self.has_begun, true) && bytes[0] == TLS_HANDSHAKE {
                return self.refuse_tls(channels, to_client, to_server);
            }
            if !self.command.take(&mut bytes, to_server, verb::fate) {
                return;
            }
            if self.command.fate() == Fate::Hold {
                self.has_turn_due = true;
                self.take_turn(channels, to_client, to_server);
            } else {
                self.dialogue.passed(&self.command, channels);
                self.command.clear();
            }
        }
        self.pending.extend_from_slice(bytes);
    }

    /// Takes bytes from the server. Appends to `to_client` what the client gets, and to `to_server` the commands that waited for
    /// a reply.
    pub fn from_server(
        &mut self,
        mut bytes: &[u8],
        channels: &mut impl Channels,
        to_client: &mut Vec<u8>,
        to_server: &mut Vec<u8>,
    ) {
        while !bytes.is_empty() {
            if self.is_opaque {
                return to_client.extend_from_slice(bytes);
            }
            if self.has_left {
                return;
            }
            if self.reply.take(&mut bytes, to_client, |text| self.dialogue.fate(text)) {
                self.is_opaque = self.dialogue.reply(&self.reply, channels, to_client);
                self.reply.clear();
                self.go_on(channels, to_client, to_server);
            }
        }
    }

    /// Notes that this side sent its FIN. Appends the held bytes of its unfinished line, which are passed on before the FIN.
    ///
    /// A line that would be rewritten is dropped, because some servers execute a command that FIN ends. Commands that wait for
    /// a reply go on waiting.
    pub fn end(&mut self, side: Side, channels: &mut impl Channels, to_client: &mut Vec<u8>, to_server: &mut Vec<u8>) {
        match side {
            Side::Client if self.is_waiting() => {}
            Side::Client => {
                let ended = [self.command.text(), b"\n"].concat();
                let is_rewritten = !self.is_opaque && verb::fate(&ended) == Fate::Hold;
                let mut held = self.command.release();
                if !is_rewritten {
                    to_server.append(&mut held);
                }
            }
            Side::Server => {
                let is_between = self.reply.is_at_start();
                let is_rewritten = self.dialogue.fate(self.reply.text()) == Fate::Hold;
                let mut held = self.reply.release();
                if !is_rewritten {
                    to_client.append(&mut held);
                }
                self.dialogue.forget();
                if is_between {
                    self.take_turn(channels, to_client, to_server);
                }
                self.dialogue.close();
                self.go_on(channels, to_client, to_server);
            }
        }
    }

    /// Ends the wait for replies that do not come. The replies that the server owes are forgotten. The commands that waited for
    /// them are taken.
    pub fn give_up_waiting(&mut self, channels: &mut impl Channels, to_client: &mut Vec<u8>, to_server: &mut Vec<u8>) {
        self.dialogue.forget();
        self.go_on(channels, to_client, to_server);
    }

    /// Takes the command that waits for room, if there is some now.
    pub fn look_again(&mut self, channels: &mut impl Channels, to_client: &mut Vec<u8>, to_server: &mut Vec<u8>) {
        self.go_on(channels, to_client, to_server);
    }

    /// Ends the connection in order: the server gets QUIT, and the client 421. Everything that comes afterwards is dropped. A line that
    /// has begun ends before that; what is held of it is dropped. Not for an opaque session.
    pub fn leave(&mut self, to_client: &mut Vec<u8>, to_server: &mut Vec<u8>) {
        self.leave_with("421 The relay is going down, try again later\r\n", to_client, to_server);
    }

    /// A reply of several lines may have begun: the client then reads 421 inside it.
    fn leave_with(&mut self, reply: &str, to_client: &mut Vec<u8>, to_server: &mut Vec<u8>) {
        for (line, out, text) in [(&mut self.command, to_server, "QUIT\r\n"), (&mut self.reply, to_client, reply)] {
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
    fn refuse_tls(&mut self, channels: &mut impl Channels, to_client: &mut Vec<u8>, to_server: &mut Vec<u8>) {
        let why = Refused::ImplicitTls;
        channels.refused(&why);
        self.leave_with(&why.reply(why.code()), to_client, to_server);
    }

    /// Whether the session has ended the connection: by [`Session::leave`], or because the client began with TLS.
    pub fn has_left(&self) -> bool {
        self.has_left
    }

    /// Whether the server agreed to encrypt the connection (234). Every byte then passes at once, in both directions.
    pub fn is_opaque(&self) -> bool {
        self.is_opaque
    }

    /// Whether commands wait for a reply. While this is true, the caller reads nothing from the client. Bytes that it has read
    /// already may be given to the session, which keeps them.
    pub fn is_waiting(&self) -> bool {
        !self.is_opaque && (self.has_turn_due || self.dialogue.expected.is_some())
    }

    /// Whether this byte may be urgent (tcp(7)) if it is the next one of `side`. A receiver without SO_OOBINLINE does not find an
    /// urgent byte among the others, so urgent text would make it read another line than this session. Telnet's are no text, and
    /// without its LF an ABOR only gets longer.
    pub fn may_be_urgent(&self, side: Side, byte: u8) -> bool {
        let line = match side {
            Side::Client => &self.command,
            Side::Server => &self.reply,
        };
        self.is_opaque || line.is_telnet(byte) || side == Side::Client && byte == b'\n' && verb::is_abort(line.text())
    }

    /// Whether a transfer has no last reply yet.
    pub fn is_transferring(&self) -> bool {
        self.dialogue.due.has_transfer()
    }

    /// Whether the server owes a reply.
    pub fn is_owed(&self) -> bool {
        !self.dialogue.due.is_none()
    }

    /// Whether the server may owe a reply that never comes.
    pub fn is_doubtful(&self) -> bool {
        self.dialogue.due.is_doubtful()
    }

    /// Whether no command is held back, so that the session may [leave](Session::leave). The server may still owe replies. Never true if
    /// the session is opaque or has left.
    pub fn may_leave(&self) -> bool {
        !self.is_waiting() && !self.is_opaque && !self.has_left
    }

    /// Whether no line and no reply has begun, in either direction.
    pub fn is_between_lines(&self) -> bool {
        self.command.is_at_start() && self.reply.is_at_start() && self.dialogue.begun.is_none()
    }

    /// Takes the client's bytes that waited, as far as possible.
    fn go_on(&mut self, channels: &mut impl Channels, to_client: &mut Vec<u8>, to_server: &mut Vec<u8>) {
        if self.is_opaque {
            to_server.append(&mut self.command.release());
        }
        self.take_turn(channels, to_client, to_server);
        let pending = std::mem::take(&mut self.pending);
        self.from_client(&pending, channels, to_client, to_server);
    }

    /// Takes the line that waits, if it is its turn.
    fn take_turn(&mut self, channels: &mut impl Channels, to_client: &mut Vec<u8>, to_server: &mut Vec<u8>) {
        let is_between = self.reply.is_at_start() && self.dialogue.begun.is_none();
        let is_its_turn = self.has_turn_due && !self.is_opaque && is_between && self.dialogue.due.is_none();
        if is_its_turn && (!self.dialogue.needs_room(&self.command) || channels.have_room()) {
            self.has_turn_due = false;
            self.dialogue.held(&self.command, channels, to_client, to_server);
            self.command.clear();
        }
    }
}

/// RFC 8446 5.1: the first byte of a TLS connection. No command begins with it.
const TLS_HANDSHAKE: u8 = 22;

/// Maximum number of bytes that are held of a client's line.
pub const MAX_COMMAND_BYTES: usize = 1024;

/// Maximum number of bytes that are held of a server's line.
pub const MAX_REPLY_BYTES: usize = 4096;
