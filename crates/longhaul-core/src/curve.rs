//! The figures of a tunnel over time: a point for each second of the last 10 minutes, and one for each minute of the last day.
//!
//! The daemon adds what it sees, with the number of seconds since its start. A missed second is a point that nobody has seen. All
//! curves together have [`MAX_BYTES`]. With many tunnels, each curve reaches less far back: see [`Reach`].

use crate::health::Health;
use std::collections::VecDeque;

/// The figures of a tunnel in one interval. By default, one that nobody has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// Mean rate from the clients to the next hops, in bits per second.
    pub up: f32,
    /// The same in the other direction.
    pub down: f32,
    /// Largest number of live flows.
    pub flows: u32,
    /// Number of flows whose dial no next hop answered.
    pub failed_dials: u32,
    /// Largest round-trip time of the WAN legs, in milliseconds. 0 if none was measured.
    pub rtt_ms: f32,
    /// The last cap in force, in bits per second. 0 without one.
    pub cap: f32,
    /// Number of the daemon's own probes that found the tunnel whole.
    pub whole: u8,
    /// Number of those that found a broken stage.
    pub broken: u8,
    /// Number of looks, one a second. 0: nobody has seen it.
    pub looks: u8,
}

/// An interval in which a tunnel was not well: one outage, with all of its stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incident {
    /// Begin and end, in seconds since the start of the daemon.
    pub from: u64,
    /// See `from`.
    pub until: u64,
    /// Whether the last look has seen it. Then `until` is the time of now.
    pub goes_on: bool,
    /// The worst health of the tunnel in this time.
    pub health: Health,
    /// The part that did not work then, such as `WAN`: the first one with that health.
    pub part: &'static str,
}

/// The time that a view shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Span {
    /// The last 10 minutes by the second.
    #[default]
    TenMinutes,
    /// The last hour by the minute.
    Hour,
    /// The last day by the minute.
    Day,
}

/// The figures of a tunnel over time.
#[derive(Clone, Debug)]
pub struct Curve {
    seconds: Ring,
    minutes: Ring,
    /// The last times in which the tunnel was not well, the oldest first.
    incidents: VecDeque<Incident>,
}

/// Largest number of points that each curve has, by second and by minute, and of incidents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    seconds: usize,
    minutes: usize,
    incidents: usize,
}

/// The last points, one after the other.
#[derive(Clone, Debug)]
struct Ring {
    /// Length of a point's interval, in seconds.
    step: u64,
    points: VecDeque<Point>,
    /// Number of intervals from the start of the daemon to the begin of the last point.
    last: u64,
}

impl Point {
    /// Returns this interval and the one of `next`, which follows it, in one.
    fn and(self, next: Point) -> Point {
        let (looks, more) = (f32::from(self.looks), f32::from(next.looks));
        let mean = |one: f32, other: f32| (one * looks + other * more) / (looks + more).max(1.0);
        Point {
            up: mean(self.up, next.up),
            down: mean(self.down, next.down),
            flows: self.flows.max(next.flows),
            failed_dials: self.failed_dials.saturating_add(next.failed_dials),
            rtt_ms: self.rtt_ms.max(next.rtt_ms),
            cap: if next.looks > 0 { next.cap } else { self.cap },
            whole: self.whole.saturating_add(next.whole),
            broken: self.broken.saturating_add(next.broken),
            looks: self.looks.saturating_add(next.looks),
        }
    }
}

impl Default for Curve {
    fn default() -> Curve {
        let ring = |step| Ring { step, points: VecDeque::new(), last: 0 };
        Curve { seconds: ring(1), minutes: ring(60), incidents: VecDeque::new() }
    }
}

