//! Adds up the time that the relays save for one flow.

use super::ceiling::Gain;
use super::window::HostWindow;
use crate::path::diagnosis::Facts;
use crate::path::sample::Sample;
use longhaul_units::Rate;
use std::time::{Duration, Instant};

/// The evidence about a flow's host, its gain now, and the time saved.
///
/// Think of the same flow without relays, which gets the same bytes at the same time to send. It carries them at its ceiling, and is late by
/// what it could not carry yet; a pause lets it catch up. The time saved is how late it was at worst, and after it has caught up, the next
/// delay counts anew. So the sum never falls, and a program that is slow at times does not make it larger.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    window: HostWindow,
    now: Option<Gain>,
    /// The shortest round trip of the WAN leg.
    wan_rtt: Option<Duration>,
    /// Whether it carries bytes, and looks are taken.
    is_watched: bool,
    /// The last account: its time, and the bytes that the direction had carried.
    last: Option<(Instant, u64)>,
    late: Duration,
    /// The largest value of `late` since it was 0. All of it is counted.
    worst: Duration,
    /// The time saved so far.
    saved: Duration,
    /// Payload bytes and time with a known ceiling, and the last gain.
    bytes: u64,
    time: Duration,
    latest: Option<Gain>,
}

impl Ledger {
    /// Takes a look at the leg to the host. The direction has carried `carried` bytes so far.
    pub fn look(&mut self, now: Instant, carried: u64, leg: &Sample) {
        self.window.look(leg);
        if !self.is_watched {
            self.add(now, carried); // the pause before
            self.is_watched = true;
        }
    }

    /// The other direction carries more from now on, and has carried `carried` bytes.
    pub fn turn(&mut self, now: Instant, carried: u64) {
        let Ledger { late, worst, saved, .. } = *self;
        *self = Ledger { last: Some((now, carried)), late, worst, saved, ..Ledger::default() };
    }

    /// Takes the facts of a window of looks. The direction has carried `carried` bytes so far. Returns the time saved since the last call.
    pub fn account(&mut self, now: Instant, carried: u64, facts: &Facts) -> Duration {
        // The kernel forgets the shortest round trip after five minutes. A download then has few others, and the next one may be late.
        let measured = Some(facts.source.least_rtt).filter(|rtt| !rtt.is_zero());
        self.wan_rtt = self.wan_rtt.into_iter().chain(measured).min();
        let mut facts = *facts;
        facts.source.least_rtt = self.wan_rtt.unwrap_or_default();
        self.now = Gain::of(&self.window, &facts);
        self.add(now, carried)
    }

    /// The flow carries little for a while, or has ended. The same.
    pub fn rest(&mut self, now: Instant, carried: u64) -> Duration {
        let saved = if self.now.is_some() { self.add(now, carried) } else { Duration::ZERO };
        self.window.rest();
        (self.now, self.is_watched) = (None, false);
        saved
    }

    fn add(&mut self, now: Instant, carried: u64) -> Duration {
        let (before, carried_before) = self.last.replace((now, carried)).unwrap_or((now, carried));
        let (lasted, bytes) = (now.saturating_duration_since(before), carried.saturating_sub(carried_before));
        // Bytes under an unknown ceiling are none: that can only make the sum smaller.
        let needed = self.now.map_or(Duration::ZERO, |gain| {
            self.bytes += bytes;
            self.time += lasted;
            self.latest = Some(gain);
            time_for(bytes, gain.alone)
        });
        self.late = self.late.saturating_add(needed).saturating_sub(lasted);
        if self.late.is_zero() {
            self.worst = Duration::ZERO;
        }
        let saved = self.late.saturating_sub(self.worst);
        self.worst += saved;
        self.saved += saved;
        saved
    }

    /// Returns the time saved so far.
    pub fn saved(&self) -> Duration {
        self.saved
    }

    /// Returns the gain now.
    pub fn now(&self) -> Option<&Gain> {
        self.now.as_ref()
    }

    /// Returns the gain of the whole time in which the ceiling was known; `None` if it never was.
    pub fn of_all(&self) -> Option<Gain> {
        let rate = Rate((self.bytes as f64 * 8.0 / self.time.as_secs_f64().max(1e-3)) as u64);
        self.latest.map(|gain| gain.at(rate))
    }
}

