//! The two sides of a control connection.

use std::fmt;
use std::net::IpAddr;

/// A side of a control connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Sends commands.
    Client,
    /// Sends replies.
    Server,
}

/// The peers of a control connection, as this relay's sockets see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Address of the client.
    pub client: IpAddr,
    /// Address of the server.
    pub server: IpAddr,
}

impl Side {
    /// Returns the side opposite to this one.
    pub fn other(self) -> Side {
        match self {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        }
    }
}

impl Ends {
    /// Returns the address of the peer on this side.
    pub fn of(self, side: Side) -> IpAddr {
        match side {
            Side::Client => self.client,
            Side::Server => self.server,
        }
    }

    /// Whether both peers are of one IP version.
    pub(super) fn are_alike(self) -> bool {
        self.client.is_ipv4() == self.server.is_ipv4()
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Client => "client",
            Side::Server => "server",
        })
    }
}
