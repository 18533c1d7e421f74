//! Decides when a flow has made no progress for too long, and when the peer of a leg does not answer.

use crate::silence::LegLook;
use std::time::{Duration, Instant};

/// The progress of one flow since its last look. Progress is a byte moved into a socket, or an acknowledgement of a byte
/// that waits there: a socket with a large buffer takes no more until a third of it is free, while its peer may read all
/// the time.
#[derive(Clone, Copy, Debug)]
pub struct Stall {
    limit: Duration,
    /// Time of the last progress.
    since: Instant,
    moved: u64,
    left: u32,
}

impl Stall {
    /// Returns the state of a flow that may go without progress for `limit` from `now` on. It has moved `moved` bytes
    /// so far, of which the peers have not acknowledged `left`.
    pub const fn begin(limit: Duration, now: Instant, moved: u64, left: u32) -> Stall {
        Stall { limit, since: now, moved, left }
    }

    /// Returns the time that the flow may go without progress.
    pub const fn limit(&self) -> Duration {
        self.limit
    }

    /// Returns the interval between two looks: an eighth of the limit.
    pub fn step(&self) -> Duration {
        self.limit / 8
    }

    /// Looks at the flow, which by `now` has moved `moved` bytes, of which `left` are not acknowledged. Returns whether
    /// it made no progress for the limit, give or take a [step](Stall::step).
    pub fn is_over(&mut self, now: Instant, moved: u64, left: u32) -> bool {
        if moved > self.moved || left < self.left {
            self.since = now;
        }
        self.moved = moved;
        self.left = left;
        now - self.since >= self.limit
    }
}

/// Whether the peer of a leg answers, by looks at the leg. No look costs a packet.
#[derive(Clone, Copy, Debug)]
pub struct Answers {
    /// Time of the last answer, or of the last look at which none was due.
    since: Instant,
    /// Bytes that the peer had acknowledged by the last look.
    acked: Option<u64>,
    /// Time of the last answer that a look has seen.
    came: Option<Instant>,
    /// Time of the first of the looks without a break that saw an unanswered probe. One look may see a probe on its way.
    probed: Option<Instant>,
    /// Whether such probes show that the peer does not answer.
    is_certain: bool,
}

/// Whether the peer of a leg has answered, by one look at the leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It has answered then, within [`MIN_STALL`].
    Came(Instant),
    /// It has not, and owes no answer for long enough.
    None,
    /// It has not answered since then, although it should have. The leg is stalled.
    Missing(Instant),
}

impl Answers {
    /// Returns the state of a leg that is looked at from `now` on.
    pub const fn begin(now: Instant) -> Answers {
        Answers { since: now, acked: None, came: None, probed: None, is_certain: false }
    }

    /// Records that the leg gave bytes that came just now.
    pub fn gave(&mut self, now: Instant) -> Answer {
        *self = Answers { came: Some(now), ..Answers::begin(now) };
        Answer::Came(now)
    }

    /// Looks at the leg, which has given no byte since the last look, or old ones: its buffer may have been full before an outage, and
    /// a slow reader empties it for minutes.
    pub fn look(&mut self, now: Instant, look: &LegLook) -> Answer {
        if let Some(received) = now.checked_sub(look.since_received).filter(|received| *received > self.since) {
            (self.since, self.came) = (received, self.came.max(Some(received)));
        }
        let has_acked = self.acked.replace(look.acked_bytes).is_some_and(|acked| acked != look.acked_bytes);
        if has_acked {
            self.came = Some(now);
        }
        if has_acked || !look.is_in_flight() {
            self.since = now;
        }
        let is_probed = look.unanswered_probes > 0 && look.unacked_segments == 0;
        self.probed = is_probed.then(|| self.probed.unwrap_or(now));
        // With bytes to send, they are probes of a closed window, up to 2 minutes apart. Some may be lost, but not many in a short time.
        let is_quick = self.probed.is_some_and(|first| now - first <= QUICK) && look.unanswered_probes >= LEAST_PROBES;
        self.is_certain = is_probed && (self.is_certain || look.unsent_bytes == 0 || is_quick);
        let due = (3 * look.rto()).max(MIN_STALL);
        let missing = [Some(self.since), self.probed.filter(|_| self.is_certain)]
            .into_iter()
            .flatten()
            .find(|since| now - *since >= due);
        match (missing, self.came) {
            (Some(since), _) => Answer::Missing(since),
            (None, Some(came)) if now - came < MIN_STALL => Answer::Came(came),
            _ => Answer::None,
        }
    }
}

