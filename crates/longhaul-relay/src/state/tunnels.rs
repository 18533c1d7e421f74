//! The tunnels that are served: one list, which listeners, checks, probes, loop guard and views read.

use crate::live::counters::{CounterValues, Counters};
use crate::live::distributions::Distributions;
use crate::live::flow::Flow;
use crate::live::registry::Registry;
use crate::live::saved::SavedHours;
use crate::live::verified::VerifyView;
use crate::names::Names;
use crate::state::load::TunnelLoad;
use crate::state::loop_guard::LoopGuard;
use crate::state::permits::Permits;
use crate::state::served_tunnel::ServedTunnel;
use longhaul_config::{NextHop, Tunnel};
use longhaul_core::health::{DataFacts, GoneAddress, HopFacts, StalledClients, TunnelFacts, Wait};
use longhaul_core::loops::Doubtful;
use longhaul_sys::route::takes_foreign;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::watch;
use tracing::info;

/// A list of tunnels, in the order of the configuration.
pub(crate) type List = Arc<[Arc<ServedTunnel>]>;

/// The tunnels that are served. Each change of the list is one step for every reader.
#[derive(Debug)]
pub struct Tunnels {
    list: watch::Sender<List>,
    /// What the tunnels share.
    pub(super) permits: Arc<Permits>,
    pub(crate) names: Names,
    pub(crate) loop_guard: LoopGuard,
    counters: Arc<Counters>,
    registry: Arc<Registry>,
}

/// A tunnel that is served, at one moment.
#[derive(Clone, Debug)]
pub struct TunnelView {
    /// Its settings.
    pub settings: Arc<Tunnel>,
    /// The address that its listener needs, if it is not of this host any more.
    pub gone_address: Option<GoneAddress>,
    /// The state of each next hop, in the order of `to`.
    pub hops: Vec<HopFacts>,
    /// The client whose flows may be the tunnel's own, come back through another relay.
    pub looped: Option<Doubtful>,
    /// The wait of its clients in the listen queue, because it may not have another flow now. `None` while none waits.
    pub waiting: Option<Wait>,
    /// Its clients whose flows carry bytes, if all of them owe an answer. `None` otherwise.
    pub stalled_clients: Option<StalledClients>,
    /// The latest problem of its FTP data connections. `None` if there was none lately.
    pub data_problem: Option<DataFacts>,
    /// The results of the daemon's own probes. `None` without `verify`.
    pub probes: Option<VerifyView>,
    /// The distributions over its flows.
    pub distributions: Arc<Distributions>,
    /// The time that the relays have saved its flows.
    pub saved: SavedHours,
    counters: Arc<Counters>,
}

impl TunnelView {
    /// Returns the facts that the rules of health read.
    pub fn facts(&self) -> TunnelFacts<'_> {
        TunnelFacts {
            name: &self.settings.name,
            gone_address: self.gone_address,
            hops: &self.hops,
            looped: self.looped,
            waiting: self.waiting,
            stalled_clients: self.stalled_clients,
            data_problem: self.data_problem.as_ref(),
            checked_within: self.settings.check.found_within(),
            probes: self.probes.as_ref().map(|view| &view.facts),
        }
    }
}

impl Tunnels {
    /// Returns an empty list for a process with `flows` permits, these counters and these live flows.
    pub(super) fn new(flows: usize, counters: &Arc<Counters>, registry: &Arc<Registry>) -> Tunnels {
        Tunnels {
            list: watch::Sender::default(),
            permits: Permits::new(flows),
            names: Names::default(),
            loop_guard: LoopGuard::default(),
            counters: counters.clone(),
            registry: registry.clone(),
        }
    }

    /// Returns a new tunnel with `settings`, which is not served yet.
    pub(crate) fn open(&self, settings: Arc<Tunnel>) -> Arc<ServedTunnel> {
        Arc::new(ServedTunnel::new(settings, &self.permits, &self.counters))
    }

    /// Serves `tunnels` from now on, and no others.
    pub(crate) fn set(&self, tunnels: Vec<Arc<ServedTunnel>>) {
        // Before the list, because a flow may dial at once. The hops of the tunnels before stay until the next reload, because
        // their last flows may dial just now.
        self.loop_guard.know(self.list().iter().chain(&tunnels));
        self.permits.serve(tunnels.iter().map(|tunnel| (&*tunnel.permits, tunnel.settings.max_flows)));
        tunnels.iter().for_each(|tunnel| tunnel.hops.keep(&tunnel.settings));
        self.list.send_replace(tunnels.into());
    }

    /// Ends every listener. Views go on to show the tunnels.
    pub(crate) fn close(&self) {
        self.list.send_modify(|list| *list = list.iter().map(|tunnel| Arc::new(tunnel.closed())).collect());
    }

