//! Says which caps are in force: of the daemon, of each tunnel, of each flow. [`InForce`] has the sentence.

use super::curves::Curves;
use super::snapshot::{FlowState, PathOfWan, Snapshot};
use crate::figures;
use longhaul_config::Tunnel;
use longhaul_config::options::Leg;
use longhaul_core::caps::{Bandwidth, InForce, Share, rate_in_words};
use longhaul_relay::{CapsNow, LegState, PathView, TunnelView, lock};
use longhaul_units::Rate;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Duration;

/// Fills the caps of `snapshot`, whose tunnels are `views`. Locks the `curves` for one reading at a time, because the admin thread waits
/// for them.
pub(super) fn fill(
    snapshot: &mut Snapshot,
    views: &[TunnelView],
    (caps, paths): (&CapsNow, &[PathView]),
    curves: &Mutex<Curves>,
) {
    let busier = |rates: Option<[f64; 2]>| rates.map(|[up, down]| up.max(down));
    let now = |bandwidth: &Bandwidth, rates| {
        Some(InForce { used: busier(rates), ..bandwidth.in_force(caps.day, caps.minute)? })
    };
    let number = |force: &Option<InForce>| force.as_ref().and_then(|force| force.rate).map(|Rate(rate)| rate);
    let rates = lock(curves).recent_of_all();
    let all = now(&caps.all, rates);
    snapshot.cap_bits_per_second = number(&all);
    snapshot.cap = all.map(|force| force.to_string());
    for (tunnel, view) in snapshot.tunnels.iter_mut().zip(views) {
        let rates = lock(curves).recent(&tunnel.name);
        let force = now(&view.settings.bandwidth, rates);
        tunnel.cap_bits_per_second = number(&force);
        tunnel.cap = force.map(|force| force.to_string());
        tunnel.flow_cap_bits_per_second = view.settings.flow_bandwidth.map(|Rate(rate)| rate);
    }
    let is_auto = caps.all.is_auto_at(caps.day, caps.minute);
    snapshot.paths = is_auto.then(|| paths.iter().map(|path| of_path(path, snapshot.unix_seconds)).collect());
    for flow in &mut snapshot.flows {
        // By name, as the tunnels are sorted.
        let view =
            views.binary_search_by(|view| view.settings.name.cmp(&flow.tunnel)).ok().map(|at| &*views[at].settings);
        let rates = lock(curves).of_flow(flow.flow);
        let paths = if is_auto { paths } else { &[] };
        flow.cap = of_flow(flow, view, (caps, paths), rates).map(|force| force.to_string());
    }
}

/// Returns the state of a path at the time `now`, in seconds since 1970.
fn of_path(path: &PathView, now: f64) -> PathOfWan {
    let PathView { address, way, cap, rate, queue, least_rtt, state, since, flows, .. } = path;
    let lasted = since.elapsed().as_secs_f64();
    let milliseconds = |time: &Duration| (time.as_secs_f64() * 1e5).round() / 100.0;
    let (queue_ms, least_rtt_ms) = (queue.as_ref().map(milliseconds), least_rtt.as_ref().map(milliseconds));
    let cap_text = cap.map_or("no cap".into(), |cap| InForce::fixed(cap, None).to_string());
    let waits = queue_ms.zip(least_rtt_ms).map(|(queue, rtt)| format!("; queue {queue:.1} ms above {rtt:.1} ms"));
    let says = format!(
        "path to {address}, {way}: {}, {cap_text}, {} now{}; for {}",
        state.name(),
        rate_in_words(*rate),
        waits.unwrap_or_default(),
        figures::age(lasted)
    );
    PathOfWan {
        address: address.to_string(),
        way: (*way).into(),
        state: state.name().into(),
        since_unix_seconds: now - lasted,
        cap_bits_per_second: cap.map(|Rate(cap)| cap),
        bits_per_second: rate.0,
        queue_ms,
        least_rtt_ms,
        flows_now: (*flows).into(),
        says,
    }
}

/// Returns the cap of the direction of a flow that uses most of its own.
fn of_flow(
    flow: &FlowState,
    tunnel: Option<&Tunnel>,
    (caps, paths): (&CapsNow, &[PathView]),
    rates: Option<[f64; 2]>,
) -> Option<InForce> {
    let way = |leg: Leg, state: &Option<LegState>, way: usize| {
        let cap = Rate(state.as_ref()?.cap_bits_per_second?);
        let peer = match leg {
            Leg::Dial => flow.next_hop_address.map(|address| address.ip()),
            Leg::Accept => {
                flow.proxy.as_ref().unwrap_or(&flow.peer).parse().ok().map(|address: SocketAddr| address.ip())
            }
        };
        let is_its = |path: &&PathView| {
            path.way == ["up", "down"][way] && Some(path.address) == peer.map(|ip| ip.to_canonical())
        };
        let of_path = paths.iter().find(is_its).and_then(|path| path.cap);
        Some(InForce { used: rates.map(|rates| rates[way]), ..of_leg(cap, leg, tunnel, (caps, of_path)) })
    };
    let part = |force: &InForce| {
        let cap = force.share.map(|share| share.rate).or(force.rate).map_or(1.0, |Rate(cap)| cap as f64);
        force.used.unwrap_or(0.0) / cap
    };
    // What goes up is sent on the dial leg. The kernel limits what we send.
    let ways = [way(Leg::Dial, &flow.dial, 0), way(Leg::Accept, &flow.accept, 1)];
    ways.into_iter().flatten().reduce(|one, other| if part(&other) > part(&one) { other } else { one })
}

