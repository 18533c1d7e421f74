//! Sets keepalive as [`longhaul_core::silence`] decides it: a leg whose peer fell silent probes it after some
//! seconds, an idle leg once a minute.
//!
//! One thread, the sweep, looks at the flows once a second. It waits on a condition while there is nothing to look at:
//! - a flow younger than [`MIN_AGE`] is only in the registry, and makes no system call for keepalive;
//! - an older flow that carries bytes costs an atomic swap per second;
//! - a flow that falls silent is checked in the kernel (TCP_INFO), some seconds later;
//! - an idle flow is not looked at, and its next byte puts it on the list again.

use crate::leg::sample::silent_leg;
use crate::leg::stream::Stream;
use crate::live::flow::Flow;
use crate::live::registry::Registry;
use longhaul_config::options::{Leg, LegOptions, Setting, Value, key};
use longhaul_core::silence::{ACTIVE, Check, Keepalive, MIN_AGE, Silence};
use longhaul_sys::tcp_info::TcpInfo;
use std::os::fd::AsFd;
use std::sync::{Arc, LazyLock, OnceLock, Weak};
use std::time::{Duration, Instant};

/// Starts the sweep of the live flows when it is first needed.
#[derive(Debug)]
pub(crate) struct Sweep {
    registry: Arc<Registry>,
    thread: OnceLock<bool>,
}

/// State of the sweep's thread.
struct Sweeper {
    registry: Arc<Registry>,
    /// The lowest number of a flow that it has not taken yet.
    from: u64,
    watched: Vec<Watched>,
    /// Checks a silent leg in the kernel.
    check: fn(&Stream) -> Check,
}

/// A flow that is not idle.
struct Watched {
    flow: Weak<Flow>,
    silence: Silence,
}

impl Sweep {
    /// Returns a sweep of the flows in `registry`.
    pub(super) fn new(registry: &Arc<Registry>) -> Sweep {
        Sweep { registry: registry.clone(), thread: OnceLock::new() }
    }

    /// Starts the sweep for `flow`, both of whose legs are connected. A leg whose keepalive or user-timeout a user has
    /// set keeps it. If there is no thread for the sweep, the other legs get the presets of the table.
    pub(crate) fn begin(&self, flow: &Flow) {
        if is_ours(flow) && !self.is_swept() {
            Leg::ALL.into_iter().for_each(|leg| tell(flow, leg, &IDLE_SETTINGS));
        }
    }

    /// Starts the thread at the first call. Returns false when it could not be started.
    fn is_swept(&self) -> bool {
        *self.thread.get_or_init(|| {
            let sweeper = Sweeper::new(self.registry.clone(), check);
            std::thread::Builder::new().name("longhaul-sweep".into()).spawn(move || sweeper.run()).is_ok()
        })
    }
}

impl Sweeper {
    fn new(registry: Arc<Registry>, check: fn(&Stream) -> Check) -> Sweeper {
        Sweeper { registry, from: 1, watched: Vec::new(), check }
    }

    fn run(mut self) -> ! {
        loop {
            if self.watched.is_empty() {
                self.registry.wait(self.from);
            }
            std::thread::sleep(PERIOD);
            self.sweep(Instant::now());
        }
    }

    fn sweep(&mut self, now: Instant) {
        for flow in
            self.registry.take(&mut self.from, |flow| now.saturating_duration_since(flow.began.instant()) >= MIN_AGE)
        {
            self.watched.push(Watched { flow, silence: Silence::begin(now) });
        }
        self.watched.retain_mut(|watched| watched.look(now, self.check));
        if self.watched.capacity() > 2 * self.watched.len() + SPARE_ENTRIES {
            self.watched.shrink_to(self.watched.len() + SPARE_ENTRIES);
        }
    }
}

