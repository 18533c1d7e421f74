//! The governor with real sockets, whose limits the kernel reports. The clock is the test's.

use super::desk::{News, pace};
use super::paths::{Sink, WanSink};
use super::rules::Rules;
use super::*;
use crate::leg::stream::{Stream, pair};
use longhaul_config::NextHop;
use longhaul_config::options::Leg;
use longhaul_core::caps::{Weekday, Window};
use longhaul_sys::sockopt;
use longhaul_units::Rate;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicU16;
use std::time::{Duration, Instant};

/// Returns both ends of a connection. The first is a leg.
fn leg() -> (Arc<Stream>, TcpStream) {
    let (leg, peer) = pair();
    (Arc::new(leg), peer)
}

/// A connected flow of a tunnel, with its sockets.
struct Live {
    flow: Arc<Flow>,
    legs: [Arc<Stream>; 2],
    _peers: [TcpStream; 2],
}

fn begin(registry: &Registry, governor: &Governor, tunnel: &Arc<Tunnel>) -> Live {
    let ((accept, client), (dial, server)) = (leg(), leg());
    let flow = registry.add(tunnel.clone(), &Arc::default(), tunnel.listen, &accept);
    flow.connected(0, tunnel.listen, &dial);
    governor.begin(&flow);
    Live { flow, legs: [accept, dial], _peers: [client, server] }
}

impl Live {
    /// Returns the limits of both legs in bit/s; `None` means no limit.
    fn limits(&self) -> [Option<Rate>; 2] {
        let limit = |leg: &Arc<Stream>| match sockopt::pacing(leg.as_fd()).unwrap() {
            u64::MAX => None,
            bytes => Some(Rate(bytes * 8)),
        };
        [limit(&self.legs[0]), limit(&self.legs[1])]
    }

    fn has(&self, accept: Option<Rate>, dial: Option<Rate>) {
        let started = Instant::now();
        while self.limits() != [accept, dial] {
            assert!(started.elapsed() < Duration::from_secs(60), "{:?}", self.limits());
            std::thread::yield_now();
        }
    }
}

fn tunnel(name: &str, change: impl FnOnce(&mut Tunnel)) -> Arc<Tunnel> {
    let mut tunnel = Tunnel::new(name, "127.0.0.1:1".parse().unwrap(), Vec::new());
    change(&mut tunnel);
    Arc::new(tunnel)
}

const fn mbit(rate: u64) -> Option<Rate> {
    Some(Rate(rate * 1_000_000))
}

fn fixed(rate: Option<Rate>) -> Bandwidth {
    Bandwidth { rate, ..Bandwidth::default() }
}

#[tokio::test]
async fn flows_share_from_their_beginning_and_follow_a_reload() {
    let registry = Arc::<Registry>::default();
    let governor = Governor::new(&registry);
    let capped = tunnel("capped", |tunnel| tunnel.bandwidth.rate = mbit(80));
    let free = tunnel("free", |_| {});
    governor.set(Bandwidth::default(), &[capped.clone(), free.clone()]);
    let one = begin(&registry, &governor, &capped);
    assert_eq!(one.limits(), [mbit(80); 2], "at once");
    let other = begin(&registry, &governor, &capped);
    assert!(other.limits().iter().all(|limit| *limit <= mbit(80) && *limit >= mbit(40)), "{:?}", other.limits());
    let untouched = begin(&registry, &governor, &free);
    [&one, &other].into_iter().for_each(|flow| flow.has(mbit(40), mbit(40)));
    assert_eq!(untouched.limits(), [None; 2]);

    // A flow that ends leaves its share.
    other.flow.ended(crate::live::how::How::Finished);
    registry.remove(&other.flow);
    one.has(mbit(80), mbit(80));
    // The daemon's cap reaches live flows of a tunnel without one, and of one that is gone.
    governor.set(fixed(mbit(10)), std::slice::from_ref(&free));
    [&one, &untouched].into_iter().for_each(|flow| flow.has(mbit(5), mbit(5)));
    governor.set(Bandwidth::default(), std::slice::from_ref(&free));
    untouched.has(None, None);
    one.has(mbit(80), mbit(80));
    governor.set(Bandwidth::default(), &[free, tunnel("capped", |_| {})]);
    one.has(None, None);
}

#[tokio::test]
async fn the_cap_of_a_flow_and_the_option_of_a_leg_are_further_minima() {
    let registry = Arc::<Registry>::default();
    let governor = Governor::new(&registry);
    let of = |own: u64| {
        tunnel("one", |tunnel| {
            tunnel.flow_bandwidth = mbit(own).filter(|rate| rate.0 > 0);
            tunnel.dial.set(Leg::Dial, "max-pacing-rate", "8Mbit/s").unwrap();
        })
    };
    governor.set(Bandwidth::default(), &[of(40)]);
    let flow = begin(&registry, &governor, &of(40));
    assert_eq!(flow.limits(), [mbit(40), mbit(8)]);
    governor.set(Bandwidth::default(), &[of(4)]);
    flow.has(mbit(4), mbit(4));
    governor.set(fixed(mbit(2)), &[of(4)]);
    flow.has(mbit(2), mbit(2));
    governor.set(Bandwidth::default(), &[of(0)]);
    flow.has(None, mbit(8));
}

/// The minute of the day of the next test.
static MINUTE: AtomicU16 = AtomicU16::new(0);

