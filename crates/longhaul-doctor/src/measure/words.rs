//! A measured path in words: what one connection carries in a direction, and what limits it.

use super::document::{Document, Finding};
use super::values::rate;
use longhaul_core::path::diagnosis::Kind;
use longhaul_measure::message::Direction;

/// Returns what limits a transfer in `direction`, and what it would be without that, in sentences. `None` if nothing is known.
pub(super) fn verdict(document: &Document, direction: Direction) -> Option<String> {
    let carries = carries(document, direction);
    let Some(finding) = document.finding(direction) else { return carries.map(|carries| format!("{carries}.")) };
    let carries = carries.unwrap_or_else(|| format!("{}, nothing was carried", start(direction)));
    Some(match Kind::named(&finding.kind) {
        Some(Kind::Unknown) => format!("{carries}. What limits it is not known."),
        Some(Kind::LinkRate) => format!("{carries}. That is the rate of the line."),
        _ => {
            let without = without(finding).map(|without| format!(" Without that limit it would carry {without}."));
            format!("{carries}. It is limited by {}.{}", limit(&finding.kind, direction), without.unwrap_or_default())
        }
    })
}

/// Returns what one connection carries in `direction`, without a full stop.
fn carries(document: &Document, direction: Direction) -> Option<String> {
    let carried = |mbps| if mbps > 0.0 { rate(mbps) } else { "nothing".into() };
    let run = document.first(direction)?;
    Some(format!("{}, one connection carries {}", start(direction), carried(run.payload_mbps)))
}

/// Returns what one connection would carry without the limit, and what would limit it then. `None` if the rate is not known.
pub(super) fn without(finding: &Finding) -> Option<String> {
    let then = finding.then_limited_by.as_ref().map(|kind| format!(", limited by {}", limit(kind, finding.direction)));
    finding.what_if_mbps.map(|mbps| format!("{}{}", rate(mbps), then.unwrap_or_default()))
}

/// Returns the limit called `kind`, as it follows "limited by". A kind of a later longhaul keeps its name.
pub(super) fn limit(kind: &str, direction: Direction) -> String {
    let Some(known) = Kind::named(kind) else { return kind.replace('-', " ") };
    match known {
        Kind::ReceiverWindow => match direction {
            Direction::Up => "the receive window of the far host",
            Direction::Down => "the receive window of this host",
        },
        Kind::PeerSendBuffer => "the send buffer of the far host",
        Kind::OwnSendBuffer => "the send buffer of this host",
        Kind::Application => "the program that sends or reads",
        Kind::ApplicationWindow => "the window of the application's own protocol",
        Kind::RandomLoss => "random loss",
        Kind::CongestedQueue => "other traffic in the queue of the line",
        Kind::Policer => "a policer",
        Kind::LinkRate => "the rate of the line",
        Kind::Cap => "a bandwidth cap",
        Kind::MtuBlackHole => "a black hole for large packets",
        Kind::Fragmentation => "lost fragments",
        Kind::Reordering => "reordering",
        Kind::Cpu => "the processor of a host",
        Kind::Stalled => "a path that is dead",
        Kind::Unknown => "something unknown",
    }
    .into()
}

/// Returns the name of `direction` at the start of a sentence.
pub(super) fn start(direction: Direction) -> &'static str {
    match direction {
        Direction::Up => "Up",
        Direction::Down => "Down",
    }
}

/// Returns where and when `document` was measured, with a blank before it; empty if it does not say so.
pub(super) fn where_and_when(document: &Document) -> String {
    let is_said = |text: &&String| !text.is_empty();
    let host = document.host.as_ref().filter(is_said).map(|host| format!(" on {host}")).unwrap_or_default();
    let began = document.began.as_ref().filter(is_said).map(|began| format!(" at {began}")).unwrap_or_default();
    host + &began
}

/// Returns why `document` is only a part of a measurement; `None` if it is whole.
pub(super) fn partial(document: &Document) -> Option<String> {
    match document.ended.as_deref() {
        None if document.runs.is_empty() => Some("No transfer was measured: the notes say why.".into()),
        None => None,
        Some("interrupted") => {
            Some("The measurement was interrupted: this is only the part that was known by then.".into())
        }
        Some(why) => Some(format!("The session was lost ({why}): this is only the part that was known by then.")),
    }
}
