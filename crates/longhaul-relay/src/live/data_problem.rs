//! The latest problem of a tunnel's FTP data connections, for views: clients log in, and no file passes.

use crate::lock::lock;
use longhaul_core::health::DataFacts;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

/// The latest problem of the data connections of one tunnel.
#[derive(Debug, Default)]
pub(crate) struct DataProblem(Mutex<Option<Latest>>);

#[derive(Debug)]
struct Latest {
    last: Instant,
    view: DataFacts,
}

impl DataProblem {
    /// Records that a data connection was refused or did not come.
    pub(crate) fn note(&self, what: String) {
        self.note_at(what, Instant::now(), SystemTime::now());
    }

    fn note_at(&self, what: String, last: Instant, time: SystemTime) {
        let mut latest = lock(&self.0);
        let since = latest.as_ref().filter(|latest| latest.is_recent(last)).map_or(time, |latest| latest.view.since);
        *latest = Some(Latest { last, view: DataFacts { what, since, last: time } });
    }

    /// Returns the problem. `None` if none came within the last ten minutes.
    pub(crate) fn view(&self) -> Option<DataFacts> {
        self.view_at(Instant::now())
    }

    fn view_at(&self, now: Instant) -> Option<DataFacts> {
        lock(&self.0).as_ref().filter(|latest| latest.is_recent(now)).map(|latest| latest.view.clone())
    }
}

impl Latest {
    fn is_recent(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last) < RECENT
    }
}

/// Time for which a problem is told after the last data connection that had it.
const RECENT: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_told_for_ten_minutes_after_the_last_one() {
        let problem = DataProblem::default();
        let (start, epoch) = (Instant::now(), SystemTime::UNIX_EPOCH);
        let note = |minutes: u64| {
            let after = Duration::from_secs(60 * minutes);
            problem.note_at(minutes.to_string(), start + after, epoch + after);
        };
        let view = |minutes: u64| {
            let view = problem.view_at(start + Duration::from_secs(60 * minutes))?;
            Some((view.what, view.since.duration_since(epoch).unwrap().as_secs() / 60))
        };
        assert_eq!(view(0), None);
        note(1);
        note(9);
        assert_eq!((view(9), view(18), view(19)), (Some(("9".into(), 1)), Some(("9".into(), 1)), None));
        note(30);
        assert_eq!(view(31), Some(("30".into(), 30)), "the problem begins anew");
    }
}
