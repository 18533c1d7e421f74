//! How well something is, and the problem that shows it.

use super::stage::Stage;
use std::fmt;
use std::time::{Duration, SystemTime};

/// How well a next hop, a tunnel or the daemon is. The worse one is greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// No problem is known.
    Good,
    /// Its first result is to come, or it has just come back.
    Waiting,
    /// Its probes or checks have no result, or the daemon is older than this field.
    #[default]
    Unknown,
    /// A part of it does not work, or will not soon. New flows are served.
    Failing,
    /// New flows wait until others end.
    Stalled,
    /// New flows may not be served.
    Doubtful,
    /// New flows are not served.
    Broken,
}

impl Health {
    /// Returns whether new flows may not be served, or not at once.
    pub fn is_doubtful(self) -> bool {
        matches!(self, Health::Stalled | Health::Doubtful)
    }

    /// Returns whether new flows are not served. Then the daemon is not ready.
    pub fn is_broken(self) -> bool {
        self == Health::Broken
    }
}

/// Something that does not work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Name of the tunnel. `None` for a problem of the process.
    pub tunnel: Option<String>,
    /// The health of the tunnel, or of the process, because of it.
    pub health: Health,
    /// The part that does not work.
    pub stage: Stage,
    /// Time when it began.
    pub since: SystemTime,
    /// What shows it.
    pub evidence: String,
    /// What to do. `None` if that depends.
    pub remedy: Option<String>,
    /// Who fails or does not answer. `None` of another problem.
    pub party: Option<Party>,
}

/// A next hop of a tunnel that has a problem, or its clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Party {
    /// Its name, which stays the same while the problem changes.
    pub name: String,
    /// Kind of its failure. The log tells a party and a kind once: an outage that begins with silent flows and goes on with failed dials is
    /// one.
    pub fault: Fault,
    /// Time after which the log [tells](super::News) the problem. `None` if the relay writes lines of its own about it.
    pub told_after: Option<Duration>,
    /// The evidence as the log tells it: without ages.
    pub told: String,
}

/// How a party fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Its dials or checks fail, or its flows have no answer.
    NotReached,
    /// It resets its flows.
    Resets,
    /// It waits for a free flow.
    Waits,
}

impl Problem {
    pub(super) fn new(stage: Stage, health: Health, since: SystemTime, evidence: String) -> Problem {
        Problem { tunnel: None, health, stage, since, evidence, remedy: None, party: None }
    }

    pub(super) fn with(self, remedy: impl Into<String>) -> Problem {
        Problem { remedy: Some(remedy.into()), ..self }
    }
}

/// The evidence and the remedy in one line.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { evidence, remedy, .. } = self;
        match remedy {
            None => f.write_str(evidence),
            Some(remedy) if evidence.contains(": ") => write!(f, "{evidence}; {remedy}"),
            Some(remedy) => write!(f, "{evidence}: {remedy}"),
        }
    }
}
