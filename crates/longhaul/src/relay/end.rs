//! How a flow ended: bytes each way, the reason, and one line in the log with everything that the kernel knows of both
//! legs. A flow's end is never a bare error: its bytes survive it.

use super::closing;
use super::leg;
use super::stream::Stream;
use super::{Relay, Tally};
use crate::config::Tunnel;
use longhaul_sys::sockopt::Leg;
use longhaul_sys::tcp_info::{self, State, TcpInfo};
use longhaul_sys::{errno_text, limits};
use std::fmt;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// The leg that a flow broke on, and the errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken {
    pub(super) leg: Leg,
    pub(super) errno: i32,
}

impl Broken {
    /// Not an errno: `linger-half-open` ran out.
    pub(super) const HALF_OPEN: i32 = -1;
}

/// Why a flow ended. Everything but [`Finished`](How::Finished) is RST on both legs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Both directions ended with FIN, and the peers acknowledged every byte.
    Finished,
    /// The leg was reset by its peer, so the other was reset too.
    Reset(Leg),
    /// The leg's peer did not answer any more: keepalive, user-timeout or retransmission gave up.
    TimedOut(Leg),
    /// The leg failed with another errno.
    Failed(Leg, i32),
    /// No next hop answered.
    DialFailed,
    /// `linger-half-open` ran out.
    HalfOpenTooLong,
    /// longhaul ended it: drain timeout, second SIGTERM, or exit.
    Cut,
}

impl From<Broken> for How {
    fn from(broken: Broken) -> How {
        match broken.errno {
            Broken::HALF_OPEN => How::HalfOpenTooLong,
            // EPIPE: the reset came before our write, so write(2) tells it this way (tcp(7)).
            libc::ECONNRESET | libc::EPIPE | libc::ENOTCONN => How::Reset(broken.leg),
            libc::ETIMEDOUT => How::TimedOut(broken.leg),
            errno => How::Failed(broken.leg, errno),
        }
    }
}

impl How {
    /// Whether it was not `leg` that broke.
    fn is_of_other(self, leg: Leg) -> bool {
        !matches!(self, How::Reset(of) | How::TimedOut(of) | How::Failed(of, _) if of == leg)
    }
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            How::Finished => f.write_str("finished"),
            How::Reset(leg) => write!(f, "reset by the {leg} leg"),
            How::TimedOut(leg) => write!(f, "{leg} leg timed out"),
            How::Failed(leg, errno) => write!(f, "{leg} leg failed: {}", errno_text(*errno)),
            How::DialFailed => f.write_str("dial failed"),
            How::HalfOpenTooLong => f.write_str("half-open too long"),
            How::Cut => f.write_str("cut by drain or exit"),
        }
    }
}

/// A flow that is over.
#[derive(Clone, Debug)]
pub struct FlowEnd {
    /// The flow's number in this process.
    pub flow: u64,
    /// Its tunnel, as it was when the flow began.
    pub tunnel: Arc<Tunnel>,
    /// Who connected to us.
    pub peer: SocketAddr,
    /// Where we dialled: which of the tunnel's next hops, and the address that answered.
    pub dialled: Option<(usize, SocketAddr)>,
    /// What it carried.
    pub tally: Tally,
    /// When it was accepted.
    pub began: Instant,
    /// Why it ended.
    pub how: How,
}

impl FlowEnd {
    /// Writes the flow's one line, with what the kernel knows of the legs.
    pub(super) fn log(&self, accept: &LegEnd, dial: &LegEnd) {
        let (next_hop, address) = match &self.dialled {
            Some((hop, address)) => (self.tunnel.to[*hop].to_string(), address.to_string()),
            None => (String::new(), String::new()),
        };
        info!(
            flow = self.flow,
            tunnel = %self.tunnel.name,
            peer = %self.peer,
            next_hop = %next_hop,
            next_hop_address = %address,
            up_bytes = self.tally.up,
            down_bytes = self.tally.down,
            seconds = self.began.elapsed().as_millis() as f64 / 1e3,
            how = %self.how,
            untold = untold(accept, dial),
            accept_rtt_ms = accept.rtt_ms(),
            accept_retrans_bytes = accept.info.bytes_retrans,
            accept_delivery_mbytes_per_s = accept.delivery(),
            accept_congestion = %accept.congestion,
            dial_rtt_ms = dial.rtt_ms(),
            dial_retrans_bytes = dial.info.bytes_retrans,
            dial_delivery_mbytes_per_s = dial.delivery(),
            dial_congestion = %dial.congestion,
            "flow ended"
        );
    }
}

/// What the kernel says of a leg at its end; empty when there was none.
#[derive(Clone, Debug, Default)]
pub(super) struct LegEnd {
    info: TcpInfo,
    congestion: String,
    /// Whether the flow broke and this leg's peer cannot be told.
    is_untold: bool,
}