impl Watched {
    /// Sets the keepalive of the legs as the flow needs it now. Returns false when the sweep need not look at the flow:
    /// it is idle or has ended, or we set the keepalive of neither leg.
    fn look(&mut self, now: Instant, check: fn(&Stream) -> Check) -> bool {
        let Some(flow) = self.flow.upgrade().filter(|flow| is_ours(flow)) else { return false };
        if !flow.is_connected() {
            return true;
        }
        if flow.pulse.take_beat() {
            tell_some(&flow, self.silence.moved(now), &ACTIVE_SETTINGS);
            return true;
        }
        let Some(to_check) = self.silence.to_check(now) else { return true };
        let mut checks = [None; 2];
        for ((leg, is_due), result) in Leg::ALL.into_iter().zip(to_check).zip(&mut checks) {
            *result = if is_due { our_stream(&flow, leg).map(|socket| check(&socket)) } else { None };
        }
        tell_some(&flow, self.silence.checked(now, checks), &IDLE_SETTINGS);
        // The pump may have moved bytes meanwhile. Then the flow stays on the list, and the next look makes its legs
        // active.
        self.silence.is_in_doubt(now) || !flow.pulse.rest()
    }
}

/// Whether we set the keepalive of a leg of `flow`.
fn is_ours(flow: &Flow) -> bool {
    Leg::ALL.into_iter().any(|leg| flow.tunnel.options(leg).keepalive_is_ours())
}

/// Returns the connection of `leg`, if we set its keepalive and it is not closed.
fn our_stream(flow: &Flow, leg: Leg) -> Option<Arc<Stream>> {
    flow.stream(leg).filter(|_| flow.tunnel.options(leg).keepalive_is_ours())
}

/// Checks a silent leg in the kernel.
fn check(socket: &Stream) -> Check {
    // MPTCP before Linux 5.16 has no TCP_INFO. Then the leg counts as idle.
    TcpInfo::of(socket.as_fd()).map_or(Check::Idle, |info| silent_leg(&info).check())
}

/// Sets the keepalive of the legs for which `which` is true.
fn tell_some(flow: &Flow, which: [bool; 2], settings: &[Setting]) {
    for (leg, _) in Leg::ALL.into_iter().zip(which).filter(|(_, is_told)| *is_told) {
        tell(flow, leg, settings);
    }
}

/// Sets the keepalive of `leg`, if it is ours to set and the leg is not closed.
fn tell(flow: &Flow, leg: Leg, settings: &[Setting]) {
    let Some(socket) = our_stream(flow, leg) else { return };
    for setting in settings {
        // The start of the tunnel has tried each setting. Here it fails only on a broken connection.
        let _ = setting.tell(socket.as_fd());
    }
}

/// Returns the rows of the table with the values of `keepalive`.
fn settings(keepalive: &Keepalive) -> Vec<Setting> {
    let values = [keepalive.interval.as_secs(), keepalive.count.into(), keepalive.idle.as_secs()];
    presets().zip(values).map(|(preset, number)| Setting { value: Value::Number(number), ..preset }).collect()
}

/// Returns the table's presets in the order in which they are set. `keepalive-idle` is last, because it restarts the
/// timer.
fn presets() -> impl Iterator<Item = Setting> {
    let presets = LegOptions::default();
    [key::KEEPALIVE_INTERVAL, key::KEEPALIVE_COUNT, key::KEEPALIVE_IDLE]
        .into_iter()
        .filter_map(move |key| presets.find(key).cloned())
}

/// Settings of [`ACTIVE`].
static ACTIVE_SETTINGS: LazyLock<Vec<Setting>> = LazyLock::new(|| settings(&ACTIVE));
/// Settings of an idle leg: the presets of the table.
static IDLE_SETTINGS: LazyLock<Vec<Setting>> = LazyLock::new(|| presets().collect());

