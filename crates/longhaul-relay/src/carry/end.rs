//! The end of a flow: bytes each way, the reason, and one log line with everything that the kernel knows of both legs.
//! A flow's end is never a bare error, because its byte counts survive the error.

use crate::carry::join::LastLook;
use crate::leg::closing;
use crate::leg::sample::sample;
use crate::leg::stream::Stream;
use crate::live::diagnosis::{FlowSummary, Limited, mbps};
use crate::live::flow::Flow;
use crate::live::how::How;
use crate::live::tally::Tally;
use crate::state::shared::Relay;
use longhaul_config::Tunnel;
use longhaul_config::options::{Leg, key};
use longhaul_core::opening::HEADER_TIME;
use longhaul_core::path::diagnosis::Kind;
use longhaul_core::path::laws::window_rate;
use longhaul_core::path::{MIN_ACKED_BYTES, WAN_RTT};
use longhaul_sys::tcp_info::{State, TcpInfo};
use longhaul_sys::{limits, sockopt};
use longhaul_units::Bytes;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use tracing::{Level, debug, enabled, info, warn};

/// A flow that is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowEnd<'a> {
    /// The flow.
    pub(crate) flow: &'a Flow,
    /// Number of bytes that it carried.
    pub(crate) tally: Tally,
    /// Why it ended.
    pub(crate) how: How,
    /// TCP_INFO of its legs, if it was read as the flow ended.
    pub(crate) last_look: LastLook,
}

impl FlowEnd<'_> {
    /// Writes the flow's one line, with what the kernel knows of the legs. Unknown fields are left out, such as all
    /// fields of a `dial` leg that was never connected. The line of a flow that `is_quiet` is DEBUG. Logs a warning if a buffer
    /// limited the flow.
    pub(crate) fn log(&self, relay: &Relay, accept: &LegEnd, dial: Option<&LegEnd>, is_quiet: bool) {
        let FlowEnd { flow, tally, how, .. } = *self;
        let next_hop = flow.next_hop();
        let FlowSummary { limit, gain, saved } = relay.diagnoses.end(flow);
        let limit = limit.as_ref().filter(|limit| limit.finding.kind != Kind::Unknown);
        // tracing takes only a constant level.
        macro_rules! line {
            ($level:ident) => {
                $level!(
                    flow = flow.number,
                    tunnel = %flow.tunnel.name,
                    peer = %flow.client.address(),
                    proxy = flow.proxy().map(display),
                    transfer = flow.client.transfer().map(display),
                    next_hop = next_hop.map(|(hop, _)| display(hop)),
                    next_hop_address = next_hop.map(|(_, address)| display(address)),
                    dial_local = dial.and_then(|dial| dial.local).map(display),
                    up_bytes = tally.up,
                    down_bytes = tally.down,
                    seconds = flow.began.elapsed().as_millis() as f64 / 1e3,
                    how = %how,
                    untold = untold(accept, dial),
                    limited_by = limit.map(|limit| display(limit.finding.kind)),
                    limited_leg = limit.and_then(Limited::leg).map(display),
                    evidence = limit.map(|limit| limit.finding.evidence.as_str()),
                    carried_mbps = gain.map(|gain| mbps(gain.rate)),
                    alone_at_most_mbps = gain.map(|gain| mbps(gain.alone)),
                    gain = gain.map(display),
                    saved_seconds = gain.map(|_| saved.as_millis() as f64 / 1e3),
                    accept_rtt_ms = accept.rtt_ms(),
                    accept_retrans_bytes = accept.info.bytes_retrans,
                    accept_delivery_mbytes_per_s = accept.delivery(),
                    accept_congestion = accept.congestion.as_deref().map(display),
                    dial_rtt_ms = dial.and_then(LegEnd::rtt_ms),
                    dial_retrans_bytes = dial.map(|dial| dial.info.bytes_retrans),
                    dial_delivery_mbytes_per_s = dial.and_then(LegEnd::delivery),
                    dial_congestion = dial.and_then(|dial| dial.congestion.as_deref()).map(display),
                    "flow ended"
                )
            };
        }
        if is_quiet {
            line!(debug)
        } else {
            line!(info)
        }
        let Some((leg, kind)) = limit.and_then(|limit| Some((limit.leg()?, limit.finding.kind))) else { return };
        let end = if leg == Leg::Dial { dial } else { Some(accept) };
        end.into_iter().for_each(|end| end.warn_if_a_buffer_limits(relay, &flow.tunnel, leg, kind));
    }
}

