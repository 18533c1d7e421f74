//! Tests of whole dialogues. A dialogue is text, one line each:
//!
//! ```text
//! C: PASV                                              the client sends this, and the server gets it
//! S: 227 Entering Passive Mode (192,0,2,2,117,53).     the server sends this
//! c: 227 Entering Passive Mode (198,51,100,1,195,81).  the client gets this instead of it
//! * open 1 from client, dial 192.0.2.2:30005           the session called its caller
//! ```
//! After `C:`, `s:` replaces what the server gets, and `c:` adds what the client gets. After `S:`, `c:` replaces what the client gets,
//! and `s:` adds what the server gets. `c:` or `s:` without text: it gets nothing. `\xff` is one byte. `...` is the end of the wait
//! for replies.

mod attacks;
mod dialogues;
mod hidden;
mod modes;
mod properties;
mod readers;

use super::*;
use std::net::{IpAddr, SocketAddr};

/// The bytes and the calls of a session.
#[derive(Debug, Default, PartialEq, Eq)]
struct Played {
    to_client: Vec<u8>,
    to_server: Vec<u8>,
    /// Calls of the session's caller, as dialogues write them.
    events: Vec<String>,
}

/// A caller that opens a listener at a port that tells the channel, 50,000 and its number.
struct Caller {
    ends: Ends,
    events: Vec<String>,
    openings: Vec<Opening>,
    joinings: Vec<Joining>,
    /// Channels with a listener for the server alone.
    awaited: Vec<u64>,
    /// Channels whose transfer the server refused.
    refusals: Vec<u64>,
    /// Channels whose transfer had no data connection.
    lacking: Vec<u64>,
    /// Whether no other data connection may begin.
    is_full: bool,
    /// Why it opens none.
    failure: Option<&'static str>,
}

impl Caller {
    /// Returns the address of a listener, or why there is none.
    fn named(&self, channel: u64, accept_from: Side) -> Result<SocketAddr, String> {
        match self.failure {
            Some(why) => Err(why.to_string()),
            None => Ok(SocketAddr::new(facing(self.ends, accept_from), port(channel))),
        }
    }
}

impl Channels for Caller {
    fn open(&mut self, opening: Opening) -> Result<SocketAddr, String> {
        let Opening { channel, accept_from, dial } = opening;
        self.events.push(format!("open {channel} from {accept_from}, dial {dial}"));
        self.openings.push(opening);
        self.named(channel, accept_from)
    }

    fn have_room(&mut self) -> bool {
        !self.is_full
    }

    fn join(&mut self, joining: Joining) -> Result<(), String> {
        let Joining { channel, server, client } = joining;
        self.events.push(format!("join {channel}, {server} and {client}"));
        self.joinings.push(joining);
        self.failure.map_or(Ok(()), |why| Err(why.to_string()))
    }

    fn open_for_server(&mut self, channel: u64) -> Result<SocketAddr, String> {
        self.events.push(format!("await {channel} from server"));
        self.awaited.push(channel);
        self.named(channel, Side::Server)
    }

    fn meet(&mut self) -> Result<SocketAddr, String> {
        let channel = *self.awaited.last().unwrap();
        self.events.push(format!("meet {channel} from client"));
        self.named(channel, Side::Client)
    }

    fn begins(&mut self) {
        if !self.joinings.is_empty() {
            self.events.push("begins".into());
        }
    }

    fn transfer(&mut self, channel: u64, Transfer { verb, name }: Transfer) {
        self.events.push(format!("transfer {channel} {verb} {name}").trim_end().to_string());
    }

    fn refuses_transfer(&mut self, channel: u64) {
        self.refusals.push(channel);
    }

    fn lacks_data(&mut self, channel: u64) {
        self.lacking.push(channel);
    }

    fn refused(&mut self, why: &Refused) {
        self.events.push(format!("refused {}", why.name()));
    }
}

/// Returns the relay's address that faces a side.
fn facing(ends: Ends, side: Side) -> IpAddr {
    let (peer, v4, v6) = match side {
        Side::Client => (ends.client, "198.51.100.1", "2001:db8:c::1"),
        Side::Server => (ends.server, "192.0.2.1", "2001:db8:5::1"),
    };
    if peer.is_ipv4() { v4.parse().unwrap() } else { v6.parse().unwrap() }
}

fn port(channel: u64) -> u16 {
    50_000 + (channel % 15_000) as u16
}

const CLIENT_V4: &str = "198.51.100.7";
const SERVER_V4: &str = "192.0.2.2";
const CLIENT_V6: &str = "2001:db8:c::7";
const SERVER_V6: &str = "2001:db8:5::2";

/// Returns rules that allow nothing but the peers themselves.
fn strict(client: &str, server: &str) -> Rules {
    let ends = Ends { client: client.parse().unwrap(), server: server.parse().unwrap() };
    Rules { ends, data_from: Vec::new(), allow: Vec::new(), low_ports: false, mode: Mode::Client }
}

fn v4() -> Rules {
    strict(CLIENT_V4, SERVER_V4)
}

/// A session, its caller, and the bytes that came out.
struct Stage {
    session: Session,
    caller: Caller,
    to_client: Vec<u8>,
    to_server: Vec<u8>,
}

