//! The last answer for one name.
//!
//! One query is under way at a time. Whoever asks while the answer is good has it at once. Whoever asks after it has
//! expired begins a query and waits for it, but only for [`GRACE`], because the expired answer serves then. While no
//! resolver answers, the last good answer serves at once, and the query is repeated in the background.
//!
//! ```text
//!            asked                    found                  the TTL has passed
//!  unknown ────────> query under way ───────> good for a TTL ───────────────────> expired
//!                     │   ^      ^ │                                                │
//!            no answer│   │      │ └──> absent, for a few seconds                   │asked
//!                     v   │      └──────────────────────────────────────────────────┘
//!                    outage: again after 1, 2, 4 .. 30 s
//! ```

use std::time::{Duration, Instant};

/// The last answer for one name, and the state of its query.
#[derive(Clone, Debug)]
pub struct Cached<A> {
    known: Known<A>,
    query: Query,
    outage: Option<Outage>,
}

/// Time in which no resolver answers for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    /// Begin of the first query without an answer.
    pub since: Instant,
    /// The errors of the last query without an answer.
    pub why: String,
    /// Number of queries without an answer since then, 1 or more.
    pub failed: u32,
}

/// Time in which resolvers say that a name does not exist, or has no address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absence {
    /// Time of the first such answer.
    pub since: Instant,
    /// Which of the two.
    pub why: String,
    /// Time at which the absence expires. The caller must [ask](Cached::ask) again then, even without a flow, because the name may
    /// have been added.
    pub until: Instant,
}

#[derive(Clone, Debug)]
enum Known<A> {
    Nothing,
    /// The name exists. The answer is kept after its end, because it serves in an outage.
    Good {
        answer: A,
        until: Instant,
    },
    /// The name does not exist, or has no address.
    Absent(Absence),
}

#[derive(Clone, Debug)]
enum Query {
    /// None is under way.
    None,
    /// One is under way. It began at this moment.
    Begun(Instant),
    /// No resolver answered the last `failures` queries. The next one begins at `again`, or is under way.
    Outage { failures: u32, again: Instant },
}

/// Result of [`Cached::ask`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask<A> {
    /// The answer as far as it is known now.
    pub answer: Answer<A>,
    /// Whether the caller must begin a query, and report its outcome to [`Cached::answered`].
    pub begin: bool,
}

/// The answer for a name, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<A> {
    /// The answer is good.
    Fresh(A),
    /// The answer has expired and serves all the same, because the query takes too long or no resolver answers.
    Stale(A),
    /// The name does not exist, or has no address. The text says which.
    Absent(String),
    /// No answer is known, and no resolver answered the last query. The text says why.
    Unanswered(String),
    /// Ask again when the query has ended, or at `until`, if that is earlier.
    Wait {
        /// End of the wait; `None` if only the end of the query helps.
        until: Option<Instant>,
    },
}

/// Outcome of one query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply<A> {
    /// The name exists.
    Found {
        /// The answer.
        answer: A,
        /// Time for which it is good. It is cut to [`MIN_TTL`]..=[`MAX_TTL`].
        ttl: Duration,
    },
    /// A resolver says that the name does not exist, or has no address.
    Absent {
        /// Which of the two.
        why: String,
        /// Time for which that is good, if the resolver said so. It is cut to [`MIN_TTL`]..=[`MAX_ABSENT_TTL`].
        ttl: Option<Duration>,
    },
    /// No resolver answered, or none could.
    Failed {
        /// The errors.
        why: String,
    },
}

/// Effect of a [`Reply`], for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The resolver answered, as before.
    Answered,
    /// The resolver answered, and the name is as absent or present as before. No resolver answered this number of queries
    /// before it, 1 or more.
    Recovered(u32),
    /// The resolver says that the name does not exist, or has no address. It did not say so before. No resolver answered
    /// this number of queries before it, 0 or more.
    AbsenceBegins(u32),
    /// The name exists. It was absent by the last answer of a resolver. No resolver answered this number of queries in
    /// between, 0 or more.
    AbsenceEnds(u32),
    /// No resolver answered this query. Resolvers answered the one before it, or there was none.
    OutageBegins,
    /// No resolver answered this query and the one before it.
    OutageGoesOn,
}

impl<A> Default for Cached<A> {
    fn default() -> Cached<A> {
        Cached { known: Known::Nothing, query: Query::None, outage: None }
    }
}

