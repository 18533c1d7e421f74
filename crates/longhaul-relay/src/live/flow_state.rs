//! A live flow as views and `/status.json` show it.

use crate::leg::leg_state::LegState;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// A live flow at one moment.
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
    /// The command that uses it, such as `RETR a.iso`, if it is an FTP data connection and the command is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfer: Option<String>,
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

impl FlowStateName {
    /// Returns the state as every view writes it.
    pub fn text(self) -> &'static str {
        match self {
            FlowStateName::Dialling => "dialling",
            FlowStateName::Open => "open",
            FlowStateName::AcceptHalfClosed => "client done",
            FlowStateName::DialHalfClosed => "next hop done",
            FlowStateName::Closing => "closing",
            FlowStateName::Ended => "ended",
        }
    }
}