impl Curve {
    /// Adds what one look has seen in the time since the look before, and the part that does not work now, if
    /// that is an incident. `second` is the number of seconds since the start of the daemon, and never falls.
    pub fn add(&mut self, second: u64, seen: Point, incident: Option<(Health, &'static str)>, reach: Reach) {
        self.incidents.back_mut().into_iter().for_each(|last| last.goes_on = false);
        incident.into_iter().for_each(|(health, part)| self.add_incident(second, health, part, reach.incidents));
        let seen = Point { looks: 1, ..seen };
        self.seconds.add(second, seen, reach.seconds);
        self.minutes.add(second, seen, reach.minutes);
    }

    /// Returns the mean rates of the last 10 seconds, up and down, in bits per second, of those below the cap of now. `None` before the
    /// first whole second below it.
    pub fn recent(&self) -> Option<[f32; 2]> {
        let cap = self.seconds.points.back()?.cap;
        let is_other = |point: &Point| point.looks > 0 && point.cap != cap;
        let newest_first = || self.seconds.points.iter().rev().take(RECENT);
        // The second before that point began below the other cap.
        let count = newest_first().position(is_other).map_or(RECENT, |other| other.saturating_sub(1));
        let last = newest_first().take(count).copied();
        let all = last.reduce(|newer, older| older.and(newer)).filter(|all| all.looks > 0)?;
        Some([all.up, all.down])
    }

    /// Returns the length of the intervals and the begin of the first one, in seconds since the start of the daemon, and the points.
    pub fn points(&self, span: Span) -> (u64, u64, impl Iterator<Item = &Point>) {
        let (ring, max) = match span {
            Span::TenMinutes => (&self.seconds, usize::MAX),
            Span::Hour => (&self.minutes, 60),
            Span::Day => (&self.minutes, usize::MAX),
        };
        let left_out = ring.points.len().saturating_sub(max);
        (ring.step, (ring.first() + left_out as u64) * ring.step, ring.points.iter().skip(left_out))
    }

    /// Returns the times of a span in which the tunnel was not well, the oldest first: the last 100 at most.
    pub fn incidents(&self, span: Span) -> impl Iterator<Item = &Incident> {
        let (_, first, _) = self.points(span);
        self.incidents.iter().filter(move |incident| incident.until > first)
    }

    /// Returns the last time in which the tunnel was not well.
    pub fn last_incident(&self) -> Option<&Incident> {
        self.incidents.back()
    }

    fn add_incident(&mut self, second: u64, health: Health, part: &'static str, max: usize) {
        let (from, until, goes_on) = (second, second + 1, true);
        match self.incidents.back_mut().filter(|last| last.until + JOINED_SECONDS >= second) {
            Some(last) => {
                let worst = if health > last.health { (health, part) } else { (last.health, last.part) };
                *last = Incident { from: last.from, until, goes_on, health: worst.0, part: worst.1 };
            }
            None => push(&mut self.incidents, Incident { from, until, goes_on, health, part }, max),
        }
    }
}

impl Ring {
    /// Returns the number of intervals before the first point.
    fn first(&self) -> u64 {
        (self.last + 1).saturating_sub(self.points.len() as u64)
    }

    fn add(&mut self, second: u64, seen: Point, max: usize) {
        fit(&mut self.points, max);
        let at = second / self.step;
        match self.points.back_mut() {
            Some(last) if at <= self.last => *last = last.and(seen),
            _ => {
                let missed = if self.points.is_empty() { 0 } else { at - self.last - 1 };
                (0..missed.min(max as u64)).for_each(|_| push(&mut self.points, Point::default(), max));
                push(&mut self.points, seen, max);
                self.last = at;
            }
        }
    }
}

fn push<T>(list: &mut VecDeque<T>, item: T, max: usize) {
    fit(list, max - 1);
    // Exactly, because a deque that grows by itself doubles.
    list.reserve_exact(max - list.len());
    list.push_back(item);
}

/// Drops the oldest items, and memory that was for more than `max` of them.
fn fit<T>(list: &mut VecDeque<T>, max: usize) {
    list.drain(..list.len().saturating_sub(max));
    if list.capacity() > max + 1 {
        list.shrink_to(max + 1);
    }
}

impl Reach {
    /// Returns what each of `curves` may have.
    pub fn of(curves: usize) -> Reach {
        let share = MAX_BYTES / curves.max(1);
        let part = |full: usize| full.min(full * share / CURVE_BYTES).max(1);
        Reach { seconds: part(SECONDS), minutes: part(MINUTES), incidents: part(INCIDENTS) }
    }
}

impl Span {
    /// Every span, the shortest first.
    pub const ALL: [Span; 3] = [Span::TenMinutes, Span::Hour, Span::Day];

    /// Returns its name in a request.
    pub fn name(self) -> &'static str {
        ["10m", "1h", "24h"][self as usize]
    }

    /// Returns its name in sentences.
    pub fn words(self) -> &'static str {
        ["10 minutes", "hour", "24 hours"][self as usize]
    }

    /// Returns the span after this one. The first one follows the last.
    pub fn next(self) -> Span {
        Span::ALL[(self as usize + 1) % Span::ALL.len()]
    }

    /// Returns the span with this name.
    pub fn named(name: &str) -> Option<Span> {
        Span::ALL.into_iter().find(|span| span.name() == name)
    }

    /// Returns its length in seconds.
    pub fn seconds(self) -> u64 {
        [600, 3600, 86_400][self as usize]
    }
}