    /// Returns the tunnels that are served.
    pub(crate) fn list(&self) -> List {
        self.list.borrow().clone()
    }

    /// Returns a receiver of each change of the list.
    pub(crate) fn changes(&self) -> watch::Receiver<List> {
        self.list.subscribe()
    }

    /// Whether `tunnel` is in the list, with these settings.
    pub(crate) fn is_listed(&self, tunnel: &Arc<ServedTunnel>) -> bool {
        has(&self.list.borrow(), tunnel)
    }

    /// Runs `task` in the background as long as `tunnel` is in the list.
    pub(crate) fn run_while_listed(&self, tunnel: &Arc<ServedTunnel>, task: impl Future<Output = ()> + Send + 'static) {
        let (mut list, tunnel) = (self.list.subscribe(), tunnel.clone());
        tokio::spawn(async move {
            let is_gone = |list: &List| !has(list, &tunnel);
            // Dropping the task is how it ends. The wait fails only when the relay is gone.
            tokio::select! {
                _ = list.wait_for(is_gone) => {}
                () = task => {}
            }
        });
    }

    /// Returns the number of tunnels that are served.
    pub fn count(&self) -> usize {
        self.list().len()
    }

    /// Returns the use of the limit of each tunnel that has flows, by name.
    pub(super) fn loads(&self) -> Vec<TunnelLoad> {
        let load = |tunnel: &Arc<ServedTunnel>| TunnelLoad {
            name: tunnel.settings.name.clone(),
            flows: tunnel.permits.used().0 as u64,
            max_flows: tunnel.settings.max_flows.map(|max| max as u64),
        };
        let mut loads: Vec<TunnelLoad> = self.list().iter().map(load).filter(|load| load.flows > 0).collect();
        loads.sort_by(|one, other| one.name.cmp(&other.name));
        loads
    }

    /// Whether dialling `address` would come back to `tunnel`: see [`LoopGuard::leads_back`].
    ///
    /// # Errors
    /// The kernel did not say whether an address is this host's.
    pub(crate) fn leads_back(&self, tunnel: &Tunnel, address: SocketAddr) -> longhaul_sys::Result<bool> {
        self.loop_guard.leads_back(&self.list(), tunnel, address)
    }

    /// Returns every tunnel that is served, in the order of the configuration. It costs the same however many flows live, and two
    /// system calls for each tunnel.
    pub fn views(&self) -> Vec<TunnelView> {
        self.list().iter().map(|tunnel| self.view(tunnel)).collect()
    }

    fn view(&self, tunnel: &ServedTunnel) -> TunnelView {
        let ServedTunnel { settings, hops, waiting_clients, data_problem, history, absence, needed, counters, .. } =
            tunnel;
        let is_here = |address| self.loop_guard.here.has(address);
        let stalled = counters.stalled.get();
        let stalled_clients = stalled.clients.and_then(|(last, clients)| {
            let since = SystemTime::now().checked_sub(last.elapsed())?;
            Some(StalledClients { first: *clients.first()?, more: clients.len() - 1, since })
        });
        let looped = tunnel.loops.suspecting().and_then(|watch| watch.view(Instant::now()));
        let mut hops = hops.view(settings, &self.names, &stalled.hops);
        if let Some(Doubtful { next_hop: Some(address), age, .. }) = looped {
            let is_it = |known: SocketAddr| known.port() == address.port() && known.ip() == address.ip();
            for (hop, facts) in settings.to.iter().zip(&mut hops) {
                facts.looped_for = self.loop_guard.is_one_of(hop, is_it).then_some(age);
            }
        }
        TunnelView {
            settings: settings.clone(),
            gone_address: absence.look(*needed, is_here, takes_foreign, SystemTime::now()),
            looped,
            hops,
            stalled_clients,
            waiting: waiting_clients.view(),
            data_problem: data_problem.view(),
            probes: history.as_ref().map(|history| history.view()),
            distributions: counters.distributions.clone(),
            saved: counters.saved.hours(),
            counters: counters.clone(),
        }
    }

    /// Ends the doubts about clients with a live flow that is answered by now: nobody answers in a loop. Also ends the doubts about next hops
    /// that reset flows, if one answers a later flow, or if a probe finds that the tunnel is whole.
    pub fn end_doubts(&self) {
        let now = Instant::now();
        for tunnel in &*self.list() {
            for (hop, resets) in tunnel.hops.resets(&tunnel.settings, now) {
                // With several next hops, nobody knows which way the probe went.
                let history = tunnel.history.as_ref().filter(|_| tunnel.settings.to.len() == 1);
                let is_refuted =
                    history.is_some_and(|history| history.view().facts.refutes(&resets, SystemTime::now()));
                if is_refuted || self.answers_within(tunnel, hop, resets.age) {
                    tunnel.hops.answers(hop);
                }
            }
            if tunnel.loops.suspecting().is_none() {
                continue;
            }
            let doubtful = tunnel.loops.change(|watch| {
                watch.forget_old(now);
                watch.view(now)
            });
            let Some(Doubtful { from, .. }) = doubtful else { continue };
            if self.answers(tunnel, from) {
                tunnel.loops.change(|watch| watch.answered(from, now));
            }
        }
    }

