//! The [`Curve`]s of the tunnels, and the rates of flows below caps, as the look of each second leaves them. Everything is gone with
//! the process.

use super::snapshot::{CurveState, IncidentState};
use longhaul_config::Tunnel;
use longhaul_config::options::Leg;
use longhaul_core::curve::{Curve, Incident, Point, Reach, Span};
use longhaul_core::health::{Health, ProbeResult};
use longhaul_relay::{CapsNow, CounterValues, Relay, Tally, TunnelView};
use std::collections::HashMap;
use std::time::SystemTime;

/// The curves of the tunnels that are served, and what the last look has seen.
#[derive(Debug, Default)]
pub(super) struct Curves {
    tunnels: HashMap<String, Watched>,
    /// The live flows below caps, by number.
    pub(super) flows: HashMap<u64, FlowRate>,
    /// Time of the last look, in seconds since the start.
    pub(super) looked: Option<f64>,
    /// Number of the flow at which the next look at round-trip times begins.
    pub(super) from: u64,
}

/// A tunnel.
#[derive(Debug, Default)]
struct Watched {
    curve: Curve,
    /// Its counters at the last look.
    before: CounterValues,
    /// Time of the newest result of its probes then.
    newest: Option<SystemTime>,
}

/// A live flow below a cap.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowRate {
    before: Tally,
    /// The lower one of the caps of its tunnel and of the daemon at the last look, in bits per second. 0 without one.
    cap: f32,
    /// Rates up and down, in bits per second. `None` until the second look below this cap.
    rates: Option<[f64; 2]>,
}

/// Whether the rates of its flows are of use.
fn is_capped(tunnel: &Tunnel, caps: &CapsNow) -> bool {
    let is_paced = |leg| tunnel.options(leg).max_pacing_rate().is_some();
    caps.all.is_capped() || tunnel.lowest_cap().is_some() || Leg::ALL.into_iter().any(is_paced)
}

impl Curves {
    /// Returns the mean rates of a tunnel in the last seconds, up and down, in bits per second.
    pub(super) fn recent(&self, tunnel: &str) -> Option<[f64; 2]> {
        self.tunnels.get(tunnel)?.curve.recent().map(|rates| rates.map(f64::from))
    }

    /// Returns the same of all tunnels together.
    pub(super) fn recent_of_all(&self) -> Option<[f64; 2]> {
        let rates = self.tunnels.values().filter_map(|tunnel| tunnel.curve.recent());
        rates.map(|rates| rates.map(f64::from)).reduce(|one, other| [one[0] + other[0], one[1] + other[1]])
    }

    /// Returns the rates of a flow, up and down, in bits per second. Only those of flows below caps are known.
    pub(super) fn of_flow(&self, flow: u64) -> Option<[f64; 2]> {
        self.flows.get(&flow)?.rates
    }

    /// Returns the curve of a tunnel. `None` before the first look. `started` is the start of the daemon by the clock of now, in seconds
    /// since 1970.
    pub(super) fn curve(&self, tunnel: &str, span: Span, started: f64) -> Option<CurveState> {
        let curve = &self.tunnels.get(tunnel)?.curve;
        let (interval_seconds, first, points) = curve.points(span);
        let mut state =
            CurveState { from_unix_seconds: started + first as f64, interval_seconds, ..CurveState::default() };
        for point in points {
            let seen = |value: f32| (point.looks > 0).then_some(f64::from(value).round());
            state.up_bits_per_second.push(seen(point.up));
            state.down_bits_per_second.push(seen(point.down));
            state.flows.push(point.flows);
            state.failed_dials.push(point.failed_dials);
            state.wan_rtt_ms.push((point.rtt_ms > 0.0).then(|| (f64::from(point.rtt_ms) * 10.0).round() / 10.0));
            state.verify_whole.push(point.whole);
            state.verify_broken.push(point.broken);
            state.cap_bits_per_second.push((point.cap > 0.0).then_some(f64::from(point.cap)));
        }
        state.incidents = curve.incidents(span).map(|incident| incident_state(incident, started)).collect();
        Some(state)
    }

    /// Returns the last time in which a tunnel was not well. `started` is as above.
    pub(super) fn last_incident(&self, tunnel: &str, started: f64) -> Option<IncidentState> {
        self.tunnels.get(tunnel)?.curve.last_incident().map(|incident| incident_state(incident, started))
    }

