//! The rate that a host's window allows without relays, beside the rate that it has.

use super::window::{HostWindow, Proof};
use crate::path::diagnosis::Facts;
use crate::path::laws::window_rate;
use crate::path::sample::WAN_RTT;
use longhaul_units::{Bytes, Rate};
use std::fmt;
use std::time::Duration;

/// The rate of a flow, and its ceiling without relays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gain {
    /// Rate of payload.
    pub rate: Rate,
    /// The most that the host's window allows over the round trip of the whole way.
    pub alone: Rate,
    window: Bytes,
    rtt: Duration,
    proof: Proof,
}

impl Gain {
    /// Returns what the relays are worth by `facts`, for a host with `window`. `None` if the window tells nothing, or the bytes do not go
    /// from a WAN leg to a LAN leg.
    pub fn of(window: &HostWindow, facts: &Facts) -> Option<Gain> {
        let (wan, lan) = (facts.source.least_rtt, facts.sink.min_rtt);
        if wan < WAN_RTT || lan >= WAN_RTT || lan.is_zero() {
            return None;
        }
        // Alone, the flow makes no queue, so the shortest round trip is its own.
        let (rate, rtt) = (facts.rate(), wan + lan);
        let (window, proof) = window.bound(|window| rate > window_rate(window, rtt).0 as f64)?;
        Some(Gain { rate: Rate(rate as u64), alone: window_rate(window, rtt), window, rtt, proof })
    }

    /// Returns the same with another rate.
    pub(super) fn at(self, rate: Rate) -> Gain {
        Gain { rate, ..self }
    }

    /// Returns the rate as a multiple of the ceiling. `None` if the relays gain nothing, as far as the window tells.
    pub fn times(&self) -> Option<f64> {
        let times = self.rate.0 as f64 / self.alone.0.max(1) as f64;
        (times >= LEAST_GAIN).then_some(times)
    }

    /// Returns the proof: a sentence with figures.
    pub fn evidence(&self) -> String {
        let (window, ms, mbit) = (self.window.0, self.rtt.as_secs_f64() * 1e3, self.alone.0 as f64 / 1e6);
        let bound = match self.proof {
            Proof::Scale => format!("the host can offer {window} bytes at most by its window scale"),
            Proof::Full => format!("the host offers {window} bytes and did not offer more while its window was full"),
        };
        format!("{bound}: {window} bytes / {ms:.1} ms = {mbit:.1} Mbit/s")
    }
}

/// The rates in a few words, as views write them: `29.4 MB/s; alone at most 4.2 MB/s`.
impl fmt::Display for Gain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mb = |rate: Rate| rate.0 as f64 / 8e6;
        let none = if self.times().is_none() { "no gain by the window: " } else { "" };
        write!(f, "{none}{:.1} MB/s; alone at most {:.1} MB/s", mb(self.rate), mb(self.alone))
    }
}