    /// Whether a live flow of `tunnel` that `from` began is answered.
    pub(crate) fn answers(&self, tunnel: &ServedTunnel, from: IpAddr) -> bool {
        // A flow from before a reload may lead elsewhere.
        self.any_is_answered(tunnel, |flow| flow.tunnel.to == tunnel.settings.to && flow.began_by(from))
    }

    /// Whether `hop` has answered a live flow of `tunnel` that is younger than `age`.
    fn answers_within(&self, tunnel: &ServedTunnel, hop: &NextHop, age: Duration) -> bool {
        self.any_is_answered(tunnel, |flow| {
            let is_younger = flow.began.elapsed() < age && !flow.client.is_data();
            is_younger && flow.next_hop().is_some_and(|(to, _)| to == hop)
        })
    }

    fn any_is_answered(&self, tunnel: &ServedTunnel, is_wanted: impl Fn(&Flow) -> bool) -> bool {
        let mut is_answered = false;
        self.registry.visit_all(|flow| {
            let is_here = Arc::ptr_eq(&flow.counters, &tunnel.counters);
            is_answered |= is_here && is_wanted(flow) && flow.is_answered();
        });
        is_answered
    }

    /// Returns the counters of each tunnel of `views`, with the bytes of its live and ended flows.
    pub fn counter_values(&self, views: &[TunnelView]) -> Vec<CounterValues> {
        let counters: Vec<&Arc<Counters>> = views.iter().map(|view| &view.counters).collect();
        let carried = self.registry.carried_by(&counters);
        counters.iter().zip(carried).map(|(counters, carried)| counters.values(carried)).collect()
    }

    /// Returns whether a listener accepts nothing although the process runs: by the probes of a tunnel with `verify`.
    pub fn is_stuck(&self) -> bool {
        self.list().iter().filter_map(|tunnel| tunnel.history.as_ref()).any(|history| history.is_stuck())
    }

    /// Writes one line to the log for each next hop of a tunnel that has several or checks them.
    pub(super) fn log(&self) {
        let is_told = |view: &TunnelView| view.hops.len() > 1 || view.settings.check.by.is_some();
        for TunnelView { settings: tunnel, hops, .. } in self.views().into_iter().filter(is_told) {
            for HopFacts { next_hop, choice: view, .. } in hops {
                info!(
                    tunnel = %tunnel.name,
                    %next_hop,
                    state = %view.state.text(),
                    seconds = view.age.as_secs(),
                    flows_now = view.flows,
                    rtt_ms = view.rtt.map(|rtt| rtt.as_micros() as f64 / 1e3),
                    failed_dials = view.failures,
                    "next hop"
                );
            }
        }
    }
}

fn has(list: &List, tunnel: &Arc<ServedTunnel>) -> bool {
    list.iter().any(|listed| Arc::ptr_eq(listed, tunnel))
}

#[cfg(test)]
mod tests {
    use crate::state::shared::Relay;
    use longhaul_config::{NextHop, Tunnel};
    use longhaul_core::loops::{Sign, Tested};
    use std::net::SocketAddr;
    use std::sync::Arc;
    use std::time::Instant;

    #[test]
    fn of_several_next_hops_the_one_that_a_test_dialled_is_doubtful() {
        let relay = Relay::new(100);
        let [one, two, named] = ["192.0.2.1", "192.0.2.2", "two.example"].map(|host| NextHop::new(host, 1));
        let settings = Tunnel::new("a", "127.0.0.1:1".parse().unwrap(), vec![one, two, named.clone()]);
        let tunnel = relay.tunnels.open(Arc::new(settings));
        relay.tunnels.set(vec![tunnel.clone()]);
        let of_two = SocketAddr::from(([192, 0, 2, 2], 1));
        relay.tunnels.loop_guard.resolved(&named, &[of_two]);
        let looped = || relay.tunnels.view(&tunnel).hops.iter().map(|hop| hop.looped_for.is_some()).collect::<Vec<_>>();
        let (from, now) = (of_two.ip(), Instant::now());
        tunnel.loops.change(|watch| watch.comes_from(from, now));
        assert_eq!(looped(), [false; 3], "no test has shown which one");
        tunnel.loops.change(|watch| {
            watch.dials(of_two);
            watch.tested(from, Tested::Back(Sign::Returns), now);
        });
        assert_eq!(looped(), [false, true, true], "by its address and by its name");
    }
}
