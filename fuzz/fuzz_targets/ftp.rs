//! Plays any bytes as an FTP control connection. The first byte chooses the rules. The server and the client send the rest in
//! turns, with the byte RS between them. A turn that begins with GS is the FIN of its side, one that begins with FS is a drain or its
//! end, one that begins with US is the time at which the session does something, and one that begins with EM is a reset. A session
//! never panics. It opens data listeners only for addresses that the rules allow, passes no PORT and no EPRT with another address on,
//! holds no more bytes than it says, and does the same if every byte comes alone.

#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul_core::ftp::{Action, End, Ends, MAX_COMMAND_BYTES, MAX_REPLY_BYTES, Mode, Opening, Rules, Session, Side};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let whole = Played::new(*choice, bytes, usize::MAX);
    assert_eq!(whole, Played::new(*choice, bytes, 1));
});

/// The bytes and the actions of a session.
#[derive(Debug, PartialEq)]
struct Played {
    to_client: Vec<u8>,
    to_server: Vec<u8>,
    actions: Vec<Action>,
    /// Number of data connections that the session asked for.
    opened: u64,
    is_encrypted: bool,
}

impl Played {
    /// Plays turns in pieces of at most `piece` bytes.
    fn new(choice: u8, bytes: &[u8], piece: usize) -> Played {
        let rules = rules(choice);
        let mut now = Instant::now();
        let lingers = Ends { client: Some(Duration::from_secs(7)), server: None };
        let mut session = Session::new(rules.clone(), lingers, now);
        let mut played = Played {
            to_client: Vec::new(),
            to_server: Vec::new(),
            actions: Vec::new(),
            opened: 0,
            is_encrypted: false,
        };
        let (mut has_ended, mut has_passed_fin, mut is_draining) = ([false; 2], false, false);
        for (index, turn) in bytes.split(|byte| *byte == RS).enumerate() {
            let side = if index % 2 == 0 { Side::Server } else { Side::Client };
            match turn.first() {
                Some(&FS) => {
                    is_draining = !is_draining;
                    session.drain(is_draining);
                }
                Some(&US) => {
                    if let Some(at) = session.poll_timeout() {
                        now = at;
                        session.tick(now);
                    }
                }
                _ if has_ended[index % 2] => {}
                Some(&GS) => {
                    has_ended[index % 2] = true;
                    if side == Side::Server {
                        session.end(side, now);
                    }
                }
                Some(&EM) => {
                    has_ended[index % 2] = true;
                    session.broke(side, true, now);
                }
                _ => {
                    for piece in turn.chunks(piece) {
                        session.receive(side, piece, false, now);
                        played.settle(&mut session, rules.ends, now);
                    }
                }
            }
            if played.settle(&mut session, rules.ends, now) {
                break;
            }
            // As the relay does: a client is read only while the session wants it.
            if has_ended[1] && !has_passed_fin && session.wants(Side::Client) {
                has_passed_fin = true;
                session.end(Side::Client, now);
                if played.settle(&mut session, rules.ends, now) {
                    break;
                }
            }
        }
        let before = (played.to_client.len(), played.to_server.len());
        let was_waiting = !session.wants(Side::Client);
        for (side, has_ended) in [(Side::Client, has_ended[1]), (Side::Server, has_ended[0])] {
            if !has_ended {
                session.end(side, now);
                played.settle(&mut session, rules.ends, now);
            }
        }
        if !was_waiting && !played.is_encrypted {
            assert!(played.to_client.len() - before.0 <= MAX_REPLY_BYTES);
            assert!(played.to_server.len() - before.1 <= MAX_COMMAND_BYTES);
        }
        played.assert_allowed(&rules);
        played
    }

    /// Carries out every action, and sends every byte. Opens each listener beside the side's own address, but for every seventh. Returns
    /// whether the session is over.
    fn settle(&mut self, session: &mut Session, ends: Ends<IpAddr>, now: Instant) -> bool {
        loop {
            let mut end = None;
            while let Some(action) = session.poll(now) {
                match &action {
                    Action::Open(opening) => session.opened(self.open(*opening, ends)),
                    Action::Transfer(transfer) => {
                        assert!(transfer.name.len() <= 255 && !transfer.name.contains(char::is_control));
                    }
                    Action::Encrypted => self.is_encrypted = true,
                    Action::End(how) => {
                        end = Some(*how);
                        break;
                    }
                    _ => {}
                }
                self.actions.push(action);
            }
            let mut has_sent = false;
            for (side, sent) in [(Side::Client, &mut self.to_client), (Side::Server, &mut self.to_server)] {
                let (bytes, _) = session.output(side);
                if !bytes.is_empty() {
                    sent.extend_from_slice(bytes);
                    session.sent(side, bytes.len(), now);
                    has_sent = true;
                }
            }
            if !has_sent {
                // What is encrypted passes as it is.
                return end.is_some_and(|end| end != End::PassOn || !self.is_encrypted);
            }
        }
    }