/// Interval between two looks of the sweep.
const PERIOD: Duration = Duration::from_secs(1);
/// Number of unused entries that the list keeps when it shrinks.
const SPARE_ENTRIES: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leg::stream::pair;
    use longhaul_config::Tunnel;
    use longhaul_config::options::row;
    use std::net::TcpStream;

    #[test]
    fn a_silent_peer_is_given_up_after_two_minutes_in_both_cases() {
        for settings in [&*ACTIVE_SETTINGS, &*IDLE_SETTINGS] {
            let [Value::Number(interval), Value::Number(count), Value::Number(idle)] =
                [0, 1, 2].map(|index| settings[index].value.clone())
            else {
                panic!("{settings:?}")
            };
            assert_eq!(idle + interval * count, 120, "{settings:?}");
        }
    }

    /// Returns both ends of a connection. The first is a leg.
    fn leg() -> (Arc<Stream>, TcpStream) {
        let (leg, peer) = pair();
        (Arc::new(leg), peer)
    }

    /// Returns the time until the first probe, in seconds; 0 means never.
    fn idle_s(leg: &Stream) -> Value {
        row(Leg::Dial, "keepalive-idle").unwrap().read(leg.as_fd()).unwrap().unwrap()
    }

    fn tunnel() -> Tunnel {
        Tunnel::new("silence", "127.0.0.1:1".parse().unwrap(), Vec::new())
    }

    /// Returns a sweep whose thread is the test. The clock is an argument, and `check` says when a peer has answered.
    fn swept_here(check: fn(&Stream) -> Check) -> (Sweep, Sweeper) {
        let registry = Arc::<Registry>::default();
        (Sweep { registry: registry.clone(), thread: OnceLock::from(true) }, Sweeper::new(registry, check))
    }

    /// Returns a flow of `tunnel` that is connected now.
    fn flow(sweep: &Sweep, tunnel: &Tunnel, accept: &Arc<Stream>, dial: &Arc<Stream>) -> Arc<Flow> {
        let flow = sweep.registry.add(Arc::new(tunnel.clone()), &Arc::default(), tunnel.listen, accept);
        flow.connected(0, tunnel.listen, dial);
        sweep.begin(&flow);
        flow
    }

    /// Records a moved byte, as a pump does for each fill.
    fn moved(sweep: &Sweep, flow: &Arc<Flow>) {
        if flow.pulse.beat() {
            sweep.registry.wake(flow);
        }
    }

    #[tokio::test]
    async fn keepalive_follows_the_flow() {
        let (sweep, mut sweeper) = swept_here(|_| Check::Idle);
        let ((accept, _client), (dial, _server)) = (leg(), leg());
        let flow = flow(&sweep, &tunnel(), &accept, &dial);
        let start = Instant::now();
        let mut at = |seconds| {
            sweeper.sweep(start + Duration::from_secs(seconds));
            assert_eq!(idle_s(&accept), idle_s(&dial));
            (idle_s(&dial), sweeper.watched.len())
        };
        assert_eq!(at(2), (Value::Number(0), 0), "young");
        assert_eq!(at(4), (Value::Number(5), 1), "active");
        assert_eq!(at(11), (Value::Number(5), 1), "still in doubt");
        moved(&sweep, &flow);
        assert_eq!(at(12), (Value::Number(5), 1), "active again");
        assert_eq!(at(19), (Value::Number(5), 1), "counted from the last byte");
        assert_eq!(at(20), (Value::Number(60), 0), "idle");
        assert_eq!(at(10_000), (Value::Number(60), 0));
        moved(&sweep, &flow);
        moved(&sweep, &flow);
        assert_eq!(at(10_001), (Value::Number(5), 1), "a byte wakes it, once");
        sweep.registry.remove(&flow);
        drop(flow);
        assert_eq!(at(10_002), (Value::Number(5), 0), "ended");
    }

    #[tokio::test]
    async fn a_leg_in_doubt_is_looked_at_again_and_a_byte_meanwhile_is_seen() {
        let (sweep, mut sweeper) = swept_here(|_| Check::InDoubt);
        let ((accept, _client), (dial, _server)) = (leg(), leg());
        let flow = flow(&sweep, &tunnel(), &accept, &dial);
        let start = Instant::now();
        for seconds in [4, 12, 17, 60, 3600] {
            sweeper.sweep(start + Duration::from_secs(seconds));
            assert_eq!((idle_s(&dial), sweeper.watched.len()), (Value::Number(5), 1), "{seconds} s");
        }
        // The kernel reports that a leg is idle. A byte moves while its keepalive is set.
        sweeper.check = |_| Check::Idle;
        let watched = &mut sweeper.watched[0];
        let later = start + Duration::from_secs(7200);
        watched.look(later, |_| Check::Idle);
        assert_eq!(idle_s(&dial), Value::Number(60));
        moved(&sweep, &flow);
        let mut none_else = u64::MAX;
        assert_eq!(sweep.registry.take(&mut none_else, |_| true).len(), 1, "it was idle");
    }

    #[tokio::test]
    async fn ended_flows_and_legs_with_options_of_a_user_are_never_sampled() {
        let (sweep, mut sweeper) = swept_here(|_| Check::Idle);
        let ((accept, _client), (dial, _server)) = (leg(), leg());
        let later = Instant::now() + Duration::from_secs(60);
        for option in ["keepalive-idle=77s", "keepalive-interval=7s", "keepalive-count=7", "user-timeout=7s"] {
            let mut tunnel = tunnel();
            let (key, value) = option.split_once('=').unwrap();
            tunnel.dial.set(Leg::Dial, key, value).unwrap();
            let one = flow(&sweep, &tunnel, &accept, &dial);
            sweeper.sweep(later);
            assert_eq!((idle_s(&accept), idle_s(&dial)), (Value::Number(5), Value::Number(0)), "{option}");
            sweep.registry.remove(&one);
            drop(one);
            tunnel.accept.set(Leg::Accept, key, value).unwrap();
            let _other = flow(&sweep, &tunnel, &accept, &dial);
            sweeper.sweep(later);
            assert!(sweeper.watched.is_empty(), "no leg of it is ours");
        }
        sweep.registry.remove(&flow(&sweep, &tunnel(), &accept, &dial));
        sweeper.sweep(later);
        assert!(sweeper.watched.is_empty(), "ended before it was old");
    }

    #[tokio::test]
    async fn a_flow_whose_dial_takes_long_has_keepalive_once_it_is_connected() {
        let (sweep, mut sweeper) = swept_here(|_| Check::Idle);
        let ((accept, _client), (dial, _server)) = (leg(), leg());
        let (tunnel, later) = (Arc::new(tunnel()), Instant::now() + Duration::from_secs(60));
        let flow = sweep.registry.add(tunnel.clone(), &Arc::default(), tunnel.listen, &accept);
        sweeper.sweep(later);
        assert_eq!((idle_s(&accept), sweeper.watched.len()), (Value::Number(0), 1));
        flow.connected(0, tunnel.listen, &dial);
        sweeper.sweep(later);
        assert_eq!((idle_s(&accept), idle_s(&dial)), (Value::Number(5), Value::Number(5)));
    }

    #[tokio::test]
    async fn where_no_thread_can_sweep_the_presets_hold_from_the_beginning() {
        let sweep = Sweep { registry: Arc::default(), thread: OnceLock::from(false) };
        let ((accept, _client), (dial, _server)) = (leg(), leg());
        let mut tunnel = tunnel();
        tunnel.dial.set(Leg::Dial, "keepalive-idle", "77s").unwrap();
        flow(&sweep, &tunnel, &accept, &dial);
        for preset in presets() {
            assert_eq!(preset.row.read(accept.as_fd()).unwrap(), Some(preset.value), "{}", preset.row.key);
        }
        assert_eq!(idle_s(&dial), Value::Number(0), "a user has set that leg's");
    }
}
