//! Times and endings of a session, in virtual time.

use super::Side::{Client, Server};
use super::*;

const FIN: Option<End> = Some(End::PassOn);

/// Dialogues after which nothing happens any more, and the time in seconds after which a drain ends them. A line that does not end is
/// held.
#[test]
fn a_drain_ends_a_control_connection_once_nothing_is_to_come() {
    let begun = [(Client, "STOR f\r\n"), (Server, "150 begins\r\n")];
    let rows: &[(&[(Side, &str)], u64)] = &[
        (&[], 5),
        (&[(Client, "NOOP\r\n"), (Server, "200 ok\r\n")], 5),
        (&[(Client, "NOOP\r\n")], 30),
        (&[(Client, "P")], 30),
        (&[(Server, "2")], 30),
        (&[(Server, "220-x\r\n")], 30),
        (&begun[..1], 600),
        (&begun, 600),
        (&[begun[0], begun[1], (Client, "NOOP\r\n"), (Server, "200 ok\r\n")], 600),
        (&[begun[0], begun[1], (Client, "STAT\r\n"), (Server, "211 well\r\n"), (Server, "226 stored\r\n")], 5),
        (&[begun[0], (Server, "550 no\r\n")], 5),
    ];
    for (dialogue, seconds) in rows {
        let mut stage = Stage::greeted();
        stage.session.drain(true);
        // A listener to which nobody has come holds nothing up.
        stage.know(Data { awaited: Some(Server), has_room: true, ..Data::default() });
        dialogue.iter().for_each(|(side, text)| stage.send(*side, text.as_bytes()));
        stage.take();
        assert_eq!(stage.tick(), *seconds, "{dialogue:?}");
        let [to_client, to_server] = stage.take();
        assert!(to_client.ends_with(r"421 The relay is going down, try again later\r\n"), "{dialogue:?}: {to_client}");
        assert!(to_server.ends_with(r"QUIT\r\n"), "{dialogue:?}: {to_server}");
        // Neither side closes it.
        while stage.caller.end.is_none() {
            stage.tick();
        }
        assert_eq!((stage.tick(), stage.caller.end), (seconds + 10, Some(End::NotLeft)), "{dialogue:?}");
    }
}

#[test]
fn a_drain_waits_for_data_connections_and_for_commands_that_wait() {
    let mut stage = Stage::greeted();
    stage.session.drain(true);
    stage.know(Data { come: 1, has_room: true, ..Data::default() });
    stage.tick_to(1000);
    assert_eq!(stage.take(), ["", ""]);
    let ended = stage.tick();
    stage.wait(2);
    stage.know(Data { has_room: true, ..Data::default() });
    assert_eq!(stage.tick(), ended + 7);
    assert_eq!(stage.take()[1], r"QUIT\r\n");

    let mut stage = Stage::greeted();
    stage.session.drain(true);
    stage.send(Client, b"PASV\r\n");
    assert_eq!(stage.take()[1], r"PASV\r\n");
    assert_eq!((stage.tick(), &stage.take()[1][..]), (30, r"QUIT\r\n"), "it waits for the reply for 30 s");
}

/// The client still sends commands, to which no reply can come.
#[test]
fn a_drain_ends_a_control_connection_whose_server_has_sent_fin() {
    let mut stage = Stage::greeted();
    stage.finish(Server);
    assert!(stage.caller.has_fin);
    stage.session.drain(true);
    for _ in 0..20 {
        stage.send(Client, b"NOOP\r\n");
        stage.wait(2);
        stage.session.tick(stage.now);
        stage.settle();
    }
    assert_eq!((stage.caller.end, &stage.take()[0][..]), (Some(End::NotLeft), ""), "the client has the FIN");
}

#[test]
fn a_wait_for_a_reply_lasts_30_s_and_2_s_if_it_may_never_come() {
    for (before, seconds) in [
        ("SYST\r\n", 30),
        ("ABOR\r\n", 2),
        ("RETR f\r\nNOOP\r\n", 2),
        ("\r\n", 2),
        ("NO\x01OP\r\n", 2),
        ("RETR f\r\n", 30),
    ] {
        let mut stage = Stage::greeted();
        stage.send(Client, before.as_bytes());
        stage.send(Client, b"LPSV\r\n");
        stage.take();
        assert_eq!(stage.tick(), seconds, "{before:?}");
        assert!(stage.take()[0].starts_with("521 "), "{before:?}");
        assert_eq!(stage.session.poll_timeout(), None);
    }
}

