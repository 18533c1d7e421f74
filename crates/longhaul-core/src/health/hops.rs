//! Rules about the next hops of a tunnel.
//!
//! Only active checks break a tunnel. A hop that merely failed dials is dialled again. If the daemon were not ready until then,
//! no client would come whose dial could find that the hop answers.

use super::facts::{At, HopFacts, NameFacts, Noted, TunnelFacts};
use super::problem::{Fault, Health, Party, Problem};
use super::stage::Stage;
use crate::next_hop::{Availability, EJECT_AFTER, Resets};
use longhaul_units::age;
use std::time::Duration;

/// A rule about one next hop.
struct HopRule {
    /// The health of the hop.
    health: Health,
    /// Returns the time for which the rule has applied to the hop. `None` if it does not apply.
    applies: fn(&HopFacts) -> Option<Duration>,
    /// The problem. `None` if a rule about all next hops of the tunnel tells it.
    problem: Option<HopProblem>,
    /// Writes in a few words how the hop fails, for a column of it.
    short: Option<fn(&HopFacts) -> String>,
}

/// The problem of one next hop.
struct HopProblem {
    /// Writes what shows it, with ages as `Ago` writes them.
    write: fn(&HopFacts, Ago) -> String,
    /// The question or the command that helps the operator. `None` if the cause has to be known first.
    remedy: Option<&'static str>,
    /// Whether the relay writes a line of its own into the log when it begins and when it ends.
    has_line: bool,
    /// How the hop fails, for the log.
    fault: Fault,
}

/// Writes an age behind some words. A line of the log has neither, because it may be read much later.
type Ago = fn(&str, Duration) -> String;

const AGO: Ago = |words, time| format!("{words}{} ago", age(time.as_secs_f64()));

const NO_AGE: Ago = |_, _| String::new();

/// The rules. Of those that apply to a hop, the first one with a problem writes it, and the first one with few words writes these.
const HOP_RULES: &[HopRule] = &[
    HopRule {
        health: Health::Broken,
        applies: |hop| is(hop, Availability::Down).then_some(hop.choice.age),
        problem: Some(HopProblem {
            write: |hop, ago| format!("{} is down by its checks{}", hop.next_hop, last_failure(hop, ago)),
            remedy: None,
            has_line: true,
            fault: Fault::NotReached,
        }),
        short: Some(failing),
    },
    HopRule {
        health: Health::Doubtful,
        applies: |hop| is(hop, Availability::Ejected).then(|| failing_for(hop)),
        problem: Some(HopProblem {
            write: |hop, ago| format!("{} is ejected: {}", hop.next_hop, failed_dials(hop, ago)),
            remedy: None,
            has_line: true,
            fault: Fault::NotReached,
        }),
        short: Some(failing),
    },
    HopRule {
        health: Health::Doubtful,
        applies: |hop| (hop.choice.failures >= EJECT_AFTER).then(|| failing_for(hop)),
        problem: Some(HopProblem {
            write: |hop, ago| format!("{}: {}", hop.next_hop, failed_dials(hop, ago)),
            remedy: None,
            has_line: false,
            fault: Fault::NotReached,
        }),
        short: Some(failing),
    },
    HopRule { health: Health::Failing, applies: |hop| hop.choice.failing_for, problem: None, short: Some(failing) },
    HopRule {
        health: Health::Doubtful,
        applies: |hop| hop.choice.stalled_for,
        problem: Some(HopProblem {
            write: |hop, _| format!("{} does not answer flows that carry bytes", hop.next_hop),
            remedy: Some(IS_PATH_WHOLE),
            has_line: false,
            fault: Fault::NotReached,
        }),
        short: Some(|hop| format!("no answer to its flows for {}", stalled_for(hop))),
    },
    HopRule {
        health: Health::Doubtful,
        applies: |hop| hop.looped_for,
        problem: None,
        short: Some(|hop| {
            format!("its flows come back, for {}", age(hop.looped_for.unwrap_or_default().as_secs_f64()))
        }),
    },
    HopRule {
        health: Health::Doubtful,
        applies: |hop| Some(resets(hop)?.age),
        problem: Some(HopProblem {
            write: |hop, ago| format!("{} {}", hop.next_hop, resets_flows(hop, ago)),
            remedy: Some(WHY_IN_ITS_LOG),
            has_line: false,
            fault: Fault::Resets,
        }),
        short: Some(|hop| resets_flows(hop, AGO)),
    },
    HopRule {
        health: Health::Broken,
        applies: |hop| outage(hop).filter(|(name, _)| !name.has_address).map(|(_, outage)| outage.age),
        problem: None,
        short: None,
    },
    HopRule { health: Health::Failing, applies: |hop| Some(outage(hop)?.1.age), problem: None, short: None },
    HopRule { health: Health::Doubtful, applies: |hop| Some(absence(hop)?.age), problem: None, short: None },
    HopRule { health: Health::Unknown, applies: |hop| Some(check_refusal(hop)?.age), problem: None, short: None },
    HopRule {
        health: Health::Waiting,
        applies: |hop| is(hop, Availability::SlowStart).then_some(hop.choice.age),
        problem: None,
        short: None,
    },
];

