//! State that all tunnels of the process share: counters, permits, pipes, the live flows.

use crate::caps::Governor;
use crate::leg::hangups::Hangups;
use crate::leg::local_ports::LocalPorts;
use crate::leg::low_water::Marks;
use crate::leg::setup;
use crate::live::counters::{CounterValues, Counters};
use crate::live::flow::FlowState;
use crate::live::own_probes::OwnProbes;
use crate::live::registry::Registry;
use crate::live::tally::Tally;
use crate::live::throttle::Lines;
use crate::live::verified::{Verified, VerifyView};
use crate::names::Names;
use crate::state::budget::Budget;
use crate::state::listen_addresses::{ListenAddresses, may_come_later};
use crate::state::load::Load;
use crate::state::loop_guard::Served;
use crate::state::permits::Permits;
use crate::state::pool::Pool;
use crate::state::probe_key::ProbeKey;
use crate::state::probes::Probes;
use crate::state::served_tunnel::ServedTunnel;
use crate::state::silence::Sweep;
use crate::state::views::{self, GroupView, Groups, HopsView};
use longhaul_config::options::Leg;
use longhaul_config::{NextHop, Resolver, Tunnel};
use longhaul_core::caps::Bandwidth;
use longhaul_core::health::GoneAddress;
use longhaul_core::wire::proof::Key;
use longhaul_sys::limits;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, SystemTime};
use tokio::sync::watch;
use tracing::warn;

/// State that all tunnels of the process share.
///
/// A flow outlives its tunnel: when a reload removes or changes the tunnel, the flow keeps the settings that it began
/// with.
#[derive(Debug)]
pub struct Relay {
    /// The counters of the process.
    pub counters: Arc<Counters>,
    pub(crate) pool: Pool,
    pub(crate) budget: Budget,
    pub(crate) marks: Arc<Marks>,
    pub(crate) hangups: Arc<Hangups>,
    /// The live flows.
    pub(crate) registry: Arc<Registry>,
    pub(crate) sweep: Sweep,
    pub(crate) governor: Governor,
    permits: Arc<Permits>,
    /// Limits the probes that are answered.
    pub(crate) probes: Probes,
    /// The key that probers must prove.
    pub(crate) probe_key: ProbeKey,
    /// Admits the daemon's own probes.
    pub(crate) own_probes: Arc<OwnProbes>,
    /// Results of the daemon's own probes.
    pub(crate) verified: Verified,
    pub(crate) served: Served,
    listen_addresses: ListenAddresses,
    groups: Groups,
    names: Names,
    pub(crate) local_ports: LocalPorts,
    /// Whether the log has reported that splice is refused.
    pub(crate) splice_refused: AtomicBool,
    /// Throttled log lines.
    pub(crate) lines: Lines,
    /// Whether every connection is to be cut, for those whose flow has not begun.
    is_cut: watch::Sender<bool>,
    /// Whether no new flow is accepted, and the process waits for the live ones.
    is_draining: watch::Sender<bool>,
}

impl Relay {
    /// Returns a relay that divides `descriptors` among flows and pipes. Pass what RLIMIT_NOFILE leaves after
    /// everything else that the process opens.
    pub fn new(descriptors: usize) -> Arc<Relay> {
        let registry = Arc::default();
        Arc::new(Relay {
            counters: Arc::default(),
            pool: Pool::new(descriptors, limits::pipe_pages_soft()),
            budget: Budget::default(),
            marks: Arc::default(),
            hangups: Arc::default(),
            sweep: Sweep::new(&registry),
            governor: Governor::new(&registry),
            registry,
            permits: Permits::new(flows(descriptors)),
            probes: Probes::default(),
            probe_key: ProbeKey::default(),
            own_probes: Arc::default(),
            verified: Verified::default(),
            served: Served::default(),
            listen_addresses: ListenAddresses::default(),
            groups: Groups::default(),
            names: Names::default(),
            local_ports: LocalPorts::unknown(),
            splice_refused: AtomicBool::new(false),
            lines: Lines::default(),
            is_cut: watch::Sender::new(false),
            is_draining: watch::Sender::new(false),
        })
    }

    /// Divides `descriptors` anew. Live flows keep theirs. If there are more flows than now fit, no new flow begins
    /// until enough have ended.
    pub fn share_out(&self, descriptors: usize) {
        self.permits.set(flows(descriptors));
        self.pool.share_out(descriptors);
    }

