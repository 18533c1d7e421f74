//! The data connections that a session asks its caller for.

use super::refused::Refused;
use super::side::Side;
use std::fmt;
use std::net::SocketAddr;

/// A data listener that a session asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// Number of the channel: 1, 2 and so on. A number may be left out, and none is used twice.
    pub channel: u64,
    /// The side that will connect to the listener.
    pub accept_from: Side,
    /// The address that the other side named. Its data connection is dialled there.
    pub dial: SocketAddr,
}

/// A data connection between two sides that both wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joining {
    /// Number of the channel, as of an [`Opening`].
    pub channel: u64,
    /// The address that the server named. It is dialled at once.
    pub server: SocketAddr,
    /// The address that the client named. It is dialled when the transfer [begins](Channels::begins).
    pub client: SocketAddr,
}

/// The command that uses a data connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Its verb in capitals, such as `RETR`.
    pub verb: &'static str,
    /// Its argument: printable, at most 255 bytes, empty if there is none.
    pub name: String,
}

/// The caller of a session: opens and dials its data connections.
pub trait Channels {
    /// Opens a data listener on this relay's address that faces `opening.accept_from`. Closes the listener that the session
    /// opened before if nobody came to it. Returns the address to tell that side.
    ///
    /// # Errors
    /// No listener could be opened. The reason goes to the client, in one line.
    fn open(&mut self, opening: Opening) -> Result<SocketAddr, String>;

    /// Whether a command for another data connection is taken now. If not, call
    /// [`Session::look_again`](super::Session::look_again) once it may be. A caller that gives up the wait returns true without room, and
    /// fails to [open](Channels::open) it.
    fn have_room(&mut self) -> bool;

    /// Begins a data connection that this relay dials on both sides. Closes what the session opened before if nobody came to it.
    ///
    /// # Errors
    /// It cannot begin. The reason goes to the client, in one line.
    fn join(&mut self, joining: Joining) -> Result<(), String>;

    /// Opens a data listener for the server, whose connection will be carried to one that the client opens: see [`Channels::meet`]. Closes
    /// what the session opened before if nobody came to it. Returns the address to tell the server.
    ///
    /// # Errors
    /// As of [`Channels::open`].
    fn open_for_server(&mut self, channel: u64) -> Result<SocketAddr, String>;

    /// Opens a data listener for the client, once the server has accepted the address of the one that
    /// [`open_for_server`](Channels::open_for_server) opened last. Returns the address to tell the client.
    ///
    /// # Errors
    /// As of [`Channels::open`].
    fn meet(&mut self) -> Result<SocketAddr, String>;

    /// Notes that the server has said that a transfer begins, or that it is over. Nothing may go to the client before its side of
    /// a joined data connection is dialled.
    fn begins(&mut self);

    /// Notes that a transfer command was passed on while this channel was the latest. The channel was opened before, or never will
    /// be, because the server refused PASV. The last call for a channel counts.
    fn transfer(&mut self, channel: u64, transfer: Transfer);

    /// Notes that the server has refused the transfer of this channel, for another reason than its data connection.
    fn refuses_transfer(&mut self, channel: u64);

    /// Notes that the server says that the transfer of this channel has no data connection, or has lost it.
    fn lacks_data(&mut self, channel: u64);

    /// Notes that a command or a reply was refused.
    fn refused(&mut self, why: &Refused);
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
