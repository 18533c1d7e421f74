//! State that all tunnels of the process share: counters, permits, pipes, the live flows.

use super::budget::Budget;
use super::counters::Counters;
use super::hangups::Hangups;
use super::leg;
use super::local_ports::LocalPorts;
use super::loop_guard::Served;
use super::low_water::Marks;
use super::permits::{Gate, Permits};
use super::pool::Pool;
use super::registry::{FlowView, Registry};
use super::silence::Sweep;
use super::throttle::Lines;
use longhaul_config::Tunnel;
use longhaul_sys::limits;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tracing::warn;

/// State that all tunnels of the process share.
///
/// Flows outlive their tunnels: one that was removed or changed by a reload goes on with what it began with.
#[derive(Debug)]
pub struct Relay {
    /// The counters of the process.
    pub counters: Counters,
    pub(super) pool: Pool,
    pub(super) budget: Budget,
    pub(super) marks: Arc<Marks>,
    pub(super) hangups: Arc<Hangups>,
    /// The live flows.
    pub(super) registry: Arc<Registry>,
    pub(super) sweep: Sweep,
    permits: Arc<Permits>,
    pub(super) served: Served,
    pub(super) local_ports: LocalPorts,
    /// Whether the log has said that splice is refused.
    pub(super) splice_refused: AtomicBool,
    /// Throttled log lines.
    pub(super) lines: Lines,
}

impl Relay {
    /// A relay that shares out `descriptors` among flows and pipes. Pass what RLIMIT_NOFILE leaves after everything else
    /// that the process opens.
    pub fn new(descriptors: usize) -> Arc<Relay> {
        let registry = Arc::default();
        Arc::new(Relay {
            counters: Counters::default(),
            pool: Pool::new(descriptors, limits::pipe_pages_soft()),
            budget: Budget::default(),
            marks: Arc::default(),
            hangups: Arc::default(),
            sweep: Sweep::new(&registry),
            registry,
            permits: Permits::new(flows(descriptors)),
            served: Served::default(),
            local_ports: LocalPorts::unknown(),
            splice_refused: AtomicBool::new(false),
            lines: Lines::default(),
        })
    }

    /// Shares out `descriptors` anew. Live flows keep what they have: where there are more than now fit, no other begins
    /// until enough of them have ended.
    pub fn share_out(&self, descriptors: usize) {
        self.permits.set(flows(descriptors));
        self.pool.share_out(descriptors);
    }

    /// The gate of a new tunnel.
    pub fn gate(&self) -> Arc<Gate> {
        Gate::new(&self.permits)
    }

    /// Tells which tunnels share the permits, by their gates, and the `max_flows` of each.
    pub fn permit<'a>(&self, served: impl IntoIterator<Item = (&'a Arc<Gate>, Option<usize>)>) {
        self.permits.serve(served);
    }

    /// Tries whether WAN legs may have BBR, and says what would help where they may not and some leg `wants` it.
    pub fn look_for_bbr(wants: bool) {
        if let (Err(err), true) = (leg::try_bbr(), wants) {
            warn!(%err, "WAN legs keep the kernel's congestion control; for BBR: modprobe tcp_bbr, and where it is not \
                allowed: sysctl -w net.ipv4.tcp_allowed_congestion_control='reno cubic bbr'; then reload (longhaul@ and \
                `longhaul relay`: restart), for only that looks again");
        }
    }

    /// Tells which tunnels are served, so that no dial comes back by one of them or to itself. Call it at start and at each
    /// reload.
    pub fn serves(&self, tunnels: impl IntoIterator<Item = Tunnel>) {
        self.local_ports.read();
        self.served.set(tunnels.into_iter().collect());
    }

    /// Returns the number of flows that there may be at once, by the descriptors.
    pub fn max_flows(&self) -> usize {
        self.permits.all()
    }

    /// Returns the number of pipes that there may be at once, by the descriptors and the user's pipe pages.
    pub fn max_pipes(&self) -> usize {
        self.pool.max()
    }

    /// Waits until no flow is left. Whoever wants none to begin waits for the listeners first.
    pub async fn ended(&self) {
        self.permits.returned().await;
    }

    /// Writes how many lines the log has held back whenever no later line has said so. Never ends; it is safe to drop.
    pub async fn tell_held_back(&self) {
        self.lines.tell_held_back().await;
    }

    /// Writes how many lines the log has held back so far. Call it before the process ends.
    pub fn tell_all_held_back(&self) {
        self.lines.tell_all_held_back();
    }

    /// Cuts every flow that is still open, with RST on both legs.
    pub fn cut(&self) {
        self.registry.cut_all();
    }

    /// Returns every live flow as it is now, the oldest first. Asks the kernel for each address of ours.
    pub fn flows(&self) -> Vec<FlowView> {
        self.registry.snapshot()
    }

    /// Cuts flow `number` with RST on both legs. Returns whether there is such a flow.
    pub fn kill(&self, number: u64) -> bool {
        self.registry.kill(number)
    }
}

/// Returns the number of flows that `descriptors` allow, beside the pipes.
fn flows(descriptors: usize) -> usize {
    ((descriptors - 2 * Pool::share(descriptors)) / 2).clamp(1, u32::MAX as usize)
}
