//! The requests of a session to its caller.

use super::refused::Refused;
use super::side::{Ends, Side};
use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;

/// One thing that the caller of a session does for it. The bytes to send are not here: see [`Session::output`](super::Session::output).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Opens a data connection, in place of the one before if nobody came to that. The caller tells the session how that went, by
    /// [`Session::opened`](super::Session::opened), before it polls again.
    Open(Opening),
    /// The server has said that a transfer begins, or that it is over. The flow of the data connection that was opened last begins when
    /// the server's end is there.
    Begin,
    /// Names the transfer of the data connection that was opened last. Its command was passed on just now, or, for STOU, before the
    /// connection was opened. The last command counts.
    Transfer(Transfer),
    /// The server has refused the transfer of this data connection, for another reason than the connection.
    RefusedTransfer,
    /// The server says that the transfer of this data connection does not have it, or has lost it.
    LacksData,
    /// A command or a reply was refused.
    Refused(Refused),
    /// The server has agreed to encrypt the connection.
    Encrypted,
    /// Sends FIN to the client: the server has sent its own, and the client has every byte before it.
    Fin,
    /// The session is over.
    End(End),
}

/// A data connection that a session asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// A data listener for the peer on one side. Its address is told to that side.
    Listener {
        /// The side that will connect to the listener.
        accept_from: Side,
        /// The address that the other side named. Its data connection is dialled there.
        dial: SocketAddr,
    },
    /// A connection between two sides that both wait for it. Until [`Action::Begin`] nothing may be sent to the client.
    Join {
        /// The address that the server named. It is dialled at once.
        server: SocketAddr,
        /// The address that the client named. It is dialled at [`Opening::Client`], or at [`Action::Begin`] without that.
        client: SocketAddr,
    },
    /// A data listener for the server, whose connection will be carried to one that the client opens. Its address is told to the server.
    ForServer,
    /// The data listener for the client, once the server has accepted the address of the latest one for the server. Its address is told to
    /// the client.
    ForClient,
    /// The client's end of the latest one, before the server gets the transfer. Its address is not told. The caller may take its time: until
    /// its answer, [`Data::is_arriving`](super::Data::is_arriving). If the transfer does not take this end, the next one to the same
    /// address does, unless the client has closed it.
    Client,
}

/// How a session is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Every byte is sent, and those that are not read yet pass as they are. [`Session::poll_timeout`](super::Session::poll_timeout) is
    /// then the time at which the connection is cut.
    PassOn,
    /// A side broke, and all its bytes are sent.
    Broken,
    /// Nothing moved for too long after a side had ended or broken.
    TooLong,
    /// The session has ended the connection, and the sides have not closed it in time.
    NotLeft,
}

/// The command that uses a data connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Its verb in capitals, such as `RETR`.
    pub verb: &'static str,
    /// Its argument: printable, at most 255 bytes, empty if there is none.
    pub name: String,
}

impl Transfer {
    /// Whether the client sends a file.
    pub fn is_upload(&self) -> bool {
        matches!(self.verb, "STOR" | "APPE" | "STOU")
    }
}

/// The output of a session: bytes and actions.
#[derive(Debug, Default)]
pub(super) struct Out {
    /// The bytes for each side.
    pub(super) to: Ends<Vec<u8>>,
    pub(super) actions: VecDeque<Action>,
}

impl Out {
    /// Tells the caller of a refusal. Returns the reply with this code that says why.
    pub(super) fn refuse(&mut self, why: Refused, code: u16) -> String {
        let reply = why.reply(code);
        self.actions.push_back(Action::Refused(why));
        reply
    }
}

impl fmt::Display for Transfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Transfer { verb, name } = self;
        match name.is_empty() {
            true => f.write_str(verb),
            false => write!(f, "{verb} {name}"),
        }
    }
}
