//! Converts TCP_INFO for longhaul-core.

use longhaul_core::closing;
use longhaul_core::silence::LegLook;
use longhaul_sys::tcp_info::{State, TcpInfo};

pub(crate) use longhaul_measure::look::sample;

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
