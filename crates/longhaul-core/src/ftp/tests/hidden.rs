//! Commands and addresses that hide: in blanks, in telnet sequences, in urgent bytes, in TLS and in other replies.

use super::attacks::check_all;
use super::readers::{assert_no_227, assert_no_address_in_reply, assert_no_port, rows};
use super::*;

/// curl, lftp and tnftp take any three digits and a space for the last line of a reply.
#[test]
fn no_address_hides_in_another_reply_of_several_lines() {
    check_all(
        &v4(),
        &[
            r"C: PASV
              S: 200-x
              S: 227 Entering Passive Mode (10,0,0,9,117,53)
              c: - 227 Entering Passive Mode (10,0,0,9,117,53)
              * refused unasked
              S: 2 2 9 (|||30005|)
              c: - 2 2 9 (|||30005|)
              * refused unasked
              S: 226 an ordinary line
              S: 200 y",
            r"S: 150-x
              S: 229 (|||30005|)
              c: - 229 (|||30005|)
              * refused unasked
              S: 150 y",
        ],
    );
}

/// Servers skip blanks.
#[test]
fn blanks_hide_no_command() {
    let mut stage = Stage::greeted();
    for blanks in [1, 63, 64, 65, 900] {
        let line = |text: &str| format!("{}{text}\r\n", " ".repeat(blanks));
        stage.send(Side::Client, line("PORT 10,0,0,9,0,22").as_bytes());
        assert!(stage.take()[0].starts_with("504 "), "{blanks}");
        assert_eq!(stage.get(Side::Client, line("NOOP").as_bytes()).trim_start(), r"NOOP\r\n");
        stage.send(Side::Server, line("227 (10,0,0,9,0,22)").as_bytes());
        assert!(stage.take()[0].starts_with("425 "), "{blanks}");
        stage.send(Side::Server, b"200 ok\r\n");
        stage.take();
    }
    // The end of the stream is the end of a line, too.
    let mut stage = Stage::new(&v4());
    stage.send(Side::Server, format!("{}227 (10,0,0,9,0,22)", " ".repeat(200)).as_bytes());
    stage.finish(Side::Server);
    assert_eq!(stage.take(), ["", ""]);
}

/// Ways to make the session and some server read different lines. The server gets a rewritten PORT, nothing, or bytes that
/// no server takes for PORT.
#[test]
fn no_telnet_sequence_hides_port() {
    const OURS: &str = r"PORT 192,0,2,1,195,81\r\n";
    const PORT: &[u8] = b"PORT 198,51,100,7,156,64\r\n";
    for (hidden, to_server) in [
        (&[b"\xff\xf1", PORT].concat()[..], format!(r"\xff\xf1{OURS}")),
        (&[b"\xff\xfb\x01", PORT].concat(), format!(r"\xff\xfb\x01{OURS}")),
        // The option is a letter, or there is none.
        (&[b"\xff\xfb", PORT].concat(), format!(r"\xff\xf1{OURS}")),
        (b"\xff\xfbxPORT 10,0,0,9,0,22\r\n", r"\xff\xf1xPORT 10,0,0,9,0,22\r\n".to_string()),
        (b"NOOP \xff\xfbx\r\n", r"NOOP \xff\xfbx\r\n".to_string()),
        (&[b"\xff\xfb ", PORT].concat(), format!(r"\xff\xfb {OURS}")),
        // The option is the LF, or it ends a line.
        (&[b"\xff\xfb\n", PORT].concat(), format!(r"\xff\xf1\n{OURS}")),
        (b"PASV \xff\xfbx\nxPORT 10,0,0,9,0,22\r\n", r"PASV x\nxPORT 10,0,0,9,0,22\r\n".to_string()),
        // Some servers skip all that SB begins.
        (b"\xff\xfa\nPORT 10,0,0,9,0,22\r\n", r"\xff\xf1".to_string()),
        (&[b"NOOP\xff\xfb\n", PORT].concat(), format!(r"NOOP\xff\xfb\n{OURS}")),
        // Servers of BSD skip IAC and any byte after it.
        (b"\xffxPORT 10,0,0,9,0,22\r\n", r"\xff\xf1".to_string()),
        (&[b"\xff\n", PORT].concat(), format!(r"\xff\xf1{OURS}")),
        // A server that skips IAC and any byte after it must not read PORT in the next line.
        (b"\xff\nxPORT 10,0,0,9,0,22\n", r"\xff\xf1xPORT 10,0,0,9,0,22\n".to_string()),
        // What isspace(3) calls a space, and the NUL of C.
        (&[b" \t\r\x0b\x0c\0", PORT].concat(), OURS.to_string()),
        (b"PORT\t198,51,100,7,156,64\n", OURS.to_string()),
        (b"PORT\0 198,51,100,7,156,64\n", OURS.to_string()),
        (b"PORT 198,51,100,7,156,64\r10,0,0,9,0,22\n", String::new()),
        // Other commands.
        (b"PORTX 10,0,0,9,0,22\r\n", r"PORTX 10,0,0,9,0,22\r\n".to_string()),
        (b"SITE PORT 10,0,0,9,0,22\r\n", r"SITE PORT 10,0,0,9,0,22\r\n".to_string()),
    ] {
        let mut stage = Stage::greeted();
        stage.send(Side::Client, hidden);
        stage.tick();
        assert_eq!(stage.take()[1], to_server, "{}", hidden.escape_ascii());
        let ours = Opening::Listener { accept_from: Side::Server, dial: "198.51.100.7:40000".parse().unwrap() };
        assert!(stage.caller.openings.iter().all(|opening| *opening == ours));
    }
}