/// Returns the health of a next hop.
pub fn of_hop(hop: &HopFacts) -> Health {
    let applying = HOP_RULES.iter().filter(|rule| (rule.applies)(hop).is_some());
    applying.map(|rule| rule.health).max().unwrap_or(Health::Good)
}

/// Returns how and when the last dial or check of a next hop failed, and for how long none was good: `refused 2s ago, failing for
/// 12s`. A single failed dial has no duration. Or how its flows fail: no answer, a reset, or they come back. `None` if none of it is so.
pub fn failure(hop: &HopFacts) -> Option<String> {
    let mut short = HOP_RULES.iter().filter_map(|rule| (rule.applies)(hop).and(rule.short));
    short.next().map(|short| short(hop))
}

/// Returns the problems of single next hops, or the one problem that all are down.
///
/// While another hop is left, the tunnel is only failing. Otherwise it is doubtful, unless the failure is
/// [old and the address elsewhere](super::ProbeFacts::is_old_and_elsewhere): then no client comes. Without `verify`, it is not
/// known where the address is.
pub(super) fn single(tunnel: &TunnelFacts<'_>, at: At) -> Vec<Problem> {
    let hops = tunnel.hops;
    if !hops.is_empty() && hops.iter().all(|hop| is(hop, Availability::Down)) {
        let since_last = hops.iter().map(|hop| hop.choice.age).min().unwrap_or_default();
        let names = some_of(hops.iter().map(|hop| format!("{}{}", hop.next_hop, last_failure(hop, AGO))));
        let evidence = format!("every next hop is down by its checks: {names}");
        return vec![Problem::new(Stage::NextHop, Health::Broken, at.before(since_last), evidence)];
    }
    let last_failure =
        hops.iter().filter_map(|hop| Some(hop.last_failure.as_ref()?.age)).min().unwrap_or(Duration::MAX);
    let is_old = tunnel.probes.is_some_and(|probes| probes.is_old_and_elsewhere(last_failure));
    let worst = if is_old { Health::Failing } else { left(hops) };
    let of_hop = |hop| {
        let told = |rule: &'static HopRule| Some((rule.health, (rule.applies)(hop)?, rule.problem.as_ref()?));
        let (health, age, HopProblem { write, remedy, has_line, fault }) = HOP_RULES.iter().find_map(told)?;
        let problem = Problem::new(Stage::NextHop, health.min(worst), at.before(age), write(hop, AGO));
        let told_after = (!has_line).then(|| tunnel.found_within());
        let party = Some(Party { name: hop.next_hop.clone(), fault: *fault, told_after, told: write(hop, NO_AGE) });
        Some(Problem { remedy: remedy.map(Into::into), party, ..problem })
    };
    hops.iter().filter_map(of_hop).collect()
}

/// Returns the problem of next hops whose checks do not see what is behind them, because a relay refuses their probes.
pub(super) fn refused_checks(tunnel: &TunnelFacts<'_>, at: At) -> Option<Problem> {
    let refused = |hop| check_refusal(hop).map(|Noted { why, age }| (*age, format!("{} ({why})", hop.next_hop)));
    let (longest, hops) = together(tunnel.hops, refused)?;
    let evidence = format!("checks see only the connection, because their probes are refused: {hops}");
    Some(Problem::new(Stage::NextHop, Health::Unknown, at.before(longest), evidence))
}

/// Returns the problem of next hops whose names no resolver answers for. The tunnel is broken if no next hop has an address.
/// Names are asked for again without a flow, so the problem also ends without one. A name that was absent before the outage has
/// its problem already: the outage makes it no worse.
pub(super) fn unanswered_names(tunnel: &TunnelFacts<'_>, at: At) -> Option<Problem> {
    let hops = tunnel.hops;
    let (longest, names) = together(hops, |hop| Some((outage(hop)?.1.age, hop.next_hop.clone())))?;
    let (_, Noted { why, .. }) = hops.iter().find_map(outage)?;
    let without = |hop: &HopFacts| outage(hop).filter(|(name, _)| !name.has_address).map(|(_, outage)| outage.age);
    let without = together(hops, |hop| Some((without(hop)?, hop.next_hop.clone())));
    let (health, effect) = match without {
        _ if hops.iter().all(|hop| hop.name.as_ref().is_some_and(|name| !name.has_address)) => {
            (Health::Broken, "no next hop has an address".into())
        }
        None => (Health::Failing, "the last good answer serves".into()),
        Some((_, names)) => (Health::Failing, format!("without an address: {names}")),
    };
    let evidence = format!("no resolver answers for {names} ({why}); {effect}");
    Some(Problem::new(Stage::NextHop, health, at.before(longest), evidence))
}

