//! Decides which problems the log tells: those of next hops and clients that fail or do not answer, if nobody else writes a line about
//! them. Otherwise an outage would leave no trace where no probe and no check looks.
//!
//! ```text
//! seen ──told_after, and the tunnel is not broken──> told: one line ──not seen for 30 s──> ended: one line
//!   └────over before that, after 5 s or more───────────^
//! ```
//! So one that comes and goes within 30 s has one line.

use super::facts::At;
use super::problem::{Fault, Party, Problem};
use std::time::{Duration, Instant};

/// The problems that were told, or may be soon.
#[derive(Debug, Default)]
pub struct News(Vec<Watched>);

#[derive(Debug)]
struct Watched {
    problem: Problem,
    /// Time from which it was there while the tunnel was not broken.
    since: Instant,
    /// Time of the last look that found it.
    seen: Instant,
    /// Time for which it had lasted then.
    lasted: Duration,
    is_told: bool,
    /// Whether the tunnel was broken meanwhile: another line tells that.
    is_others: bool,
}

/// A line for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewsLine {
    /// The problem is there. Or it was, and was over after this time, before anybody told it.
    Found(Problem, Option<Duration>),
    /// The problem, as it was told, has ended. It had lasted for this time.
    Ended(Problem, Duration),
}

impl News {
    /// Looks at all `problems` of `now`, which is also `at`. Returns what is to be told.
    pub fn look(&mut self, problems: &[Problem], at: At, now: Instant) -> Vec<NewsLine> {
        let mut lines = Vec::new();
        for problem in problems {
            let Some(Party { told_after: Some(told_after), told, .. }) = &problem.party else { continue };
            let to_tell = || Problem { evidence: told.clone(), ..problem.clone() };
            let known = self.0.iter().position(|watched| watched.is_of(problem));
            let index = known.unwrap_or_else(|| {
                let (problem, lasted, is_told, is_others) = (to_tell(), Duration::ZERO, false, false);
                self.0.push(Watched { problem, since: now, seen: now, lasted, is_told, is_others });
                self.0.len() - 1
            });
            let watched = &mut self.0[index];
            if watched.is_told {
                continue;
            }
            // Whoever has found that has written a line.
            if is_broken(problems, problem) {
                (watched.since, watched.is_others) = (now, true);
            } else if now.saturating_duration_since(watched.since) >= *told_after {
                (watched.problem, watched.is_told) = (to_tell(), true);
                lines.push(NewsLine::Found(watched.problem.clone(), None));
            }
        }
        self.0.retain_mut(|watched| {
            let is_there = problems.iter().any(|problem| watched.is_part_of(problem));
            if is_there {
                (watched.seen, watched.lasted) = (now, at.since(watched.problem.since));
            }
            // Over before whoever might have told it found it. One that is worse now has another line.
            let is_untold = !watched.is_told && !watched.is_others && watched.lasted >= LEAST;
            let goes_on = |problem| watched.is_of(problem) || is_broken(problems, &watched.problem);
            if is_untold && !problems.iter().any(goes_on) {
                watched.is_told = true;
                lines.push(NewsLine::Found(watched.problem.clone(), Some(watched.lasted)));
            }
            if is_there || !watched.is_told {
                return is_there;
            }
            let is_over = now.saturating_duration_since(watched.seen) >= QUIET;
            if is_over {
                lines.push(NewsLine::Ended(watched.problem.clone(), watched.lasted));
            }
            !is_over
        });
        lines
    }
}

impl Watched {
    fn is_of(&self, problem: &Problem) -> bool {
        self.is_at(problem) && party(&self.problem) == party(problem)
    }

    /// Whether its party still has a `problem`: perhaps another one, or together with others. Before it is told, only one that may be
    /// told.
    fn is_part_of(&self, problem: &Problem) -> bool {
        match &problem.party {
            Some(party) => self.is_of(problem) && (self.is_told || party.told_after.is_some()),
            None => self.is_told && self.is_at(problem),
        }
    }

    fn is_at(&self, problem: &Problem) -> bool {
        self.problem.tunnel == problem.tunnel && self.problem.stage == problem.stage
    }
}

/// Whether the tunnel of `problem` is broken.
fn is_broken(problems: &[Problem], problem: &Problem) -> bool {
    problems.iter().any(|other| other.tunnel == problem.tunnel && other.health.is_broken())
}

fn party(problem: &Problem) -> Option<(&str, Fault)> {
    problem.party.as_ref().map(|party| (party.name.as_str(), party.fault))
}

/// Time after which a problem that is not seen any more has ended.
const QUIET: Duration = Duration::from_secs(30);

