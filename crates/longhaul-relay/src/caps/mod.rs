//! Keeps the bandwidth caps: sets SO_MAX_PACING_RATE of both legs of each flow below a cap, and lets the kernel pace. While a path is
//! shared with other programs, its legs have CUBIC.
//!
//! Enters: the rules of a configuration, and each flow as it begins. Leaves: pacing rates on the sockets of the live flows.
//! May use: `live`, `leg` and what is below them.
//!
//! ```text
//! a flow begins ── Governor::begin: its first share ──> the desk ──> the tracker's thread looks at it from then on
//! a reload      ── Governor::set: other rules ─────────────┘
//! ```
//!
//! [`longhaul_core::caps`] decides the limits. No pump knows of them: it counts its bytes and whether it waits for its
//! sink, as for any view. The thread starts with the first cap, looks only at flows below a cap, and sleeps while
//! there is none. A flow with `flow_bandwidth` alone needs no look: its limit is set when it begins.

mod clock;
mod desk;
mod paths;
mod rules;
mod tracker;

use crate::live::flow::Flow;
use crate::live::registry::Registry;
use crate::lock::lock;
use clock::{WeekTime, local_time};
use desk::Shared;
use longhaul_config::Tunnel;
use longhaul_core::caps::{Bandwidth, Weekday};
use longhaul_sys::tcp_info::TcpInfo;
use longhaul_units::Rate;
pub use paths::PathView;
use rules::Rules;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst, fence};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use tracing::error;
use tracker::Tracker;

/// Keeps the caps.
#[derive(Debug)]
pub(super) struct Governor {
    shared: Arc<Shared>,
    thread: OnceLock<bool>,
}

/// The cap of the daemon, and the time of the week.
#[derive(Clone, Debug)]
pub struct CapsNow {
    /// The cap of the daemon, as configured.
    pub all: Bandwidth,
    /// The day.
    pub day: Weekday,
    /// The minute of the day, 0 to 1439.
    pub minute: u16,
}

impl Governor {
    /// Returns a governor of the flows in `registry`, without caps.
    pub(super) fn new(registry: &Arc<Registry>) -> Governor {
        Governor::by(registry, local_time)
    }

    fn by(registry: &Arc<Registry>, clock: fn() -> WeekTime) -> Governor {
        let shared = Shared {
            registry: registry.clone(),
            is_capped: AtomicBool::new(false),
            desk: Mutex::default(),
            news: Condvar::new(),
            clock,
            paths: Mutex::default(),
        };
        Governor { shared: Arc::new(shared), thread: OnceLock::new() }
    }

    /// Sets the caps, for live flows too. The flows of a tunnel that is not among `tunnels` keep its last caps.
    pub(super) fn set(&self, mut all: Bandwidth, tunnels: &[Arc<Tunnel>]) {
        let shared = &self.shared;
        if all.may_be_auto() && !TcpInfo::tells_retransmitted_bytes() {
            error!(
                "bandwidth = \"auto\" needs Linux 4.19, whose TCP_INFO tells retransmitted bytes: no path has a cap"
            );
            all.is_auto = false;
            all.schedule.iter_mut().for_each(|window| window.is_auto = false);
        }
        let old = lock(&shared.desk).rules.clone();
        // Only then is a look at the live flows of use.
        if !(old.is_capped() || old.next(all.clone(), tunnels, &HashMap::new()).is_capped()) {
            return;
        }
        let alive = shared.tunnels_of_flows();
        self.replace(|old| old.next(all, tunnels, &alive));
    }

    /// Takes the rate of `aside` from the caps of the daemon and of the tunnel with that name, for a measurement. Their flows share the
    /// rest, until `None` gives it back.
    pub(super) fn set_aside(&self, aside: Option<(String, Rate)>) {
        let is_of_use = {
            let rules = &lock(&self.shared.desk).rules;
            rules.is_capped() || rules.has_aside()
        };
        if is_of_use {
            self.replace(|old| old.with_aside(aside));
        }
    }

    /// Replaces the rules by those that `next` makes of them.
    fn replace(&self, next: impl FnOnce(&Rules) -> Rules) {
        let shared = &self.shared;
        let mut desk = lock(&shared.desk);
        let rules = next(&desk.rules);
        shared.is_capped.store(rules.is_capped(), Relaxed);
        // A flow that is just beginning either sees the caps, or is connected before the thread looks for live flows.
        fence(SeqCst);
        let before = std::mem::replace(&mut desk.rules, Arc::new(rules));
        desk.before.push(before);
        desk.offers = None;
        drop(desk);
        self.start();
        shared.news.notify_one();
    }

    /// Returns the cap of the daemon, and the time of the week.
    pub(super) fn caps(&self) -> CapsNow {
        let WeekTime { day, minute } = (self.shared.clock)();
        CapsNow { all: lock(&self.shared.desk).rules.all().clone(), day, minute }
    }

    /// Whether the caps of the paths are found by themselves now.
    pub(super) fn is_auto(&self) -> bool {
        let CapsNow { all, day, minute } = self.caps();
        all.is_auto_at(day, minute)
    }

    /// Returns the paths whose caps are found by themselves, each with the cap in force: the daemon's if that is less.
    pub(super) fn paths(&self) -> Vec<PathView> {
        let CapsNow { all, day, minute } = self.caps();
        let most = all.at(day, minute);
        let in_force = |path: &PathView| PathView {
            cap: path.cap.map(|cap| most.map_or(cap, |most| cap.min(most))),
            ..path.clone()
        };
        // The thread may sleep when the schedule ends `auto`.
        let are_kept = |path: &&PathView| all.is_auto_at(day, minute) && path.used.elapsed() <= paths::KEPT;
        lock(&self.shared.paths).iter().filter(are_kept).map(in_force).collect()
    }

    /// Gives `flow`, both of whose legs are connected, its first share.
    pub(super) fn begin(&self, flow: &Arc<Flow>) {
        fence(SeqCst); // see `set`
        if self.shared.is_capped.load(Relaxed) {
            // Without a thread, nobody would take the flow from the desk. One that is just starting takes it: it may have looked at the
            // live flows already.
            let is_tracked = self.thread.get() != Some(&false);
            self.shared.begin(flow, is_tracked);
        }
    }

    /// Starts the thread at the first call.
    fn start(&self) {
        let has_thread = *self.thread.get_or_init(|| {
            let tracker = Tracker::new(self.shared.clone());
            let started = std::thread::Builder::new().name("longhaul-caps".into()).spawn(move || tracker.run());
            if let Err(err) = &started {
                error!(%err, "no thread for the bandwidth caps: a flow keeps the share with which it begins");
            }
            started.is_ok()
        });
        if !has_thread {
            lock(&self.shared.desk).begun.clear();
        }
    }
}

#[cfg(test)]
mod tests;
