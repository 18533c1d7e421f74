//! State that all tunnels of the process share: counters, permits, pipes, the live flows.

use crate::caps::{CapsNow, Governor, PathView};
use crate::leg::hangups::Hangups;
use crate::leg::low_water::Marks;
use crate::live::counters::{CounterValues, Counters};
use crate::live::diagnosis::Diagnoses;
use crate::live::flow::FlowState;
use crate::live::registry::Registry;
use crate::live::tally::Tally;
use crate::live::throttle::Lines;
use crate::state::budget::Budget;
use crate::state::listeners::Listeners;
use crate::state::load::Load;
use crate::state::pool::Pool;
use crate::state::probes::Probes;
use crate::state::silence::Sweep;
use crate::state::tunnels::Tunnels;
use longhaul_config::Tunnel;
use longhaul_sys::limits;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::watch;

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
    /// What limits them.
    pub(crate) diagnoses: Diagnoses,
    pub(crate) sweep: Sweep,
    pub(crate) governor: Governor,
    /// The tunnels that are served.
    pub tunnels: Tunnels,
    /// The tasks of the listeners. Locked for a whole reload.
    pub(crate) listeners: Mutex<Listeners>,
    /// Probes: their limits, the key, and the daemon's own.
    pub(crate) probes: Probes,
    /// The range from which the kernel chooses a port for a socket that names none, as of the last start or reload. Only a dial to a
    /// port of this range can connect to itself.
    pub(crate) local_ports: Mutex<RangeInclusive<u16>>,
    /// Whether the log has reported that splice is refused.
    pub(crate) splice_refused: AtomicBool,
    /// Throttled log lines.
    pub(crate) lines: Lines,
    /// Whether every connection is to be cut, for those whose flow has not begun.
    is_cut: watch::Sender<bool>,
    /// Whether no new flow is accepted, and the process waits for the live ones. FTP control connections end then, once they are
    /// quiet.
    is_draining: watch::Sender<bool>,
}

impl Relay {
    /// Returns a relay that divides `descriptors` among flows and pipes. Pass what RLIMIT_NOFILE leaves after
    /// everything else that the process opens.
    pub fn new(descriptors: usize) -> Arc<Relay> {
        let (registry, counters) = Default::default();
        Arc::new(Relay {
            tunnels: Tunnels::new(flows(descriptors), &counters, &registry),
            counters,
            pool: Pool::new(descriptors, limits::pipe_pages_soft()),
            budget: Budget::default(),
            marks: Arc::default(),
            hangups: Arc::default(),
            sweep: Sweep::new(&registry),
            governor: Governor::new(&registry),
            registry,
            diagnoses: Diagnoses::default(),
            listeners: Mutex::default(),
            probes: Probes::default(),
            local_ports: Mutex::new(0..=u16::MAX),
            splice_refused: AtomicBool::new(false),
            lines: Lines::default(),
            is_cut: watch::Sender::new(false),
            is_draining: watch::Sender::new(false),
        })
    }

    /// Divides `descriptors` anew. `None` if their number is not known: then the shares stay. Live flows keep theirs. If there are
    /// more flows than now fit, no new flow begins until enough have ended.
    ///
    /// `max_flows` is the limit of the process. With `None` the descriptors decide.
    pub fn share_out(&self, descriptors: Option<usize>, max_flows: Option<usize>) {
        self.tunnels.permits.limit(max_flows);
        if let Some(descriptors) = descriptors {
            self.tunnels.permits.set(flows(descriptors));
            self.pool.share_out(descriptors);
        }
    }

    /// Returns the maximum number of flows, by the descriptors and `max_flows` of the process.
    pub fn max_flows(&self) -> usize {
        self.tunnels.permits.all()
    }

    /// Returns the maximum number of pipes, by the descriptors and the user's pipe pages.
    pub fn max_pipes(&self) -> usize {
        self.pool.max()
    }

    /// Returns the use of the relay's own limits. Makes no system call. Call it from no thread that carries flows.
    pub fn load(&self) -> Load {
        let mut load = Load {
            flows: self.counters.flows_now.load(Relaxed),
            max_flows: u64::try_from(self.tunnels.permits.room()).unwrap_or(u64::MAX),
            tunnels: self.tunnels.loads(),
            ..self.pool.load()
        };
        load.count(&self.registry);
        load
    }

    /// Waits until no flow is left. To prevent new flows, wait for the listeners first.
    pub async fn ended(&self) {
        self.tunnels.permits.returned().await;
    }

