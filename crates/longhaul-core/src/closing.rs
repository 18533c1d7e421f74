//! Decides when to look at a leg that closes, and whether its kernel would deliver the rest by itself.
//!
//! SO_LINGER 0 makes the kernel send RST when a socket is closed. In LAST_ACK and CLOSING it sends RST only while bytes
//! are unsent (net/ipv4/tcp.c, tcp_disconnect). Once everything was sent, it discards the unacknowledged bytes and sends
//! nothing, and the peer waits forever. So the relay turns SO_LINGER off at that moment.
//!
//! ```text
//!  Open ── both FINs ──> Unsent ── sent ──> Sent ── acknowledged ──> Acknowledged
//!  RST on close          RST on close       nothing on close
//! ```

use std::time::Duration;

/// State of a leg's connection, as far as its close depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The kernel does not report a state with data.
    Unknown,
    /// At most one FIN has passed.
    Open,
    /// Both FINs have passed, and ours is not acknowledged: LAST_ACK or CLOSING (RFC 9293 3.3.2).
    LastAck,
    /// The connection is gone: both FINs are acknowledged, or it was reset or given up.
    Closed,
}

/// Progress of a leg's close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// At most one FIN has passed. Closing the socket sends RST.
    Open,
    /// Both FINs have passed and bytes are unsent. Closing the socket sends RST.
    Unsent,
    /// Everything was sent, and not all of it is acknowledged. Closing the socket would send nothing.
    Sent,
    /// Every byte is acknowledged, or the connection is gone.
    Acknowledged,
}

/// The FINs that a flow has passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fins {
    /// Ours on this leg. The peer's FIN is not read yet.
    Ours,
    /// Both.
    Both,
}

impl Progress {
    /// Returns the progress of a leg with `unsent` bytes by its state alone, or `None` when the state does not tell.
    pub fn of(state: State, unsent: u32) -> Option<Progress> {
        match state {
            State::LastAck if unsent > 0 => Some(Progress::Unsent),
            State::LastAck => Some(Progress::Sent),
            State::Closed => Some(Progress::Acknowledged),
            State::Unknown => None,
            State::Open => Some(Progress::Open),
        }
    }

    /// Returns the progress of a leg on which the flow has passed on `fins`. `by_state` is the progress by the leg's
    /// state, see [`of`](Progress::of). `is_acknowledged` tells whether the peer has acknowledged every byte; it is
    /// called only if that matters.
    pub fn after(by_state: Option<Progress>, fins: Fins, is_acknowledged: impl Fn() -> bool) -> Progress {
        match by_state {
            Some(Progress::Sent | Progress::Unsent) if is_acknowledged() => Progress::Acknowledged,
            // The state of an mptcp leg is that of one subflow, which ends later.
            Some(Progress::Open) | None if fins == Fins::Both => {
                if is_acknowledged() {
                    Progress::Acknowledged
                } else {
                    Progress::Unsent
                }
            }
            by_state => by_state.unwrap_or(Progress::Open),
        }
    }

    /// Whether closing the socket with SO_LINGER 0 would send nothing, so that SO_LINGER must be off.
    pub fn is_sent(self) -> bool {
        matches!(self, Progress::Sent | Progress::Acknowledged)
    }
}

/// Whether a connection is closed and its peer has acknowledged the `sent` bytes and, on the accept leg, our FIN.
/// `acked` is the kernel's count of acknowledged bytes.
pub fn is_over(state: State, acked: u64, sent: u64) -> bool {
    // The FIN counts as one byte. On the dial leg the SYN counts too, so the FIN may still be unacknowledged there.
    state == State::Closed && acked > sent
}

/// Paces the looks at a leg that closes, because the kernel does not report when unsent bytes are sent.
#[derive(Clone, Copy, Debug)]
pub struct Looks {
    pause: Duration,
    /// Unsent bytes at the last look.
    unsent: u32,
}

impl Default for Looks {
    /// Returns the state before the first look.
    fn default() -> Looks {
        Looks { pause: FIRST_PAUSE, unsent: 0 }
    }
}

impl Looks {
    /// Returns the time until the next look at a leg that has made this `progress` and has `unsent` bytes. With
    /// `is_watched`, each change of the leg's state is reported. `None` means that no further look is needed.
    pub fn next(&mut self, progress: Progress, unsent: u32, is_watched: bool) -> Option<Duration> {
        match progress {
            Progress::Acknowledged => None,
            Progress::Open | Progress::Sent if is_watched => Some(WATCHED_PAUSE),
            _ => Some(self.next_pause(unsent)),
        }
    }

