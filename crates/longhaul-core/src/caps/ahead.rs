//! The bytes of one direction of a flow that the kernel has sent and that its limit has not paid for yet.
//!
//! The kernel sends a whole segment at once, of two times the MSS to 64 kB, and then waits until the limit has paid for it:
//! 2.3 s at 10 kbit/s, the share of each of 100 flows below 1 Mbit/s. Such a segment is no excess. If it counted as one, the account would lower the limits after each
//! segment. A higher limit comes into force with the next ACK, which follows the next segment, so that segment would be
//! charged at the low rate, and the flows would get a quarter of a small cap.

use super::account::HORIZON;
use longhaul_units::Rate;
use std::time::Duration;

/// Bytes that were sent ahead of the limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ahead {
    bytes: f64,
    /// Rate at which the last segment was charged. `None` means that there was no limit.
    charge: Option<Rate>,
    /// Rate at which the next segment will be charged.
    next: Option<Rate>,
    /// Time for which the direction counts as held back by its limit.
    hold: Duration,
    /// Whether the last segment takes longer than the account looks ahead.
    is_slow: bool,
}

impl Ahead {
    /// Returns the state of a direction that begins with `limit`.
    pub(super) fn begin(limit: Option<Rate>) -> Ahead {
        Ahead { bytes: 0.0, charge: limit, next: limit, hold: Duration::ZERO, is_slow: false }
    }

    /// Returns the number of bytes.
    pub(super) fn bytes(&self) -> f64 {
        self.bytes
    }

    /// Whether the direction sends nothing because its last segment is not paid for, or was not until [`MARGIN`] ago.
    pub(super) fn is_held(&self) -> bool {
        !self.hold.is_zero()
    }

    /// Whether the last segment takes so long that the account cannot correct the limit meanwhile.
    pub(super) fn is_slow(&self) -> bool {
        self.is_slow
    }

    /// Counts `elapsed`, in which the socket has sent `paced` bytes that the kernel paces. `limit` is the socket's.
    pub(super) fn pass(&mut self, elapsed: Duration, paced: u64, limit: Option<Rate>) {
        let Some(charge) = self.charge.filter(|_| limit.is_some()) else {
            *self = Ahead::begin(limit);
            return;
        };
        let paid = charge.0 as f64 / 8.0 * elapsed.as_secs_f64();
        self.bytes = ((self.bytes - paid).max(0.0) + paced as f64).min(MAX_SEGMENT);
        if paced > 0 {
            // The ACK of the segment brings the socket's limit into force.
            (self.charge, self.next) = (self.next, limit);
        }
        let rate = self.charge.map_or(f64::INFINITY, |charge| charge.0.max(1) as f64 / 8.0);
        let left = Duration::try_from_secs_f64(self.bytes / rate).unwrap_or(Duration::MAX);
        if paced > 0 {
            self.is_slow = left >= HORIZON;
        }
        // Bytes that the next look finds paid for may have been sent one after the other.
        self.hold = match left >= elapsed + MIN_HOLD {
            true => left.saturating_add(MARGIN),
            false => self.hold.saturating_sub(elapsed),
        };
    }

    /// Follows a new limit of the socket. A lower one holds for the next segment, a higher one after the next ACK.
    pub(super) fn tell(&mut self, limit: Option<Rate>) {
        self.next = self.next.into_iter().chain(limit).min();
    }
}

/// The kernel does not pace the first ten segments of a connection, with an MSS of 1,448 bytes.
pub(super) const UNPACED_BYTES: u64 = 14_480;
/// Least time beyond the next look for which a segment must be unpaid to show that its limit holds the direction back.
const MIN_HOLD: Duration = Duration::from_millis(25);
/// Time for which the limit still counts as the reason after the segment is paid for: the next segment may be late, and
/// a look too. A limit that is lowered before that segment would hold for it.
const MARGIN: Duration = Duration::from_millis(250);
/// Largest number of bytes that the kernel sends at once (net/ipv4/tcp_output.c, tcp_tso_autosize).
const MAX_SEGMENT: f64 = 65_536.0;

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const SLOW: Option<Rate> = Some(Rate(8_000));
    const FAST: Option<Rate> = Some(Rate(80_000));

    #[test]
    fn a_segment_is_paid_at_the_rate_of_its_charge() {
        let mut ahead = Ahead::begin(SLOW);
        ahead.pass(SECOND, 3_000, SLOW);
        ahead.tell(FAST);
        ahead.pass(SECOND, 0, FAST);
        assert_eq!(ahead.bytes(), 2_000.0, "it was charged at the low rate");
        ahead.pass(2 * SECOND, 3_000, FAST);
        ahead.pass(SECOND, 0, FAST);
        assert_eq!(ahead.bytes(), 2_000.0, "no ACK had come since the rate was low");
        ahead.pass(SECOND, 3_000, FAST);
        ahead.tell(SLOW);
        assert_eq!(ahead.bytes(), 4_000.0);
        ahead.pass(SECOND / 10, 0, SLOW);
        assert_eq!(ahead.bytes(), 3_000.0, "it was charged at the high rate");
    }

    #[test]
    fn a_direction_is_held_until_a_while_after_its_segment_is_paid() {
        let look = Duration::from_millis(25);
        let mut ahead = Ahead::begin(SLOW);
        assert!(!ahead.is_held() && !ahead.is_slow());
        // 1,000 bytes take a second at 8 kbit/s.
        ahead.pass(look, 1_000, SLOW);
        assert!(ahead.is_slow());
        let mut looks = 0;
        while ahead.is_held() {
            ahead.pass(look, 0, SLOW);
            looks += 1;
        }
        assert!((48..=52).contains(&looks), "1.25 s: {looks} looks");
        for _ in 0..100 {
            // What the limit allows, or a path sends that is slower.
            ahead.pass(look, 25, SLOW);
            assert!(!ahead.is_held() && !ahead.is_slow());
        }
    }

    #[test]
    fn more_than_a_segment_counts_at_once_and_without_a_limit_everything_does() {
        let mut ahead = Ahead::begin(SLOW);
        ahead.pass(SECOND, 1_000_000, SLOW);
        assert_eq!(ahead.bytes(), MAX_SEGMENT);
        ahead.pass(SECOND, 1_000_000, None);
        assert_eq!(ahead.bytes(), 0.0);
        ahead.tell(SLOW);
        ahead.pass(SECOND, 1_000, SLOW);
        assert_eq!(ahead.bytes(), 0.0, "it was sent without a limit");
        ahead.pass(SECOND, 3_000, SLOW);
        assert_eq!(ahead.bytes(), 3_000.0);
    }
}
