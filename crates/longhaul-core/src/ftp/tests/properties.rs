//! Properties of every dialogue.

use super::super::address;
use super::super::verb::{Command, Kind};
use super::readers::{assert_no_227, assert_no_port};
use super::*;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Pieces of lines of both sides.
const PIECES: &[&[u8]] = &[
    b"PASV", b"EPSV", b"PORT ", b"EPRT ", b"LPRT ", b"AUTH TLS", b"RETR ", b"EPSV ALL", b"\r\n", b"\n", b"\r\n", b"\n",
    b" ", b"198,51,100,7,156,64", b"198,51,100,7,0,22", b"10,0,0,9,156,64", b"|1|198.51.100.7|40000|",
    b"|2|2001:db8:c::7|40000|", b"|1|10.0.0.9|40000|", b"\xff", b"\xff\xf4", b"\xff\xfb", b"\xff\xfb\x01", b"\0",
    b"227 ", b"227-", b"229 ", b"200 ok\r\n", b"150 ok\r\n", b"220 ", b"220-", b"(192,0,2,2,117,53)\r\n",
    b"(10,0,0,9,0,22)\r\n", b"(|||30005|)\r\n", b"234 ok\r\n", b"421 ",
];

fn side() -> impl Strategy<Value = Side> {
    prop_oneof![Just(Side::Client), Just(Side::Server)]
}

fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => select(PIECES).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..8),
    ]
}

/// Bytes of both sides, in turns. A turn without bytes is the end of the wait for replies.
fn turns() -> impl Strategy<Value = Vec<(Side, Vec<u8>)>> {
    let bytes = prop::collection::vec(piece(), 0..8).prop_map(|pieces| pieces.concat());
    prop::collection::vec((side(), bytes), 0..20)
}

fn rules() -> impl Strategy<Value = Rules> {
    let modes = select(&[Mode::Client, Mode::Passive, Mode::Active][..]);
    (select(&[CLIENT_V4, CLIENT_V6][..]), select(&[SERVER_V4, SERVER_V6][..]), modes)
        .prop_map(|(client, server, mode)| Rules { mode, ..strict(client, server) })
}

/// Asserts that everything the session did was allowed.
fn assert_allowed(rules: &Rules, stage: &Stage) {
    for opening in &stage.caller.openings {
        let (is_of_mode, dialled) = match *opening {
            Opening::Listener { accept_from, dial, .. } => {
                let other = if accept_from == Side::Client { Mode::Active } else { Mode::Passive };
                (rules.mode != other, vec![(accept_from.other(), dial)])
            }
            Opening::Join { server, client, .. } => {
                (rules.mode == Mode::Passive, vec![(Side::Server, server), (Side::Client, client)])
            }
            Opening::Client => (true, Vec::new()),
            Opening::ForServer | Opening::ForClient => (rules.mode == Mode::Active, Vec::new()),
        };
        assert!(is_of_mode, "{opening:?}");
        for (side, dial) in dialled {
            assert_eq!(dial.ip(), rules.ends[side]);
            assert!(dial.port() >= 1024);
        }
    }
    if stage.session.rewriter.is_opaque {
        return;
    }
    assert_no_port(&stage.to_server, &stage.to_server);
    assert_no_227(&stage.to_client, &stage.to_client);
    for line in stage.to_server.split(|byte| *byte == b'\n') {
        let command = Command::read(line);
        let named = match command.verb.map(|verb| (verb.kind, verb.name)) {
            Some((Kind::Active(_), "PORT")) => address::read_port(command.argument),
            Some((Kind::Active(_), _)) => address::read_eprt(command.argument).ok(),
            _ => continue,
        };
        let is_ours = |number: u64| named == Some(SocketAddr::new(facing(rules.ends, Side::Server), port(number)));
        assert!((1..=stage.caller.opened).any(is_ours), "{}", line.escape_ascii());
    }
}