impl Stage {
    fn new(rules: &Rules) -> Stage {
        let caller = Caller {
            ends: rules.ends,
            events: Vec::new(),
            openings: Vec::new(),
            joinings: Vec::new(),
            awaited: Vec::new(),
            refusals: Vec::new(),
            lacking: Vec::new(),
            is_full: false,
            failure: None,
        };
        let session = Session::new(rules.clone());
        Stage { session, caller, to_client: Vec::new(), to_server: Vec::new() }
    }

    fn send(&mut self, side: Side, bytes: &[u8]) {
        let Stage { session, caller, to_client, to_server } = self;
        match side {
            Side::Client => session.from_client(bytes, caller, to_client, to_server),
            Side::Server => session.from_server(bytes, caller, to_client, to_server),
        }
    }

    fn finish(&mut self, side: Side) {
        let Stage { session, caller, to_client, to_server } = self;
        session.end(side, caller, to_client, to_server);
    }

    fn give_up(&mut self) {
        let Stage { session, caller, to_client, to_server } = self;
        session.give_up_waiting(caller, to_client, to_server);
    }

    /// Returns the bytes that came out for the client and for the server.
    fn take(&mut self) -> [String; 2] {
        [&mut self.to_client, &mut self.to_server].map(|out| std::mem::take(out).escape_ascii().to_string())
    }

    /// Sends bytes, and returns those that came out for the other side.
    fn get(&mut self, side: Side, bytes: &[u8]) -> String {
        self.send(side, bytes);
        let out = match side {
            Side::Client => &mut self.to_server,
            Side::Server => &mut self.to_client,
        };
        std::mem::take(out).escape_ascii().to_string()
    }

    /// Ends both sides.
    fn end(mut self) -> Played {
        self.finish(Side::Client);
        self.finish(Side::Server);
        Played { to_client: self.to_client, to_server: self.to_server, events: self.caller.events }
    }
}

/// Bytes of one side.
struct Turn {
    /// `None`: the wait ends.
    side: Option<Side>,
    sent: Vec<u8>,
    /// Bytes that the client gets at the end of the turn.
    to_client: Vec<u8>,
    /// Bytes that the server gets.
    to_server: Vec<u8>,
}

impl Turn {
    fn play(&self, stage: &mut Stage, pieces: &[&[u8]]) {
        match self.side {
            None => stage.give_up(),
            Some(side) => pieces.iter().for_each(|piece| stage.send(side, piece)),
        }
    }
}

/// Reads a dialogue.
fn read(dialogue: &str) -> (Vec<Turn>, Vec<String>) {
    let (mut turns, mut events): (Vec<Turn>, Vec<String>) = (Vec::new(), Vec::new());
    let mut is_replaced = false;
    let turn = |side| Turn { side, sent: Vec::new(), to_client: Vec::new(), to_server: Vec::new() };
    for line in dialogue.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line == "..." {
            turns.push(turn(None));
            continue;
        }
        let (head, text) = line.split_once([':', '*']).unwrap();
        let text = text.strip_prefix(' ').unwrap_or(text);
        let bytes = if text.is_empty() { Vec::new() } else { [unescape(text), b"\r\n".to_vec()].concat() };
        match head {
            "C" => turns.push(Turn { sent: bytes.clone(), to_server: bytes, ..turn(Some(Side::Client)) }),
            "S" => turns.push(Turn { sent: bytes.clone(), to_client: bytes, ..turn(Some(Side::Server)) }),
            "" => {
                events.push(text.to_string());
                continue;
            }
            _ => {
                let turn = turns.last_mut().unwrap();
                let (out, replaced_by) = match head {
                    "s" => (&mut turn.to_server, Side::Client),
                    _ => (&mut turn.to_client, Side::Server),
                };
                if turn.side == Some(replaced_by) && !std::mem::replace(&mut is_replaced, true) {
                    out.clear();
                }
                out.extend(bytes);
                continue;
            }
        }
        is_replaced = false;
    }
    (turns, events)
}

fn unescape(text: &str) -> Vec<u8> {
    let mut parts = text.split("\\x");
    let mut bytes = parts.next().unwrap().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    bytes
}

/// Plays a dialogue whole, split at every byte, and byte by byte.
fn check(rules: &Rules, dialogue: &str) {
    let (turns, events) = read(dialogue);
    let mut stage = Stage::new(rules);
    for turn in &turns {
        turn.play(&mut stage, &[&turn.sent]);
        let expected = [&turn.to_client, &turn.to_server].map(|bytes| bytes.escape_ascii().to_string());
        assert_eq!(stage.take(), expected, "for {}", turn.sent.escape_ascii());
    }
    assert_eq!(stage.end().events, events);

    let to_client: Vec<u8> = turns.iter().flat_map(|turn| turn.to_client.clone()).collect();
    let to_server: Vec<u8> = turns.iter().flat_map(|turn| turn.to_server.clone()).collect();
    let expected = Played { to_client, to_server, events };
    for (split, turn) in turns.iter().enumerate() {
        for at in 1..turn.sent.len() {
            let mut stage = Stage::new(rules);
            for (index, turn) in turns.iter().enumerate() {
                let (first, second) = if index == split { turn.sent.split_at(at) } else { (&turn.sent[..], &[][..]) };
                turn.play(&mut stage, &[first, second]);
            }
            assert_eq!(stage.end(), expected, "{} split at {at}", turn.sent.escape_ascii());
        }
    }
    let mut stage = Stage::new(rules);
    turns.iter().for_each(|turn| turn.play(&mut stage, &turn.sent.chunks(1).collect::<Vec<_>>()));
    assert_eq!(stage.end(), expected, "byte by byte");
}
