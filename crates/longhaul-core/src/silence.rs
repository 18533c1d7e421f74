//! How long a leg waits for its silent peer: decides when it probes the peer, how often it retransmits, and when it gives up.
//!
//! A RST is one packet that is never retransmitted. If it is lost, a peer that only receives does not notice until its
//! kernel sends a probe. So a leg that was active and fell silent probes its peer after 5 s, and again every 5 s until
//! it gets an answer, or [less often](rare) after three without one. Then the leg is idle, and probes once a minute. A
//! peer that never answers an idle leg is given up after 120 s. The peer of an active leg is given up after [`PATIENCE`]
//! where the kernel can limit the time between retransmissions ([`Limits`]), and otherwise after 120 s, too (see [`ACTIVE`]).
//!
//! ```text
//!            bytes moved                    8 s without a byte
//!  Idle ───────────────────> Active ───────────────────────────> check the leg
//!    ^                         ^ └── a byte: 8 s begin again        │    │
//!    │                         └────── in doubt: again in 5 s ──────┘    │
//!    └──────────────────────────── answered ─────────────────────────────┘
//! ```

use std::time::{Duration, Instant};

/// Times of keepalive. A silent peer is given up after `idle + interval * count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Silence before the first probe.
    pub idle: Duration,
    /// Time between two probes.
    pub interval: Duration,
    /// Number of unanswered probes after which the peer is given up.
    pub count: u32,
}

/// Keepalive of a leg that is active or has just fallen silent. The first three probes are sent within 15 s. 5 s + 23 x
/// 5 s = 120 s, as with the presets of the option table, 60 s + 4 x 15 s.
pub const ACTIVE: Keepalive = Keepalive { idle: Duration::from_secs(5), interval: Duration::from_secs(5), count: 23 };

/// Returns the time between the keepalive probes of an active leg with [`Limits`] that has no answer to [`RARE_AFTER`] of them, in
/// whole seconds. The kernel adds the probes of bytes that are [held back](LegLook::is_held_back) to those of keepalive, and gives up
/// after 15 in all: with a probe every 5 s, a flow that sends its first bytes 75 s after this host's link went down would end at once.
/// An eighth of the patience, because the kernel looks at the patience only when a probe is due.
pub fn rare(patience: Duration) -> Duration {
    Duration::from_secs(patience.as_secs() / 8).max(ACTIVE.interval)
}

/// Number of unanswered probes from which on they are [`rare`]. The third one is due in 5 s then.
pub const RARE_AFTER: u8 = 2;

/// Time for which an active leg waits for its silent peer, with [`Limits`]: so long that an operator can repair a line, and about as
/// long as the kernel's own tcp_retries2.
pub const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// Limits of a leg whose peer takes bytes. They go together: with `rto_max` alone, the kernel gives up after its 15 retransmissions
/// (tcp_retries2) in 15 s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest time between two retransmissions. An outage lasts up to this much longer for the flow.
    pub rto_max: Duration,
    /// Time after which a peer that acknowledges nothing is given up, whether bytes are in flight or keepalive probes. [`NEVER`] until
    /// the patience is almost over: the kernel also counts it from the first probe of a closed window, and does not begin again when
    /// the window opens for less than the next segment (net/ipv4/tcp_input.c, tcp_ack_probe). A slow reader would end so.
    pub user_timeout: Duration,
}

/// User-timeout that no flow lives to see. The kernel takes at most 24 days.
pub const NEVER: Duration = Duration::from_secs(20 * 24 * 3600);

/// Age from which on a flow gets its keepalive from this module.
pub const MIN_AGE: Duration = Duration::from_secs(3);

/// A leg as the kernel reports it. A field that the kernel does not report is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LegLook {
    /// Time since payload was last sent.
    pub since_sent: Duration,
    /// Time since payload was last received.
    pub since_received: Duration,
    /// Probes, of keepalive or of the window, since the peer last acknowledged anything.
    pub unanswered_probes: u8,
    /// Segments sent and not yet acknowledged.
    pub unacked_segments: u32,
    /// Bytes written by the program and not yet sent.
    pub unsent_bytes: u32,
    /// The peer's window, in bytes. Linux reports it since 5.4.
    pub peer_window: u32,
    /// Payload bytes of a full segment to the peer.
    pub segment_bytes: u32,
    /// Bytes that the peer has acknowledged.
    pub acked_bytes: u64,
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// Mean deviation of the round-trip time.
    pub rtt_var: Duration,
}