/// A leg at its end, as the kernel describes it.
#[derive(Clone, Debug, Default)]
pub(crate) struct LegEnd {
    info: TcpInfo,
    /// Our address on it, if the log needs it.
    local: Option<SocketAddr>,
    /// Payload bytes that the flow sent on it.
    sent: u64,
    /// Whether nothing came from the peer, besides a PROXY header.
    is_mute: bool,
    /// Time that the flow lasted.
    lasted: Duration,
    /// Its congestion control. `None` for a flow that carried too little to ask for it.
    congestion: Option<String>,
    /// Whether the flow broke and this leg's peer cannot be told.
    is_untold: bool,
}

impl LegEnd {
    /// Prepares `socket`, the leg `leg` of the flow `end`, for its close. The close then sends RST, unless the flow
    /// finished or the kernel no longer sends RST on this leg. Returns what the kernel knows of the leg.
    pub(crate) fn conclude(socket: &Stream, leg: Leg, end: &FlowEnd<'_>) -> LegEnd {
        let look = || TcpInfo::of(socket.as_fd()).unwrap_or_default();
        let info = end.last_look.map_or_else(look, |legs| legs[leg.index()]);
        if info.bytes_retrans > 0 {
            end.flow.counters.distributions.add_retransmitted(leg, info.bytes_retrans);
        }
        let sent = if leg == Leg::Accept { end.tally.down } else { end.tally.up };
        let is_untold = match end.how {
            How::Finished => {
                if info.state != State::Closed {
                    closing::linger_off(socket);
                }
                false
            }
            // Both FINs have passed on this leg, and every byte and our FIN are sent or even acknowledged.
            how => closing::let_go(socket, &info) || how.is_of_other(leg) && closing::is_over(&info, socket, sent),
        };
        // A short flow ends before congestion control matters, and the question costs as much as sending its bytes.
        let is_worth_it = end.tally.up + end.tally.down > MIN_ACKED_BYTES;
        let congestion = is_worth_it.then(|| sockopt::congestion(socket.as_fd()).ok()).flatten();
        // The accept leg's address is that of the listener, so the log does not need it.
        let has_line = if end.flow.is_probe() { enabled!(Level::DEBUG) } else { enabled!(Level::INFO) };
        let local = if leg == Leg::Dial && has_line { socket.local() } else { None };
        // The kernel counts a FIN as a byte.
        let received = i128::from(info.bytes_received) - i128::from(end.flow.has_passed_fin(leg));
        let is_mute = received <= i128::from(socket.received_beside());
        let lasted = end.flow.began.elapsed();
        LegEnd { info, local, sent, is_mute, lasted, congestion, is_untold }
    }

    /// Whether the flow was a health check, such as one of another longhaul or of HAProxy. This is its accept leg. A header that names no
    /// client shows one also if it took long: the FIN or RST behind it may be late or lost, and a server may greet it meanwhile.
    pub(crate) fn is_of_check(&self, end: &FlowEnd<'_>) -> bool {
        let (is_empty, has_no_client) = (end.tally == Tally::default(), end.flow.has_no_client());
        let is_greeted = end.tally.down <= GREETING && self.lasted < HEADER_TIME;
        let is_short = is_empty && self.lasted < CHECK_LASTS && !end.flow.client.is_data();
        let is_late = has_no_client && (is_empty || is_greeted);
        self.is_mute
            && match end.how {
                How::Reset(Leg::Accept) => is_short || is_late,
                How::Finished => is_late,
                _ => false,
            }
    }

