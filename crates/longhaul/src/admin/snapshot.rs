//! The one document of the process's state. `/status.json` serves it, and every view reads it: docs/admin.md describes
//! the fields.
//!
//! Later versions add fields and remove none. A reader ignores fields that it does not know, and a field that an older
//! daemon does not send has its empty value.

use crate::relay::CounterValues;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// State of the process at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// Version of the program.
    pub version: String,
    /// Process id.
    pub pid: u32,
    /// Time of the start, in seconds since 1970 (UTC).
    pub started_unix_seconds: f64,
    /// Time since the start, in seconds.
    pub uptime_seconds: f64,
    /// Phase of the process.
    pub phase: PhaseName,
    /// Why the last reload was refused. Absent after a successful one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reload_refused: Option<String>,
    /// The tunnels, by name. Empty while the process stops.
    pub tunnels: Vec<TunnelState>,
    /// The live flows, the oldest first.
    pub flows: Vec<FlowState>,
    /// Counters since the start, except those whose names end in "now".
    pub counters: CounterValues,
    /// Events of the control socket and of the HTTP listener.
    pub admin: AdminCounters,
}

/// Phase of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PhaseName {
    /// It accepts connections.
    #[default]
    Serving,
    /// A command drains it: its listeners are closed or about to close, and it stays.
    Draining,
    /// It got SIGTERM, and ends with its last flow.
    Stopping,
}

/// A tunnel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TunnelState {
    /// Its name.
    pub name: String,
    /// Address and port that it listens on.
    pub listen: String,
    /// Whether it accepts connections.
    pub listening: bool,
    /// Its next hops, as configured.
    pub to: Vec<String>,
    /// Number of its live flows.
    pub flows_now: u64,
}

/// A live flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlowState {
    /// Its number in this process, from 1.
    pub flow: u64,
    /// Name of its tunnel.
    pub tunnel: String,
    /// Address and port of the client.
    pub peer: String,
    /// Address and port of the sender of the PROXY header that named the client. Absent without a header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// The next hop that answered, as configured. Absent until one has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_hop: Option<String>,
    /// The address that answered. Absent until one has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_hop_address: Option<SocketAddr>,
    /// Its state.
    pub state: FlowStateName,
    /// Time since it was accepted, in seconds.
    pub age_seconds: f64,
    /// Number of bytes from the client to the next hop.
    pub up_bytes: u64,
    /// Number of bytes from the next hop to the client.
    pub down_bytes: u64,
    /// The leg from the client. Absent when the flow has just ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accept: Option<LegState>,
    /// The leg to the next hop. Absent until one has answered, and when the flow has just ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dial: Option<LegState>,
}

/// State of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlowStateName {
    /// No next hop has answered yet.
    #[default]
    Dialling,
    /// Both directions are open.
    Open,
    /// The client has sent FIN. The other direction is open.
    AcceptHalfClosed,
    /// The next hop has sent FIN. The other direction is open.
    DialHalfClosed,
    /// Both have sent FIN, and the last bytes are not yet acknowledged.
    Closing,
    /// It has just ended.
    Ended,
}

/// A leg of a flow, as the kernel describes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LegState {
    /// The relay's own address and port on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local: Option<SocketAddr>,
    /// Smoothed round-trip time in milliseconds. Absent if it was never measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_ms: Option<f64>,
    /// Congestion window, in segments.
    pub cwnd_segments: u32,
    /// Number of payload bytes that the relay has retransmitted.
    pub retrans_bytes: u64,
    /// Congestion control.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
}

/// Events of the control socket and of the HTTP listener, since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AdminCounters {
    /// Requests that were answered, also with an error.
    pub requests: u64,
    /// Connections to the control socket by another user than root and the daemon's.
    pub refused: u64,
    /// Connections that ended because of bytes that are no HTTP request, or of a request that did not come in time.
    pub malformed: u64,
    /// Connections that were closed because a newer one needed their place.
    pub displaced: u64,
}