/// Largest number of bytes of all curves, but for one item in each list: what 500 tunnels need for all of theirs.
pub const MAX_BYTES: usize = 32 << 20;
/// Number of points by the second: 10 minutes.
const SECONDS: usize = 600;
/// Number of points by the minute: a day.
const MINUTES: usize = 1440;
/// Number of incidents that are kept.
const INCIDENTS: usize = 100;
/// Time without a problem within one incident. In an outage, one stage ends before another one shows: a flow is reset, and the next
/// client's dial waits 10 s for an answer.
const JOINED_SECONDS: u64 = 10;
/// Number of bytes of a curve that has all of these.
const CURVE_BYTES: usize = (SECONDS + MINUTES) * size_of::<Point>() + INCIDENTS * size_of::<Incident>();
/// Number of points of [`Curve::recent`]. A cap is kept on the average of some seconds.
const RECENT: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Reach = Reach { seconds: SECONDS, minutes: MINUTES, incidents: INCIDENTS };

    fn up(up: f32) -> Point {
        Point { up, flows: up as u32, ..Point::default() }
    }

    /// Returns the begin of the first point, and what `read` finds in each.
    fn all<T>(curve: &Curve, span: Span, read: impl Fn(&Point) -> T) -> (u64, Vec<T>) {
        let (_, first, points) = curve.points(span);
        (first, points.map(read).collect())
    }

    #[test]
    fn a_day_is_kept_by_the_minute_and_ten_minutes_by_the_second() {
        let mut curve = Curve::default();
        let day = 25 * 3600;
        (0..day).for_each(|second| curve.add(second, up((second % 60) as f32), None, ONE));
        let (first, seconds) = all(&curve, Span::TenMinutes, |point| point.up);
        assert_eq!((first, seconds.len(), seconds[599]), (day - 600, 600, 59.0));
        let (first, minutes) = all(&curve, Span::Day, |point| (point.up, point.flows, point.looks));
        assert_eq!((first, minutes.len()), (day - 86_400, 1440));
        assert!(minutes.iter().all(|minute| *minute == (29.5, 59, 60)), "the mean rate, the most flows");
        let (first, hour) = all(&curve, Span::Hour, |point| point.looks);
        assert_eq!((first, hour.len()), (day - 3600, 60));
        // The minute that has just begun.
        curve.add(day, up(7.0), None, ONE);
        assert_eq!(all(&curve, Span::Day, |point| point.looks).1[1438..], [60, 1]);
    }

    #[test]
    fn a_curve_has_at_most_100_kb_and_all_of_them_have_a_bound() {
        const { assert!(CURVE_BYTES <= 100_000) };
        let bad = |second: u64| (second % 5 == 0).then_some((Health::Broken, "WAN"));
        let bytes = |curve: &Curve| {
            let points = curve.seconds.points.capacity() + curve.minutes.points.capacity();
            points * size_of::<Point>() + curve.incidents.capacity() * size_of::<Incident>()
        };
        for curves in [1, 100, 500, 1000, 65_536, 10_000_000] {
            let (mut curve, reach) = (Curve::default(), Reach::of(curves));
            (0..200_000).for_each(|second| curve.add(second * 3, up(1.0), bad(second), reach));
            assert!(bytes(&curve) <= 100_000, "{curves}: {}", bytes(&curve));
            let one_item = (2 * size_of::<Point>() + size_of::<Incident>()) * curves;
            assert!(bytes(&curve) * curves <= MAX_BYTES + one_item, "{curves}: {}", bytes(&curve));
        }
        assert_eq!((Reach::of(1), Reach::of(500)), (ONE, ONE));
        // Tunnels come and go.
        let (mut curve, few) = (Curve::default(), Reach::of(20_000));
        (0..700).for_each(|second| curve.add(second, up(1.0), None, ONE));
        curve.add(700, up(2.0), None, few);
        assert_eq!(all(&curve, Span::TenMinutes, |point| point.up), (685, [[1.0; 15].as_slice(), &[2.0]].concat()));
        assert!(bytes(&curve) < 2000, "{}", bytes(&curve));
        (701..1301).for_each(|second| curve.add(second, up(3.0), None, ONE));
        assert_eq!(all(&curve, Span::TenMinutes, |point| point.up).1, [3.0; 600]);
    }

    #[test]
    fn a_missed_second_is_seen_by_nobody_and_a_second_look_is_one_with_the_first() {
        let mut curve = Curve::default();
        assert_eq!(curve.recent(), None);
        for (second, rate) in [(100, 8.0), (103, 2.0), (103, 4.0)] {
            curve.add(second, up(rate), None, ONE);
        }
        assert_eq!(
            all(&curve, Span::TenMinutes, |point| (point.looks, point.up)),
            (100, vec![(1, 8.0), (0, 0.0), (0, 0.0), (2, 3.0)])
        );
        assert_eq!(curve.recent().map(|[up, _]| up), Some(14.0 / 3.0), "unseen seconds do not count");
        // The rates below an old cap, and of the second in which it changed, are none below the new one.
        for (second, rate, rates) in [(104, 4.0, None), (105, 2.0, Some(2.0)), (106, 1.0, Some(1.5))] {
            curve.add(second, Point { cap: 2.0, ..up(rate) }, None, ONE);
            assert_eq!(curve.recent().map(|[up, _]| up), rates);
        }
        // The machine stood still for a day.
        curve.add(100_000, up(1.0), None, ONE);
        let (first, seconds) = all(&curve, Span::TenMinutes, |point| point.looks);
        assert_eq!(
            (first, seconds.len(), seconds.iter().map(|looks| u32::from(*looks)).sum::<u32>()),
            (99_401, 600, 1)
        );
    }

    #[test]
    fn a_minute_has_the_sums_and_the_largest_figures_of_its_seconds() {
        let mut curve = Curve::default();
        let bad = Point { failed_dials: 2, rtt_ms: 63.0, cap: 8.0, whole: 1, broken: 1, ..up(1.0) };
        (61..64).for_each(|second| curve.add(second, bad, None, ONE));
        curve.add(64, Point { cap: 0.0, ..up(1.0) }, None, ONE);
        let (_, _, mut minutes) = curve.points(Span::Day);
        let first = minutes.next().unwrap();
        assert_eq!((first.failed_dials, first.rtt_ms, first.cap, first.whole, first.broken), (6, 63.0, 0.0, 3, 3));
    }

    #[test]
    fn an_incident_has_its_begin_and_its_end_to_the_second_in_every_span() {
        let mut curve = Curve::default();
        let mut add = |second, incident| curve.add(second, up(1.0), incident, ONE);
        let (doubtful, broken) = ((Health::Doubtful, "next hop"), (Health::Broken, "WAN"));
        add(60, None);
        (61..100).for_each(|second| add(second, Some(doubtful)));
        (100..125).for_each(|second| add(second, None));
        add(125, Some(broken));
        // Nobody looked for a while.
        add(150, Some(broken));
        let incident = |from, until, goes_on, (health, part)| Incident { from, until, goes_on, health, part };
        let mut all =
            [incident(61, 100, false, doubtful), incident(125, 126, false, broken), incident(150, 151, true, broken)];
        for span in Span::ALL {
            assert_eq!(curve.incidents(span).copied().collect::<Vec<_>>(), all, "{span:?}");
        }
        (151..725).for_each(|second| curve.add(second, up(1.0), None, ONE));
        all[2].goes_on = false;
        assert_eq!(curve.incidents(Span::TenMinutes).copied().collect::<Vec<_>>(), all[1..], "it begins at 125");
        assert_eq!(curve.incidents(Span::Hour).copied().collect::<Vec<_>>(), all);
    }

    #[test]
    fn the_stages_of_one_outage_are_one_incident() {
        let mut curve = Curve::default();
        let [stalled, doubtful, broken, other] = [
            (Health::Stalled, "next hop"),
            (Health::Doubtful, "next hop"),
            (Health::Broken, "WAN"),
            (Health::Broken, "far relay"),
        ];
        let mut last = |second, seen| {
            curve.add(second, up(1.0), seen, ONE);
            let Incident { from, until, goes_on, health, part } = *curve.last_incident().unwrap();
            assert_eq!((curve.incidents(Span::Day).count(), from), (1, 100));
            (until, goes_on, (health, part))
        };
        assert_eq!(last(100, Some(stalled)), (101, true, stalled));
        assert_eq!(last(101, Some(doubtful)), (102, true, doubtful));
        assert_eq!(last(102, None), (102, false, doubtful));
        // The next client.
        assert_eq!(last(112, Some(broken)), (113, true, broken));
        assert_eq!(last(113, Some(other)), (114, true, broken), "the first one is nearer to the cause");
        assert_eq!(last(114, Some(doubtful)), (115, true, broken), "at worst");
        assert_eq!(last(115, None), (115, false, broken));
        curve.add(126, up(1.0), Some(doubtful), ONE);
        assert_eq!(curve.incidents(Span::Day).count(), 2, "another one");
    }

    #[test]
    fn each_span_has_its_name() {
        for span in Span::ALL {
            assert_eq!(Span::named(span.name()), Some(span));
        }
        assert_eq!((Span::named("1m"), Span::Day.next()), (None, Span::TenMinutes));
    }
}
