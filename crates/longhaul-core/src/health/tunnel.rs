//! The rules about a tunnel, and those that are neither about its next hops nor about its probes.

use super::facts::{At, DataFacts, GoneAddress, StalledClients, TunnelFacts, Wait};
use super::problem::{Fault, Health, Party, Problem};
use super::stage::Stage;
use super::{hops, probes};
use crate::loops::{Doubtful, Sign};
use crate::permits::Full;
use std::time::Duration;

/// A rule about a tunnel.
enum Rule {
    /// Finds one problem at most.
    One(fn(&TunnelFacts<'_>, At) -> Option<Problem>),
    /// Finds any number of problems.
    Each(fn(&TunnelFacts<'_>, At) -> Vec<Problem>),
}

/// The rules, in the order of their problems. The stage at which a probe ended comes before the next hops, because it is nearer to the
/// cause: next hops are down because of it.
const RULES: &[Rule] = &[
    Rule::One(gone_listener),
    Rule::One(probes::broken_stage),
    Rule::Each(hops::single),
    Rule::One(hops::refused_checks),
    Rule::One(hops::unanswered_names),
    Rule::One(hops::absent_names),
    Rule::One(looped_flows),
    Rule::One(stalled_clients),
    Rule::One(waiting_clients),
    Rule::One(data_connections),
    Rule::One(probes::no_result),
];

/// Returns the problems of `tunnel`.
pub(super) fn problems(tunnel: &TunnelFacts<'_>, at: At) -> Vec<Problem> {
    let found = RULES.iter().flat_map(|rule| match rule {
        Rule::One(rule) => rule(tunnel, at).into_iter().collect(),
        Rule::Each(rule) => rule(tunnel, at),
    });
    found.map(|problem| Problem { tunnel: Some(tunnel.name.into()), ..problem }).collect()
}

/// Returns the problem of a listener whose address is gone: no client reaches it.
fn gone_listener(tunnel: &TunnelFacts<'_>, _: At) -> Option<Problem> {
    let GoneAddress { ip, since } = tunnel.gone_address?;
    let evidence = format!("{ip} is not an address of this host any more");
    let remedy = "add it again, or write accept = { freebind = true } if keepalived moves it";
    Some(Problem::new(Stage::Listener, Health::Broken, since, evidence).with(remedy))
}

/// Returns the problem of flows that may come back, and then use up permits until they are refused. They are not served. Not even a
/// proven loop is fatal: a client that imitates one on purpose must not move keepalived's address.
fn looped_flows(tunnel: &TunnelFacts<'_>, at: At) -> Option<Problem> {
    let Doubtful { from, sign, next_hop, age } = tunnel.looped?;
    let question = "does its `to` lead back here?";
    let own = || match tunnel.hops.iter().find(|hop| hop.looped_for.is_some()) {
        Some(hop) => hop.next_hop.to_string(),
        None => next_hop.map(|address| address.to_string()).unwrap_or_default(),
    };
    let (evidence, remedy) = match sign {
        Sign::NextHop => (format!("{from} is this tunnel's next hop, and connects to it"), question),
        Sign::Returns => (format!("a connection to the next hop came back from {from}"), question),
        Sign::Loop(to) => (
            format!(
                "flows go round in a loop: this tunnel dials {}, and {from} dials {to}, which is this tunnel",
                own()
            ),
            "one of the two `to` is wrong",
        ),
    };
    Some(Problem::new(Stage::NextHop, Health::Doubtful, at.before(age), evidence).with(remedy))
}

/// Returns the problem of clients that do not answer. A client that was switched off shows, too, if no other carries bytes. So new
/// flows are not in doubt.
fn stalled_clients(tunnel: &TunnelFacts<'_>, _: At) -> Option<Problem> {
    let StalledClients { first, more, since } = tunnel.stalled_clients?;
    let who = match more {
        0 => format!("{first} does"),
        more => format!("{first} and {more} more do"),
    };
    let evidence = format!("{who} not answer flows that carry bytes");
    // Neither probes nor checks go to clients.
    let party = Some(Party {
        name: "clients".into(),
        fault: Fault::NotReached,
        told_after: Some(Duration::ZERO),
        told: evidence.clone(),
    });
    let problem = Problem::new(Stage::Clients, Health::Failing, since, evidence);
    Some(Problem { party, ..problem.with(hops::IS_PATH_WHOLE) })
}

/// Returns the problem of clients that wait, because the tunnel may not have another flow. They are served when a flow ends.
fn waiting_clients(tunnel: &TunnelFacts<'_>, _: At) -> Option<Problem> {
    let Wait { full, since } = tunnel.waiting?;
    let remedy = match full {
        Full::MaxFlows | Full::AllFlows => "raise it",
        Full::Permits => "raise LimitNOFILE",
    };
    let evidence = format!("connections wait in the listen queue: {}", full.why());
    let remedy = format!("{remedy}, or wait until flows end");
    // A tunnel may be full for a moment again and again.
    let party = Some(Party {
        name: "listen queue".into(),
        fault: Fault::Waits,
        told_after: Some(WAIT_TOLD_AFTER),
        told: evidence.clone(),
    });
    let problem = Problem::new(Stage::Resources, Health::Stalled, since, evidence);
    Some(Problem { party, ..problem.with(remedy) })
}

/// Returns the problem of FTP data connections, which probes and checks do not see.
fn data_connections(tunnel: &TunnelFacts<'_>, at: At) -> Option<Problem> {
    let DataFacts { what, since, last } = tunnel.data_problem?;
    let last = longhaul_units::age(at.since(*last).as_secs_f64());
    let evidence = format!("data connections are refused or do not come, the last one {last} ago: {what}");
    Some(Problem::new(Stage::FtpData, Health::Failing, *since, evidence).with("docs/ftp.md says more"))
}

/// Time after which the log tells that connections wait.
const WAIT_TOLD_AFTER: Duration = Duration::from_secs(5);
