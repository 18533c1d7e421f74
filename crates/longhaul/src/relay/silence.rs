//! Keepalive that follows the flow: decides when to probe a silent peer.
//!
//! A RST is one packet that is never retransmitted. If it is lost, a peer that only receives does not notice until its
//! kernel sends a probe. So a leg that was active and fell silent probes its peer after 5 s, and again every 5 s until
//! it gets an answer. Then the leg is idle, and probes once a minute. In both cases a peer that never answers is given
//! up after 120 s (see [`ACTIVE`]).
//!
//! One thread, the sweep, looks at the flows once a second. It waits on a condition while there is nothing to look at:
//! - a flow younger than [`MIN_AGE`] is only in the registry, and makes no system call for keepalive;
//! - an older flow that carries bytes costs an atomic swap per second;
//! - a flow that falls silent is checked in the kernel (TCP_INFO), some seconds later;
//! - an idle flow is not looked at, and its next byte puts it on the list again.

use super::registry::{Flow, Registry};
use super::stream::Stream;
use longhaul_config::options::{Leg, LegOptions, Setting, Value};
use longhaul_sys::tcp_info::TcpInfo;
use std::os::fd::AsFd;
use std::sync::{Arc, LazyLock, OnceLock, Weak};
use std::time::{Duration, Instant};

/// Starts the sweep of the live flows when it is first needed.
#[derive(Debug)]
pub(super) struct Sweep {
    registry: Arc<Registry>,
    thread: OnceLock<bool>,
}

/// State of the sweep's thread.
struct Sweeper {
    registry: Arc<Registry>,
    /// The lowest number of a flow that it has not taken yet.
    from: u64,
    watched: Vec<Watched>,
    /// Returns `None` when a leg's peer has answered a probe. Otherwise returns the time until the next check.
    next_check: fn(&Stream) -> Option<Duration>,
}

/// A flow that is not idle.
struct Watched {
    flow: Weak<Flow>,
    /// Time of the next check in the kernel, unless bytes move before.
    due: Instant,
    /// Whether the keepalive of each leg is [`ACTIVE`].
    active: [bool; 2],
}

impl Sweep {
    /// Returns a sweep of the flows in `registry`.
    pub(super) fn new(registry: &Arc<Registry>) -> Sweep {
        Sweep { registry: registry.clone(), thread: OnceLock::new() }
    }

    /// Starts the sweep for `flow`, both of whose legs are connected. A leg whose keepalive or user-timeout a user has
    /// set keeps it. If there is no thread for the sweep, the other legs get the presets of the table.
    pub(super) fn begin(&self, flow: &Flow) {
        if is_ours(flow) && !self.is_swept() {
            Leg::ALL.into_iter().for_each(|leg| tell(flow, leg, &IDLE_SETTINGS));
        }
    }

    /// Starts the thread at the first call. Returns false when it could not be started.
    fn is_swept(&self) -> bool {
        *self.thread.get_or_init(|| {
            let sweeper = Sweeper::new(self.registry.clone(), next_check);
            std::thread::Builder::new().name("longhaul-sweep".into()).spawn(move || sweeper.run()).is_ok()
        })
    }
}

impl Sweeper {
    fn new(registry: Arc<Registry>, next_check: fn(&Stream) -> Option<Duration>) -> Sweeper {
        Sweeper { registry, from: 1, watched: Vec::new(), next_check }
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
        for flow in self.registry.take(&mut self.from, |flow| now.saturating_duration_since(flow.began) >= MIN_AGE) {
            self.watched.push(Watched { flow, due: now, active: [false; 2] });
        }
        self.watched.retain_mut(|watched| watched.look(now, self.next_check));
        if self.watched.capacity() > 2 * self.watched.len() + SPARE_ENTRIES {
            self.watched.shrink_to(self.watched.len() + SPARE_ENTRIES);
        }
    }
}