    /// Logs a warning that names the buffer if `kind`, which limited this leg of a long path, is one. At most once a second for each
    /// tunnel.
    fn warn_if_a_buffer_limits(&self, relay: &Relay, tunnel: &Tunnel, leg: Leg, kind: Kind) {
        let is_ours = kind == Kind::OwnSendBuffer;
        if !(is_ours || kind == Kind::ReceiverWindow) || self.info.rtt < WAN_RTT {
            return;
        }
        if relay.lines.limit.pass(&tunnel.name, Instant::now()).is_none() {
            return;
        }
        let (sndbuf, tunnel) = (tunnel.options(leg).find(key::SNDBUF), &tunnel.name);
        let reach = |bytes: u64| format!("{:.1} MB/s", window_rate(Bytes(bytes), self.info.rtt).0 as f64 / 8e6);
        if let (true, Some(sndbuf)) = (is_ours, sndbuf) {
            warn!(tunnel, %leg, rtt_ms = self.rtt_ms(), sndbuf = %sndbuf.value,
                "our send buffer limits this path: remove sndbuf, so that the kernel sizes the buffer, or make it larger");
        } else if is_ours {
            let wmem = limits::tcp_buffer_maxima().map_or(0, |maxima| maxima.send);
            warn!(tunnel, %leg, rtt_ms = self.rtt_ms(), tcp_wmem_max = wmem, at_most = %reach(wmem),
                "our send buffer limits this path: raise the third number of net.ipv4.tcp_wmem (twice rate x RTT)");
        } else {
            let window = self.info.snd_wnd;
            warn!(tunnel, %leg, rtt_ms = self.rtt_ms(), peer_window = window, at_most = %reach(window.into()),
                "the peer's receive window limits this path: raise the third number of net.ipv4.tcp_rmem there (twice rate x RTT)");
        }
    }

    /// Returns the smoothed round-trip time in milliseconds, unless it was never measured.
    fn rtt_ms(&self) -> Option<f64> {
        (!self.info.rtt.is_zero()).then(|| self.info.rtt.as_micros() as f64 / 1e3)
    }

    /// Returns the latest delivery rate in MB/s (10^6 bytes), if the path set the rate.
    fn delivery(&self) -> Option<f64> {
        sample(&self.info).path_rate(self.sent, self.lasted).map(|rate| (rate / 1000) as f64 / 1e3)
    }
}

/// Most bytes with which a server greets a health check whose end came too late for it not to be dialled.
const GREETING: u64 = 4 * 1024;
/// Time within which a health check ends.
const CHECK_LASTS: Duration = Duration::from_secs(1);

/// Names the legs whose peers got every byte and a FIN before the flow broke, and therefore no RST.
fn untold(accept: &LegEnd, dial: Option<&LegEnd>) -> Option<&'static str> {
    match (accept.is_untold, dial.is_some_and(|dial| dial.is_untold)) {
        (true, true) => Some("both legs"),
        (true, false) => Some("accept leg"),
        (false, true) => Some("dial leg"),
        (false, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leg_s_figures_are_in_ms_and_mb_per_s() {
        let second = Duration::from_secs(1);
        let info = TcpInfo { delivery_rate: 12_345_678, busy_time: second, ..TcpInfo::default() };
        let bulk = LegEnd { info, sent: MIN_ACKED_BYTES + 1, lasted: 2 * second, ..LegEnd::default() };
        assert_eq!((bulk.delivery(), bulk.rtt_ms()), (Some(12.345), None));
        let measured = LegEnd { info: TcpInfo { rtt: second / 16, ..info }, lasted: 3 * second, ..bulk };
        assert_eq!((measured.delivery(), measured.rtt_ms()), (None, Some(62.5)));
    }
}
