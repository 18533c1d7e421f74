//! Plays any bytes as an FTP control connection. The first byte chooses the rules. The server and the client send the rest in
//! turns, with the byte RS between them. A turn that begins with GS is the FIN of its side, one that begins with FS is the relay's
//! leave, and one that begins with US is the end of the wait for replies. A session never panics. It opens data listeners only for
//! addresses that the rules allow, passes no PORT and no EPRT with another address on, holds no more bytes of a line than it says, and
//! does the same if every byte comes alone.

#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul_core::ftp::{
    Channels, Ends, Joining, MAX_COMMAND_BYTES, MAX_REPLY_BYTES, Mode, Opening, Refused, Rules, Session, Side, Transfer,
};
use std::net::{IpAddr, SocketAddr};

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let whole = Played::new(*choice, bytes, usize::MAX);
    assert_eq!(whole, Played::new(*choice, bytes, 1));
});

/// The bytes and the calls of a session.
#[derive(Debug, PartialEq)]
struct Played {
    to_client: Vec<u8>,
    to_server: Vec<u8>,
    caller: Caller,
}

impl Played {
    /// Plays turns in pieces of at most `piece` bytes.
    fn new(choice: u8, bytes: &[u8], piece: usize) -> Played {
        let rules = rules(choice);
        let caller = Caller {
            ends: rules.ends,
            opened: Vec::new(),
            joined: Vec::new(),
            awaited: Vec::new(),
            transfers: Vec::new(),
            refused: Vec::new(),
        };
        let mut played = Played { to_client: Vec::new(), to_server: Vec::new(), caller };
        let Played { to_client, to_server, caller } = &mut played;
        let mut session = Session::new(rules.clone());
        let mut has_ended = [false; 2];
        for (index, turn) in bytes.split(|byte| *byte == RS).enumerate() {
            let side = if index % 2 == 0 { Side::Server } else { Side::Client };
            match turn.first() {
                _ if has_ended[index % 2] => {}
                Some(&GS) => {
                    has_ended[index % 2] = true;
                    end(&mut session, side, caller, to_client, to_server);
                }
                Some(&FS) => {
                    // As the relay does: a connection that is being encrypted or has ended is never left.
                    if session.may_leave() && has_ended == [false; 2] {
                        session.leave(to_client, to_server);
                        assert!(!session.is_waiting() && !session.may_leave());
                    }
                }
                Some(&US) if session.is_waiting() => session.give_up_waiting(caller, to_client, to_server),
                _ => turn.chunks(piece).for_each(|piece| match side {
                    Side::Server => session.from_server(piece, caller, to_client, to_server),
                    Side::Client => session.from_client(piece, caller, to_client, to_server),
                }),
            }
            assert!(!has_ended[0] || !session.is_waiting());
        }
        for (side, has_ended) in [(Side::Client, has_ended[1]), (Side::Server, has_ended[0])] {
            if !has_ended {
                end(&mut session, side, caller, to_client, to_server);
            }
        }
        for Opening { accept_from, dial, .. } in &caller.opened {
            let named_by = if *accept_from == Side::Client { Side::Server } else { Side::Client };
            assert_allowed(&rules, named_by, *dial);
            match rules.mode {
                Mode::Client => {}
                Mode::Passive => assert_eq!(*accept_from, Side::Client),
                Mode::Active => assert_eq!(*accept_from, Side::Server),
            }
        }
        for Joining { server, client, .. } in &caller.joined {
            assert_eq!(rules.mode, Mode::Passive);
            assert_allowed(&rules, Side::Server, *server);
            assert_allowed(&rules, Side::Client, *client);
        }
        assert!(rules.mode == Mode::Active || caller.awaited.is_empty());
        if !session.is_opaque() {
            caller.assert_ours(to_server);
        }
        played
    }
}

/// Ends a side. Asserts that its unfinished line had no more bytes than the session may hold.
fn end(session: &mut Session, side: Side, caller: &mut Caller, to_client: &mut Vec<u8>, to_server: &mut Vec<u8>) {
    let is_waiting = session.is_waiting();
    let before = (to_client.len(), to_server.len());
    session.end(side, caller, to_client, to_server);
    match side {
        Side::Client => assert!(to_server.len() - before.1 <= MAX_COMMAND_BYTES),
        // Commands that waited for replies may follow, and their replies.
        Side::Server if is_waiting => {}
        Side::Server => assert!(to_client.len() - before.0 <= MAX_REPLY_BYTES),
    }
}

