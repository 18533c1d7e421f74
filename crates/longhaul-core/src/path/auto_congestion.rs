//! `congestion = "auto"`: a leg gets BBR when its first congestion control limits bulk on a WAN path.
//!
//! ```text
//!  Open <--> Slow          bulk waits for the congestion window, out of slow start
//!     \       |
//!      +---> Started --+   the leg has BBR
//!      |      ^  |     |   BBR has not filled the path: it starts again
//!      |      +--|-----+
//!      v         v
//!      Settled             a LAN, or BBR has filled the path
//! ```

use super::sample::{MIN_ACKED_BYTES, Sample, WAN_RTT};
use std::time::{Duration, Instant};

/// The choice of one leg's congestion control, updated by each sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AutoCongestion(State);

/// How to give BBR to a leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The leg has its first control, so set BBR.
    First,
    /// The leg has BBR already, so restart it.
    Again,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The leg keeps its control.
    Settled,
    /// Nothing calls for BBR so far.
    Open,
    /// The congestion window has held bytes back since then, out of slow start and at less than [`MAX_BBR_RATE`].
    Slow {
        since: Instant,
        /// Value of [`Sample::limited_by_path`] at that time.
        limited: Duration,
    },
    /// The leg has had BBR since then.
    Started {
        since: Instant,
        /// Delivery rate without BBR, in kilobytes per second.
        rate: u32,
        /// Number of restarts of BBR that are left.
        restarts: u8,
    },
}

impl AutoCongestion {
    /// Returns the choice of a leg that begins. It is open if the process may set BBR.
    pub const fn begin(may_set_bbr: bool) -> AutoCongestion {
        if may_set_bbr { AutoCongestion::open() } else { AutoCongestion::settled() }
    }

    /// Returns a choice that is still open.
    pub const fn open() -> AutoCongestion {
        AutoCongestion(State::Open)
    }

    /// Returns a choice that is made: the leg keeps its control.
    pub const fn settled() -> AutoCongestion {
        AutoCongestion(State::Settled)
    }

    /// Whether the choice is made, so that further samples change nothing.
    pub fn is_settled(&self) -> bool {
        self.0 == State::Settled
    }

    /// Takes a sample of a leg that has taken [`MIN_ACKED_BYTES`] and currently takes no more. Returns how to give the
    /// leg BBR if it should have it now. If the leg cannot have it, call [`settle`](AutoCongestion::settle).
    pub fn look(&mut self, sample: &Sample, now: Instant) -> Option<Start> {
        let (state, start) = self.0.next(sample, now);
        self.0 = state;
        start
    }

    /// Ends the choice: the leg keeps its control.
    pub fn settle(&mut self) {
        self.0 = State::Settled;
    }
}

impl Start {
    /// Returns the controls to set on the leg, one after the other. The leg has BBR if the last one succeeds. There are
    /// none if the leg `has_bbr` already since the handshake, from a route's congctl; then no further sample is needed.
    /// `has_bbr` is called only if that matters.
    pub fn controls(self, has_bbr: impl FnOnce() -> bool) -> &'static [&'static str] {
        match self {
            Start::First if has_bbr() => &[],
            Start::First => &[BBR],
            // Setting BBR again would not restart it, so switch to Reno first. Every kernel has Reno and allows it to
            // every user.
            Start::Again => &[RENO, BBR],
        }
    }
}

/// Returns the controls of which the first that the kernel accepts replaces the control of a leg before its handshake.
/// There are none if the leg keeps its control. `is_bbr_default` tells whether a new socket has BBR.
///
/// BBR paces from the first byte, by a timer for each 64 KiB, and a LAN needs no pacing (docs/design/data-path.md). A
/// connection that was paced once stays paced under any control (net/ipv4/tcp_bbr.c, sk_pacing_status). So a leg does
/// not begin with BBR where BBR is the kernel's default. Where BBR is the default and the process may not set it, the
/// leg keeps it, because it could not get BBR back.
pub fn first_controls(may_set_bbr: bool, is_bbr_default: bool) -> &'static [&'static str] {
    if may_set_bbr && is_bbr_default { &[CUBIC, RENO] } else { &[] }
}