    /// Logs the number of held-back lines when no later line has reported it. Never ends; it may be dropped.
    pub async fn tell_held_back(&self) {
        self.lines.tell_held_back().await;
    }

    /// Logs the number of lines held back so far. Call it before the process ends.
    pub fn tell_all_held_back(&self) {
        self.lines.tell_all_held_back();
    }

    /// Returns the counters, with the bytes of live and ended flows.
    pub fn counter_values(&self) -> CounterValues {
        self.counters.values(self.registry.carried())
    }

    /// Writes to the log the state of the next hops of tunnels that have several, and the counters.
    pub fn report(&self) {
        self.tunnels.log();
        self.log_counters();
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

    /// Waits until [`cut`](Relay::cut) was called. The wait may be dropped.
    pub(crate) async fn is_cut(&self) {
        // This fails only when the sender is gone, and it is ours.
        let _ = self.is_cut.subscribe().wait_for(|is_cut| *is_cut).await;
    }

    /// Sets whether no new flow is accepted, and the process waits for the live ones.
    pub(crate) fn set_draining(&self, is_draining: bool) {
        self.is_draining.send_replace(is_draining);
    }

    /// Returns a receiver that is true while no new flow is accepted, and the process waits for the live ones.
    pub(crate) fn draining(&self) -> watch::Receiver<bool> {
        self.is_draining.subscribe()
    }

    /// Returns every live flow, the oldest first. Asks the kernel about both legs of each, six system calls: with
    /// thousands of flows that takes tens of milliseconds, so call it from no thread that carries flows.
    pub fn flows(&self) -> Vec<FlowState> {
        let mut states = Vec::new();
        self.registry.visit_all(|flow| {
            let (finding, gain) = self.diagnoses.of(flow);
            states.push(FlowState { finding: Some(finding), gain, ..flow.state() });
        });
        states
    }

    /// Observes the legs of up to `max` of the oldest live flows from number `from` on, for the distributions of their tunnels: two
    /// system calls for each flow. Returns the number from which to go on: 0 after the last flow.
    pub fn sample_legs(&self, from: u64, max: usize) -> u64 {
        self.registry.visit_from(from, max, |flow| flow.sample())
    }

    /// Looks for what limits about `max` of the oldest live flows that carry bytes, from number `from` on: two system calls for each. Visits
    /// 20 times as many at most. Returns the number from which to go on: 0 after the last flow.
    pub fn diagnose(&self, mut from: u64, max: usize) -> u64 {
        let (now, mut looked) = (Instant::now(), 0);
        self.diagnoses.look_at_processor(now);
        for _ in 0..20 {
            from = self.registry.visit_from(from, max, |flow| looked += usize::from(self.diagnoses.look(flow, now)));
            if from == 0 || looked >= max {
                break;
            }
        }
        if from == 0 {
            self.diagnoses.forget_ended();
        }
        from
    }

    /// Shows every live flow to `look`: its number, the tunnel as it was when it began, its age, and the bytes that it has carried. Makes
    /// no system call.
    pub fn look_at_flows(&self, mut look: impl FnMut(u64, &Tunnel, Duration, Tally)) {
        self.registry.visit_all(|flow| look(flow.number, &flow.tunnel, flow.began.elapsed(), flow.tally()));
    }

    /// Shows to `look` the tunnel's name and the round-trip time of the WAN leg, the longer one, of up to `max` of the oldest live flows
    /// from number `from` on, without those that have sent nothing lately: two system calls for each flow. Returns the number from which
    /// to go on: 0 after the last flow.
    pub fn look_at_wan(&self, from: u64, max: usize, mut look: impl FnMut(&str, Duration)) -> u64 {
        self.registry.visit_from(from, max, |flow| {
            flow.wan_rtt().into_iter().for_each(|rtt| look(&flow.tunnel.name, rtt));
        })
    }

    /// Waits until a next hop or the clients of a tunnel have stopped answering flows that carry bytes. The wait may be dropped. Only one
    /// may wait.
    pub async fn outage(&self) {
        self.sweep.outage().await;
    }

    /// Returns the cap of the daemon, and the time of the week, which decides on the caps with a schedule.
    pub fn caps(&self) -> CapsNow {
        self.governor.caps()
    }

    /// Returns the paths whose caps are found by themselves (`bandwidth = "auto"`).
    pub fn paths(&self) -> Vec<PathView> {
        self.governor.paths()
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
