//! Converts TCP_INFO for longhaul-core.

use longhaul_core::closing;
use longhaul_core::path::Sample;
use longhaul_core::path::laws::MAX_UNSCALED_WINDOW;
use longhaul_core::silence::LegLook;
use longhaul_sys::limits;
use longhaul_sys::tcp_info::{State, TcpInfo};
use std::sync::OnceLock;

/// Returns the fields of `info` that decisions need, with their units.
pub(crate) fn sample(info: &TcpInfo) -> Sample {
    Sample {
        rtt: info.rtt,
        min_rtt: info.min_rtt,
        in_flight_segments: info.unacked_segments,
        mss_bytes: info.snd_mss,
        cwnd_segments: info.snd_cwnd,
        ssthresh_segments: info.snd_ssthresh,
        is_recovering: info.ca_state != CA_OPEN,
        acked_bytes: info.bytes_acked,
        retransmitted_bytes: info.bytes_retrans,
        duplicates: info.dsack_dups,
        reorderings: info.reorderings,
        timeouts: info.backoff,
        receive_rtt: info.rcv_rtt,
        received_bytes: info.bytes_received,
        received_segments: info.segments_received,
        since_received: info.last_data_received,
        unsent_bytes: info.notsent_bytes.into(),
        is_blocked: false,
        peer_window: info.snd_wnd.into(),
        max_peer_window: max_window(info.snd_wscale),
        pacing_rate: info.pacing_rate,
        max_pacing_rate: info.max_pacing_rate,
        delivery_rate: info.delivery_rate,
        is_app_limited: info.is_app_limited,
        busy: info.busy_time,
        limited_by_peer: info.rwnd_limited,
        limited_by_send_buffer: info.sndbuf_limited,
    }
}

/// Returns the largest window that a peer with this scale can offer. 0 if it has none because this kernel offers none (tcp(7),
/// tcp_window_scaling).
fn max_window(scale: Option<u8>) -> u64 {
    static WE_SCALE: OnceLock<bool> = OnceLock::new();
    let we_scale =
        || *WE_SCALE.get_or_init(|| limits::sysctl("net/ipv4/tcp_window_scaling").is_none_or(|value| value != "0"));
    if scale.is_some() || we_scale() { MAX_UNSCALED_WINDOW.0 << scale.unwrap_or(0) } else { 0 }
}

/// Returns the fields of `info` that tell whether a leg's peer answers.
pub(crate) fn leg_look(info: &TcpInfo) -> LegLook {
    LegLook {
        since_sent: info.last_data_sent,
        since_received: info.last_data_received,
        unanswered_probes: info.probes,
        unacked_segments: info.unacked_segments,
        unsent_bytes: info.notsent_bytes,
        peer_window: info.snd_wnd,
        segment_bytes: info.snd_mss,
        acked_bytes: info.bytes_acked,
        rtt: info.rtt,
        rtt_var: info.rtt_var,
    }
}

/// Returns `state` as far as the close of a leg depends on it.
pub(super) fn closing_state(state: State) -> closing::State {
    match state {
        State::Established | State::FinWait1 | State::FinWait2 | State::CloseWait => closing::State::Open,
        State::LastAck | State::Closing => closing::State::LastAck,
        State::Closed => closing::State::Closed,
        State::Other => closing::State::Unknown,
    }
}

/// `TCP_CA_Open` of `linux/tcp.h`: nothing is lost, reordered or marked.
const CA_OPEN: u8 = 0;