impl State {
    fn next(self, sample: &Sample, now: Instant) -> (State, Option<Start>) {
        let limited = sample.limited_by_path();
        let rate = u32::try_from(sample.delivery_rate / 1000).unwrap_or(u32::MAX);
        let start = |rate, restarts| State::Started { since: now, rate, restarts };
        let first = (start(rate, MAX_RESTARTS), Some(Start::First));
        let has_queue = sample.rtt.saturating_mul(4) >= sample.min_rtt.saturating_mul(5);
        match self {
            // A queue, or several times the old rate, shows that BBR has filled the path. BBR that starts among losses
            // may take the rate of its first rounds for the path's, and then needs seconds for each doubling.
            State::Started { rate: before, restarts, .. }
                if restarts == 0 || has_queue || rate / STARTUP_GROWTH >= before =>
            {
                (State::Settled, None)
            }
            State::Started { since, rate, restarts }
                if now - since >= sample.min_rtt.saturating_mul(BBR_STARTUP_RTTS) =>
            {
                (start(rate, restarts - 1), Some(Start::Again))
            }
            State::Started { .. } | State::Settled => (self, None),
            _ if sample.acked_bytes < MIN_ACKED_BYTES => (State::Open, None),
            // The smallest RTT, because delayed acknowledgements add to the RTT.
            _ if sample.min_rtt < WAN_RTT => (State::Settled, None),
            _ if sample.unsent_bytes == 0 || sample.is_in_slow_start() || sample.delivery_rate >= MAX_BBR_RATE => {
                (State::Open, None)
            }
            // Not during recovery, because BBR would take the low rate of that time for the path's.
            _ if sample.retransmitted_bytes > 0 && !sample.is_recovering => first,
            State::Slow { since, limited: before }
                if now - since <= limited.saturating_sub(before).saturating_add(sample.min_rtt) =>
            {
                let is_enough = limited.saturating_sub(before) >= sample.min_rtt.saturating_mul(MIN_LIMITED_RTTS);
                if is_enough { first } else { (self, None) }
            }
            // Begins to count. Or begins again, because something else held bytes back meanwhile or there were none to
            // send.
            _ => (State::Slow { since: now, limited }, None),
        }
    }
}

/// The kernel's name of BBR.
pub const BBR: &str = "bbr";
/// The kernel's name of CUBIC.
pub const CUBIC: &str = "cubic";
/// The kernel's name of Reno, which every kernel has and allows to every user.
pub const RENO: &str = "reno";

/// Number of successive round trips during which the congestion window has to hold bytes back if no bytes were lost.
/// Without a loss, slow start ended because the round-trip time grew, which may have been chance.
const MIN_LIMITED_RTTS: u32 = 5;

/// Number of round trips that BBR has to fill the path before it is restarted.
const BBR_STARTUP_RTTS: u32 = 10;

/// Maximum number of times that BBR is restarted.
const MAX_RESTARTS: u8 = 5;

/// Factor by which the rate has to grow to show that BBR has filled the path.
const STARTUP_GROWTH: u32 = 8;

