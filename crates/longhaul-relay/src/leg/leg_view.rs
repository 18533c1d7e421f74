//! A leg of a live flow as the kernel describes it, for views.

use crate::leg::stream::Stream;
use longhaul_core::path::limit::{Limit, Look};
use longhaul_sys::sockopt;
use longhaul_sys::tcp_info::TcpInfo;
use std::net::SocketAddr;
use std::os::fd::AsFd;

/// A leg of a live flow as it was at one moment.
#[derive(Clone, Debug)]
pub struct LegView {
    /// Our address on it. `None` when the kernel does not report it.
    pub local: Option<SocketAddr>,
    /// Its state in the kernel. All zero when the kernel does not report it.
    pub info: TcpInfo,
    /// Its congestion control. `None` when the kernel does not report it.
    pub congestion: Option<String>,
    /// Limit of the bytes that we send on it. `None` when the kernel does not report its state.
    pub limit: Option<Limit>,
}

impl LegView {
    /// Asks the kernel about `stream`: three system calls. `is_blocked` tells whether the pump into it has bytes that the
    /// socket does not take.
    pub(crate) fn of(stream: &Stream, is_blocked: bool) -> LegView {
        let info = TcpInfo::of(stream.as_fd()).ok();
        LegView {
            local: stream.local(),
            info: info.unwrap_or_default(),
            congestion: sockopt::congestion(stream.as_fd()).ok(),
            limit: info.map(|info| limit(&info, is_blocked)),
        }
    }
}

fn limit(info: &TcpInfo, is_blocked: bool) -> Limit {
    Limit::of(&Look {
        unsent_bytes: info.notsent_bytes,
        in_flight_segments: info.unacked_segments,
        cwnd_segments: info.snd_cwnd,
        mss_bytes: info.snd_mss,
        peer_window: info.snd_wnd,
        pacing_rate: info.pacing_rate,
        max_pacing_rate: info.max_pacing_rate,
        delivery_rate: info.delivery_rate,
        is_blocked,
    })
}