#[tokio::test]
async fn live_flows_follow_the_schedule() {
    let registry = Arc::<Registry>::default();
    let governor = Governor::by(&registry, || WeekTime { day: Weekday::Mon, minute: MINUTE.load(Relaxed) });
    let window =
        |from, until, rate| Window { first: Weekday::Mon, last: Weekday::Mon, from, until, rate, is_auto: false };
    let schedule = vec![window(60, 120, mbit(8)), window(120, 180, None)];
    let one = tunnel("one", |tunnel| tunnel.bandwidth = Bandwidth { rate: mbit(80), schedule, ..Bandwidth::default() });
    governor.set(Bandwidth::default(), std::slice::from_ref(&one));
    let flow = begin(&registry, &governor, &one);
    assert_eq!(flow.limits(), [mbit(80); 2]);
    for (minute, limit) in [(60, mbit(8)), (120, None), (180, mbit(80)), (119, mbit(8))] {
        MINUTE.store(minute, Relaxed);
        flow.has(limit, limit);
    }
    let other = begin(&registry, &governor, &one);
    assert!(other.limits().iter().all(|limit| *limit <= mbit(8)), "{:?}", other.limits());
}

/// Sets the caps of all flows and of `tunnel`, and starts no thread. Returns the rules.
fn without_thread(governor: &Governor, all: Bandwidth, tunnel: &Arc<Tunnel>) -> Arc<Rules> {
    let rules = Rules::default().next(all, std::slice::from_ref(tunnel), &HashMap::new());
    let rules = Arc::new(rules);
    lock(&governor.shared.desk).rules = rules.clone();
    governor.shared.is_capped.store(true, Relaxed);
    rules
}

/// The thread may look at the live flows before the governor knows that it runs.
#[tokio::test]
async fn a_flow_that_begins_while_the_thread_starts_is_handed_over() {
    let registry = Arc::<Registry>::default();
    let governor = Governor::new(&registry);
    let tunnel = tunnel("capped", |tunnel| tunnel.bandwidth = fixed(mbit(40)));
    without_thread(&governor, Bandwidth::default(), &tunnel);
    let live = begin(&registry, &governor, &tunnel);
    assert_eq!(lock(&governor.shared.desk).begun.pop().unwrap().flow.number, live.flow.number);
}

/// The look at the live flows finds it before the governor hands it over, and its sockets get the limit of its begin last.
#[tokio::test]
async fn a_flow_that_begins_during_a_reload_has_the_limit_that_its_members_know() {
    let registry = Arc::<Registry>::default();
    let governor = Governor::new(&registry);
    let tunnel = tunnel("capped", |tunnel| tunnel.bandwidth = fixed(mbit(40)));
    let rules = without_thread(&governor, Bandwidth::default(), &tunnel);
    let live = begin(&registry, &governor, &tunnel);
    assert_eq!(live.limits(), [mbit(40); 2]);
    let begun = std::mem::take(&mut lock(&governor.shared.desk).begun);

    let mut tracker = Tracker::new(governor.shared.clone());
    tracker.take(News { rules: rules.clone(), before: vec![Arc::default()], begun: Vec::new() });
    tracker.look(Instant::now());
    let known = live.limits();
    Leg::ALL.into_iter().for_each(|sink| pace(&live.flow, sink, mbit(7)));
    tracker.take(News { rules, before: Vec::new(), begun });
    assert_eq!(live.limits(), known);
    tracker.look(Instant::now());
    assert_eq!(live.limits(), [mbit(40); 2], "it is one flow");
}

/// The paths are looked at less often than the flows. Without its share, a flow would begin without a limit.
#[tokio::test]
async fn a_flow_keeps_its_first_share_until_its_path_is_known() {
    let registry = Arc::<Registry>::default();
    let governor = Governor::new(&registry);
    let tunnel = tunnel("one", |tunnel| tunnel.to = vec![NextHop::new("127.0.0.1", 1)]);
    let rules = without_thread(&governor, Bandwidth { is_auto: true, ..Bandwidth::default() }, &tunnel);
    let (mut tracker, now) = (Tracker::new(governor.shared.clone()), Instant::now());
    tracker.take(News { rules: rules.clone(), before: vec![Arc::default()], begun: Vec::new() });
    tracker.look(now);

    let live = begin(&registry, &governor, &tunnel);
    let mut begun = std::mem::take(&mut lock(&governor.shared.desk).begun);
    begun[0].limits = [mbit(8); 2];
    Leg::ALL.into_iter().for_each(|sink| pace(&live.flow, sink, mbit(8)));
    tracker.take(News { rules, before: Vec::new(), begun });
    tracker.look(now + Duration::from_millis(25));
    assert_eq!(live.limits(), [mbit(8); 2]);
    tracker.look(now + Duration::from_millis(100));
    assert_eq!(live.limits(), [None; 2], "loopback is no path");
}

/// While a line is shared, a leg has CUBIC, unless the user has chosen its congestion control.
#[tokio::test]
async fn a_leg_that_shares_its_line_has_cubic_and_gets_back_what_it_had() {
    let registry = Arc::<Registry>::default();
    let governor = Governor::new(&registry);
    for chosen in [None, Some("reno")] {
        let tunnel = tunnel("one", |tunnel| {
            chosen.into_iter().for_each(|name| tunnel.dial.set(Leg::Dial, "congestion", name).unwrap())
        });
        let live = begin(&registry, &governor, &tunnel);
        let dial = live.legs[1].as_fd();
        sockopt::set_congestion(dial, "reno").unwrap();
        let mut sink = WanSink::begin();
        for needs_cubic in [true, true, false, false] {
            sink.switch(&live.flow, Leg::Dial, needs_cubic, dial);
            let wanted = if needs_cubic && chosen.is_none() { "cubic" } else { "reno" };
            assert_eq!(sockopt::congestion(dial).unwrap(), wanted, "{chosen:?}");
        }
        sink.switch(&live.flow, Leg::Dial, true, dial);
        Sink::Wan(sink).leave(&live.flow, Leg::Dial);
        assert_eq!(sockopt::congestion(dial).unwrap(), "reno", "{chosen:?}: without `auto`");
    }
}
