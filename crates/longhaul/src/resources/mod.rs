//! The resources of the process and of the host, against their limits. The files, in the order in which a figure passes
//! them:
//!
//! ```text
//! files     the files of /proc and /sys
//!   parse   their parsers
//!   cgroup  limits by control groups
//! process   the use of the machine by this process
//! sample    the figures of one moment
//! row       the table of resources: name, unit, reading, remedy
//! state     a resource as the Snapshot has it
//! watch     which of them are nearly used up
//! ```
//! A task of the admin thread takes a sample every few seconds. It costs a few dozen reads of small files, and one pass over
//! the live flows without a system call.

mod cgroup;
mod files;
mod parse;
mod process;
mod row;
mod sample;
mod state;
mod watch;

use crate::time::now;
use files::Files;
use longhaul_core::path::{MIN_ACKED_BYTES, WAN_RTT};
use longhaul_relay::{FlowState, Relay, lock};
use longhaul_sys::tcp_info::TcpInfo;
use row::{TCP_RMEM, TCP_WMEM};
use sample::Sampler;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::time::{MissedTickBehavior, interval};
use tracing::{info, warn};
use watch::{Crossing, Watch};

pub(crate) use process::ProcessFigures;
pub use state::ResourceState;

/// The resources, as the last sample has them.
#[derive(Debug, Default)]
pub(crate) struct Resources {
    last: Mutex<Vec<ResourceState>>,
}

impl Resources {
    /// Takes samples for ever. Logs the first, and each resource that is nearly used up or free again. The task may be
    /// dropped.
    pub(crate) async fn watch(self: Arc<Resources>, relay: Arc<Relay>) {
        let (mut sampler, mut watch) = (Sampler::new(Files::new()), Watch::default());
        let mut tick = interval(INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_first = true;
        loop {
            tick.tick().await;
            let sample = sampler.sample(relay.load(), ProcessFigures::now(), Instant::now());
            let (states, crossings) = watch.look(&sample, now());
            if std::mem::take(&mut is_first) {
                log_all(&states);
            }
            crossings.iter().for_each(log_crossing);
            *lock(&self.last) = states;
        }
    }

    /// Returns the resources of the last sample that are nearly used up.
    pub(crate) fn near(&self) -> Vec<ResourceState> {
        let last = lock(&self.last);
        last.iter().filter(|state| state.near_since_unix_seconds.is_some()).cloned().collect()
    }

    /// Returns the resources of the last sample, and the buffers that `flows` need. Empty before the first sample.
    pub(crate) fn states(&self, flows: &[FlowState]) -> Vec<ResourceState> {
        let mut states = lock(&self.last).clone();
        let legs = || flows.iter().flat_map(|flow| [&flow.accept, &flow.dial]).flatten();
        let largest = |need: fn(&TcpInfo) -> u64| legs().map(|leg| need(&leg.info)).max().unwrap_or(0);
        watch::need(&mut states, TCP_RMEM, largest(receive_buffer));
        watch::need(&mut states, TCP_WMEM, largest(send_buffer));
        states
    }
}

/// Returns the send buffer that a leg needs for the rate that it has, in bytes: twice rate x RTT. 0 for a leg that is no
/// WAN, or that did not have more to send.
fn send_buffer(info: &TcpInfo) -> u64 {
    let is_measured = info.rtt >= WAN_RTT && info.bytes_acked > MIN_ACKED_BYTES && !info.is_app_limited;
    if is_measured { (2.0 * info.delivery_rate as f64 * info.rtt.as_secs_f64()) as u64 } else { 0 }
}

/// Returns the receive buffer that a leg needs for the rate that it had, in bytes. 0 for a leg that is no WAN, or that has
/// received little.
fn receive_buffer(info: &TcpInfo) -> u64 {
    let is_measured = info.rtt >= WAN_RTT && info.bytes_received > MIN_ACKED_BYTES;
    if is_measured { 2 * u64::from(info.rcv_space) } else { 0 }
}

/// Writes what every resource has at the start, and each limit that is too low.
fn log_all(states: &[ResourceState]) {
    let shown: Vec<String> = states.iter().map(shown).collect();
    info!(list = %shown.join(", "), "resources");
    for state in states.iter().filter(|state| state.near_since_unix_seconds.is_none()) {
        if let (Some(why), Some(remedy)) = (&state.warning, &state.remedy) {
            warn!(resource = %state.name, %why, %remedy, "a limit is low");
        }
    }
}

fn shown(state: &ResourceState) -> String {
    let ResourceState { name, unit, .. } = state;
    match (state.used, state.limit, &state.detail) {
        (Some(used), Some(limit), _) => format!("{name} {used} of {limit}"),
        (Some(used), None, _) => format!("{name} {used}, no limit"),
        (None, Some(limit), _) => format!("{name} up to {limit} {unit}"),
        (None, None, detail) => format!("{name} {}", detail.as_deref().unwrap_or_default()),
    }
}

fn log_crossing(crossing: &Crossing) {
    let Crossing { state, is_near } = crossing;
    let ResourceState { name, used, limit, unit, .. } = state;
    match is_near {
        true => warn!(
            resource = %name, used, limit, %unit, remedy = state.remedy.as_deref(),
            "a resource is nearly used up"
        ),
        false => info!(resource = %name, used, limit, "a resource is free again"),
    }
}

/// Time between two samples.
const INTERVAL: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leg_needs_twice_its_rate_x_rtt() {
        let wan = TcpInfo {
            rtt: Duration::from_millis(100),
            bytes_acked: MIN_ACKED_BYTES + 1,
            bytes_received: MIN_ACKED_BYTES + 1,
            delivery_rate: 125_000_000,
            rcv_space: 3_000_000,
            ..TcpInfo::default()
        };
        assert_eq!((send_buffer(&wan), receive_buffer(&wan)), (25_000_000, 6_000_000));
        let lan = TcpInfo { rtt: Duration::from_millis(1), ..wan };
        assert_eq!((send_buffer(&lan), receive_buffer(&lan)), (0, 0));
        let idle = TcpInfo { is_app_limited: true, bytes_received: 9, ..wan };
        assert_eq!((send_buffer(&idle), receive_buffer(&idle)), (0, 0));
    }
}