/// Result of a check of a silent leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// The peer has answered, or does not read for a long time. The leg becomes idle.
    Idle,
    /// The peer has not answered yet. The leg is checked again.
    InDoubt,
}

impl LegLook {
    /// Checks a leg whose flow moved no byte for [`SETTLED`] while [`ACTIVE`] was in force.
    pub fn check(&self) -> Check {
        let silent = self.since_sent.min(self.since_received);
        // An unanswered probe stays counted. With a keepalive-count smaller than that count, the kernel would give the
        // peer up at once (net/ipv4/tcp_timer.c, tcp_keepalive_timer).
        let unanswered = self.unanswered_probes > 0;
        // While bytes are unsent or unacknowledged, the kernel sends no keepalive probes: retransmissions and window
        // probes take their place (same function).
        let is_busy = self.unacked_segments > 0 || self.unsent_bytes > 0;
        match !unanswered && (silent >= BUSY_SETTLED && !self.is_in_flight() || silent >= SETTLED && !is_busy) {
            true => Check::Idle,
            false => Check::InDoubt,
        }
    }

    /// Returns the limits of an active leg, whose `rto_max` is at least `least`, and whose peer has owed an answer for the time `waits`.
    /// `None` if those of the kernel must hold, because the peer takes no bytes or gets none: the kernel then counts window probes,
    /// gives up after 15 of them (16 s with an `rto_max` of 1 s), and counts the time of a user-timeout even if the peer answers each
    /// (net/ipv4/tcp_timer.c, tcp_probe_timer).
    pub fn limits(&self, least: Duration, patience: Duration, waits: Duration) -> Option<Limits> {
        // The window may be open and still too small for the next segment.
        let takes_bytes = self.peer_window > 0 && (self.unacked_segments > 0 || self.unsent_bytes == 0);
        let user_timeout = if waits >= patience * 14 / 15 { patience } else { NEVER };
        takes_bytes.then(|| Limits { rto_max: least.max(3 * self.rto()), user_timeout })
    }

    /// Whether bytes are on their way to a peer that takes them, or would be if this host [sent](LegLook::is_held_back) them.
    pub fn is_in_flight(&self) -> bool {
        self.unacked_segments > 0 && self.peer_window > 0 || self.is_held_back()
    }

    /// Whether this host does not send bytes that the peer's window has room for: its link is down, it has no route, or a rule drops
    /// what it sends. The kernel then waits as with a closed window, with probes that it does not send either.
    pub fn is_held_back(&self) -> bool {
        let next_segment = self.unsent_bytes.min(self.segment_bytes);
        self.unacked_segments == 0 && self.unsent_bytes > 0 && self.peer_window >= next_segment.max(1)
    }

    /// Returns the retransmission timeout of RFC 6298 2.3 without the kernel's bounds. The kernel's own is doubled already when bytes
    /// are retransmitted.
    pub fn rto(&self) -> Duration {
        self.rtt + 4 * self.rtt_var
    }
}

/// The keepalive of a flow that is not idle. Arrays have one element for each leg.
#[derive(Clone, Copy, Debug)]
pub struct Silence {
    /// Time of the next check in the kernel, unless bytes move before.
    due: Instant,
    /// Whether the keepalive of each leg is [`ACTIVE`].
    active: [bool; 2],
}

impl Silence {
    /// Returns the keepalive of a flow that is looked at from `now` on. No leg is [`ACTIVE`].
    pub const fn begin(now: Instant) -> Silence {
        Silence { due: now, active: [false; 2] }
    }

    /// Records that bytes moved since the last look. Returns the legs whose keepalive has to become [`ACTIVE`].
    pub fn moved(&mut self, now: Instant) -> [bool; 2] {
        self.due = now + SETTLED;
        std::mem::replace(&mut self.active, [true; 2]).map(|active| !active)
    }

    /// Returns the legs to check `now`, or `None` if it is too early for a check. Call it only if no bytes moved since
    /// the last look.
    pub fn to_check(&self, now: Instant) -> Option<[bool; 2]> {
        (now >= self.due).then_some(self.active)
    }