    /// Sets the `max_flows` of the process. `None` leaves the limit to the descriptors. Live flows continue.
    pub fn limit_flows(&self, max_flows: Option<usize>) {
        self.permits.limit(max_flows);
    }

    /// Returns a new tunnel with `settings`.
    pub fn tunnel(&self, settings: Arc<Tunnel>) -> Arc<ServedTunnel> {
        Arc::new(ServedTunnel::new(settings, &self.permits, &self.counters))
    }

    /// Sets the tunnels that share the permits, with the `max_flows` of each.
    pub fn permit(&self, served: &[Arc<ServedTunnel>]) {
        self.permits.serve(served.iter().map(|tunnel| (&*tunnel.permits, tunnel.settings.max_flows)));
    }

    /// Sets the bandwidth caps: `all` of the daemon, and those of `tunnels`. They hold for live flows, too. The flows of
    /// a tunnel that is not among `tunnels` any more keep its last caps.
    pub fn cap(&self, all: Bandwidth, tunnels: &[Arc<Tunnel>]) {
        self.governor.set(all, tunnels);
    }

    /// Tries whether legs with `congestion = "auto"` may use BBR. If they may not and one of `tunnels` has such a leg,
    /// logs what would help.
    pub fn look_for_bbr(tunnels: &[Tunnel]) {
        let is_auto = |tunnel: &Tunnel| Leg::ALL.into_iter().any(|leg| tunnel.options(leg).is_auto());
        if let (Err(err), true) = (setup::try_bbr(), tunnels.iter().any(is_auto)) {
            warn!(%err, "WAN legs keep the kernel's congestion control; for BBR: modprobe tcp_bbr, and where it is not \
                allowed: sysctl -w net.ipv4.tcp_allowed_congestion_control='reno cubic bbr'; then reload (longhaul@ and \
                `longhaul relay`: restart), because only that tries again");
        }
    }

    /// Sets the tunnels that are served, so that no dial comes back to one of them or to itself, and begins to resolve
    /// the names of their next hops by `resolver`. Call it at start and at each reload, in a runtime.
    pub fn serves(&self, tunnels: impl IntoIterator<Item = Tunnel>, resolver: Option<Resolver>) {
        self.local_ports.read();
        let tunnels: Arc<[Tunnel]> = tunnels.into_iter().collect();
        self.names.serve(tunnels.iter().flat_map(|tunnel| &tunnel.to), resolver);
        self.served.set(tunnels);
    }

    /// Sets the addresses that listeners [need](crate::accept::listener::Handle::needed_address), by the names of their tunnels.
    pub fn needs_addresses(&self, needed: impl Iterator<Item = (String, SocketAddr)>) {
        self.listen_addresses.set(needed);
    }

    /// Returns the address that the listener of `tunnel` needs, if it is not of this host any more. Asks the kernel, two system
    /// calls.
    pub fn gone_address(&self, tunnel: &str) -> Option<GoneAddress> {
        let is_here = |address| self.served.has_here(address);
        self.listen_addresses.gone(tunnel, is_here, may_come_later, SystemTime::now())
    }

    /// Returns the addresses of `next_hop` in the order in which to dial them, from the last answer if there is one.
    /// Waits up to `patience` for a first answer. `counters` are those of the tunnel.
    ///
    /// # Errors
    /// There is no address, or no resolver answers. The text says which.
    pub(crate) async fn addresses(
        &self,
        next_hop: &NextHop,
        patience: Duration,
        counters: &Counters,
    ) -> Result<Vec<SocketAddr>, String> {
        self.names.addresses(next_hop, patience, counters).await
    }

    /// Sets the tunnels whose next hops views show. A hop that stays keeps its state.
    pub fn group(&self, served: &[Arc<ServedTunnel>]) {
        self.groups.set(served);
    }

    /// Returns the counters and the state of the next hops of every tunnel that is served.
    pub fn groups(&self) -> Vec<GroupView> {
        self.groups.view(&self.registry, &self.names)
    }

    /// Returns the state of the next hops of every tunnel that is served. It costs the same however many flows live.
    pub fn next_hops(&self) -> Vec<HopsView> {
        self.groups.hops(&self.names)
    }

    /// Writes the state of the next hops to the log, for tunnels that have several.
    pub fn log_groups(&self) {
        views::log(&self.next_hops());
    }

