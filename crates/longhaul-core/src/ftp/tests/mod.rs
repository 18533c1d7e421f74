//! Tests of whole dialogues. A dialogue is text, one line each:
//!
//! ```text
//! C: PASV                                              the client sends this, and the server gets it
//! S: 227 Entering Passive Mode (192,0,2,2,117,53).     the server sends this
//! c: 227 Entering Passive Mode (198,51,100,1,195,81).  the client gets this instead of it
//! * open 1 from client, dial 192.0.2.2:30005           an action
//! ```
//! After `C:`, `s:` replaces what the server gets, and `c:` adds what the client gets. After `S:`, `c:` replaces what the client gets,
//! and `s:` adds what the server gets. `c:` or `s:` without text: it gets nothing. `\xff` is one byte. `...` is the time at
//! which the wait for replies ends. After `! why` the caller opens no data connection, and says why; after `!` it does again.

mod attacks;
mod dialogues;
mod endings;
mod hidden;
mod modes;
mod properties;
mod readers;
mod transfers;

use super::*;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// The bytes and the actions of a session.
#[derive(Debug, Default, PartialEq, Eq)]
struct Played {
    to_client: Vec<u8>,
    to_server: Vec<u8>,
    /// The actions, as dialogues write them.
    events: Vec<String>,
}

/// A caller that opens a listener at a port that tells its number, 50,001, 50,002 and so on.
struct Caller {
    ends: Ends<IpAddr>,
    events: Vec<String>,
    openings: Vec<Opening>,
    /// Number of data connections that were opened.
    opened: u64,
    /// Numbers of those whose transfer the server refused.
    refusals: Vec<u64>,
    /// Numbers of those that a transfer lacked.
    lacking: Vec<u64>,
    /// Why it opens none.
    failure: Option<String>,
    /// Whether the client gets FIN.
    has_fin: bool,
    end: Option<End>,
}

impl Caller {
    /// Notes an action. Returns the answer to it.
    fn act(&mut self, action: Action) -> Option<Result<SocketAddr, String>> {
        let event = match action {
            Action::Open(opening) => return Some(self.open(opening)),
            Action::Begin if !self.has_joined() => return None,
            Action::Begin => "begins".into(),
            Action::Transfer(transfer) => format!("transfer {} {transfer}", self.opened),
            Action::Refused(why) => format!("refused {}", why.name()),
            Action::RefusedTransfer => {
                self.refusals.push(self.opened);
                return None;
            }
            Action::LacksData => {
                self.lacking.push(self.opened);
                return None;
            }
            Action::Encrypted => return None,
            Action::Fin => {
                self.has_fin = true;
                return None;
            }
            Action::End(end) => {
                self.end = Some(end);
                return None;
            }
        };
        self.events.push(event);
        None
    }

    /// Returns the address of a listener, or why there is none.
    fn open(&mut self, opening: Opening) -> Result<SocketAddr, String> {
        self.opened += u64::from(!matches!(opening, Opening::ForClient | Opening::Client));
        let number = self.opened;
        let (event, side) = match opening {
            Opening::Listener { accept_from, dial } => {
                (format!("open {number} from {accept_from}, dial {dial}"), accept_from)
            }
            Opening::Join { server, client } => (format!("join {number}, {server} and {client}"), Side::Server),
            Opening::ForServer => (format!("await {number} from server"), Side::Server),
            Opening::ForClient => (format!("meet {number} from client"), Side::Client),
            Opening::Client => (format!("dial {number}"), Side::Client),
        };
        self.events.push(event);
        self.openings.push(opening);
        self.failure.clone().map_or(Ok(SocketAddr::new(facing(self.ends, side), port(number))), Err)
    }

    fn has_joined(&self) -> bool {
        self.openings.iter().any(|opening| matches!(opening, Opening::Join { .. }))
    }
}

/// Returns the relay's address that faces a side.
fn facing(ends: Ends<IpAddr>, side: Side) -> IpAddr {
    let (peer, v4, v6) = match side {
        Side::Client => (ends.client, "198.51.100.1", "2001:db8:c::1"),
        Side::Server => (ends.server, "192.0.2.1", "2001:db8:5::1"),
    };
    if peer.is_ipv4() { v4.parse().unwrap() } else { v6.parse().unwrap() }
}

fn port(number: u64) -> u16 {
    50_000 + (number % 15_000) as u16
}

const CLIENT_V4: &str = "198.51.100.7";
const SERVER_V4: &str = "192.0.2.2";
const CLIENT_V6: &str = "2001:db8:c::7";
const SERVER_V6: &str = "2001:db8:5::2";

/// Returns rules that allow nothing but the peers themselves.
fn strict(client: &str, server: &str) -> Rules {
    let ends = Ends { client: client.parse().unwrap(), server: server.parse().unwrap() };
    Rules { ends, data_from: Vec::new(), allow: Vec::new(), mode: Mode::Client }
}

fn v4() -> Rules {
    strict(CLIENT_V4, SERVER_V4)
}

/// A session, its caller, and the bytes that came out. Each side takes every byte at once.
struct Stage {
    session: Session,
    caller: Caller,
    to_client: Vec<u8>,
    to_server: Vec<u8>,
    /// A side that takes no bytes now.
    blocked: Option<Side>,
    began: Instant,
    now: Instant,
}

/// Two data connections that have come.
const FULL: Data = Data { come: 2, awaited: None, has_room: false, is_arriving: false, is_leaving: false };

impl Stage {
    fn new(rules: &Rules) -> Stage {
        Stage::lingering(rules, Ends::default())
    }