/// Returns the problem of next hops whose names do not exist, or have no address. Names are asked for again without a flow, so
/// the problem also ends without one.
pub(super) fn absent_names(tunnel: &TunnelFacts<'_>, at: At) -> Option<Problem> {
    let absent = |hop: &HopFacts| {
        let Noted { why, age } = absence(hop)?;
        let outage = hop.name.as_ref()?.outage.as_ref();
        let outage =
            outage.map(|Noted { why, .. }| format!(" by the last answer, and no resolver answers now ({why})"));
        Some((*age, format!("{}: {why}{}", hop.next_hop, outage.unwrap_or_default())))
    };
    let (longest, evidence) = together(tunnel.hops, absent)?;
    Some(Problem::new(Stage::NextHop, left(tunnel.hops), at.before(longest), evidence))
}

/// Returns the health of a tunnel of which a hop fails: by whether another one is left.
fn left(hops: &[HopFacts]) -> Health {
    let is_left = hops.iter().any(|hop| of_hop(hop) < Health::Doubtful);
    if is_left { Health::Failing } else { Health::Doubtful }
}

/// Returns the longest age and the names of the hops for which `told` returns them. `None` without one.
fn together<'a>(
    hops: &'a [HopFacts],
    told: impl Fn(&'a HopFacts) -> Option<(Duration, String)>,
) -> Option<(Duration, String)> {
    let (ages, names): (Vec<Duration>, Vec<String>) = hops.iter().filter_map(told).unzip();
    Some((ages.into_iter().max()?, some_of(names.into_iter())))
}

/// Returns the first of `names` and the number of the others: `a, b, c and 4 more`.
pub(super) fn some_of(names: impl Iterator<Item = String>) -> String {
    let mut names: Vec<String> = names.collect();
    let more = names.len().saturating_sub(MAX_NAMES);
    names.truncate(MAX_NAMES);
    let named = names.join(", ");
    if more > 0 { format!("{named} and {more} more") } else { named }
}

fn is(hop: &HopFacts, state: Availability) -> bool {
    hop.choice.state == state
}

fn failing_for(hop: &HopFacts) -> Duration {
    hop.choice.failing_for.unwrap_or(hop.choice.age)
}

fn failed_dials(hop: &HopFacts, ago: Ago) -> String {
    format!("its last {} dials failed{}", hop.choice.failures, last_failure(hop, ago))
}

/// Returns how and when the last dial or check of `hop` failed, and for how long none was good. A single failed dial has no duration.
fn failing(hop: &HopFacts) -> String {
    let last =
        hop.last_failure.as_ref().map(|Noted { why, age: time }| format!("{why} {} ago", age(time.as_secs_f64())));
    // Nobody knows whether the next dial would fail.
    let is_single = hop.choice.failures == 1 && !hop.choice.is_check_failed;
    let failing = format!("failing for {}", age(failing_for(hop).as_secs_f64()));
    match last {
        Some(last) if is_single => last,
        Some(last) => format!("{last}, {failing}"),
        None => failing,
    }
}

/// Returns the flows that the hop has reset, if they are many and not long ago. A loop is another problem.
fn resets(hop: &HopFacts) -> Option<Resets> {
    hop.choice.resets.filter(Resets::are_many).filter(|_| hop.looped_for.is_none())
}

fn resets_flows(hop: &HopFacts, ago: Ago) -> String {
    let Some(Resets { count, last, .. }) = resets(hop) else { return String::new() };
    format!("reset the last {count} flows before it sent a byte{}", ago(", the last one ", last))
}

fn stalled_for(hop: &HopFacts) -> String {
    age(hop.choice.stalled_for.unwrap_or_default().as_secs_f64())
}

/// Returns why the last dial or check of `hop` failed, and its age by `ago`, behind a blank: ` (refused 3s ago)`. Empty if none has.
fn last_failure(hop: &HopFacts, ago: Ago) -> String {
    let told = |Noted { why, age }: &Noted| format!(" ({why}{})", ago(" ", *age));
    hop.last_failure.as_ref().map(told).unwrap_or_default()
}

/// Returns the outage of the hop's name, unless the name was absent before.
fn outage(hop: &HopFacts) -> Option<(&NameFacts, &Noted)> {
    let name = hop.name.as_ref().filter(|name| name.absence.is_none())?;
    Some((name, name.outage.as_ref()?))
}

fn absence(hop: &HopFacts) -> Option<&Noted> {
    hop.name.as_ref()?.absence.as_ref()
}

/// Returns the refusal of the hop's checks. A hop that is down has a worse problem.
fn check_refusal(hop: &HopFacts) -> Option<&Noted> {
    hop.check_refusal.as_ref().filter(|_| !is(hop, Availability::Down))
}

/// The remedy for peers that do not answer.
pub(super) const IS_PATH_WHOLE: &str = "is the path to it whole? ping it from here; docs/troubleshooting.md says more";

/// The remedy for a hop that resets its flows.
const WHY_IN_ITS_LOG: &str = "its log says why. A relay resets if its `allow` lacks this one, if its `proxy_in` differs from `proxy_out` here, or if it does not \
     reach its own next hop; a server, if it refuses or crashes";

/// Number of next hops that a problem names, so that it stays one readable line.
const MAX_NAMES: usize = 3;
