//! The rules about the process, and the health of the daemon and of its tunnels.

use super::facts::{DaemonFacts, NearLimit, Phase};
use super::problem::{Health, Problem};
use super::stage::Stage;
use super::tunnel;

/// Returns the problems of the daemon: those that break a tunnel first, then the doubtful ones.
pub fn problems(facts: &DaemonFacts<'_>) -> Vec<Problem> {
    let of_tunnels = facts.tunnels.iter().flat_map(|tunnel| tunnel::problems(tunnel, facts.at));
    let mut problems: Vec<Problem> = of_tunnels.collect();
    problems.extend(refused_reload(facts));
    problems.extend(facts.near_limits.iter().map(near_limit));
    problems.sort_by_key(|problem| (!problem.health.is_broken(), !problem.health.is_doubtful()));
    problems
}

/// Returns the health of a tunnel with these problems.
pub fn of_tunnel(problems: impl Iterator<Item = Health>) -> Health {
    problems.max().unwrap_or(Health::Good)
}

/// Returns the health of a daemon with these problems. One that drains or stops serves no new flows.
pub fn of_daemon(phase: Phase, problems: impl Iterator<Item = Health>) -> Health {
    match phase {
        Phase::Serving => of_tunnel(problems),
        Phase::Draining | Phase::Stopping => Health::Broken,
    }
}

/// Returns the problem of a reload that was refused. The daemon serves by the old configuration.
fn refused_reload(facts: &DaemonFacts<'_>) -> Option<Problem> {
    let (why, at) = facts.refused_reload?;
    let why = why.lines().collect::<Vec<_>>().join(" ");
    let evidence = format!("the last reload was refused, and the old configuration stays: {why}");
    Some(Problem::new(Stage::Process, Health::Failing, at, evidence))
}

/// Returns the problem of a resource that is nearly used up. A limit that is merely low is no problem: flows are served.
fn near_limit(NearLimit { name, warning, remedy, since }: &NearLimit<'_>) -> Problem {
    Problem::new(Stage::Resources, Health::Failing, *since, format!("{name}: {warning}")).with(*remedy)
}