    /// Adds a point to the curve of each tunnel that is `served`, by its counters and by what else was `seen` of it, and drops the curves
    /// of the others. The times are those since the start and since the last look, in seconds.
    pub(super) fn see_tunnels<'a>(
        &mut self,
        served: impl ExactSizeIterator<Item = (&'a TunnelView, CounterValues)>,
        seen: impl Fn(&str) -> (Point, Option<(Health, &'static str)>),
        (uptime, elapsed): (f64, Option<f64>),
    ) {
        let reach = Reach::of(served.len());
        let mut before = std::mem::take(&mut self.tunnels);
        for (view, now) in served {
            let name = &view.settings.name;
            let mut tunnel = before.remove(name).unwrap_or_else(|| Watched::new(view, &now));
            if let Some(elapsed) = elapsed {
                tunnel.see(view, now, seen(name), (uptime, elapsed), reach);
            }
            self.tunnels.insert(name.clone(), tunnel);
        }
    }
}

fn incident_state(incident: &Incident, started: f64) -> IncidentState {
    IncidentState {
        from_unix_seconds: started + incident.from as f64,
        until_unix_seconds: started + incident.until as f64,
        goes_on: incident.goes_on,
        health: incident.health,
        stage: incident.part.into(),
    }
}

/// Returns the flows below caps, with their rates by what they were `before`. `points` are those of the tunnels by this look. `elapsed`
/// is the time since the last look, in seconds.
pub(super) fn see_flows(
    mut before: HashMap<u64, FlowRate>,
    relay: &Relay,
    caps: &CapsNow,
    points: &HashMap<&str, Point>,
    elapsed: Option<f64>,
) -> HashMap<u64, FlowRate> {
    let mut flows = HashMap::new();
    relay.look_at_flows(|number, tunnel, age, now| {
        if is_capped(tunnel, caps) {
            // A new flow began with no bytes. One that was not below a cap until now is not known.
            let cap = points.get(tunnel.name.as_str()).map_or(0.0, |point| point.cap);
            let new = FlowRate { before: Tally::default(), cap, rates: None };
            let known = before.remove(&number).or(elapsed.filter(|elapsed| age.as_secs_f64() <= *elapsed).map(|_| new));
            // A rate below another cap says nothing about this one.
            let known = known.filter(|known| known.cap == cap);
            let rates = known.zip(elapsed).map(|(known, elapsed)| known.rates_until(now, elapsed));
            flows.insert(number, FlowRate { before: now, cap, rates });
        }
    });
    flows
}

impl Watched {
    /// Returns a tunnel that was not seen before.
    fn new(view: &TunnelView, now: &CounterValues) -> Watched {
        Watched { curve: Curve::default(), before: now.clone(), newest: results(view).next().map(|newest| newest.at) }
    }

    /// Adds a point. `now` are the counters of the tunnel, `seen` and `incident` is what else a look has seen. The times are those since the
    /// start and since the last look, in seconds.
    fn see(
        &mut self,
        view: &TunnelView,
        now: CounterValues,
        (seen, incident): (Point, Option<(Health, &'static str)>),
        (uptime, elapsed): (f64, f64),
        reach: Reach,
    ) {
        let rate =
            |of: fn(&CounterValues) -> u64| (of(&now).saturating_sub(of(&self.before)) as f64 * 8.0 / elapsed) as f32;
        let failed = now.dials_failed.saturating_sub(self.before.dials_failed);
        let (mut whole, mut broken) = (0, 0);
        // At most 100. By their times alone, a clock that is set back would hide new ones.
        for result in results(view).take_while(|result| Some(result.at) != self.newest) {
            *(if result.trouble.is_none() { &mut whole } else { &mut broken }) += 1;
        }
        let point = Point {
            up: rate(|counters| counters.bytes_up),
            down: rate(|counters| counters.bytes_down),
            flows: u32::try_from(now.flows_now).unwrap_or(u32::MAX),
            failed_dials: u32::try_from(failed).unwrap_or(u32::MAX),
            whole,
            broken,
            ..seen
        };
        self.curve.add(uptime as u64, point, incident, reach);
        (self.before, self.newest) = (now, results(view).next().map(|newest| newest.at));
    }
}

/// Returns the results of the daemon's own probes of a tunnel, the newest first.
fn results(view: &TunnelView) -> impl Iterator<Item = &ProbeResult> {
    view.probes.iter().flat_map(|probes| probes.results.iter().rev())
}

impl FlowRate {
    /// Returns the rates now that it has carried `now`, `elapsed` seconds later. A cap is kept on the average of some seconds, so each
    /// look counts for a fifth.
    fn rates_until(self, now: Tally, elapsed: f64) -> [f64; 2] {
        let rate = |before: u64, now: u64| now.saturating_sub(before) as f64 * 8.0 / elapsed;
        let seen = [rate(self.before.up, now.up), rate(self.before.down, now.down)];
        let Some(rates) = self.rates else { return seen };
        [0, 1].map(|way| rates[way] + (seen[way] - rates[way]) / 5.0)
    }
}