#[test]
fn a_cr_inside_a_reply_begins_no_other() {
    // A CR inside a line begins no reply: a directory may have one in its name.
    let mut stage = Stage::greeted();
    stage.send(Side::Client, b"AUTH FOO\r\nPWD\r\nNOOP\r\nNOOP\r\n");
    stage.send(Side::Server, b"500 no\r\n257 \"a\r234 b\" is it\r\n");
    assert!(!stage.session.rewriter.is_opaque);
    let mut stage = Stage::new(&v4());
    let line = b"226 a\rb\r\r\n220-a\rb\r\n220 c\r\n";
    assert_eq!(stage.get(Side::Server, line), line.escape_ascii().to_string());
}

/// Clients differ in how much of a line they read.
#[test]
fn no_227_passes_as_it_is() {
    let other = r"The server names an address that nobody asked for";
    for (line, port) in [
        (&b"227\t(192,0,2,2,117,53)"[..], Some(81)),
        (b"227(192,0,2,2,117,53)", Some(81)),
        (b"227.(192,0,2,2,117,53)", Some(81)),
        (b"227\t(10,0,0,9,117,53)", None),
        (b"2270 (192,0,2,2,117,53)", Some(81)),
        (b"\xff\xff227 (192,0,2,2,117,53)", None),
        (b"22\x007 (192,0,2,2,117,53)", None),
        (b" 227 (192,0,2,2,117,53)", None),
        (b"\t2\x0127-(192,0,2,2,117,53)", None),
        (b"229\t(|||30005|)", Some(81)),
        (b" 229 (|||30005|)", None),
    ] {
        for is_asked in [true, false] {
            let mut stage = Stage::greeted();
            if is_asked {
                stage.send(Side::Client, b"PASV\r\n");
            }
            stage.take();
            stage.send(Side::Server, &[line, b"\r\n"].concat());
            let [reply, _] = stage.take();
            let reply = reply.trim_start_matches(r"\xff\xf1\r\n");
            match port.filter(|_| is_asked) {
                Some(port) => {
                    assert_eq!(reply, format!(r"227 Entering Passive Mode (198,51,100,1,195,{port}).\r\n"));
                }
                None => assert!(reply.starts_with("425 ") && reply.contains(other) != is_asked, "{reply}"),
            }
            assert!(!stage.session.rewriter.is_waiting());
            stage.send(Side::Client, b"PORT 10,0,0,9,0,22\r\n");
            assert!(stage.take()[0].starts_with("504 "));
        }
    }
}

/// While PASV waits, another reply passes if it has no address.
#[test]
fn no_other_reply_to_pasv_has_an_address() {
    for reply in ["200 (10,0,9,8,1)", "350 x", "530 no", "425 no", "425 (10,0,0,9,8,1)"] {
        check(&v4(), &format!("S: 220 ready\nC: PASV\nC: PWD\ns:\nS: {reply}\ns: PWD\nS: 257 /"));
    }
    // lftp takes an address from any of them.
    for reply in ["200 (10,0,0,9,8,1)", "228 (4,4,10,0,0,9,2,8,1)"] {
        let code = &reply[..4];
        check(
            &v4(),
            &format!(
                "S: 220 ready\nC: PASV\nC: PWD\ns:\nS: {reply}\nc: {code}the relay has left out an address\ns: PWD\n* refused unasked\nS: 257 /"
            ),
        );
    }
    check(
        &v4(),
        r"
        S: 220 ready
        C: PASV
        S: 226-1,2 files
        S: of 1,2,3,4,5,6
        c: the relay has left out an address
        * refused unasked
        S: 226 done
        S: 227 (192,0,2,2,117,53)
        c: 227 Entering Passive Mode (198,51,100,1,195,81).
        * open 1 from client, dial 192.0.2.2:30005",
    );
}

/// Every row of a few pieces before PORT.
#[test]
fn no_server_reads_a_port_that_the_session_has_not_seen() {
    let pieces: &[&[u8]] = &[
        b"\xff", b"\xfb", b"\xf4", b"\xf2", b"\xfa", b"P", b"x", b" ", b"\r", b"\n", b"\0", b"PORT", b"RT", b"LPSV",
        b"PASV",
    ];
    rows(pieces, 3, |pieces| {
        for tail in [&b" 10,0,0,9,0,22\r\n"[..], b"PORT 10,0,0,9,0,22\r\n"] {
            let sent = [&b"NOOP\n"[..], pieces, tail].concat();
            let mut stage = Stage::greeted();
            stage.send(Side::Client, &sent);
            for _ in 0..4 {
                stage.tick();
            }
            assert_no_port(&stage.to_server, &sent);
        }
    });
}

#[test]
fn no_client_reads_an_address_that_the_session_has_not_seen() {
    let pieces: &[&[u8]] = &[
        b"\xff", b"\xfb", b"\xf1", b"2", b"7", b"22", b"227 ", b"x", b" ", b"\r", b"\n", b"\0", b"200-a\r\n", b"200 ",
        b"226 ", b"3", b"500", b"500-x\r\n", b"150-x\r\n",
    ];
    for (is_asked, is_given_up) in [(true, false), (true, true), (false, false)] {
        rows(pieces, 3, |pieces| {
            for tail in [&b"(10,0,0,9,117,53)\r\n"[..], b"227 (10,0,0,9,117,53)\r\n"] {
                let sent = [pieces, tail].concat();
                let mut stage = Stage::greeted();
                if is_asked {
                    stage.send(Side::Client, b"PASV\r\n");
                }
                if is_given_up {
                    stage.tick();
                }
                stage.to_client.clear();
                stage.send(Side::Server, &sent);
                assert_no_227(&stage.to_client, &sent);
                if is_asked {
                    assert_no_address_in_reply(&stage.to_client, &sent);
                }
            }
        });
    }
}