/// Returns where the limit `cap` of `leg` comes from: an option, a key, or a share of a cap, such as that of its path.
fn of_leg(cap: Rate, leg: Leg, tunnel: Option<&Tunnel>, (caps, of_path): (&CapsNow, Option<Rate>)) -> InForce {
    // The kernel counts whole bytes.
    let is_it = |rate: &Rate| rate.bytes_per_second() == cap.bytes_per_second();
    if tunnel.and_then(|tunnel| tunnel.options(leg).max_pacing_rate()).as_ref().is_some_and(is_it) {
        return InForce::fixed(cap, Some("max-pacing-rate"));
    }
    if tunnel.and_then(|tunnel| tunnel.flow_bandwidth).as_ref().is_some_and(is_it) {
        return InForce::fixed(cap, Some("flow_bandwidth"));
    }
    let of_tunnel = tunnel.map(|tunnel| (&tunnel.bandwidth, "the tunnel"));
    let groups = of_tunnel.into_iter().chain([(&caps.all, "the daemon")]);
    let in_force = groups.filter_map(|(bandwidth, of)| {
        let force = bandwidth.in_force(caps.day, caps.minute)?;
        Some((force.rate?, of, force))
    });
    let of_path = of_path.map(|rate| (rate, "the path", InForce::fixed(rate, None)));
    match in_force.chain(of_path).min_by_key(|(rate, ..)| *rate) {
        // While a flow has unused shares of others to make up for, its limit is above the cap.
        Some((rate, of, force)) => InForce { share: Some(Share { rate: cap.min(rate), of }), ..force },
        None => InForce::fixed(cap, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::caps::{PathState, Weekday, Window};
    use std::time::Instant;

    #[test]
    fn a_flow_s_cap_names_what_it_comes_from() {
        let mut tunnel = Tunnel::new("t", "127.0.0.1:1".parse().unwrap(), Vec::new());
        tunnel.dial.set(Leg::Dial, "max-pacing-rate", "8Mbit/s").unwrap();
        tunnel.flow_bandwidth = Some(Rate(40_000_000));
        let window = Window {
            first: Weekday::Mon,
            last: Weekday::Sun,
            from: 0,
            until: 1080,
            rate: Some(Rate(120_000_000)),
            is_auto: false,
        };
        tunnel.bandwidth = Bandwidth { rate: Some(Rate(200_000_000)), schedule: vec![window], ..Bandwidth::default() };
        let mut caps = CapsNow { all: Bandwidth::default(), day: Weekday::Mon, minute: 600 };
        let leg = |cap| Some(LegState { cap_bits_per_second: Some(cap), ..LegState::default() });
        let flow = |up, down| FlowState { dial: leg(up), accept: leg(down), ..FlowState::default() };
        let said = |flow: &FlowState, caps: &CapsNow, rates| {
            of_flow(flow, Some(&tunnel), (caps, &[]), Some(rates)).unwrap().to_string()
        };
        let by_option = flow(8_000_000, 30_000_000);
        assert_eq!(said(&by_option, &caps, [4e6, 1e6]), "cap 8 Mbit/s by max-pacing-rate; 50 % used");
        let share = "cap 30 Mbit/s of the tunnel's 120 Mbit/s by the schedule until 18:00, then 200 Mbit/s; 96 % used";
        assert_eq!(said(&by_option, &caps, [4e6, 28.8e6]), share);
        assert_eq!(said(&flow(40_000_000, 40_000_000), &caps, [0.0, 0.0]), "cap 40 Mbit/s by flow_bandwidth; 0 % used");
        caps.all.rate = Some(Rate(100_000_000));
        let above = flow(300_000_000, 300_000_000);
        assert_eq!(said(&above, &caps, [5e7, 0.0]), "cap 100 Mbit/s of the daemon's 100 Mbit/s; 50 % used");
        let none = CapsNow { all: Bandwidth::default(), ..caps };
        let path = PathView {
            address: [10, 0, 0, 2].into(),
            way: "up",
            cap: Some(Rate(90_000_000)),
            rate: Rate(0),
            queue: None,
            least_rtt: None,
            state: PathState::ShortQueue,
            since: Instant::now(),
            flows: 1,
            used: Instant::now(),
        };
        let by_path = FlowState { next_hop_address: Some("10.0.0.2:1".parse().unwrap()), ..flow(30_000_000, 0) };
        let force = of_flow(&by_path, None, (&none, &[path]), Some([3e7, 0.0])).unwrap();
        assert_eq!(force.to_string(), "cap 30 Mbit/s of the path's 90 Mbit/s; 100 % used");
        assert_eq!(of_flow(&above, None, (&none, &[]), None).unwrap().to_string(), "cap 300 Mbit/s");
        assert_eq!(of_flow(&FlowState::default(), Some(&tunnel), (&none, &[]), None), None);
    }
}
