//! A leg of a live flow as the kernel describes it, for views.

use crate::leg::sample::sample;
use crate::leg::stream::Stream;
use longhaul_core::path::Sample;
use longhaul_core::path::limit::Limit;
use longhaul_sys::sockopt;
use longhaul_sys::tcp_info::TcpInfo;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::os::fd::AsFd;

/// A leg of a live flow at one moment, as the kernel describes it.
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
    /// The latest delivery rate in bits per second. If the application limits the leg, the rate says nothing about the
    /// path. Absent if it was never measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery_bits_per_second: Option<u64>,
    /// Largest rate, in bits per second, at which the relay may send on the leg now: its share of a bandwidth cap, or
    /// `max-pacing-rate`. Absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap_bits_per_second: Option<u64>,
    /// Reason why the relay does not send more on the leg at this moment: `application`, `send buffer`, `receive window`,
    /// `congestion window`, which includes the pacing of the congestion control, or `cap`. Absent if the kernel does not report
    /// the state of the leg.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// Congestion control.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// The kernel's record of it, for what the fields above do not tell. All zero when the kernel does not report it. Not in the JSON.
    #[serde(skip)]
    pub info: TcpInfo,
}

impl LegState {
    /// Asks the kernel about `stream`: three system calls. `is_blocked` tells whether the pump into it has bytes that the
    /// socket does not take.
    pub(crate) fn of(stream: &Stream, is_blocked: bool) -> LegState {
        let (info, limit) = look(stream, is_blocked).unzip();
        let info = info.unwrap_or_default();
        LegState {
            local: stream.local(),
            rtt_ms: (!info.rtt.is_zero()).then(|| info.rtt.as_micros() as f64 / 1e3),
            cwnd_segments: info.snd_cwnd,
            retrans_bytes: info.bytes_retrans,
            delivery_bits_per_second: (info.delivery_rate > 0).then(|| info.delivery_rate.saturating_mul(8)),
            cap_bits_per_second: info.max_pacing_rate.map(|rate| rate.saturating_mul(8)),
            limit: limit.map(|limit| limit.to_string()),
            congestion: sockopt::congestion(stream.as_fd()).ok(),
            info,
        }
    }
}

/// Returns the kernel's record of `stream`, and the limit of the bytes that we send on it. `None` when the kernel does not report them.
/// One system call. `is_blocked` is as in [`LegState::of`].
pub(crate) fn look(stream: &Stream, is_blocked: bool) -> Option<(TcpInfo, Limit)> {
    let info = TcpInfo::of(stream.as_fd()).ok()?;
    let limit = Limit::of(&Sample { is_blocked, ..sample(&info) });
    Some((info, limit))
}