    /// The pause is short while the number of unsent bytes falls, because the leg must not stay long with everything
    /// sent and SO_LINGER 0. Otherwise it doubles each time, so that a long outage costs little however many flows it
    /// affects.
    fn next_pause(&mut self, unsent: u32) -> Duration {
        let is_moving = unsent < self.unsent;
        self.unsent = unsent;
        let pause = if is_moving { self.pause.min(MOVING_PAUSE) } else { self.pause };
        self.pause = (pause * 2).min(LAST_PAUSE);
        pause
    }
}

/// First pause before another look at a leg with unsent bytes.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// Longest pause while the number of unsent bytes falls.
const MOVING_PAUSE: Duration = Duration::from_millis(10);
/// Longest pause while no bytes are sent.
const LAST_PAUSE: Duration = Duration::from_secs(1);
/// Interval between two looks at a leg that has a watch, which reports each change.
const WATCHED_PAUSE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_leg_with_both_fins_and_no_unsent_byte_closes_in_silence() {
        let of = |state, unsent| Progress::of(state, unsent);
        assert_eq!(of(State::LastAck, 1), Some(Progress::Unsent));
        assert_eq!(of(State::LastAck, 0), Some(Progress::Sent));
        assert_eq!(of(State::Open, 0), Some(Progress::Open));
        assert_eq!(of(State::Closed, 1), Some(Progress::Acknowledged), "its queue stays");
        assert_eq!(of(State::Unknown, 1), None);
        let silent = [Progress::Open, Progress::Unsent, Progress::Sent, Progress::Acknowledged].map(Progress::is_sent);
        assert_eq!(silent, [false, false, true, true]);
    }

    #[test]
    fn the_queue_decides_where_the_state_does_not() {
        let after = |by_state, fins, acknowledged| Progress::after(by_state, fins, || acknowledged);
        for fins in [Fins::Ours, Fins::Both] {
            for progress in [Progress::Unsent, Progress::Sent] {
                assert_eq!(after(Some(progress), fins, false), progress);
                assert_eq!(after(Some(progress), fins, true), Progress::Acknowledged);
            }
            let gone = Progress::after(Some(Progress::Acknowledged), fins, || unreachable!("the queue is not asked"));
            assert_eq!(gone, Progress::Acknowledged);
        }
        for by_state in [None, Some(Progress::Open)] {
            assert_eq!(after(by_state, Fins::Both, true), Progress::Acknowledged);
            assert_eq!(after(by_state, Fins::Both, false), Progress::Unsent);
            let ours = Progress::after(by_state, Fins::Ours, || unreachable!("the peer's FIN is missing"));
            assert_eq!(ours, Progress::Open);
        }
    }

    /// A reset leg has nothing left to wait for, and an unacknowledged FIN is not a good end.
    #[test]
    fn a_leg_that_was_reset_before_its_fin_was_acknowledged_is_not_over() {
        assert!(!is_over(State::Closed, 999, 1000), "a byte and the FIN");
        assert!(!is_over(State::Closed, 1000, 1000), "the FIN");
        assert!(is_over(State::Closed, 1001, 1000));
        assert!(!is_over(State::LastAck, 1001, 1000), "its connection is still there");
    }

    /// In virtual time: the looks of an outage, of the bytes that move after it, and of the wait for the last
    /// acknowledgement.
    #[test]
    fn looks_are_frequent_only_while_bytes_move() {
        let mut looks = Looks::default();
        let pauses = |looks: &mut Looks, unsent: &[u32]| -> Vec<u128> {
            let pause = |&unsent| looks.next(Progress::Unsent, unsent, true).unwrap().as_millis();
            unsent.iter().map(pause).collect()
        };
        assert_eq!(pauses(&mut looks, &[9; 13]), [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000, 1000]);
        assert_eq!(pauses(&mut looks, &[8, 7, 6]), [10, 10, 10], "bytes move");
        assert_eq!(pauses(&mut looks, &[6, 6, 6]), [20, 40, 80], "no byte moves");
        assert_eq!(looks.next(Progress::Sent, 0, true), Some(WATCHED_PAUSE));
        assert_eq!(looks.next(Progress::Open, 0, true), Some(WATCHED_PAUSE));
        assert_eq!(looks.next(Progress::Sent, 6, false), Some(Duration::from_millis(160)), "nothing reports a change");
        assert_eq!(looks.next(Progress::Acknowledged, 6, true), None);
    }
}