impl LegEnd {
    /// The end of `leg` of the flow that ended as `end` says. From now on closing it is RST, unless the flow finished or the
    /// kernel has no RST for it any more.
    pub(super) fn of(socket: &Stream, leg: Leg, end: &FlowEnd) -> LegEnd {
        let info = TcpInfo::of(socket.as_fd()).unwrap_or_default();
        let sent = if leg == Leg::Accept { end.tally.down } else { end.tally.up };
        let is_untold = match end.how {
            How::Finished => {
                if info.state != State::Closed {
                    closing::linger_off(socket);
                }
                false
            }
            // Both FINs have passed on it, and every byte is sent or even acknowledged, the FIN with them.
            how => closing::let_go(socket, &info) || how.is_of_other(leg) && closing::is_over(&info, sent),
        };
        // A short flow ends before any control matters, and asking costs as much as sending its bytes.
        let is_worth_it = end.tally.up + end.tally.down > leg::ENOUGH;
        let congestion = is_worth_it.then(|| tcp_info::congestion(socket.as_fd()).unwrap_or_default());
        LegEnd { info, congestion: congestion.unwrap_or_default(), is_untold }
    }

    /// Says which sysctl held a long path back, when one did: the measured form of comparing buffers with the BDP. At most
    /// once a second for each tunnel.
    pub(super) fn warn_if_buffers_limit(&self, relay: &Relay, tunnel: &str, leg: Leg) {
        let Some(small) = small_buffer(&self.info) else { return };
        if relay.limit_log.pass(tunnel, Instant::now()).is_none() {
            return;
        }
        let reach = |bytes: u64| format!("{:.1} MB/s", bytes as f64 / self.info.rtt.as_secs_f64() / 1e6);
        if let Buffer::Ours = small {
            let wmem = limits::tcp_buffer_maxima().map_or(0, |(_, wmem)| wmem);
            warn!(tunnel, %leg, rtt_ms = self.rtt_ms(), tcp_wmem_max = wmem, at_most = %reach(wmem),
                "our send buffer limits this path: raise the third number of net.ipv4.tcp_wmem (twice rate x RTT)");
        } else {
            let window = self.info.snd_wnd;
            warn!(tunnel, %leg, rtt_ms = self.rtt_ms(), peer_window = window, at_most = %reach(window.into()),
                "the peer's receive window limits this path: raise the third number of net.ipv4.tcp_rmem there (twice rate x RTT)");
        }
    }

    fn rtt_ms(&self) -> f64 {
        self.info.rtt.as_micros() as f64 / 1e3
    }

    /// The latest delivery rate in MB/s (10^6 bytes).
    fn delivery(&self) -> f64 {
        (self.info.delivery_rate / 1000) as f64 / 1e3
    }
}

/// The legs whose peers got everything and a FIN before the flow broke, and no RST.
fn untold(accept: &LegEnd, dial: &LegEnd) -> Option<&'static str> {
    match (accept.is_untold, dial.is_untold) {
        (true, true) => Some("both legs"),
        (true, false) => Some("accept leg"),
        (false, true) => Some("dial leg"),
        (false, false) => None,
    }
}

/// One of the two buffers that bound what a leg sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Buffer {
    /// Our send buffer.
    Ours,
    /// The peer's receive buffer, which is the window that it offers.
    Peers,
}

/// Which buffer was too small for the leg's long path, when one was.
fn small_buffer(info: &TcpInfo) -> Option<Buffer> {
    // NDT's threshold for "limited by" (RFC 4898 counters): 15 % of the busy time.
    let limits = |part: Duration| part.as_secs_f64() >= 0.15 * info.busy_time.as_secs_f64().max(1.0);
    // A program that reads slowly closes its window too, and no larger buffer helps there. So the window has to be about
    // what each round trip carried: much more means that there was room, much less that the reader has left it full.
    let carried = info.bytes_acked as f64 * info.rtt.as_secs_f64() / info.busy_time.as_secs_f64();
    let window = f64::from(info.snd_wnd);
    let was_used = (window / 2.0..=window * 2.0).contains(&carried);
    match info.rtt {
        rtt if rtt < leg::WAN_RTT => None,
        _ if limits(info.sndbuf_limited) => Some(Buffer::Ours),
        _ if limits(info.rwnd_limited) && was_used => Some(Buffer::Peers),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_reader_is_no_small_window() {
        // 10 s over 100 ms, half of them held back by the peer's window of 1 MB.
        let second = Duration::from_secs(1);
        let full = TcpInfo {
            rtt: second / 10,
            busy_time: 10 * second,
            rwnd_limited: 5 * second,
            snd_wnd: 1_000_000,
            bytes_acked: 100_000_000,
            ..TcpInfo::default()
        };
        let cases = [
            ("a window in each round trip", full, Some(Buffer::Peers)),
            ("half of one: it grew on the way", TcpInfo { bytes_acked: 50_000_000, ..full }, Some(Buffer::Peers)),
            ("a slow reader who caught up at the end", TcpInfo { bytes_acked: 49_000_000, ..full }, None),
            ("a slow reader who has not", TcpInfo { snd_wnd: 1_000, ..full }, None),
            ("seldom held back", TcpInfo { rwnd_limited: second, ..full }, None),
            ("a LAN", TcpInfo { rtt: second / 1000, ..full }, None),
            ("our own buffer", TcpInfo { sndbuf_limited: 2 * second, ..full }, Some(Buffer::Ours)),
            ("nothing was sent", TcpInfo { rtt: second, ..TcpInfo::default() }, None),
        ];
        for (what, info, small) in cases {
            assert_eq!(small_buffer(&info), small, "{what}");
        }
    }
}