proptest! {
    /// No verb that is held begins with another letter than these three. Telnet sequences are left out, because they overtake
    /// held bytes.
    #[test]
    fn bytes_without_a_verb_pass_identically(
        mut commands in prop::collection::vec(any::<u8>(), 0..3000),
        mut replies in prop::collection::vec(any::<u8>(), 0..3000),
    ) {
        replies.iter_mut().filter(|byte| b"2\xff".contains(byte)).for_each(|byte| *byte = b'3');
        commands.iter_mut().filter(|byte| b"PpEeLl\xff".contains(byte)).for_each(|byte| *byte = b'x');
        // TLS begins with it.
        commands.iter_mut().take(1).filter(|byte| **byte == 22).for_each(|byte| *byte = b'x');
        let mut stage = Stage::new(&v4());
        let turns = commands.len().div_ceil(7).min(replies.len().div_ceil(7));
        for (turn, (command, reply)) in commands.chunks(7).zip(replies.chunks(7)).enumerate() {
            stage.send(Side::Client, command);
            stage.send(Side::Server, reply);
            for (all, passed) in [(&commands, &stage.to_server), (&replies, &stage.to_client)] {
                // Blanks and control characters at the beginning of a line wait for the next byte.
                let sent = &all[..all.len().min(turn * 7 + 7)];
                prop_assert!(sent.starts_with(passed) && !sent[passed.len()..].iter().any(u8::is_ascii_graphic));
            }
        }
        let played = stage.end();
        prop_assert_eq!(&played.to_server, &commands[..commands.len().min(turns * 7)]);
        prop_assert_eq!(&played.to_client, &replies[..replies.len().min(turns * 7)]);
        prop_assert!(played.events.is_empty());
    }

    #[test]
    fn no_dialogue_opens_or_names_an_address_that_it_must_not(rules in rules(), turns in turns()) {
        let mut stage = Stage::new(&rules);
        for (side, bytes) in &turns {
            match bytes.is_empty() {
                true => stage.pass_time(),
                false => stage.send(*side, bytes),
            }
        }
        let before = stage.to_server.len();
        stage.finish(Side::Client);
        prop_assert!(stage.to_server.len() - before <= MAX_COMMAND_BYTES);
        // A server may execute a command that FIN ends.
        assert_allowed(&rules, &stage);
        stage.finish(Side::Server);
        assert_allowed(&rules, &stage);
    }

    #[test]
    fn no_split_changes_a_dialogue(rules in rules(), turns in turns(), cuts in prop::collection::vec(any::<Index>(), 20)) {
        let (mut whole, mut split, mut bytewise) = (Stage::new(&rules), Stage::new(&rules), Stage::new(&rules));
        for ((side, bytes), cut) in turns.iter().zip(&cuts) {
            if bytes.is_empty() {
                [&mut whole, &mut split, &mut bytewise].into_iter().for_each(Stage::pass_time);
                continue;
            }
            let (first, second) = bytes.split_at(cut.index(bytes.len() + 1));
            whole.send(*side, bytes);
            split.send(*side, first);
            split.send(*side, second);
            bytes.chunks(1).for_each(|byte| bytewise.send(*side, byte));
        }
        let whole = whole.end();
        prop_assert_eq!(&split.end(), &whole);
        prop_assert_eq!(&bytewise.end(), &whole);
    }

    /// Whatever the server replies to PASV: the client gets the relay's address or no address.
    #[test]
    fn a_reply_to_pasv_never_names_the_server(
        words in "[ -~]{0,20}",
        numbers in any::<[u8; 6]>(),
        is_server in any::<bool>(),
    ) {
        let mut stage = Stage::new(&v4());
        stage.send(Side::Server, b"220 ready\r\n");
        stage.send(Side::Client, b"PASV\r\n");
        stage.to_client.clear();
        let [a, b, c, d, p1, p2] = if is_server { [192, 0, 2, 2, numbers[4], numbers[5]] } else { numbers };
        stage.send(Side::Server, format!("227 {words} ({a},{b},{c},{d},{p1},{p2})\r\n").as_bytes());
        let is_ours = stage.to_client == b"227 Entering Passive Mode (198,51,100,1,195,81).\r\n";
        prop_assert_eq!(is_ours, stage.caller.openings.len() == 1);
        prop_assert!(is_ours || stage.to_client.starts_with(b"425 "));
    }
}