/// Least time of a problem that is told once it is over.
const LEAST: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::super::{Health, Phase, Stage};
    use super::*;
    use std::time::SystemTime;

    const SECOND: Duration = Duration::from_secs(1);

    /// Returns the problem of a hop that began at 100 s.
    fn problem(told_after: Option<u64>) -> Problem {
        let told_after = told_after.map(Duration::from_secs);
        let party = Some(Party { name: "a:1".into(), fault: Fault::NotReached, told_after, told: "a:1 fails".into() });
        let since = SystemTime::UNIX_EPOCH + 100 * SECOND;
        let problem = Problem::new(Stage::NextHop, Health::Doubtful, since, "a:1 fails 3s ago".into());
        Problem { tunnel: Some("t".into()), party, ..problem }
    }

    fn broken(stage: Stage) -> Problem {
        Problem { stage, health: Health::Broken, party: None, ..problem(None) }
    }

    /// Looks each second from 101 s on. `problems` returns those of a second. Returns the seconds of the lines, 'found' as it is, and 'ended'
    /// with the time that it says.
    fn lines(seconds: u64, problems: impl Fn(u64) -> Vec<Problem>) -> Vec<(u64, Option<Duration>)> {
        let (mut news, start) = (News::default(), Instant::now());
        let looked = (101..seconds).map(|second| {
            let at = At { time: SystemTime::UNIX_EPOCH + Duration::from_secs(second), phase: Phase::Serving };
            (second, news.look(&problems(second), at, start + Duration::from_secs(second)))
        });
        let flat = looked.flat_map(|(second, lines)| lines.into_iter().map(move |line| (second, line)));
        let told = flat.map(|(second, line)| match line {
            NewsLine::Found(found, over) => {
                assert_eq!(found.evidence, "a:1 fails");
                assert!(over.is_none_or(|lasted| lasted == Duration::from_secs(second - 101)), "{over:?} at {second}");
                (second, None)
            }
            NewsLine::Ended(_, lasted) => (second, Some(lasted)),
        });
        told.collect()
    }

    #[test]
    fn an_outage_has_a_line_at_its_begin_and_one_at_its_end() {
        let at = |second| if second <= 180 { vec![problem(Some(0))] } else { Vec::new() };
        assert_eq!(lines(300, at), [(101, None), (210, Some(80 * SECOND))]);
    }

    #[test]
    fn one_that_comes_and_goes_does_not_flood() {
        let at = |second| if second % 20 < 10 && second < 1000 { vec![problem(Some(0))] } else { Vec::new() };
        assert_eq!(lines(2000, at), [(101, None), (1019, Some(889 * SECOND))]);
    }

    #[test]
    fn what_a_probe_or_a_check_tells_has_no_second_line() {
        let at = |second| match second {
            ..110 => vec![problem(Some(15))],
            110..200 => vec![broken(Stage::Link(0)), problem(Some(15))],
            // It is whole again, and the flows answer a moment later.
            200..205 => vec![problem(Some(15))],
            _ => Vec::new(),
        };
        assert_eq!(lines(400, at), []);
        let down = |second| if second < 110 { vec![problem(Some(15))] } else { vec![problem(None)] };
        assert_eq!(lines(400, down), []);
        // The checks of the only next hop.
        let all_down = |second| if second < 110 { vec![problem(Some(15))] } else { vec![broken(Stage::NextHop)] };
        assert_eq!(lines(400, all_down), []);
        let unseen = |_| vec![problem(Some(15))];
        assert_eq!(lines(400, unseen), [(116, None)], "the probes find nothing");
    }

    #[test]
    fn one_that_is_over_before_a_probe_finds_it_has_its_lines_then() {
        let until = |end| move |second| if second < end { vec![problem(Some(60))] } else { Vec::new() };
        assert_eq!(lines(400, until(125)), [(125, None), (154, Some(24 * SECOND))]);
        assert_eq!(lines(400, until(105)), []);
        let again = |second| if second % 20 < 10 && second < 1000 { vec![problem(Some(60))] } else { Vec::new() };
        assert_eq!(lines(2000, again), [(110, None), (1019, Some(889 * SECOND))]);
    }

    #[test]
    fn it_has_not_ended_while_its_party_has_another_problem() {
        let at = |second| match second {
            ..110 => vec![problem(Some(0))],
            110..200 => vec![problem(None)],
            200..300 => vec![broken(Stage::NextHop)],
            _ => Vec::new(),
        };
        assert_eq!(lines(400, at), [(101, None), (329, Some(199 * SECOND))]);
    }
}