    /// Records the checks of the legs from [`to_check`](Silence::to_check). `None` stands for a leg that was not
    /// checked: it is closed, or its keepalive is a user's. Returns the legs whose keepalive has to become idle.
    pub fn checked(&mut self, now: Instant, checks: [Option<Check>; 2]) -> [bool; 2] {
        if checks.contains(&Some(Check::InDoubt)) {
            self.due = now + ACTIVE.idle;
        }
        let idle = checks.map(|check| check == Some(Check::Idle));
        for (active, idle) in self.active.iter_mut().zip(idle) {
            *active &= !idle;
        }
        idle
    }

    /// Returns the legs whose keepalive is [`ACTIVE`].
    pub fn active(&self) -> [bool; 2] {
        self.active
    }

    /// Whether a leg has to be checked again after `now`. Otherwise the flow is idle until its next byte.
    pub fn is_in_doubt(&self, now: Instant) -> bool {
        self.due > now
    }
}

/// Silence after which the first probe of [`ACTIVE`] has its answer, with an RTT of up to 2 s and late timers.
pub const SETTLED: Duration = Duration::from_secs(8);
/// Silence after which a leg is idle even though bytes wait in it, because its peer does not read.
const BUSY_SETTLED: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_limits_an_active_leg_gives_its_peer_up_after_two_minutes() {
        assert_eq!(ACTIVE.idle + ACTIVE.interval * ACTIVE.count, Duration::from_secs(120));
    }

    #[test]
    fn a_leg_has_limits_while_its_peer_takes_bytes() {
        let ms = Duration::from_millis;
        let limits = |look: LegLook| look.limits(ms(1000), PATIENCE, ms(0)).map(|limits| limits.rto_max);
        let quiet = LegLook { peer_window: 100, rtt: ms(60), rtt_var: ms(5), ..LegLook::default() };
        let bulk = LegLook { unacked_segments: 1, unsent_bytes: 1, ..quiet };
        assert_eq!([limits(quiet), limits(bulk)], [Some(ms(1000)); 2]);
        assert_eq!(limits(LegLook { rtt: ms(600), rtt_var: ms(50), ..bulk }), Some(ms(2400)), "no false timeout");
        let timeout =
            |minutes: u64| bulk.limits(ms(1000), PATIENCE, Duration::from_secs(60 * minutes)).unwrap().user_timeout;
        assert_eq!([timeout(0), timeout(13), timeout(14), timeout(15)], [NEVER, NEVER, PATIENCE, PATIENCE]);
        let none = [
            ("closed", LegLook { peer_window: 0, unsent_bytes: 1, ..quiet }),
            ("closed over bytes in flight", LegLook { peer_window: 0, ..bulk }),
            ("too small for a segment", LegLook { unsent_bytes: 101, segment_bytes: 101, ..quiet }),
            (
                "the bytes are held back, which the kernel counts like a closed window",
                LegLook { unsent_bytes: 1, ..quiet },
            ),
        ];
        for (what, look) in none {
            assert_eq!(limits(look), None, "{what}");
        }
    }

    #[test]
    fn bytes_are_held_back_if_the_window_has_room_for_the_next_segment() {
        let open = LegLook { peer_window: 1448, segment_bytes: 1448, unsent_bytes: 9000, ..LegLook::default() };
        let cases = [
            (true, "room for one segment of many", open),
            (true, "room for the last one", LegLook { peer_window: 100, unsent_bytes: 100, ..open }),
            (false, "room for a part of a segment", LegLook { peer_window: 1447, ..open }),
            (false, "closed", LegLook { peer_window: 0, ..open }),
            (false, "closed, or not reported by this kernel", LegLook { peer_window: 0, segment_bytes: 0, ..open }),
            (
                false,
                "bytes are in flight, and their acknowledgements send more",
                LegLook { unacked_segments: 1, ..open },
            ),
            (false, "nothing to send", LegLook { unsent_bytes: 0, ..open }),
        ];
        for (expected, what, look) in cases {
            assert_eq!(look.is_held_back(), expected, "{what}");
        }
        let long_ago = LegLook { since_sent: BUSY_SETTLED, since_received: BUSY_SETTLED, ..open };
        assert_eq!(long_ago.check(), Check::InDoubt, "the peer does not answer, because it gets nothing");
    }

    /// In virtual time: the link of this host goes down, and the flow sends its first bytes any time later.
    #[test]
    fn a_flow_outlives_nine_minutes_in_which_this_host_sends_nothing() {
        let keepalive_probes = |time: u64| match time {
            0..15 => time / 5,
            _ => 3 + (time - 15) / rare(PATIENCE).as_secs(),
        };
        // net/ipv4/tcp_timer.c, tcp_probe_timer: the probe at which 15 have no answer ends the connection.
        let life_s =
            |probes: u64| (probes..16).map(|probe| (0.2 * 2f64.powi((probe - probes) as i32)).min(120.0)).sum::<f64>();
        let ends = |begin: u64| begin as f64 + life_s(keepalive_probes(begin));
        assert!(ends(0) > 14.0 * 60.0, "{}", ends(0));
        let soonest = (0..PATIENCE.as_secs()).map(ends).fold(f64::INFINITY, f64::min);
        assert!(soonest > 9.0 * 60.0, "{soonest}");
        let due = (15..).step_by(rare(PATIENCE).as_secs() as usize).map(Duration::from_secs);
        let end = due.into_iter().find(|time| *time >= PATIENCE).unwrap();
        assert!(
            end < PATIENCE + Duration::from_secs(60),
            "a silent peer is given up at the first probe after the patience"
        );
    }

    #[test]
    fn a_leg_is_idle_once_its_peer_has_answered() {
        let answered = LegLook { since_sent: SETTLED, since_received: SETTLED, ..LegLook::default() };
        assert_eq!(answered.check(), Check::Idle);
        let not_yet = [
            ("a probe is not answered", LegLook { unanswered_probes: 1, ..answered }),
            ("sent a moment ago", LegLook { since_sent: SETTLED / 2, ..answered }),
            ("received a moment ago", LegLook { since_received: SETTLED / 2, ..answered }),
            ("not acknowledged", LegLook { unacked_segments: 1, ..answered }),
            ("not sent", LegLook { unsent_bytes: 1, ..answered }),
        ];
        for (what, leg) in not_yet {
            assert_eq!(leg.check(), Check::InDoubt, "{what}");
        }
        let unread = LegLook { since_sent: BUSY_SETTLED, since_received: BUSY_SETTLED, unsent_bytes: 1, ..answered };
        assert_eq!(unread.check(), Check::Idle, "its peer does not read");
        let retransmitted = LegLook { unacked_segments: 1, peer_window: 1, ..unread };
        assert_eq!(retransmitted.check(), Check::InDoubt, "its peer does not answer");
        let probed = LegLook { unanswered_probes: 1, ..unread };
        assert_eq!(probed.check(), Check::InDoubt, "a window probe is not answered");
    }

    /// In virtual time: bytes, silence, an answer on one leg, then on the other.
    #[test]
    fn a_flow_falls_silent_leg_by_leg() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut flow = Silence::begin(start);
        assert_eq!(flow.moved(at(0)), [true, true]);
        assert_eq!(flow.to_check(at(7)), None);
        assert_eq!(flow.moved(at(7)), [false, false], "they are active already");
        assert_eq!(
            (flow.to_check(at(14)), flow.to_check(at(15))),
            (None, Some([true, true])),
            "8 s from the last byte"
        );
        assert_eq!(flow.checked(at(15), [Some(Check::Idle), Some(Check::InDoubt)]), [true, false]);
        assert!(flow.is_in_doubt(at(15)));
        assert_eq!((flow.to_check(at(19)), flow.to_check(at(20))), (None, Some([false, true])), "again in 5 s");
        assert_eq!(flow.checked(at(20), [None, Some(Check::Idle)]), [false, true]);
        assert!(!flow.is_in_doubt(at(20)));
        assert_eq!(flow.moved(at(99)), [true, true], "a byte while the last leg became idle");
    }

    #[test]
    fn a_leg_that_is_never_checked_keeps_no_flow_in_doubt() {
        let start = Instant::now();
        let mut flow = Silence::begin(start);
        assert_eq!(flow.to_check(start), Some([false, false]), "no byte has moved");
        assert!(!flow.is_in_doubt(start));
        flow.moved(start);
        let later = start + SETTLED;
        assert_eq!(flow.checked(later, [Some(Check::Idle), None]), [true, false]);
        assert!(!flow.is_in_doubt(later));
        assert_eq!(flow.moved(later), [true, false], "the other leg was active all the time");
    }
}