/// A tape.
#[test]
fn a_wait_lasts_while_the_transfer_has_its_data_connection_or_the_server_is_to_connect() {
    for data in [Data { come: 1, ..Data::default() }, Data { awaited: Some(Server), ..Data::default() }] {
        let mut stage = Stage::greeted();
        stage.send(Client, b"RETR f\r\nLPSV\r\n");
        stage.know(Data { has_room: true, ..data });
        stage.take();
        stage.tick_to(3600);
        assert_eq!(stage.take(), ["", ""]);
        stage.send(Server, b"226 done\r\n");
        assert!(stage.take()[0].starts_with(r"226 done\r\n521 "));
    }
    // One that the client is to open does not tell.
    let mut stage = Stage::greeted();
    stage.send(Client, b"RETR f\r\nLPSV\r\n");
    stage.know(Data { awaited: Some(Client), has_room: true, ..Data::default() });
    assert_eq!(stage.tick(), 30);
    assert!(stage.take()[0].starts_with("521 "));
    // Nor while the server takes no bytes.
    let mut stage = Stage::greeted();
    stage.blocked = Some(Server);
    stage.send(Client, b"ABOR\r\nLPSV\r\n");
    stage.tick_to(60);
    assert_eq!(stage.take(), ["", ""]);
}

#[test]
fn a_command_for_a_data_connection_waits_for_room_for_a_minute() {
    for (command, passed) in [("PASV", "PASV"), ("PORT 198,51,100,7,156,64", "PORT 192,0,2,1,195,81")] {
        for is_freed in [true, false] {
            let mut stage = Stage::greeted();
            stage.know(FULL);
            stage.send(Client, format!("{command}\r\nNOOP\r\n").as_bytes());
            assert!(!stage.session.wants(Client));
            assert_eq!(
                (stage.tick(), stage.take()),
                (30, ["".into(), "".into()]),
                "the wait for replies is another one"
            );
            if is_freed {
                stage.know(Data { come: 1, has_room: true, ..Data::default() });
            } else {
                assert_eq!(stage.tick(), 60);
            }
            let [_, to_server] = stage.take();
            assert!(to_server.starts_with(&format!(r"{passed}\r\n")), "{to_server}");
        }
    }
}

/// The time is over while a reply has begun, so the command cannot be taken then.
#[test]
fn a_wait_for_room_begins_anew_in_the_middle_of_a_reply() {
    let mut stage = Stage::greeted();
    stage.know(FULL);
    stage.send(Client, b"PASV\r\n");
    stage.wait(50);
    stage.send(Server, b"2");
    assert_eq!((stage.tick(), stage.take()), (60, ["".into(), "".into()]));
    stage.send(Server, b"00 late\r\n");
    assert_eq!(stage.take(), [r"200 late\r\n", ""]);
    while stage.take()[1].is_empty() {
        stage.tick();
    }
    assert_eq!((stage.now - stage.began).as_secs(), 120);
}

#[test]
fn a_transfer_waits_for_the_dial_to_its_client_and_is_not_passed_if_the_client_leaves() {
    for leaves in [false, true] {
        let mut stage = Stage::greeted();
        stage.send(Client, b"PORT 198,51,100,7,156,64\r\n");
        stage.send(Server, b"200 ok\r\n");
        stage.take();
        stage.session.receive(Client, b"RETR f\r\nNOOP\r\n", false, stage.now);
        assert_eq!(stage.session.poll(stage.now), Some(Action::Open(Opening::Client)));
        stage.know(Data { awaited: Some(Server), has_room: true, is_arriving: true, ..Data::default() });
        assert!(!stage.session.wants(Client) && !stage.session.wants(Server));
        stage.tick_to(100);
        assert_eq!(stage.take(), ["", ""]);
        if leaves {
            stage.break_off(Client, true);
            assert_eq!((stage.caller.end, stage.take()), (Some(End::Broken), ["".into(), "".into()]));
        } else {
            stage.session.opened(Ok(([198, 51, 100, 7], 40_000).into()));
            stage.settle();
            assert_eq!(stage.take(), ["", r"RETR f\r\nNOOP\r\n"]);
        }
    }
}

/// The server says in one segment that a transfer begins and that it is over, and the client asks for the next one already.
#[test]
fn no_reply_overtakes_a_data_connection_and_no_command_closes_it() {
    const ARRIVING: Data = Data { come: 1, awaited: None, has_room: true, is_arriving: true, is_leaving: false };
    let mut stage = Stage::greeted();
    stage.send(Client, b"PORT 198,51,100,7,156,64\r\nRETR f\r\nPORT 198,51,100,7,156,65\r\n");
    stage.send(Server, b"200 ok\r\n");
    assert_eq!(stage.take(), [r"200 ok\r\n", r"PORT 192,0,2,1,195,81\r\nRETR f\r\n"]);
    stage.know(ARRIVING);
    assert!(!stage.session.wants(Server));
    stage.send(Server, b"150 begins\r\n226 ends\r\n");
    stage.tick_to(100);
    assert_eq!(stage.take(), ["", ""]);
    stage.know(Data { is_arriving: false, ..ARRIVING });
    assert_eq!(stage.take(), [r"150 begins\r\n226 ends\r\n", r"PORT 192,0,2,1,195,82\r\n"]);
    // Nor a command that has waited for room.
    stage.send(Server, b"200 ok\r\n");
    stage.know(FULL);
    stage.send(Client, b"PASV\r\n");
    stage.know(ARRIVING);
    assert_eq!(stage.take()[1], "");
    stage.know(Data { is_arriving: false, ..ARRIVING });
    assert_eq!(stage.take()[1], r"PASV\r\n");
    // Its end waits, too.
    stage.know(ARRIVING);
    stage.finish(Server);
    assert!(!stage.caller.has_fin);
    stage.know(Data { is_arriving: false, ..ARRIVING });
    assert!(stage.caller.has_fin);
}

