//! Sets the rate with which the kernel lets a leg send.

use crate::live::flow::Flow;
use longhaul_config::options::Leg;
use longhaul_sys::sockopt;
use longhaul_units::Rate;
use std::os::fd::AsFd;

/// Limits what `sink` of `flow` sends to `limit`, or to the leg's `max-pacing-rate` if that is less. `None` leaves only
/// the latter. Does nothing on a leg that is closed.
///
/// The kernel counts payload alone, since Linux 4.20: it computes the time of the next segment from the bytes of the
/// data segment in its queue (net/ipv4/tcp_output.c, tcp_update_skb_after_send). Older kernels count headers too.
pub(super) fn pace(flow: &Flow, sink: Leg, limit: Option<Rate>) {
    let Some(socket) = flow.stream(sink) else { return };
    let option = flow.tunnel.options(sink).max_pacing_rate();
    let rate = limit.into_iter().chain(option).min();
    // Fails on a leg of Multipath TCP, about which the configuration's check has warned.
    let _ = sockopt::set_pacing(socket.as_fd(), rate.map_or(UNLIMITED, |rate| rate.bytes_per_second().max(1)));
}

/// net/core/sock.c: all bits mean that there is no limit.
const UNLIMITED: u64 = u64::MAX;