/// Rate in bytes per second from which on a leg keeps its control. BBR paces by a timer for each 64 KiB, which cost the
/// two relays 0.4 s more processor time per GB (docs/design/data-path.md).
const MAX_BBR_RATE: u64 = 500_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WAN: Duration = Duration::from_millis(60);

    /// Returns a sample of a leg out of slow start whose bytes wait for the congestion window.
    fn slow() -> Sample {
        Sample {
            unsent_bytes: 100_000,
            cwnd_segments: 20,
            ssthresh_segments: 20,
            acked_bytes: MIN_ACKED_BYTES,
            min_rtt: WAN,
            delivery_rate: 500_000,
            busy: WAN,
            ..Sample::default()
        }
    }

    /// Returns the sample of [`slow`] after `rtts` more round trips, all of them busy.
    fn after(rtts: u32) -> Sample {
        Sample { busy: WAN * (1 + rtts), ..slow() }
    }

    fn started(since: Instant, restarts: u8) -> State {
        State::Started { since, rate: 500, restarts }
    }

    #[test]
    fn bbr_is_due_where_the_window_holds_bulk_back() {
        let start = Instant::now();
        let first = |now| (started(now, MAX_RESTARTS), Some(Start::First));
        let (began, none) = State::Open.next(&slow(), start);
        assert_eq!((began, none), (State::Slow { since: start, limited: WAN }, None));
        assert_eq!(began.next(&after(4), start + 4 * WAN), (began, None));
        assert_eq!(began.next(&after(5), start + 5 * WAN), first(start + 5 * WAN));
        let lost = Sample { retransmitted_bytes: 1448, ..slow() };
        assert_eq!(State::Open.next(&lost, start), first(start), "at once where bytes were lost");
        let recovering = Sample { is_recovering: true, ..lost };
        assert_eq!(State::Open.next(&recovering, start), (began, None), "but not in recovery");

        let well = [
            ("nothing waits for the window", Sample { unsent_bytes: 0, ..after(5) }),
            ("slow start", Sample { ssthresh_segments: 21, ..after(5) }),
            ("fast", Sample { delivery_rate: MAX_BBR_RATE, ..after(5) }),
            ("not known yet", Sample { acked_bytes: MIN_ACKED_BYTES - 1, ..after(5) }),
        ];
        for (what, sample) in well {
            assert_eq!(began.next(&sample, start + 5 * WAN), (State::Open, None), "{what}");
        }
        let anew = [
            ("nothing was to be sent for a while", after(5), 7),
            ("the peer's window", Sample { limited_by_peer: 2 * WAN, ..after(5) }, 5),
            ("our buffer", Sample { limited_by_send_buffer: 2 * WAN, ..after(5) }, 5),
        ];
        for (what, sample, rtts) in anew {
            let now = start + rtts * WAN;
            assert!(matches!(began.next(&sample, now).0, State::Slow { since, .. } if since == now), "{what}");
        }
        let lan = Sample { min_rtt: Duration::from_micros(4999), ..slow() };
        assert_eq!(State::Open.next(&lan, start), (State::Settled, None));
    }

    #[test]
    fn bbr_begins_anew_until_it_has_found_the_path() {
        let start = Instant::now();
        let settled = (State::Settled, None);
        let (ninth, tenth) = (start + 9 * WAN, start + 10 * WAN);
        assert_eq!(started(start, 2).next(&slow(), ninth), (started(start, 2), None));
        assert_eq!(started(start, 2).next(&slow(), tenth), (started(tenth, 1), Some(Start::Again)));
        let queue = Sample { rtt: WAN * 5 / 4, ..slow() };
        assert_eq!(started(start, 2).next(&queue, ninth), settled);
        let faster = Sample { delivery_rate: 500_000 * u64::from(STARTUP_GROWTH), ..slow() };
        assert_eq!(started(start, 2).next(&faster, tenth), settled);
        assert_eq!(started(start, 0).next(&slow(), tenth), settled);
    }

    /// A whole flow in virtual time: losses at once, and a path on which BBR never gets faster.
    #[test]
    fn a_flow_gets_bbr_once_and_five_times_anew() {
        let (start, mut auto) = (Instant::now(), AutoCongestion::open());
        let lost = Sample { retransmitted_bytes: 1448, ..slow() };
        let looks = (0..100).map(|rtts| auto.look(&Sample { busy: rtts * WAN, ..lost }, start + rtts * WAN));
        let starts: Vec<_> = looks.enumerate().filter_map(|(rtts, start)| start.map(|start| (rtts, start))).collect();
        let again = |rtts| (rtts, Start::Again);
        assert_eq!(starts, [(0, Start::First), again(10), again(20), again(30), again(40), again(50)]);
        assert!(auto.is_settled());
    }

    #[test]
    fn a_leg_that_cannot_have_bbr_keeps_what_it_has() {
        let (start, mut auto) = (Instant::now(), AutoCongestion::open());
        let lost = Sample { retransmitted_bytes: 1448, ..slow() };
        assert_eq!(auto.look(&lost, start), Some(Start::First));
        auto.settle();
        assert_eq!((auto.look(&lost, start + 10 * WAN), auto), (None, AutoCongestion::settled()));
    }

    #[test]
    fn a_leg_begins_without_bbr_only_if_it_can_get_it_back() {
        assert_eq!(first_controls(true, true), ["cubic", "reno"]);
        assert!(
            [(true, false), (false, true), (false, false)].iter().all(|(may, is)| first_controls(*may, *is).is_empty())
        );
        assert_eq!(AutoCongestion::begin(true), AutoCongestion::open());
        assert!(AutoCongestion::begin(false).is_settled());
    }

    #[test]
    fn bbr_from_a_route_is_not_set_and_a_restart_leaves_bbr_first() {
        assert!(Start::First.controls(|| true).is_empty());
        assert_eq!(Start::First.controls(|| false), ["bbr"]);
        assert_eq!(Start::Again.controls(|| unreachable!("the kernel is not asked")), ["reno", "bbr"]);
    }

    proptest! {
        #[test]
        fn no_sample_panics(times in prop::array::uniform5(any::<Duration>()), counts in prop::array::uniform6(any::<u64>())) {
            let (start, mut auto) = (Instant::now(), AutoCongestion::open());
            let sample = Sample {
                rtt: times[0],
                min_rtt: times[1],
                busy: times[2],
                limited_by_peer: times[3],
                limited_by_send_buffer: times[4],
                delivery_rate: counts[0],
                acked_bytes: counts[1],
                retransmitted_bytes: counts[2],
                unsent_bytes: counts[3],
                cwnd_segments: counts[4] as u32,
                ssthresh_segments: counts[5] as u32,
                ..Sample::default()
            };
            for seconds in 0..20 {
                auto.look(&sample, start + Duration::from_secs(seconds));
            }
        }
    }
}