    /// Sets the key that probers must prove, and that the daemon's own probes prove elsewhere. Returns the old one.
    pub fn set_probe_key(&self, key: Option<Arc<Key>>) -> Option<Arc<Key>> {
        self.probe_key.set(key)
    }

    /// Forgets the results of the probes of all tunnels but `tunnels`.
    pub fn keep_verified(&self, tunnels: &[Arc<Tunnel>]) {
        self.verified.keep(tunnels);
    }

    /// Returns the results of the daemon's own probes, by the names of the tunnels with `verify`.
    pub fn verified(&self) -> BTreeMap<String, VerifyView> {
        self.verified.views()
    }

    /// Returns whether a listener accepts nothing although the process runs: by the probes of a tunnel with `verify`.
    pub fn is_stuck(&self) -> bool {
        self.verified.is_stuck()
    }

    /// Returns the maximum number of flows, by the descriptors and `max_flows` of the process.
    pub fn max_flows(&self) -> usize {
        self.permits.all()
    }

    /// Returns the maximum number of pipes, by the descriptors and the user's pipe pages.
    pub fn max_pipes(&self) -> usize {
        self.pool.max()
    }

    /// Returns the use of the relay's own limits. Makes no system call. Call it from no thread that carries flows.
    pub fn load(&self) -> Load {
        let mut load = Load {
            flows: self.counters.flows_now.load(Relaxed),
            max_flows: u64::try_from(self.permits.room()).unwrap_or(u64::MAX),
            ..self.pool.load()
        };
        load.count(&self.registry);
        load
    }

    /// Waits until no flow is left. To prevent new flows, wait for the listeners first.
    pub async fn ended(&self) {
        self.permits.returned().await;
    }

    /// Logs the number of held-back lines when no later line has reported it. Never ends; it may be dropped.
    pub async fn tell_held_back(&self) {
        self.lines.tell_held_back().await;
    }

    /// Logs the number of lines held back so far. Call it before the process ends.
    pub fn tell_all_held_back(&self) {
        self.lines.tell_all_held_back();
    }

    /// Returns the number of bytes that all flows have carried, live and ended.
    pub fn carried(&self) -> Tally {
        self.registry.carried()
    }

    /// Returns the counters, with the bytes of live and ended flows.
    pub fn counter_values(&self) -> CounterValues {
        self.counters.values(self.carried())
    }

    /// Writes the counters to the log, with the bytes of live and ended flows.
    pub fn log_counters(&self) {
        self.counter_values().log();
    }

    /// Cuts every open flow with RST on both legs, and resets the connections whose flow has not begun.
    pub fn cut(&self) {
        self.registry.cut_all();
        self.is_cut.send_replace(true);
    }

    /// Records whether the process waits for the live flows and accepts no new ones. FTP control connections end then, once
    /// they are quiet.
    pub fn drain(&self, is_draining: bool) {
        self.is_draining.send_replace(is_draining);
    }

    /// Returns whether the process [drains](Relay::drain), and each change.
    pub(crate) fn draining(&self) -> watch::Receiver<bool> {
        self.is_draining.subscribe()
    }

    /// Waits until [`cut`](Relay::cut) was called. The wait may be dropped.
    pub(crate) async fn is_cut(&self) {
        // This fails only when the sender is gone, and it is ours.
        let _ = self.is_cut.subscribe().wait_for(|is_cut| *is_cut).await;
    }

    /// Returns every live flow, the oldest first. Asks the kernel about both legs of each, six system calls: with
    /// thousands of flows that takes tens of milliseconds, so call it from no thread that carries flows.
    pub fn flows(&self) -> Vec<FlowState> {
        self.registry.snapshot()
    }

    /// Observes the legs of up to `max` of the oldest live flows from number `from` on, for the distributions of their tunnels: two
    /// system calls for each flow. Returns the number from which to go on: 0 after the last flow.
    pub fn sample_legs(&self, from: u64, max: usize) -> u64 {
        self.registry.sample(from, max)
    }

    /// Cuts flow `number` with RST on both legs. Returns whether it exists.
    pub fn kill(&self, number: u64) -> bool {
        self.registry.kill(number)
    }
}

/// Returns the number of flows that `descriptors` allow, after the pipes' share.
fn flows(descriptors: usize) -> usize {
    ((descriptors - 2 * Pool::share(descriptors)) / 2).clamp(1, u32::MAX as usize)
}