fn assert_allowed(rules: &Rules, named_by: Side, address: SocketAddr) {
    let own = if named_by == Side::Server { rules.ends.server } else { rules.ends.client };
    let is_data_from = rules.data_from.iter().any(|net| net.contains(&address.ip()));
    let is_allowed = rules.allow.is_empty() || rules.allow.iter().any(|net| net.contains(&address.ip()));
    assert!(address.ip() == own || is_data_from && (is_allowed || named_by == Side::Server));
    assert!(address.port() >= 1024 || rules.low_ports);
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
        low_ports: is_set(2),
        mode: match (is_set(5), is_set(6)) {
            (false, false) => Mode::Client,
            (true, _) => Mode::Passive,
            (false, true) => Mode::Active,
        },
    }
}

/// A caller that opens a listener beside the side's own address. Every seventh fails.
#[derive(Debug, PartialEq)]
struct Caller {
    ends: Ends,
    opened: Vec<Opening>,
    joined: Vec<Joining>,
    /// Channels with a listener for the server alone.
    awaited: Vec<u64>,
    transfers: Vec<Transfer>,
    refused: Vec<Refused>,
}

impl Caller {
    /// Asserts that each PORT and EPRT names a listener of this caller. The last line counts without LF.
    fn assert_ours(&self, to_server: &[u8]) {
        for line in to_server.split(|byte| *byte == b'\n') {
            let text = line.trim_ascii();
            let verb = text.get(..5).unwrap_or_default().to_ascii_uppercase();
            if verb != b"PORT " && verb != b"EPRT " {
                continue;
            }
            let is_listener = |channel| match address(self.ends, channel, Side::Server) {
                SocketAddr::V4(ours) if verb == b"PORT " => {
                    let ([a, b, c, d], [high, low]) = (ours.ip().octets(), ours.port().to_be_bytes());
                    text == format!("PORT {a},{b},{c},{d},{high},{low}").as_bytes()
                }
                SocketAddr::V4(ours) => text == format!("EPRT |1|{}|{}|", ours.ip(), ours.port()).as_bytes(),
                SocketAddr::V6(ours) => text == format!("EPRT |2|{}|{}|", ours.ip(), ours.port()).as_bytes(),
            };
            let opened = self.opened.iter().filter(|opening| opening.accept_from == Side::Server);
            let mut channels = opened.map(|opening| opening.channel).chain(self.awaited.iter().copied());
            assert!(channels.any(is_listener), "{}", line.escape_ascii());
        }
    }
}

/// Returns the address of the listener of a channel for this side.
fn address(ends: Ends, channel: u64, side: Side) -> SocketAddr {
    let facing = if side == Side::Client { ends.client } else { ends.server };
    SocketAddr::new(facing, 50_000 + (channel % 10_000) as u16)
}

impl Channels for Caller {
    fn open(&mut self, opening: Opening) -> Result<SocketAddr, String> {
        let channel = opening.channel;
        assert!(self.opened.iter().all(|earlier| earlier.channel != channel), "a channel opens once");
        self.opened.push(opening);
        match channel % 7 {
            6 => Err("no port is free\r\n".to_string()),
            _ => Ok(address(self.ends, channel, opening.accept_from)),
        }
    }

    fn have_room(&mut self) -> bool {
        true
    }

    fn join(&mut self, joining: Joining) -> Result<(), String> {
        self.joined.push(joining);
        if joining.channel % 7 == 6 { Err("no descriptor\r\n".to_string()) } else { Ok(()) }
    }

    fn open_for_server(&mut self, channel: u64) -> Result<SocketAddr, String> {
        assert!(!self.awaited.contains(&channel), "a channel opens once");
        self.awaited.push(channel);
        match channel % 7 {
            6 => Err("no port is free\r\n".to_string()),
            _ => Ok(address(self.ends, channel, Side::Server)),
        }
    }

    fn meet(&mut self) -> Result<SocketAddr, String> {
        let channel = *self.awaited.last().expect("a listener for the server");
        match channel % 7 {
            5 => Err("no port is free\r\n".to_string()),
            _ => Ok(address(self.ends, channel, Side::Client)),
        }
    }

    fn begins(&mut self) {}

    fn transfer(&mut self, _: u64, transfer: Transfer) {
        assert!(transfer.name.len() <= 255 && !transfer.name.contains(char::is_control));
        self.transfers.push(transfer);
    }

    fn refuses_transfer(&mut self, _: u64) {}

    fn lacks_data(&mut self, _: u64) {}

    fn refused(&mut self, why: &Refused) {
        self.refused.push(why.clone());
    }
}

const FS: u8 = 0x1c;
const GS: u8 = 0x1d;
const RS: u8 = 0x1e;
const US: u8 = 0x1f;