    fn open(&mut self, opening: Opening, ends: Ends<IpAddr>) -> Result<SocketAddr, String> {
        self.opened += 1;
        let side = match opening {
            Opening::Listener { accept_from, .. } => accept_from,
            Opening::Join { .. } | Opening::ForServer => Side::Server,
            Opening::ForClient | Opening::Client => Side::Client,
        };
        if self.opened % 7 == 6 { Err("no port is free\r\n".to_string()) } else { Ok(address(ends, self.opened, side)) }
    }

    fn assert_allowed(&self, rules: &Rules) {
        for action in &self.actions {
            match action {
                Action::Open(Opening::Listener { accept_from, dial }) => {
                    assert_allowed(rules, accept_from.other(), *dial);
                    assert_ne!(rules.mode, if *accept_from == Side::Client { Mode::Active } else { Mode::Passive });
                }
                Action::Open(Opening::Join { server, client }) => {
                    assert_eq!(rules.mode, Mode::Passive);
                    assert_allowed(rules, Side::Server, *server);
                    assert_allowed(rules, Side::Client, *client);
                }
                Action::Open(Opening::ForServer | Opening::ForClient) => assert_eq!(rules.mode, Mode::Active),
                _ => {}
            }
        }
        if !self.is_encrypted {
            let ours: Vec<_> = (1..=self.opened).map(|number| address(rules.ends, number, Side::Server)).collect();
            assert_ours(&self.to_server, &ours);
        }
    }
}

fn assert_allowed(rules: &Rules, named_by: Side, address: SocketAddr) {
    let own = rules.ends[named_by];
    let is_data_from = rules.data_from.iter().any(|net| net.contains(&address.ip()));
    let is_allowed = rules.allow.is_empty() || rules.allow.iter().any(|net| net.contains(&address.ip()));
    assert!(address.ip() == own || is_data_from && (is_allowed || named_by == Side::Server));
    assert!(address.port() >= 1024);
}

fn rules(choice: u8) -> Rules {
    let is_set = |bit: u8| choice & 1 << bit != 0;
    let ip = |is_v6: bool, v4: [u8; 4], v6: [u16; 8]| if is_v6 { IpAddr::from(v6) } else { IpAddr::from(v4) };
    let ends = Ends {
        client: ip(is_set(0), [198, 51, 100, 7], [0x2001, 0xdb8, 0xc, 0, 0, 0, 0, 7]),
        server: ip(is_set(1), [192, 0, 2, 2], [0x2001, 0xdb8, 5, 0, 0, 0, 0, 2]),
    };
    let nets = |bit: u8, nets: &[&str]| match is_set(bit) {
        true => nets.iter().map(|net| net.parse().expect("a network")).collect(),
        false => Vec::new(),
    };
    Rules {
        ends,
        data_from: nets(3, &["10.0.0.0/24", "2001:db8:f::/64"]),
        allow: nets(4, &["10.0.0.8/29", "198.51.100.0/24"]),
        mode: match (is_set(5), is_set(6)) {
            (false, false) => Mode::Client,
            (true, _) => Mode::Passive,
            (false, true) => Mode::Active,
        },
    }
}

/// Asserts that each PORT and EPRT names one of `ours`. The last line counts without LF.
fn assert_ours(to_server: &[u8], ours: &[SocketAddr]) {
    for line in to_server.split(|byte| *byte == b'\n') {
        let text = line.trim_ascii();
        let verb = text.get(..5).unwrap_or_default().to_ascii_uppercase();
        if verb != b"PORT " && verb != b"EPRT " {
            continue;
        }
        let is_named = |ours: &SocketAddr| match ours {
            SocketAddr::V4(ours) if verb == b"PORT " => {
                let ([a, b, c, d], [high, low]) = (ours.ip().octets(), ours.port().to_be_bytes());
                text == format!("PORT {a},{b},{c},{d},{high},{low}").as_bytes()
            }
            SocketAddr::V4(ours) => text == format!("EPRT |1|{}|{}|", ours.ip(), ours.port()).as_bytes(),
            SocketAddr::V6(ours) => text == format!("EPRT |2|{}|{}|", ours.ip(), ours.port()).as_bytes(),
        };
        assert!(ours.iter().any(is_named), "{}", line.escape_ascii());
    }
}

/// Returns the address of a listener for this side.
fn address(ends: Ends<IpAddr>, number: u64, side: Side) -> SocketAddr {
    SocketAddr::new(ends[side], 50_000 + (number % 10_000) as u16)
}

const EM: u8 = 0x19;
const FS: u8 = 0x1c;
const GS: u8 = 0x1d;
const RS: u8 = 0x1e;
const US: u8 = 0x1f;
