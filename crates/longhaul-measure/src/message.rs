//! The messages of a measuring session: JSON objects of one line each, on the control connection.
//!
//! A reader leaves out the fields that it does not know. A field that is missing has its default.

use crate::look::Look;
use longhaul_sys::limits;
use serde::{Deserialize, Serialize};

/// A message of the measuring client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// The proof of the key: 64 hexadecimal digits.
    Proof(String),
    /// Asks for an [`Tell::Echo`] with the same number.
    Echo(u32),
    /// Announces a run, whose connections come next.
    Run(Run),
    /// Announces a train of datagrams. One up is sent after [`Tell::Ready`]; one down comes at once.
    Train(Train),
    /// Asks for the result of the train up with this number.
    Arrived(u32),
}

/// A message of the answerer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tell {
    /// The first message.
    Hello(Hello),
    /// The session begins.
    Admitted(Admitted),
    /// The session does not begin, or a run does not. The answerer says why.
    Refused(Refused),
    /// Answer to [`Ask::Echo`].
    Echo(Echo),
    /// The connections of the run may come.
    Ready(u32),
    /// The run has ended.
    Ran(Ran),
    /// Result of a train: what was sent of one down, or what arrived of one up.
    Trained(Trained),
}

/// Answer to [`Ask::Echo`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Echo {
    /// The number that was asked for.
    pub number: u32,
    /// Time there in µs, of a clock that need not agree with that of the client.
    pub at: u64,
}

/// The first message of the answerer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Hello {
    /// Version of longhaul there.
    pub version: String,
    /// Version of the messages there.
    pub messages: u16,
    /// The challenge to prove the key: 64 hexadecimal digits. `None`: no proof is needed.
    pub challenge: Option<String>,
}

/// The limits of a session that begins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Admitted {
    /// Name of the host.
    pub name: String,
    /// UDP port for datagrams, at the address of the control connection. `None`: it could not be opened.
    pub datagram_port: Option<u16>,
    /// Length of the session at most, in seconds.
    pub max_seconds: f64,
    /// Payload bytes of all runs together at most.
    pub max_bytes: u64,
    /// The congestion controls that the kernel there offers and allows, the default first.
    pub congestion: Vec<String>,
    /// The largest buffers there.
    pub buffers: Buffers,
}

/// The largest buffers that the kernel of a host gives a connection by itself, in bytes (tcp(7) tcp_wmem, tcp_rmem). `None`: unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Buffers {
    /// The third value of net.ipv4.tcp_wmem.
    pub send: Option<u64>,
    /// The third value of net.ipv4.tcp_rmem.
    pub receive: Option<u64>,
}

impl Buffers {
    /// Returns those of this host.
    pub fn here() -> Buffers {
        let third = |name: &str| limits::sysctl(name)?.split_whitespace().nth(2)?.parse().ok();
        Buffers { send: third("net/ipv4/tcp_wmem"), receive: third("net/ipv4/tcp_rmem") }
    }
}

/// A refusal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Refused {
    /// Whether another session goes on: a later one may be admitted.
    pub is_busy: bool,
    /// Why, in words.
    pub why: String,
}

/// A direction of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the client to the answerer.
    #[default]
    Up,
    /// From the answerer to the client.
    Down,
}

impl Direction {
    /// Both, in the order of reports.
    pub const ALL: [Direction; 2] = [Direction::Up, Direction::Down];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Direction::Up => "up",
            Direction::Down => "down",
        }
    }
}

/// One run: bulk in one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Run {
    /// Its number, from 1.
    pub number: u32,
    /// Its direction.
    pub direction: Direction,
    /// Number of connections, 1 to [`MAX_CONNECTIONS`].
    pub connections: u32,
    /// Congestion control of the sender. `None`: the host's default.
    pub congestion: Option<String>,
    /// Time for which each connection sends, in seconds.
    pub seconds: f64,
    /// Payload bytes at most, of all connections together.
    pub max_bytes: u64,
    /// Rate of all connections together at most, in bytes per second of IP packets. `None`: no limit.
    pub max_rate: Option<u64>,
}

/// Result of a run, of the sender or of the receiver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ran {
    /// Number of the run.
    pub number: u32,
    /// Payload bytes: written by the sender, or read by the receiver.
    pub bytes: u64,
    /// Congestion control of the sender; empty from a receiver.
    pub congestion: String,
    /// MSS of the first connection: the payload of a full segment, and its timestamps. 0 from a receiver.
    pub mss: u32,
    /// Looks at the first connection of a sender.
    pub looks: Vec<Look>,
    /// Payload bytes that all connections of a sender had acknowledged, and retransmitted.
    pub acked: u64,
    /// Payload bytes that they retransmitted.
    pub retransmitted: u64,
    /// Share of the time in which the busiest thread computed, between 0 and 1.
    pub cpu: f64,
    /// Share of the time in which the cgroup of the process was held back by its CPU quota, between 0 and 1.
    pub throttled: f64,
}

/// A train: datagrams of one size, at one rate, for a short time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Train {
    /// Its number, from 1.
    pub number: u32,
    /// Its direction.
    pub direction: Direction,
    /// Rate in payload bytes per second.
    pub rate: u64,
    /// Payload bytes of each datagram.
    pub size: u16,
    /// Time for which it is sent, in seconds.
    pub seconds: f64,
}

/// Result of a train.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Trained {
    /// Number of the train.
    pub number: u32,
    /// Datagrams that were sent, or that arrived.
    pub datagrams: u64,
    /// Time of sending in µs; 0 from a receiver.
    pub micros: u64,
    /// Datagrams that arrived after one that was sent later.
    pub overtaken: u64,
    /// Payload bytes of the first eighth of what arrived, without its first datagram.
    pub early_bytes: u64,
    /// Time from the first arrival of that eighth to the last, in µs.
    pub early_micros: u64,
    /// Payload bytes of the second half of what arrived, without its first datagram.
    pub half_bytes: u64,
    /// Time from the first arrival of that half to the last, in µs.
    pub half_micros: u64,
}

impl Train {
    /// Whether every value is within its range.
    pub fn is_valid(&self) -> bool {
        let is_short = self.seconds.is_finite() && (0.0..=MAX_TRAIN_SECONDS).contains(&self.seconds);
        self.number > 0 && self.rate > 0 && is_short
    }

    /// Returns the payload bytes that it has at most.
    pub fn bytes(&self) -> u64 {
        (self.rate as f64 * self.seconds) as u64
    }
}

impl Run {
    /// Whether every value is within its range.
    pub fn is_valid(&self) -> bool {
        (1..=MAX_CONNECTIONS).contains(&self.connections)
            && self.seconds.is_finite()
            && (0.0..=MAX_RUN_SECONDS).contains(&self.seconds)
            && self.number > 0
            && self.max_rate != Some(0)
    }

    /// Whether the answerer, whose kernel offers `controls`, can send it, or need not.
    pub(crate) fn can_be_sent_by(&self, controls: &[String]) -> bool {
        self.direction == Direction::Up || self.congestion.as_ref().is_none_or(|name| controls.contains(name))
    }
}

/// Connections of a run at most.
pub const MAX_CONNECTIONS: u32 = 64;
/// Length of a train at most, in seconds.
pub const MAX_TRAIN_SECONDS: f64 = 1.0;
/// Length of a run at most, in seconds.
pub const MAX_RUN_SECONDS: f64 = 60.0;