/// In passive mode. The client sends the command when it has connected to the relay, and QUIT when it has read 150.
#[test]
fn no_command_overtakes_a_data_connection() {
    const LEAVING: Data = Data { come: 1, awaited: None, has_room: true, is_arriving: false, is_leaving: true };
    let mut stage = Stage::greeted();
    stage.know(LEAVING);
    assert!(!stage.session.wants(Client) && stage.session.wants(Server));
    // Read before the data connection was seen.
    stage.send(Client, b"STOR f\r\n");
    stage.send(Server, b"120 wait\r\n");
    assert_eq!(stage.take(), [r"120 wait\r\n", ""]);
    stage.know(Data { is_leaving: false, ..LEAVING });
    assert_eq!(stage.take()[1], r"STOR f\r\n");
}

#[test]
fn the_fin_of_a_client_waits_for_a_reply_that_is_rewritten_and_for_no_other() {
    let mut stage = Stage::greeted();
    stage.send(Client, b"ABOR\r\n\r\nSYST\r\nPA");
    stage.finish(Client);
    assert_eq!((stage.caller.end, &stage.take()[1][..]), (FIN, r"ABOR\r\n\r\nSYST\r\nPA"));

    let mut stage = Stage::greeted();
    stage.send(Client, b"PASV\r\n");
    stage.finish(Client);
    assert_eq!((stage.caller.end, &stage.take()[1][..]), (None, r"PASV\r\n"));
    stage.send(Server, b"227 (192,0,2,2,117,53)\r\n");
    assert_eq!((stage.caller.end, stage.session.poll_timeout()), (FIN, None));
    assert!(stage.take()[0].starts_with("227 Entering Passive Mode (198,51,100,1,"));
}

/// After the FIN nobody reads the server's replies.
#[test]
fn the_fin_of_a_client_begins_a_joined_transfer() {
    let mut stage = Stage::new(&Rules { mode: Mode::Passive, ..v4() });
    stage.send(Server, b"220 ready\r\n");
    stage.send(Client, b"PORT 198,51,100,7,156,64\r\n");
    stage.send(Server, b"227 (192,0,2,2,117,53)\r\n");
    stage.send(Client, b"RETR f\r\n");
    stage.finish(Client);
    assert_eq!((stage.caller.end, stage.end().events.last().unwrap().as_str()), (FIN, "begins"));
}

#[test]
fn half_open_connections_last_for_their_linger_and_without_one_for_ever() {
    for (side, seconds) in [(Client, 7), (Server, 9)] {
        let lingers = Ends { client: Some(Duration::from_secs(7)), server: Some(Duration::from_secs(9)) };
        for (lingers, expected) in [(lingers, Some(End::TooLong)), (Ends::default(), None)] {
            let mut stage = Stage::lingering(&v4(), lingers);
            // The FIN of a client would let the rest pass.
            stage.blocked = Some(Server);
            stage.send(Client, b"NOOP\r\n");
            stage.wait(1);
            stage.finish(side);
            assert_eq!((stage.tick(), stage.caller.end), (1 + expected.map_or(0, |_| seconds), expected));
        }
    }
}

#[test]
fn the_last_commands_of_a_client_that_reset_are_rewritten() {
    // It takes none of the session's own replies, so that nothing more is read from it.
    let mut stage = Stage::greeted();
    stage.blocked = Some(Client);
    let mut commands = 0;
    while stage.session.wants(Client) {
        stage.send(Client, &b"LPSV\r\n".repeat(10));
        commands += 10;
    }
    assert!((60..=90).contains(&commands), "{commands}");
    stage.break_off(Client, false);
    assert!(stage.session.wants(Client) && !stage.session.wants(Server));
    stage.send(Client, b"PORT 10,0,0,9,0,22\r\nRETR f\r\nPASV\r\nNOOP\r\n");
    assert_eq!((stage.take(), stage.caller.end), (["".into(), r"RETR f\r\nPASV\r\nNOOP\r\n".into()], None));
    stage.break_off(Client, true);
    assert_eq!(stage.caller.end, Some(End::Broken));
}