impl Watched {
    /// Sets the keepalive of the legs as the flow needs it now. Returns false when the sweep need not look at the flow:
    /// it is idle or has ended, or we set the keepalive of neither leg.
    fn look(&mut self, now: Instant, next_check: fn(&Stream) -> Option<Duration>) -> bool {
        let Some(flow) = self.flow.upgrade().filter(|flow| is_ours(flow)) else { return false };
        if !flow.is_connected() {
            return true;
        }
        if flow.pulse.take_beat() {
            for (leg, active) in Leg::ALL.into_iter().zip(&mut self.active) {
                if !std::mem::replace(active, true) {
                    tell(&flow, leg, &ACTIVE_SETTINGS);
                }
            }
            self.due = now + SETTLED;
            return true;
        }
        if now < self.due {
            return true;
        }
        for (leg, active) in Leg::ALL.into_iter().zip(&mut self.active) {
            let Some(socket) = our_stream(&flow, leg).filter(|_| *active) else { continue };
            match next_check(&socket) {
                Some(pause) => self.due = now + pause,
                None => {
                    tell(&flow, leg, &IDLE_SETTINGS);
                    *active = false;
                }
            }
        }
        // The pump may have moved bytes meanwhile. Then the flow stays on the list, and the next look makes its legs
        // active.
        self.due > now || !flow.pulse.rest()
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

/// Checks a leg in the kernel whose flow moved no byte for [`SETTLED`] while [`ACTIVE`] was in force. Returns `None`
/// when its peer has answered, otherwise the time until the next check.
fn next_check(socket: &Stream) -> Option<Duration> {
    // MPTCP before Linux 5.16 has no TCP_INFO. Then the leg counts as idle after [`SETTLED`].
    TcpInfo::of(socket.as_fd()).ok().and_then(|info| look_again(&info))
}

fn look_again(info: &TcpInfo) -> Option<Duration> {
    let silent = info.last_data_sent.min(info.last_data_received);
    // An unanswered probe stays counted. With a keepalive-count smaller than that count, the kernel would give the peer
    // up at once (net/ipv4/tcp_timer.c, tcp_keepalive_timer).
    let unanswered = info.probes > 0;
    // While bytes are unsent or unacknowledged, the kernel sends no keepalive probes: retransmissions and window probes
    // take their place (same function).
    let is_busy = info.unacked_segments > 0 || info.notsent_bytes > 0;
    match !unanswered && (silent >= STALLED || (silent >= SETTLED && !is_busy)) {
        true => None,
        false => Some(ACTIVE.idle),
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

/// Times of keepalive. A silent peer is given up after `idle + interval * count`.
struct Keepalive {
    idle: Duration,
    interval: Duration,
    count: u64,
}

impl Keepalive {
    /// Returns the rows of the table with these values.
    fn settings(&self) -> Vec<Setting> {
        let values = [self.interval.as_secs(), self.count, self.idle.as_secs()];
        presets().zip(values).map(|(preset, number)| Setting { value: Value::Number(number), ..preset }).collect()
    }
}

/// Returns the table's presets in the order in which they are set. `keepalive-idle` is last, because it restarts the
/// timer.
fn presets() -> impl Iterator<Item = Setting> {
    let presets = LegOptions::default();
    ["keepalive-interval", "keepalive-count", "keepalive-idle"]
        .into_iter()
        .filter_map(move |key| presets.find(key).cloned())
}

/// Keepalive of a leg that is active or has just fallen silent. The first three probes are sent within 15 s. 5 s + 23 x
/// 5 s = 120 s, as with the presets of the table, 60 s + 4 x 15 s.
const ACTIVE: Keepalive = Keepalive { idle: Duration::from_secs(5), interval: Duration::from_secs(5), count: 23 };
/// Settings of [`ACTIVE`].
static ACTIVE_SETTINGS: LazyLock<Vec<Setting>> = LazyLock::new(|| ACTIVE.settings());
/// Settings of an idle leg: the presets of the table.
static IDLE_SETTINGS: LazyLock<Vec<Setting>> = LazyLock::new(|| presets().collect());

/// Interval between two looks of the sweep.
const PERIOD: Duration = Duration::from_secs(1);
/// Age from which on a flow gets keepalive from the sweep.
const MIN_AGE: Duration = Duration::from_secs(3);
/// Silence after which the first probe of [`ACTIVE`] has its answer, with an RTT of up to 2 s and late timers.
const SETTLED: Duration = Duration::from_secs(8);
/// Silence after which a leg is idle even though bytes wait in it, because its peer does not read.
const STALLED: Duration = Duration::from_secs(60);
/// Number of unused entries that the list keeps when it shrinks.
const SPARE_ENTRIES: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_config::Tunnel;
    use longhaul_config::options::row;
    use std::net::{TcpListener, TcpStream};

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

    #[test]
    fn a_leg_is_idle_once_its_peer_has_answered() {
        let answered = TcpInfo { last_data_sent: SETTLED, last_data_received: SETTLED, ..TcpInfo::default() };
        assert_eq!(look_again(&answered), None);
        let not_yet = [
            ("a probe is not answered", TcpInfo { probes: 1, ..answered }),
            ("sent a moment ago", TcpInfo { last_data_sent: SETTLED / 2, ..answered }),
            ("received a moment ago", TcpInfo { last_data_received: SETTLED / 2, ..answered }),
            ("not acknowledged", TcpInfo { unacked_segments: 1, ..answered }),
            ("not sent", TcpInfo { notsent_bytes: 1, ..answered }),
        ];
        for (what, info) in not_yet {
            assert_eq!(look_again(&info), Some(ACTIVE.idle), "{what}");
        }
        let stalled = TcpInfo { last_data_sent: STALLED, last_data_received: STALLED, notsent_bytes: 1, ..answered };
        assert_eq!(look_again(&stalled), None, "its peer does not read");
        assert_eq!(look_again(&TcpInfo { probes: 1, ..stalled }), Some(ACTIVE.idle), "a window probe is not answered");
    }

    /// Returns both ends of a connection. The first is a leg.
    fn leg() -> (Arc<Stream>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let leg = listener.accept().unwrap().0;
        leg.set_nonblocking(true).unwrap();
        (Arc::new(Stream::new(leg.into()).unwrap()), peer)
    }

    /// Returns the time until the first probe, in seconds; 0 means never.
    fn idle_s(leg: &Stream) -> Value {
        row(Leg::Dial, "keepalive-idle").unwrap().read(leg.as_fd()).unwrap().unwrap()
    }

    fn tunnel() -> Tunnel {
        Tunnel::new("silence", "127.0.0.1:1".parse().unwrap(), Vec::new())
    }

    /// Returns a sweep whose thread is the test. The clock is an argument, and `next_check` says when a peer has answered.
    fn swept_here(next_check: fn(&Stream) -> Option<Duration>) -> (Sweep, Sweeper) {
        let registry = Arc::<Registry>::default();
        (Sweep { registry: registry.clone(), thread: OnceLock::from(true) }, Sweeper::new(registry, next_check))
    }

    /// Returns a flow of `tunnel` that is connected now.
    fn flow(sweep: &Sweep, tunnel: &Tunnel, accept: &Arc<Stream>, dial: &Arc<Stream>) -> Arc<Flow> {
        let flow = sweep.registry.add(Arc::new(tunnel.clone()), tunnel.listen, accept);
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
        let (sweep, mut sweeper) = swept_here(|_| None);
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
        let (sweep, mut sweeper) = swept_here(|_| Some(ACTIVE.idle));
        let ((accept, _client), (dial, _server)) = (leg(), leg());
        let flow = flow(&sweep, &tunnel(), &accept, &dial);
        let start = Instant::now();
        for seconds in [4, 12, 17, 60, 3600] {
            sweeper.sweep(start + Duration::from_secs(seconds));
            assert_eq!((idle_s(&dial), sweeper.watched.len()), (Value::Number(5), 1), "{seconds} s");
        }
        // The kernel reports that a leg is idle. A byte moves while its keepalive is set.
        sweeper.next_check = |_| None;
        let watched = &mut sweeper.watched[0];
        let later = start + Duration::from_secs(7200);
        watched.look(later, |_| None);
        assert_eq!(idle_s(&dial), Value::Number(60));
        moved(&sweep, &flow);
        let mut none_else = u64::MAX;
        assert_eq!(sweep.registry.take(&mut none_else, |_| true).len(), 1, "it was idle");
    }

    #[tokio::test]
    async fn what_a_user_has_set_and_what_has_ended_is_never_looked_at() {
        let (sweep, mut sweeper) = swept_here(|_| None);
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
        let (sweep, mut sweeper) = swept_here(|_| None);
        let ((accept, _client), (dial, _server)) = (leg(), leg());
        let (tunnel, later) = (Arc::new(tunnel()), Instant::now() + Duration::from_secs(60));
        let flow = sweep.registry.add(tunnel.clone(), tunnel.listen, &accept);
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