/// An outage of a place to which several legs lead: a next hop, or the clients of a tunnel. It lasts while one of them is stalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// The earliest time since which a leg has had no answer.
    since: Instant,
    /// Time of the last answer to any of the legs.
    came: Option<Instant>,
}

impl Outage {
    /// Returns the outage of a place to which a leg is stalled since `since`.
    pub const fn begin(since: Instant) -> Outage {
        Outage { since, came: None }
    }

    /// Adds what a look at a leg to the place says.
    pub fn add(&mut self, answer: Answer) {
        match answer {
            Answer::Came(at) => self.came = self.came.max(Some(at)),
            Answer::Missing(since) => self.since = self.since.min(since),
            Answer::None => {}
        }
    }

    /// Returns the time since which the place has not answered. `None` if it has within [`MIN_STALL`]: others do not answer then.
    pub fn since(&self, now: Instant) -> Option<Instant> {
        match self.came {
            Some(came) if now.saturating_duration_since(came) < MIN_STALL => None,
            came => came.max(Some(self.since)),
        }
    }
}

/// Number of unanswered probes of a closed window that show an outage, if they were sent in the time [`QUICK`].
const LEAST_PROBES: u8 = 3;
const QUICK: Duration = Duration::from_secs(15);

/// Shortest time without an acknowledgement that makes a leg stalled. The kernel has then sent the bytes three times or more.
pub const MIN_STALL: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    /// In virtual time, a look each second.
    #[test]
    fn a_leg_is_stalled_if_bytes_in_flight_or_probes_have_no_answer() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let ms = Duration::from_millis;
        let long_ago = LegLook { since_received: ms(99_000), ..LegLook::default() };
        let flight = LegLook { unacked_segments: 9, peer_window: 1, acked_bytes: 5, rtt: ms(60), ..long_ago };
        let of = |looks: &[LegLook]| {
            let mut answers = Answers::begin(start);
            let all = looks.iter().zip(1..).map(|(look, second)| answers.look(at(second), look));
            all.collect::<Vec<Answer>>()
        };
        let (none, missing) = (Answer::None, |seconds| Answer::Missing(at(seconds)));
        assert_eq!(of(&[flight; 5]), [none, none, missing(0), missing(0), missing(0)]);
        let acked = LegLook { acked_bytes: 6, ..flight };
        let came = Answer::Came(at(2));
        assert_eq!(of(&[flight, acked, acked, acked, acked]), [none, came, came, came, missing(2)]);
        let far = LegLook { rtt: ms(600), rtt_var: ms(100), ..flight };
        assert_eq!(of(&[far; 4]), [none, none, missing(0), missing(0)]);
        let farther = LegLook { rtt: ms(800), rtt_var: ms(200), ..flight };
        assert_eq!(of(&[farther; 5]), [none, none, none, none, missing(0)], "4.8 s");
        let closed = LegLook { peer_window: 0, unsent_bytes: 1, unacked_segments: 0, unanswered_probes: 1, ..flight };
        assert_eq!(of(&[closed; 9]), [none; 9], "its reader is paused, and a probe was lost");
        let down = LegLook { unanswered_probes: 3, ..closed };
        let looks = [closed, closed, down, down, closed, closed];
        assert_eq!(of(&looks), [none, none, none, missing(1), missing(1), missing(1)]);
        let seldom = [[closed; 16], [down; 16]].concat();
        assert_eq!(of(&seldom), [none; 32], "some of the probes of a long pause were lost");
        let held_back = LegLook { unacked_segments: 0, unsent_bytes: 1, unanswered_probes: 3, ..flight };
        assert_eq!(of(&[held_back; 4]), [none, none, missing(0), missing(0)], "this host's own link is down");
        let quiet = LegLook { since_sent: ms(9000), since_received: ms(8000), ..LegLook::default() };
        assert_eq!(of(&[quiet; 9]), [none; 9], "every probe was answered");
        let probed = LegLook { unanswered_probes: 1, ..quiet };
        assert_eq!(of(&[probed; 5]), [none, none, none, missing(1), missing(1)]);
        let under_way = [probed, probed, quiet, probed, probed, quiet, probed, probed, probed];
        assert_eq!(of(&under_way), [none; 9], "looks saw probes whose answers were on their way");
        let received = LegLook { since_received: ms(500), ..flight };
        let came = Answer::Came(at(2) - ms(500));
        assert_eq!(
            of(&[flight, received, flight, flight, flight]),
            [none, came, came, came, Answer::Missing(at(2) - ms(500))]
        );
        let mut answers = Answers::begin(start);
        assert_eq!([20, 21, 22, 23].map(|second| answers.look(at(second), &probed)), [none, none, none, missing(20)]);
        assert_eq!(answers.gave(at(21)), Answer::Came(at(21)));
        assert_eq!(answers.look(at(22), &flight), Answer::Came(at(21)), "counted from the last answer");
        assert_eq!(answers.look(at(24), &flight), missing(21));
    }

    #[test]
    fn an_outage_is_as_old_as_its_first_silent_leg_but_for_an_answer_in_between() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut outage = Outage::begin(at(5));
        outage.add(Answer::Missing(at(9)));
        outage.add(Answer::None);
        assert_eq!(outage.since(at(12)), Some(at(5)), "a quiet flow began to wait later");
        outage.add(Answer::Missing(at(4)));
        assert_eq!(outage.since(at(12)), Some(at(4)));
        outage.add(Answer::Came(at(20)));
        outage.add(Answer::Came(at(19)));
        assert_eq!([outage.since(at(20)), outage.since(at(22))], [None; 2]);
        assert_eq!(outage.since(at(23)), Some(at(20)), "since the last answer");
        outage.add(Answer::Missing(at(21)));
        assert_eq!(outage.since(at(24)), Some(at(20)));
    }

    const LIMIT: Duration = Duration::from_secs(80);

    /// Returns the looks of a flow, a step apart, until it is over. `after` gives the moved bytes and the
    /// unacknowledged bytes at each look; the flow begins with 100 of each.
    fn looks(after: impl Fn(u32) -> (u64, u32)) -> u32 {
        let start = Instant::now();
        let mut stall = Stall::begin(LIMIT, start, 100, 100);
        let is_over = |look: &u32| {
            let (moved, left) = after(*look);
            stall.is_over(start + stall.step() * *look, moved, left)
        };
        (1..1000).find(is_over).unwrap_or(1000)
    }

    #[test]
    fn a_flow_is_over_after_its_limit_without_progress() {
        assert_eq!(looks(|_| (100, 100)), 8);
        assert_eq!(looks(|_| (100, 500)), 8, "more bytes wait, none is acknowledged");
    }

    #[test]
    fn a_moved_byte_and_an_acknowledged_byte_are_progress() {
        assert_eq!(looks(|look| (100 + u64::from(look.min(5)), 100)), 5 + 8);
        assert_eq!(looks(|look| (100, 100 - look.min(50))), 50 + 8);
        assert_eq!(looks(|look| (u64::from(look) * 1000, 100)), 1000, "never");
    }
}