#[test]
fn the_last_replies_of_a_server_that_reset_arrive() {
    let mut stage = Stage::greeted();
    stage.send(Client, b"PASV\r\n");
    stage.blocked = Some(Client);
    stage.break_off(Server, false);
    assert!(stage.session.wants(Server) && !stage.session.wants(Client));
    stage.send(Server, b"227 (192,0,2,2,117,53)\r\n");
    stage.break_off(Server, true);
    assert_eq!(stage.caller.end, None);
    // A peer that takes nothing does not hold up the reset for ever.
    assert_eq!((stage.tick(), stage.caller.end), (30, Some(End::TooLong)));
    stage.blocked = None;
    stage.settle();
    assert!(stage.take()[0].starts_with("227 Entering Passive Mode (198,51,100,1,"));
    assert_eq!(stage.caller.end, Some(End::Broken));
}

/// The client sends a part of a line before the reply to AUTH.
#[test]
fn an_encrypted_connection_passes_as_it_is_and_held_bytes_are_released() {
    let mut stage = Stage::greeted();
    assert_eq!(stage.get(Client, b"AUTH TLS\r\nPORT 1\nPORT 1"), r"AUTH TLS\r\n");
    assert!(stage.session.wants(Server) && stage.caller.end.is_none());
    stage.send(Server, b"234-a\r\n234 go\r\n\x16\x03");
    assert_eq!(
        (stage.caller.end, stage.take()),
        (FIN, [r"234-a\r\n234 go\r\n\x16\x03".into(), r"PORT 1\nPORT 1".into()])
    );
    assert_eq!(stage.session.poll_timeout(), None);
}

/// A server without TLS would read what follows as commands.
#[test]
fn a_client_that_begins_with_tls_is_refused() {
    let reply = r#"421 TLS without AUTH needs a tunnel without protocol = \"ftp\"\r\n"#;
    for is_closed in [false, true] {
        let mut stage = Stage::greeted();
        stage.send(Client, b"\x16\x03\x01\x02\x00\x01\nPORT 10,0,0,9,0,22\r\n");
        assert_eq!(stage.take(), [reply, r"QUIT\r\n"]);
        stage.send(Client, b"PORT 10,0,0,9,0,22\r\n");
        assert_eq!(stage.take(), ["", ""]);
        if is_closed {
            // The rest of the time is the caller's.
            stage.finish(Client);
            assert_eq!(
                (stage.caller.end, stage.session.poll_timeout()),
                (FIN, Some(stage.began + Duration::from_secs(10)))
            );
        } else {
            assert_eq!((stage.tick(), stage.caller.end), (10, Some(End::NotLeft)));
        }
    }
    // Later the byte is one of a line.
    assert_eq!(Stage::greeted().get(Client, b"N\x16\r\n\x16\r\n"), r"N\x16\r\n\x16\r\n");
}

/// A receiver without SO_OOBINLINE does not find an urgent byte among the others, so no byte of text may be urgent.
#[test]
fn an_urgent_byte_stays_urgent_if_it_is_of_telnet_or_ends_an_abort_and_is_the_last_one_that_is_sent_with_it() {
    // What comes before the urgent byte, that byte, what is sent for it, and whether it is urgent.
    for (side, before, byte, sent, is_urgent) in [
        (Client, &b""[..], 0xff, r"\xff", true),
        (Client, b"\xff\xf4\xff", 0xf2, r"\xf2", true),
        (Client, b"PO\xff", 0xf2, r"\xff\xf2", true),
        (Client, b"\xff\xf4", 0xf2, r"\xf2", false),
        (Client, b"", b'P', "", false),
        (Client, b"PO", 0xff, "", false),
        (Client, b"PO", b'\n', r"PO\n", false),
        (Client, b"ABO", b'R', "R", false),
        (Client, b"ABOR\r", b'\n', r"\n", true),
        (Client, b"\xff\xf4\xff\xf2abor", b'\n', r"\n", true),
        (Server, b"ABOR\r", b'\n', r"\n", false),
        (Server, b"\xff", 0xf2, r"\xf2", true),
    ] {
        let now = Instant::now();
        let mut session = Session::new(v4(), Ends::default(), now);
        let mut take = |bytes: &[u8], is_urgent| {
            session.receive(side, bytes, is_urgent, now);
            assert_eq!(session.poll(now), None);
            let (bytes, is_urgent) = session.output(side.other());
            let output = (bytes.escape_ascii().to_string(), is_urgent);
            session.sent(side.other(), bytes.len(), now);
            output
        };
        assert!(!take(before, false).1);
        assert_eq!(take(&[byte], true), (sent.to_string(), is_urgent), "{} {byte}", before.escape_ascii());
    }
}
