//! The fields of JSON and the bytes on the wire that other versions must have, too: `interface/`.

use super::manual_tests::{full, states, variant};
use super::snapshot::Snapshot;
use crate::interface::{check, fields};
use longhaul_core::path::diagnosis::Kind as Finding;
use longhaul_core::wire::answer::{Dial, Frame, Next, Proof, Receipt, Report};
use longhaul_core::wire::proof::{Challenge, Key};
use longhaul_core::wire::{measure, probe};
use longhaul_measure::datagram::{Datagram, HEADER, Kind};
use longhaul_measure::message::{Ask, Tell};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

#[test]
fn no_released_field_or_word_of_status_json_is_gone() {
    let states = states().into_iter().map(|state| format!("state {state}"));
    let kinds = Finding::ALL.iter().map(|kind| format!("finding {kind}"));
    let fields = fields(&[serde_json::to_value(full::<Snapshot>()).unwrap()]);
    check("status", fields.into_iter().chain(states).chain(kinds));
}

/// A message of the same content has the same bytes in every version.
#[test]
fn no_released_message_on_the_wire_is_another_one() {
    let messages = session_messages::<Ask>("ask").into_iter().chain(session_messages::<Tell>("tell"));
    let numbers = [
        numbers("dial", DIALS.map(|dial| (dial, dial as u8))),
        numbers("next", NEXTS.map(|next| (next, next as u8))),
        numbers("datagram", KINDS.map(|kind| (kind, kind as u8))),
    ];
    check("wire", bytes().into_iter().chain(messages).chain(numbers.concat()));
}

/// Returns the bytes of one message of each kind.
fn bytes() -> Vec<String> {
    let nonce = std::array::from_fn(|at| at as u8);
    let (hops, echo_bytes) = (2, 0x0102_0304);
    let challenge = Challenge { nonce, hops, random: [7; 32] };
    let key = Key::new(b"sixteen or more bytes").unwrap();
    let mac = key.prove(&challenge, echo_bytes);
    let report = Report {
        nonce,
        hops,
        dial: Dial::Refused,
        next: Next::DialFailed,
        clock_us: 0x0102_0304_0506_0708,
        dial_us: 0x1112_1314,
        rtt_us: 0x2122_2324,
        echo_bytes,
        name: "far".into(),
        version: "1.2.3".into(),
        next_hop: "b:22".into(),
        why: "refused".into(),
    };
    let receipt = Receipt { nonce, bytes: echo_bytes, checksum: 0x3132_3334, time_us: 0x4142_4344 };
    let session = |run| measure::Preface { messages: measure::MESSAGES, run, nonce }.bytes();
    let datagram = Datagram { nonce, number: echo_bytes, kind: Kind::Down, size: 1472 };
    [
        ("preface of a probe", probe::Preface { hops, echo_bytes, nonce }.bytes().to_vec()),
        ("report", Frame::Report(report).bytes()),
        ("receipt", Frame::Receipt(receipt).bytes()),
        ("challenge", Frame::Challenge(challenge).bytes()),
        ("proof", Frame::Proof(Proof { nonce, mac }).bytes()),
        ("preface of a session", session(None).to_vec()),
        ("preface of a run", session(Some(5)).to_vec()),
        ("greeting", measure::GREETING.to_vec()),
        ("proof of a session", key.prove_session(&nonce, &challenge.random).to_vec()),
        ("datagram", datagram.bytes(HEADER)),
    ]
    .map(|(name, bytes)| format!("{name} {}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
    .into()
}

/// Returns the fields of every message of a measuring session.
fn session_messages<T: DeserializeOwned + Serialize>(who: &str) -> Vec<String> {
    let messages = (0..MAX_VARIANTS).map(|number| serde_json::to_value(variant::<T>(number)).unwrap());
    fields(&messages.collect::<Vec<_>>()).iter().map(|name| format!("{who} {name}")).collect()
}

fn numbers<T: Debug, const N: usize>(of: &str, all: [(T, u8); N]) -> Vec<String> {
    all.into_iter().map(|(what, number)| format!("{of} {what:?} {number}")).collect()
}

const DIALS: [Dial; 6] =
    [Dial::Connected, Dial::Refused, Dial::NoAnswer, Dial::Failed, Dial::NotDialled, Dial::PortSilent];
const NEXTS: [Next; 6] = [Next::Echo, Next::PassedOn, Next::DialFailed, Next::Busy, Next::NotPassedOn, Next::Unproven];
const KINDS: [Kind; 5] = [Kind::Up, Kind::Down, Kind::DownInFragments, Kind::Answer, Kind::Train];
/// More variants than any enum of messages has.
const MAX_VARIANTS: usize = 16;