    fn lingering(rules: &Rules, lingers: Ends<Option<Duration>>) -> Stage {
        let caller = Caller {
            ends: rules.ends,
            events: Vec::new(),
            openings: Vec::new(),
            opened: 0,
            refusals: Vec::new(),
            lacking: Vec::new(),
            failure: None,
            has_fin: false,
            end: None,
        };
        let now = Instant::now();
        let session = Session::new(rules.clone(), lingers, now);
        Stage { session, caller, to_client: Vec::new(), to_server: Vec::new(), blocked: None, began: now, now }
    }

    /// Returns a stage whose server has greeted.
    fn greeted() -> Stage {
        let mut stage = Stage::new(&v4());
        stage.send(Side::Server, b"220 ready\r\n");
        stage.take();
        stage
    }

    /// Carries out every action, and sends every byte.
    fn settle(&mut self) {
        loop {
            while let Some(action) = self.session.poll(self.now) {
                let is_end = matches!(action, Action::End(_));
                if let Some(answer) = self.caller.act(action) {
                    if answer.is_ok() {
                        // It tells nothing of the server, so the wait for replies ends as without it.
                        let data = Data { awaited: Some(Side::Client), has_room: true, ..Data::default() };
                        self.session.know(data, self.now);
                    }
                    self.session.opened(answer);
                }
                if is_end {
                    break;
                }
            }
            let mut has_sent = false;
            for (side, sent) in [(Side::Client, &mut self.to_client), (Side::Server, &mut self.to_server)] {
                let (bytes, _) = self.session.output(side);
                if !bytes.is_empty() && self.blocked != Some(side) {
                    sent.extend_from_slice(bytes);
                    let count = bytes.len();
                    self.session.sent(side, count, self.now);
                    has_sent = true;
                }
            }
            if !has_sent {
                return;
            }
        }
    }

    fn send(&mut self, side: Side, bytes: &[u8]) {
        self.session.receive(side, bytes, false, self.now);
        self.settle();
    }

    fn finish(&mut self, side: Side) {
        self.session.end(side, self.now);
        self.settle();
    }

    /// Lets the time pass until the session does something.
    fn pass_time(&mut self) {
        self.now = self.session.poll_timeout().unwrap_or(self.now);
        while self.caller.end.is_none() && self.session.poll_timeout().is_some_and(|at| at <= self.now) {
            self.session.tick(self.now);
            self.settle();
        }
    }

    /// Does the same. Returns the seconds since the beginning.
    fn tick(&mut self) -> u64 {
        self.pass_time();
        (self.now - self.began).as_secs()
    }

    /// Lets the time pass to this second at least. The session waits for something until then.
    fn tick_to(&mut self, second: u64) {
        while self.tick() < second {
            assert!(self.session.poll_timeout().is_some(), "it waits for nothing");
        }
    }

    /// Lets this time pass without an event.
    fn wait(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    /// Lets a drain end the session.
    fn leave(&mut self) {
        self.session.drain(true);
        self.tick();
    }

    /// Notes that a side broke. `is_read`: all its bytes were read.
    fn break_off(&mut self, side: Side, is_read: bool) {
        self.session.broke(side, is_read, self.now);
        self.settle();
    }

    /// Tells the session what its data connections are like.
    fn know(&mut self, data: Data) {
        self.session.know(data, self.now);
        self.settle();
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

/// A step of a dialogue.
struct Turn {
    event: Event,
    sent: Vec<u8>,
    /// Bytes that the client gets at the end of the turn.
    to_client: Vec<u8>,
    /// Bytes that the server gets.
    to_server: Vec<u8>,
}

#[derive(Clone, PartialEq)]
enum Event {
    /// A side sends bytes.
    Sends(Side),
    /// The wait ends.
    WaitEnds,
    /// From now on the caller opens no data connection, if it has a reason for that.
    Fails(Option<String>),
}

impl Turn {
    fn play(&self, stage: &mut Stage, pieces: &[&[u8]]) {
        match &self.event {
            Event::Sends(side) => pieces.iter().for_each(|piece| stage.send(*side, piece)),
            Event::WaitEnds => stage.pass_time(),
            Event::Fails(why) => stage.caller.failure = why.clone(),
        }
    }
}

/// Reads a dialogue.
fn read(dialogue: &str) -> (Vec<Turn>, Vec<String>) {
    let (mut turns, mut events): (Vec<Turn>, Vec<String>) = (Vec::new(), Vec::new());
    let mut is_replaced = false;
    let turn = |event| Turn { event, sent: Vec::new(), to_client: Vec::new(), to_server: Vec::new() };
    for line in dialogue.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line == "..." {
            turns.push(turn(Event::WaitEnds));
            continue;
        }
        if let Some(why) = line.strip_prefix('!') {
            let why = String::from_utf8(unescape(why.trim())).unwrap();
            turns.push(turn(Event::Fails(Some(why).filter(|why| !why.is_empty()))));
            continue;
        }
        let (head, text) = line.split_once([':', '*']).unwrap();
        let text = text.strip_prefix(' ').unwrap_or(text);
        let bytes = if text.is_empty() { Vec::new() } else { [unescape(text), b"\r\n".to_vec()].concat() };
        match head {
            "C" => turns.push(Turn { sent: bytes.clone(), to_server: bytes, ..turn(Event::Sends(Side::Client)) }),
            "S" => turns.push(Turn { sent: bytes.clone(), to_client: bytes, ..turn(Event::Sends(Side::Server)) }),
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
                if turn.event == Event::Sends(replaced_by) && !std::mem::replace(&mut is_replaced, true) {
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
