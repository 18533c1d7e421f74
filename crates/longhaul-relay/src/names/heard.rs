//! The answer of a nameserver.

use hickory_resolver::ResolveError;
use hickory_resolver::lookup::Lookup;
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::RData;
use hickory_resolver::proto::{ProtoError, ProtoErrorKind};
use longhaul_core::names::Reply;
use std::fmt;
use std::time::{Duration, Instant};

/// The answer of a nameserver, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Heard<T> {
    /// The name exists.
    Found {
        /// The answer.
        answer: T,
        /// Time for which it is good.
        ttl: Duration,
    },
    /// The name does not exist, or has no record of the type asked for.
    Absent {
        /// Which of the two.
        why: String,
        /// Time for which that is good, if the nameserver said so.
        ttl: Option<Duration>,
    },
    /// The nameserver could not tell (SERVFAIL, REFUSED).
    Refused(String),
    /// The nameserver did not answer.
    Silent(String),
}

impl Heard<Vec<RData>> {
    /// Returns the meaning of `result` at `now`.
    pub(super) fn of(result: Result<Lookup, ResolveError>, now: Instant) -> Heard<Vec<RData>> {
        let err = match result {
            Ok(lookup) => {
                let ttl = lookup.valid_until().saturating_duration_since(now);
                return Heard::Found { answer: lookup.iter().cloned().collect(), ttl };
            }
            Err(err) => err,
        };
        match err.proto().map(ProtoError::kind) {
            Some(ProtoErrorKind::NoRecordsFound { response_code, negative_ttl, .. }) => {
                let ttl = negative_ttl.map(|seconds| Duration::from_secs(seconds.into()));
                match *response_code {
                    ResponseCode::NXDomain => Heard::Absent { why: "the name does not exist".into(), ttl },
                    ResponseCode::NoError => Heard::Absent { why: "the name has no such record".into(), ttl },
                    code => Heard::Refused(code.to_str().into()),
                }
            }
            Some(ProtoErrorKind::Timeout) => Heard::Silent("no answer".into()),
            _ => Heard::Silent(err.to_string()),
        }
    }
}

impl<T> Heard<T> {
    /// Whether the nameserver knows the name, or knows that it does not exist.
    pub(super) fn is_answer(&self) -> bool {
        matches!(self, Heard::Found { .. } | Heard::Absent { .. })
    }

    /// Returns the same with the reason of a failure after `who`.
    pub(super) fn said_by(self, who: impl fmt::Display) -> Heard<T> {
        match self {
            Heard::Refused(why) => Heard::Refused(format!("{who}: {why}")),
            Heard::Silent(why) => Heard::Silent(format!("{who}: {why}")),
            answer => answer,
        }
    }

    /// Returns the same with the found answer converted by `convert`.
    pub(super) fn map<U>(self, convert: impl FnOnce(T) -> U) -> Heard<U> {
        match self {
            Heard::Found { answer, ttl } => Heard::Found { answer: convert(answer), ttl },
            Heard::Absent { why, ttl } => Heard::Absent { why, ttl },
            Heard::Refused(why) => Heard::Refused(why),
            Heard::Silent(why) => Heard::Silent(why),
        }
    }
}

impl<T> Heard<Vec<T>> {
    /// Returns both answers as one. With one of them missing, the answer is the other, for [`PARTIAL_TTL`] at most.
    pub(super) fn and(self, other: Heard<Vec<T>>) -> Heard<Vec<T>> {
        use Heard::{Absent, Found};
        match (self, other) {
            (Found { mut answer, ttl }, Found { answer: more, ttl: other }) => {
                answer.extend(more);
                Found { answer, ttl: ttl.min(other) }
            }
            (found @ Found { .. }, Absent { .. }) | (Absent { .. }, found @ Found { .. }) => found,
            (Found { answer, ttl }, _) | (_, Found { answer, ttl }) => Found { answer, ttl: ttl.min(PARTIAL_TTL) },
            (Absent { why, ttl }, Absent { ttl: other, .. }) => Absent { why, ttl: ttl.into_iter().chain(other).min() },
            (Absent { .. }, failed) | (failed, _) => failed,
        }
    }
}

impl<T> From<Heard<T>> for Reply<T> {
    fn from(heard: Heard<T>) -> Reply<T> {
        match heard {
            Heard::Found { answer, ttl } => Reply::Found { answer, ttl },
            Heard::Absent { why, ttl } => Reply::Absent { why, ttl },
            Heard::Refused(why) | Heard::Silent(why) => Reply::Failed { why },
        }
    }
}

/// Maximum time for which an answer is good of which a part is missing.
pub(super) const PARTIAL_TTL: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_answers_are_one_and_a_failure_is_no_absence() {
        let seconds = Duration::from_secs;
        let found = |answer: &[u8], ttl| Heard::Found { answer: answer.to_vec(), ttl: seconds(ttl) };
        let absent = |ttl: Option<u64>| Heard::Absent { why: "no".into(), ttl: ttl.map(seconds) };
        let silent = || Heard::<Vec<u8>>::Silent("no answer".into());
        assert_eq!(found(&[1], 60).and(found(&[2, 3], 30)), found(&[1, 2, 3], 30));
        assert_eq!(found(&[1], 60).and(absent(Some(1))), found(&[1], 60));
        assert_eq!(absent(None).and(found(&[1], 60)), found(&[1], 60));
        assert_eq!(found(&[1], 60).and(silent()), found(&[1], 5));
        assert_eq!(silent().and(found(&[1], 2)), found(&[1], 2));
        assert_eq!(absent(Some(9)).and(absent(Some(3))), absent(Some(3)));
        assert_eq!(absent(Some(9)).and(absent(None)), absent(Some(9)));
        assert_eq!(absent(None).and(silent()), silent());
        assert_eq!(silent().and(absent(None)), silent());
    }
}