impl<A: Clone> Cached<A> {
    /// Returns what is known at `now`, and whether the caller must begin a query. Between a `begin` and the reply to
    /// it, no other call returns `begin`.
    pub fn ask(&mut self, now: Instant) -> Ask<A> {
        match &self.known {
            Known::Good { answer, until } if now < *until => return Ask::known(Answer::Fresh(answer.clone())),
            Known::Absent(Absence { why, until, .. }) if now < *until => {
                return Ask::known(Answer::Absent(why.clone()));
            }
            _ => {}
        }
        let (begun, begin) = match &self.query {
            Query::Outage { .. } => {
                let why = self.outage.as_ref().map(|outage| outage.why.clone());
                return Ask::known(self.stale().unwrap_or(Answer::Unanswered(why.unwrap_or_default())));
            }
            Query::Begun(at) => (*at, false),
            Query::None => (now, true),
        };
        self.query = Query::Begun(begun);
        let answer = match self.stale() {
            Some(stale) if now >= begun + GRACE => stale,
            Some(_) => Answer::Wait { until: Some(begun + GRACE) },
            None => Answer::Wait { until: None },
        };
        Ask { answer, begin }
    }

    fn stale(&self) -> Option<Answer<A>> {
        match &self.known {
            Known::Good { answer, .. } => Some(Answer::Stale(answer.clone())),
            // A name that did not exist may exist by now.
            Known::Nothing | Known::Absent(_) => None,
        }
    }

    /// Takes the reply to the query that is under way.
    pub fn answered(&mut self, reply: Reply<A>, now: Instant) -> Outcome {
        let (failures, begun) = match &self.query {
            Query::Outage { failures, .. } => (*failures, now),
            Query::Begun(begun) => (0, *begun),
            Query::None => (0, now),
        };
        let absent_since = self.absence().map(|absence| absence.since);
        let before = self.outage.take();
        let failed = before.as_ref().map_or(0, |outage| outage.failed);
        self.known = match reply {
            Reply::Failed { why } => {
                let again = now + back_off(failures);
                let since = before.map_or(begun, |outage| outage.since);
                self.outage = Some(Outage { since, why, failed: failed.saturating_add(1) });
                self.query = Query::Outage { failures: failures.saturating_add(1), again };
                return if failed == 0 { Outcome::OutageBegins } else { Outcome::OutageGoesOn };
            }
            Reply::Found { answer, ttl } => Known::Good { answer, until: now + ttl.clamp(MIN_TTL, MAX_TTL) },
            Reply::Absent { why, ttl } => {
                let ttl = ttl.unwrap_or(ABSENT_TTL).clamp(MIN_TTL, MAX_ABSENT_TTL);
                Known::Absent(Absence { since: absent_since.unwrap_or(now), why, until: now + ttl })
            }
        };
        self.query = Query::None;
        match (absent_since.is_some(), self.absence().is_some()) {
            (false, true) => Outcome::AbsenceBegins(failed),
            (true, false) => Outcome::AbsenceEnds(failed),
            _ if failed == 0 => Outcome::Answered,
            _ => Outcome::Recovered(failed),
        }
    }

    /// Returns when the caller must repeat the query, after a failed one.
    pub fn again(&self) -> Option<Instant> {
        match &self.query {
            Query::Outage { again, .. } => Some(*again),
            Query::None | Query::Begun(_) => None,
        }
    }

    /// Returns the absence, if the last answer of a resolver was that.
    pub fn absence(&self) -> Option<&Absence> {
        match &self.known {
            Known::Absent(absence) => Some(absence),
            Known::Nothing | Known::Good { .. } => None,
        }
    }

    /// Returns the outage, if no resolver answered the last query that has ended.
    pub fn outage(&self) -> Option<&Outage> {
        self.outage.as_ref()
    }

    /// Returns the last good answer. It serves in an outage, also after its end.
    pub fn last_good(&self) -> Option<&A> {
        match &self.known {
            Known::Good { answer, .. } => Some(answer),
            Known::Nothing | Known::Absent(_) => None,
        }
    }

    /// Returns the state for a new configuration: no query is under way, and the last answer has expired at `now`. An
    /// outage goes on until a resolver answers, and an absence until one finds the name.
    #[must_use]
    pub fn expired(&self, now: Instant) -> Cached<A> {
        let mut known = self.known.clone();
        match &mut known {
            Known::Good { until, .. } | Known::Absent(Absence { until, .. }) => *until = now,
            Known::Nothing => {}
        }
        Cached { known, query: Query::None, outage: self.outage.clone() }
    }
}