/// Returns the time for `bytes` at `rate`.
fn time_for(bytes: u64, rate: Rate) -> Duration {
    Duration::try_from_secs_f64(bytes as f64 * 8.0 / rate.0.max(1) as f64).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::diagnosis::{Sink, Source};
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);
    /// 65,535 bytes in each 65.535 ms.
    const CEILING: u64 = 1_000_000;

    /// A flow of a host without a window scale, and its ledger.
    struct Case {
        ledger: Ledger,
        now: Instant,
        carried: u64,
        saved: Duration,
    }

    impl Case {
        fn new() -> Case {
            let now = Instant::now();
            let mut case = Case { ledger: Ledger::default(), now, carried: 0, saved: Duration::ZERO };
            case.look();
            case
        }

        fn look(&mut self) {
            let leg = Sample { peer_window: 65_535, max_peer_window: 65_535, ..Sample::default() };
            self.ledger.look(self.now, self.carried, &leg);
        }

        fn window(&mut self, lasts: Duration, bytes: u64) {
            self.window_at(65_000, lasts, bytes);
        }

        /// The WAN leg has a round trip of `micros`.
        fn window_at(&mut self, micros: u64, lasts: Duration, bytes: u64) {
            self.now += lasts;
            self.carried += bytes;
            let source = Source { least_rtt: Duration::from_micros(micros), ..Source::default() };
            let sink = Sink { min_rtt: Duration::from_micros(535), ..Sink::default() };
            let facts = Facts { elapsed: lasts, carried: bytes, source, sink, ..Facts::default() };
            self.saved += self.ledger.account(self.now, self.carried, &facts);
        }
    }

    /// Returns the seconds saved by windows of three seconds each with these bytes, in ceilings.
    fn saved(windows: &[f64]) -> u64 {
        let mut case = Case::new();
        windows.iter().for_each(|times| case.window(3 * SECOND, (times * 3.0 * CEILING as f64) as u64));
        case.saved.as_secs()
    }

    #[test]
    fn time_saved_is_the_delay_of_the_same_flow_without_relays() {
        assert_eq!(saved(&[4.0; 10]), 90, "30 s, where it would have taken 120 s");
        assert_eq!(saved(&[0.5; 10]), 0, "alone, it carries as much");
        assert_eq!(saved(&[1.0; 10]), 0);
        assert_eq!(
            saved(&[2.0, 0.5, 2.0, 0.5]),
            4,
            "a program that is slow half of the time: 15 s for 12 s, less 1.5 s later"
        );
        assert_eq!(saved(&[2.0, 0.0, 2.0, 0.0]), 6, "two transfers in one connection: each ends 3 s earlier");
        assert_eq!(saved(&[2.0, 0.0, 0.0, 0.0]), 3, "a pause takes nothing away");
    }

    #[test]
    fn a_flow_s_rest_counts_and_an_unknown_ceiling_does_not() {
        let mut case = Case::new();
        case.window(3 * SECOND, 12 * CEILING);
        assert_eq!(case.ledger.of_all().unwrap().times(), Some(4.0));
        case.now += SECOND;
        case.carried += 4 * CEILING;
        assert_eq!(case.ledger.rest(case.now, case.carried), 3 * SECOND);
        assert_eq!(case.ledger.rest(case.now, case.carried), Duration::ZERO, "not twice");
        assert_eq!((case.ledger.now(), case.ledger.of_all().unwrap().times()), (None, Some(4.0)));
        assert_eq!(case.ledger.saved(), 12 * SECOND);
        // A pause of a minute, and the same again.
        (case.now, case.carried) = (case.now + 60 * SECOND, case.carried + 4);
        case.look();
        case.window(3 * SECOND, 12 * CEILING);
        assert_eq!(case.ledger.of_all().unwrap().times(), Some(4.0), "the pause does not count");
        assert_eq!(case.ledger.saved(), 21 * SECOND);
        case.ledger.turn(case.now + SECOND, 77);
        assert_eq!((case.ledger.now(), case.ledger.of_all()), (None, None));
        let saved = case.ledger.rest(case.now + 2 * SECOND, 1 << 40);
        assert_eq!(saved, Duration::ZERO, "nothing is known of the other direction");
    }

    #[test]
    fn a_late_answer_makes_the_round_trip_no_longer() {
        let mut case = Case::new();
        for micros in [65_000, 105_000, 0] {
            case.window_at(micros, 3 * SECOND, 6 * CEILING);
            assert_eq!(case.ledger.now().unwrap().alone, Rate(8 * CEILING), "{micros}");
        }
    }

    proptest! {
        /// No order of fast and slow times saves more than all bytes at the ceiling take.
        #[test]
        fn no_more_is_saved_than_all_bytes_take(windows in prop::collection::vec((0u64..10_000, 0u64..100_000_000), 0..50)) {
            let mut case = Case::new();
            for (millis, bytes) in &windows {
                case.window(Duration::from_millis(*millis), *bytes);
            }
            let all = Duration::from_secs_f64(case.carried as f64 / CEILING as f64);
            prop_assert!(case.saved <= all + SECOND / 1000);
        }
    }
}
