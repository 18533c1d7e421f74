//! How `longhaul path --tunnel` gets its connections: it asks the daemon of the near relay, which dials as for the tunnel's flows and hands
//! over the sockets.
//!
//! Both ends send JSON objects of one line each on the control socket, and a connection comes with the answer (unix(7) SCM_RIGHTS). Each
//! question has one answer. [`Tell::Ended`] comes unasked, and is the last line.

use crate::message::Buffers;
use serde::{Deserialize, Serialize};

/// The name of this protocol, for the header `Upgrade` of the request that begins it (RFC 9110, 7.8).
pub const PROTOCOL: &str = "longhaul-measure";

/// A question of the measuring program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// Connects to the far relay for the first time. Its answer is [`Tell::Begun`], with the connection.
    Begin(Begin),
    /// Connects further times, to the same address. The answer is [`Tell::Connected`], with the connections.
    Connect(Connect),
    /// Opens a socket for datagrams. The answer is [`Tell::Connected`], with the socket.
    Datagrams,
    /// Asks for the proof of the daemon's key: the nonce of the session, and the challenge of the far relay.
    Prove(String, String),
}

/// The first question.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Begin {
    /// The connection.
    pub connect: Connect,
    /// The largest rate that the program wants to send, in bit/s. `None`: as the caps allow.
    pub limit: Option<u64>,
}

/// Connections to make.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Connect {
    /// Number of connections, 1 to [`MAX_CONNECTIONS`](crate::message::MAX_CONNECTIONS).
    pub count: u32,
    /// Largest segment in bytes. `None`: that of the tunnel.
    pub mss: Option<u32>,
    /// The first bytes on each, as hexadecimal digits: its preface, which comes with the end of the handshake.
    pub first: String,
}

/// An answer of the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tell {
    /// The measurement begins.
    Begun(Begun),
    /// The sockets come with this answer.
    Connected,
    /// The proof as hexadecimal digits. `None`: the daemon has no key.
    Proof(Option<String>),
    /// It cannot be done, because of this.
    Failed(String),
    /// The measurement has to end, because of this.
    Ended(String),
}

/// A measurement that begins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Begun {
    /// The next hop as the file has it.
    pub next_hop: String,
    /// Number of next hops of the tunnel.
    pub next_hops: u32,
    /// The address of the far relay.
    pub address: String,
    /// The largest rate in bit/s that the measurement may send. `None`: no cap.
    pub limit: Option<u64>,
    /// Where the limit comes from, in words. Empty if it is the one that was asked for.
    pub limit_from: String,
    /// The congestion controls that the daemon's host offers, the default first.
    pub congestion: Vec<String>,
    /// Its largest buffers.
    pub buffers: Buffers,
    /// Time in ms after which it gives up a connection. 0: not known.
    pub connect_ms: u64,
    /// Notes for the reader of the result: how the connections differ from those of flows, and why there is no limit.
    pub notes: Vec<String>,
}