/// Multiple of the ceiling from which on it is a gain. Less is within what the figures are good for.
const LEAST_GAIN: f64 = 1.05;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::diagnosis::{Sink, Source};
    use crate::path::sample::Sample;

    const MS: Duration = Duration::from_millis(1);
    const KIB: u64 = 1024;

    /// Returns facts of three seconds at `mbit` from a leg with a round trip of `wan` to one of `lan`.
    fn facts(mbit: u64, wan: Duration, lan: Duration) -> Facts {
        Facts {
            elapsed: 3000 * MS,
            carried: mbit * 1_000_000 / 8 * 3,
            source: Source { least_rtt: wan, ..Source::default() },
            sink: Sink { min_rtt: lan, ..Sink::default() },
            ..Facts::default()
        }
    }

    /// Returns the evidence of looks. Each is the window, and the time in ms during which it has been full so far.
    fn window(max_peer_window: u64, looks: &[(u64, u32)]) -> HostWindow {
        let mut window = HostWindow::default();
        for (peer_window, full) in looks {
            let limited_by_peer = *full * MS;
            window.look(&Sample { peer_window: *peer_window, max_peer_window, limited_by_peer, ..Sample::default() });
        }
        window
    }

    const FULL: [u32; 5] = [0, 4, 8, 8, 12];
    const SCALE_7: u64 = 65_535 << 7;

    fn with(window: u64, full: [u32; 5]) -> [(u64, u32); 5] {
        full.map(|full| (window, full))
    }

    /// The host, the most that its scale allows, its looks, the rate in Mbit/s, the window that is the bound.
    type Case = (&'static str, u64, [(u64, u32); 5], u64, Option<u64>);

    #[test]
    fn a_window_is_a_bound_only_where_it_cannot_grow() {
        let autotuned = [(64 * KIB, 0), (64 * KIB, 4), (700 * KIB, 8), (700 * KIB, 8), (5_000 * KIB, 8)];
        let closes = [(256 * KIB, 0), (20 * KIB, 200), (256 * KIB, 400), (0, 600), (200 * KIB, 800)];
        let cases: Vec<Case> = vec![
            ("a fixed window, full at times", SCALE_7, with(256 * KIB, FULL), 240, Some(256 * KIB)),
            ("a fixed window on a slow line", SCALE_7, with(256 * KIB, FULL), 20, Some(256 * KIB)),
            ("a window that was never full", SCALE_7, with(256 * KIB, [0; 5]), 240, None),
            ("a window that was full twice", SCALE_7, with(256 * KIB, [0, 4, 8, 8, 8]), 240, None),
            ("an autotuned window", SCALE_7, autotuned, 240, None),
            ("a window that closes", SCALE_7, closes, 240, None),
            (
                "a window that varies a little",
                SCALE_7,
                FULL.map(|full| (KIB * (256 - u64::from(full)), full)),
                240,
                Some(256 * KIB),
            ),
            ("no window scale", 65_535, with(65_535, [0; 5]), 240, Some(65_535)),
            ("no window scale on a slow line", 65_535, with(65_535, [0; 5]), 2, Some(65_535)),
            ("no window scale, and a smaller window", 65_535, with(16 * KIB, [0; 5]), 5, None),
            ("the same, full", 65_535, with(16 * KIB, FULL), 5, Some(16 * KIB)),
            ("a rate that no window of this scale has", 65_535 << 2, with(100 * KIB, [0; 5]), 240, Some(65_535 << 2)),
            ("a kernel that reports neither", 0, with(0, FULL), 240, None),
            ("a kernel that reports no window", 65_535, with(0, FULL), 5, None),
            ("a scale that is not known", 0, with(64 * KIB, [0; 5]), 240, None),
        ];
        for (what, max, looks, mbit, bound) in cases {
            let gain = Gain::of(&window(max, &looks), &facts(mbit, 63 * MS, MS / 5));
            assert_eq!(gain.map(|gain| gain.window.0), bound, "{what}");
            let gains = gain.is_some_and(|gain| gain.times().is_some());
            assert_eq!(gains, bound.is_some_and(|window| mbit * 1_000_000 > window * 8 * 1000 / 63), "{what}");
        }
    }

    #[test]
    fn only_a_flow_from_the_wan_to_the_lan_has_a_gain() {
        let window = window(SCALE_7, &with(256 * KIB, FULL));
        let of = |wan, lan| Gain::of(&window, &facts(240, wan, lan));
        let gain = of(63 * MS, MS / 5).unwrap();
        assert_eq!((gain.rate, gain.alone), (Rate(240_000_000), window_rate(Bytes(262_144), 63 * MS + MS / 5)));
        assert!((7.1..7.3).contains(&gain.times().unwrap()), "{gain:?}");
        assert_eq!(gain.to_string(), "30.0 MB/s; alone at most 4.1 MB/s");
        let slow = Gain::of(&window, &facts(20, 63 * MS, MS / 5)).unwrap();
        assert_eq!(
            (slow.times(), slow.to_string()),
            (None, "no gain by the window: 2.5 MB/s; alone at most 4.1 MB/s".into())
        );
        assert_eq!(
            gain.evidence(),
            "the host offers 262144 bytes and did not offer more while its window was full: 262144 bytes / 63.2 ms = 33.2 Mbit/s"
        );
        assert_eq!(of(MS / 5, MS / 5), None, "both legs are LAN");
        assert_eq!(of(63 * MS, 63 * MS), None, "both legs are WAN");
        assert_eq!(of(MS / 5, 63 * MS), None, "an upload: the window is that of the far side");
        assert_eq!(of(63 * MS, Duration::ZERO), None, "a round trip that was never measured");
        assert_eq!(of(Duration::ZERO, MS / 5), None);
    }

    #[test]
    fn an_autotuned_window_that_grows_later_is_no_bound_any_more() {
        let mut host = window(SCALE_7, &with(256 * KIB, FULL));
        let gain = |host: &HostWindow| Gain::of(host, &facts(240, 63 * MS, MS / 5));
        assert!(gain(&host).is_some());
        let look = |peer_window| Sample { peer_window, max_peer_window: SCALE_7, ..Sample::default() };
        host.look(&look(20 * KIB));
        assert!(gain(&host).is_some(), "the program there paused for a moment");
        host.look(&look(512 * KIB));
        assert!(gain(&host).is_none());
    }
}
