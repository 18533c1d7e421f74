//! A leg of a live flow as the kernel describes it, for views.

use super::stream::Stream;
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
}

impl LegView {
    /// Asks the kernel about `stream`: three system calls.
    pub(super) fn of(stream: &Stream) -> LegView {
        LegView {
            local: stream.local(),
            info: TcpInfo::of(stream.as_fd()).unwrap_or_default(),
            congestion: sockopt::congestion(stream.as_fd()).ok(),
        }
    }
}