impl<A> Ask<A> {
    /// Returns an answer that needs no new query.
    fn known(answer: Answer<A>) -> Ask<A> {
        Ask { answer, begin: false }
    }
}

/// Returns the time from a failed query to the next one, after `failures` failed ones before it: 1 s, doubled each
/// time, up to [`MAX_BACK_OFF`].
fn back_off(failures: u32) -> Duration {
    MAX_BACK_OFF.min(MIN_BACK_OFF * 2_u32.saturating_pow(failures.min(16)))
}

/// Time that a dial waits for a query whose name has an expired answer, from the begin of the query. It covers a round
/// trip to a resolver across most WANs. RFC 8767 5 proposes 1.8 s, for people who wait once for a page. Here each flow
/// waits, and an answer that expired a moment ago is rarely wrong.
pub const GRACE: Duration = Duration::from_millis(300);
/// Minimum time for which an answer is good. A TTL of 0 would be a query for each flow.
pub const MIN_TTL: Duration = Duration::from_secs(1);
/// Maximum time for which an answer is good. RFC 8767 4 has a week; a relay should notice a mistake sooner.
pub const MAX_TTL: Duration = Duration::from_secs(86_400);
/// Time for which a negative answer is good whose resolver did not say.
pub const ABSENT_TTL: Duration = Duration::from_secs(5);
/// Maximum time for which a negative answer is good. An administrator adds the missing name and waits for it.
pub const MAX_ABSENT_TTL: Duration = Duration::from_secs(10);
/// Time from a failed query to the next one.
pub const MIN_BACK_OFF: Duration = Duration::from_secs(1);
/// Maximum time from a failed query to the next one. It is also the longest time until a new answer serves after an
/// outage.
pub const MAX_BACK_OFF: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn found(answer: u32, ttl: u64) -> Reply<u32> {
        Reply::Found { answer, ttl: Duration::from_secs(ttl) }
    }

    fn failed() -> Reply<u32> {
        Reply::Failed { why: "no answer".into() }
    }

    fn absent() -> Reply<u32> {
        Reply::Absent { why: "no such name".into(), ttl: None }
    }

    /// Returns a name whose answer 1 was good for 10 s from `now`.
    fn known(now: Instant) -> Cached<u32> {
        let mut cached = Cached::default();
        assert_eq!(cached.ask(now), Ask { answer: Answer::Wait { until: None }, begin: true });
        assert_eq!(cached.answered(found(1, 10), now), Outcome::Answered);
        cached
    }

    #[test]
    fn one_asks_and_the_others_wait_for_the_same_query() {
        let (now, mut cached) = (Instant::now(), Cached::<u32>::default());
        assert!(cached.ask(now).begin);
        for after in [0, 1, 100] {
            assert_eq!(cached.ask(now + after * SECOND), Ask::known(Answer::Wait { until: None }));
        }
    }

    #[test]
    fn an_answer_is_fresh_for_its_ttl_and_serves_after_it_while_the_query_takes_long() {
        let now = Instant::now();
        let mut cached = known(now);
        let expiry = now + 10 * SECOND;
        assert_eq!(cached.ask(expiry - Duration::from_nanos(1)), Ask::known(Answer::Fresh(1)));
        let wait = Answer::Wait { until: Some(expiry + GRACE) };
        assert_eq!(cached.ask(expiry), Ask { answer: wait.clone(), begin: true });
        // The grace is counted from the query's begin: a later flow waits for the rest of it, or not at all.
        assert_eq!(cached.ask(expiry + GRACE / 2), Ask::known(wait));
        assert_eq!(cached.ask(expiry + GRACE), Ask::known(Answer::Stale(1)));
        assert_eq!(cached.answered(found(2, 10), expiry + SECOND), Outcome::Answered);
        assert_eq!(cached.ask(expiry + SECOND), Ask::known(Answer::Fresh(2)));
    }

    #[test]
    fn while_no_resolver_answers_the_last_answer_serves_at_once_and_retries_back_off() {
        let now = Instant::now();
        let mut cached = known(now);
        let mut at = now + 10 * SECOND;
        assert!(cached.ask(at).begin);
        let mut outcomes = Vec::new();
        for seconds in [1, 2, 4, 8, 16, 30, 30] {
            outcomes.push(cached.answered(failed(), at));
            assert_eq!(cached.again(), Some(at + seconds * SECOND));
            assert_eq!(cached.ask(at), Ask::known(Answer::Stale(1)));
            at += seconds * SECOND;
            assert_eq!(cached.ask(at), Ask::known(Answer::Stale(1)), "the retry is not the flow's");
        }
        assert_eq!(outcomes[0], Outcome::OutageBegins);
        assert!(outcomes[1..].iter().all(|outcome| *outcome == Outcome::OutageGoesOn));
        assert_eq!(cached.answered(found(2, 10), at), Outcome::Recovered(7));
        assert_eq!((cached.ask(at), cached.again()), (Ask::known(Answer::Fresh(2)), None));
    }

    #[test]
    fn an_outage_begins_with_its_first_query_and_ends_with_an_answer() {
        let now = Instant::now();
        let mut cached = known(now);
        let (expiry, of) = (now + 10 * SECOND, |why: &str| Reply::Failed { why: why.into() });
        assert!(cached.ask(expiry).begin && cached.outage().is_none());
        cached.answered(of("no answer"), expiry + 5 * SECOND);
        cached.answered(of("SERVFAIL"), expiry + 11 * SECOND);
        let outage = Some(Outage { since: expiry, why: "SERVFAIL".into(), failed: 2 });
        assert_eq!((cached.outage(), cached.last_good()), (outage.as_ref(), Some(&1)));
        // A reload asks again, and a question is no answer.
        let mut cached = cached.expired(expiry + 12 * SECOND);
        assert!(cached.ask(expiry + 12 * SECOND).begin);
        assert_eq!((cached.outage(), cached.last_good()), (outage.as_ref(), Some(&1)));
        assert_eq!(cached.answered(failed(), expiry + 12 * SECOND), Outcome::OutageGoesOn);
        assert_eq!(cached.answered(found(2, 10), expiry + 13 * SECOND), Outcome::Recovered(3));
        assert_eq!((cached.outage(), cached.last_good()), (None, Some(&2)));
        let mut absent = Cached::<u32>::default();
        assert!(absent.ask(now).begin);
        absent.answered(failed(), now + SECOND);
        assert_eq!((absent.outage().map(|outage| outage.since), absent.last_good()), (Some(now), None));
        absent.answered(self::absent(), now + 2 * SECOND);
        assert_eq!((absent.outage(), absent.last_good()), (None, None));
    }

    #[test]
    fn an_outage_and_an_absence_end_with_the_answer_that_ends_them() {
        let now = Instant::now();
        let (mut cached, mut at) = (Cached::default(), now);
        let mut answered = |cached: &mut Cached<u32>, reply| {
            at += MAX_BACK_OFF;
            let _ = cached.ask(at);
            cached.answered(reply, at)
        };
        assert_eq!(answered(&mut cached, failed()), Outcome::OutageBegins);
        assert_eq!(answered(&mut cached, absent()), Outcome::AbsenceBegins(1));
        assert_eq!(answered(&mut cached, failed()), Outcome::OutageBegins);
        assert_eq!(answered(&mut cached, absent()), Outcome::Recovered(1), "as absent as before");
        assert_eq!(answered(&mut cached, failed()), Outcome::OutageBegins);
        assert_eq!(answered(&mut cached, failed()), Outcome::OutageGoesOn);
        assert_eq!(answered(&mut cached, found(1, 1)), Outcome::AbsenceEnds(2));
        assert_eq!(answered(&mut cached, absent()), Outcome::AbsenceBegins(0));
        // A reload is no answer.
        let mut cached = cached.expired(now);
        assert_eq!(answered(&mut cached, absent()), Outcome::Answered);
        let mut cached = cached.expired(now);
        assert_eq!(answered(&mut cached, found(2, 1)), Outcome::AbsenceEnds(0));
        assert_eq!(answered(&mut cached, found(2, 1)), Outcome::Answered);
    }

    #[test]
    fn an_unknown_name_fails_at_once_while_no_resolver_answers() {
        let (now, mut cached) = (Instant::now(), Cached::default());
        assert!(cached.ask(now).begin);
        cached.answered(failed(), now);
        assert_eq!(cached.ask(now), Ask::known(Answer::Unanswered("no answer".into())));
        cached.answered(found(1, 1), now + SECOND);
        assert_eq!(cached.ask(now + SECOND), Ask::known(Answer::Fresh(1)));
    }

    #[test]
    fn a_name_that_does_not_exist_is_an_answer_and_no_outage() {
        let now = Instant::now();
        let mut cached = known(now);
        let at = now + 10 * SECOND;
        assert!(cached.ask(at).begin);
        assert_eq!(cached.absence(), None);
        assert_eq!(cached.answered(absent(), at), Outcome::AbsenceBegins(0));
        assert_eq!(cached.ask(at), Ask::known(Answer::Absent("no such name".into())));
        // The old address does not come back.
        let later = at + ABSENT_TTL;
        assert_eq!(cached.absence().map(|absence| absence.until), Some(later));
        assert_eq!(cached.ask(later), Ask { answer: Answer::Wait { until: None }, begin: true });
        assert_eq!(cached.answered(absent(), later), Outcome::Answered);
        assert_eq!(
            cached.absence(),
            Some(&Absence { since: at, why: "no such name".into(), until: later + ABSENT_TTL })
        );
        assert!(cached.ask(later + ABSENT_TTL).begin);
        cached.answered(failed(), later + ABSENT_TTL);
        assert_eq!(cached.ask(later + ABSENT_TTL), Ask::known(Answer::Unanswered("no answer".into())));
    }

    #[test]
    fn a_ttl_is_bounded() {
        let now = Instant::now();
        for (ttl, good) in [(0, MIN_TTL), (u64::MAX, MAX_TTL)] {
            let mut cached = Cached::default();
            assert!(cached.ask(now).begin);
            cached.answered(found(1, ttl), now);
            assert!(!cached.ask(now + good - Duration::from_nanos(1)).begin && cached.ask(now + good).begin);
        }
        for (ttl, good) in [(Some(0), MIN_TTL), (Some(u64::MAX), MAX_ABSENT_TTL), (None, ABSENT_TTL)] {
            let mut cached = Cached::<u32>::default();
            assert!(cached.ask(now).begin);
            cached.answered(Reply::Absent { why: String::new(), ttl: ttl.map(Duration::from_secs) }, now);
            assert!(!cached.ask(now + good - Duration::from_nanos(1)).begin && cached.ask(now + good).begin);
        }
    }

    #[test]
    fn a_reload_asks_again_and_keeps_the_last_answer() {
        let now = Instant::now();
        let mut cached = known(now).expired(now);
        assert_eq!(cached.ask(now), Ask { answer: Answer::Wait { until: Some(now + GRACE) }, begin: true });
        cached.answered(failed(), now);
        assert_eq!(cached.ask(now), Ask::known(Answer::Stale(1)));
        assert!(cached.expired(now).ask(now).begin, "the back-off begins anew");
    }

    proptest! {
        /// In virtual time: a random sequence of questions and replies.
        #[test]
        fn one_query_at_a_time_and_a_known_name_is_never_waited_for(
            steps in prop::collection::vec((0_u64..5_000, 0_u8..4, 0_u64..20), 1..200)
        ) {
            let (mut now, mut cached) = (Instant::now(), Cached::default());
            // Whether a query is under way, the last good answer with its end, and its number.
            let (mut asked, mut last, mut number) = (false, None, 0);
            for (millis, what, ttl) in steps {
                now += Duration::from_millis(millis);
                if asked && what > 0 {
                    number += 1;
                    let reply = match what {
                        1 => found(number, ttl),
                        2 => Reply::Absent { why: String::new(), ttl: Some(Duration::from_secs(ttl)) },
                        _ => failed(),
                    };
                    match what {
                        1 => last = Some((number, now + Duration::from_secs(ttl).max(MIN_TTL))),
                        2 => last = None,
                        _ => {}
                    }
                    cached.answered(reply, now);
                    // A failed query is repeated by whoever made it.
                    asked = cached.again().is_some();
                    if let Some(again) = cached.again() {
                        prop_assert!((MIN_BACK_OFF..=MAX_BACK_OFF).contains(&(again - now)));
                    }
                }
                let Ask { answer, begin } = cached.ask(now);
                prop_assert!(!(begin && asked), "two queries at a time");
                asked |= begin;
                match (answer, last) {
                    (Answer::Fresh(answer), Some((good, until))) => prop_assert!(answer == good && now < until),
                    (Answer::Stale(answer), Some((good, until))) => prop_assert!(answer == good && now >= until),
                    (Answer::Wait { until: Some(until) }, Some(_)) => {
                        prop_assert!(until > now && until - now <= GRACE && asked);
                    }
                    (Answer::Wait { until: None }, None) => prop_assert!(asked),
                    (Answer::Absent(_) | Answer::Unanswered(_), None) => {}
                    other => prop_assert!(false, "{:?}", other),
                }
            }
        }
    }
}
