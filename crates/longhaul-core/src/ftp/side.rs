//! The two sides of a control connection.

use std::fmt;
use std::net::IpAddr;
use std::ops::{Index, IndexMut};

/// A side of a control connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Sends commands.
    Client,
    /// Sends replies.
    Server,
}

/// One value for each end of a control connection. Of addresses: those of the peers, as this relay's sockets see them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends<T> {
    /// Of the client.
    pub client: T,
    /// Of the server.
    pub server: T,
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

impl<T> Index<Side> for Ends<T> {
    type Output = T;

    fn index(&self, side: Side) -> &T {
        match side {
            Side::Client => &self.client,
            Side::Server => &self.server,
        }
    }
}

impl<T> IndexMut<Side> for Ends<T> {
    fn index_mut(&mut self, side: Side) -> &mut T {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }
}

impl Ends<IpAddr> {
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
