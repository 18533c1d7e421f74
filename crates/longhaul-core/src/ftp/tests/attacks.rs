//! Attacks and garbage, each with its answer.

use super::*;

/// Checks each dialogue after a greeting.
pub(super) fn check_all(rules: &Rules, dialogues: &[&str]) {
    for dialogue in dialogues {
        check(rules, &format!("S: 220 ready\n{dialogue}"));
    }
}

/// A data connection is dialled from the control connection's own address.
#[test]
fn no_address_of_the_other_ip_version_is_dialled() {
    let net = |text: &str| text.parse().unwrap();
    let data_from = vec![net("203.0.113.0/28"), net("2001:db8:f::/64")];
    check_all(
        &Rules { data_from: data_from.clone(), ..v4() },
        &[r"C: EPRT |2|2001:db8:f::1|40000|
            * refused bad-family
            s:
            c: 522 Network protocol not supported, use (1)"],
    );
    check_all(
        &Rules { data_from, ..strict(CLIENT_V6, SERVER_V6) },
        &[
            r"C: EPRT |1|203.0.113.1|40000|
              * refused bad-family
              s:
              c: 522 Network protocol not supported, use (2)",
            r"C: EPSV
              S: 227 (203,0,113,1,117,53)
              * refused bad-family
              c: 425 The server named 203.0.113.1, of another IP version than its control connection",
        ],
    );
}

/// RFC 2577: the bounce attack, FXP, and ports of other services.
#[test]
fn a_client_names_only_itself() {
    check_all(
        &v4(),
        &[
            r"C: PORT 10,0,0,9,156,64
              * refused third-host
              s:
              c: 504 Address 10.0.0.9 is neither the client's own nor in ftp.data_from",
            r"C: PORT 198,51,100,7,3,255
              * refused low-port
              s:
              c: 504 Port 1023 is below 1024",
            r"C: PORT 198,51,100,7,4,0
              s: PORT 192,0,2,1,195,81
              * open 1 from server, dial 198.51.100.7:1024",
            r"C: EPRT |2|2001:db8::9|40000|
              * refused third-host
              s:
              c: 504 Address 2001:db8::9 is neither the client's own nor in ftp.data_from",
            r"C: EPRT |2|::ffff:198.51.100.7|40000|
              s: EPRT |1|192.0.2.1|50001|
              * open 1 from server, dial 198.51.100.7:40000",
            r"C: EPRT |1|198.51.100.7|22|
              * refused low-port
              s:
              c: 504 Port 22 is below 1024",
            r"C: EPRT |3|198.51.100.7|40000|
              * refused bad-family
              s:
              c: 522 Network protocol not supported, use (1,2)",
            r"C: EPRT |1|198.51.100.7|
              * refused bad-address
              s:
              c: 501 No valid address and port",
            r"C: LPRT 4,4,198,51,100,7,2,156,64
              * refused long-form
              s:
              c: 521 Supported address families are (4,6), by EPRT and EPSV
              S: 421 Timeout.",
        ],
    );
}

#[test]
fn a_lying_server_opens_nothing() {
    let pasv = |replies: &str| format!("C: PASV\n{replies}");
    for dialogue in [
        r"S: 227 Entering Passive Mode (10,0,0,9,117,53).
          * refused third-host
          c: 425 Address 10.0.0.9 is neither the server's own nor in ftp.data_from",
        r"S: 227 Entering Passive Mode (0,0,0,0,117,53).
          * refused bad-address
          c: 425 The server named 0.0.0.0, which is no host's address",
        r"S: 227 Entering Passive Mode (192,0,2,2,0,22).
          * refused low-port
          c: 425 Port 22 is below 1024",
        r"S: 227 (192,0,2,2,117,256)
          * refused bad-address
          c: 425 No valid address and port",
        r"S: 229 (|1|192.0.2.2|30005|)
          * refused bad-address
          c: 425 No valid address and port",
        r"S: 227-Entering Passive Mode (10,0,0,9,0,22)
          c:
          S: (10,0,0,9,0,22)
          c:
          S: 227 ok 192, 0, 2, 2, 117, 53
          c: 227 Entering Passive Mode (198,51,100,1,195,81).
          * open 1 from client, dial 192.0.2.2:30005",
        r"S: 211-A reply with other lines
          S: 227 Entering Passive Mode (10,0,0,9,0,22)
          c: - 227 Entering Passive Mode (10,0,0,9,0,22)
          * refused unasked
          S: 2111 not the end
          S: 211
          S: 227 (10,0,0,9,0,22)
          * refused third-host
          c: 425 Address 10.0.0.9 is neither the server's own nor in ftp.data_from
          S: 227 unasked (10,0,0,9,0,22)
          * refused unasked
          c: 425 The server names an address that nobody asked for",
        r"S: 150 First
          S: 227 ok (192,0,2,2,117,53)
          c: 227 Entering Passive Mode (198,51,100,1,195,81).
          * open 1 from client, dial 192.0.2.2:30005
          S: 227 again (192,0,2,2,117,53)
          * refused unasked
          c: 425 The server names an address that nobody asked for",
    ] {
        check_all(&v4(), &[&pasv(dialogue)]);
    }
}

#[test]
fn a_banner_opens_nothing() {
    check(
        &v4(),
        r"
        S: 227 a banner (10,0,0,9,0,22)
        * refused unasked
        c: 425 The server names an address that nobody asked for
        C: NOOP
        S: 200 ok",
    );
    check(
        &v4(),
        r"
        S: 220-a banner
        S: 227 (10,0,0,9,0,22)
        c: - 227 (10,0,0,9,0,22)
        * refused unasked
        C: PASV
        s:
        S: 220-more
        S: 220 end
        s: PASV
        S: 227 no numbers
        c: 425 No valid address and port
        * refused bad-address",
    );
}

#[test]
fn rules_may_allow_more() {
    let rules = Rules { data_from: vec!["10.0.0.0/24".parse().unwrap()], ..v4() };
    check_all(
        &rules,
        &[r"C: PORT 10,0,0,9,4,0
            s: PORT 192,0,2,1,195,81
            * open 1 from server, dial 10.0.0.9:1024
            S: 200 ok
            C: PASV
            S: 227 (10,0,0,8,4,0)
            c: 227 Entering Passive Mode (198,51,100,1,195,82).
            * open 2 from client, dial 10.0.0.8:1024
            C: PASV
            S: 227 (10,0,1,8,4,0)
            c: 425 Address 10.0.1.8 is neither the server's own nor in ftp.data_from
            * refused third-host"],
    );
    // No network has the address of no host.
    check_all(
        &Rules { data_from: vec!["0.0.0.0/0".parse().unwrap()], ..v4() },
        &[r"C: PORT 0,0,0,0,200,200
            s:
            c: 501 The client named 0.0.0.0, which is no host's address
            * refused bad-address"],
    );
}

/// A data connection may come from and go to such a host only if it may be a client, too.
#[test]
fn a_client_names_only_hosts_that_may_be_clients() {
    let net = |text: &str| vec![text.parse().unwrap()];
    let rules = Rules { data_from: net("10.0.0.0/24"), allow: net("10.0.0.8/32"), ..v4() };
    check_all(
        &rules,
        &[r"C: PORT 10,0,0,9,156,64
            * refused not-allowed
            s:
            c: 504 Address 10.0.0.9 is not in allow
            C: EPRT |1|10.0.0.8|40000|
            s: EPRT |1|192.0.2.1|50001|
            * open 1 from server, dial 10.0.0.8:40000
            S: 200 ok
            C: PORT 198,51,100,7,156,64
            s: PORT 192,0,2,1,195,82
            * open 2 from server, dial 198.51.100.7:40000
            S: 200 ok
            C: PASV
            S: 227 (10,0,0,9,117,53)
            * open 3 from client, dial 10.0.0.9:30005
            c: 227 Entering Passive Mode (198,51,100,1,195,83)."],
    );
}

/// A server may take CR for the end of the line, and PORT behind it for a command.
#[test]
fn a_carriage_return_inside_a_command_that_matters_is_refused() {
    for command in [
        r"PASV\x0dPORT 10,0,0,9,0,22",
        r"EPSV \x0dPORT 10,0,0,9,0,22",
        r"PASV\x0d\x00PORT 10,0,0,9,0,22",
        r"EPSV ALL\x0dX",
    ] {
        let refusal = "* refused bare-return\ns:\nc: 501 A carriage return stands inside the command";
        check_all(&v4(), &[&format!("C: {command}\n{refusal}")]);
    }
    for command in [r"NOOP\x0d", r"PASV \x0d", r"RETR a\x0db", r"RETR a\x0d\x00b", r"\x0d"] {
        check_all(&v4(), &[&format!("C: {command}\nS: 500 no")]);
    }
}

/// Servers of BSD execute a command that FIN ends.
#[test]
fn a_command_that_fin_ends_is_not_passed_on() {
    for command in ["PORT 10,0,0,9,0,22", "PORT 10,0,0,9,0,22\r", "\u{b}pasv", "EPSV", "LPSV \0"] {
        let mut stage = Stage::new(&v4());
        assert_eq!(stage.get(Side::Client, command.as_bytes()), "");
        assert_eq!(stage.end().to_server, b"", "{command:?}");
    }
    let mut stage = Stage::new(&v4());
    stage.send(Side::Server, b"220 ready\r\n");
    stage.send(Side::Client, b"PASV\r\nPAS");
    stage.send(Side::Server, b"227 (192,0,2,2,117,53)");
    let played = stage.end();
    assert_eq!((&played.to_server[..], &played.to_client[..]), (&b"PASV\r\nPAS"[..], &b"220 ready\r\n"[..]));
    let mut stage = Stage::new(&v4());
    stage.send(Side::Client, b"NOOP\r\nPAS");
    assert_eq!(stage.end().to_server, b"NOOP\r\nPAS");
}

/// Commands to a server that has sent FIN are rewritten, too. The client has the FIN, so it gets no reply any more.
#[test]
fn a_server_that_has_ended_gets_rewritten_commands() {
    let mut stage = Stage::new(&v4());
    stage.send(Side::Client, b"NOOP\r\nLPSV\r\nPORT 10,0,0,9,0,22\r\nNOOP\r\n");
    assert!(stage.session.rewriter.is_waiting());
    stage.finish(Side::Server);
    assert!(!stage.session.rewriter.is_waiting());
    assert_eq!(
        stage.take(),
        [r"521 Supported address families are (4,6), by EPRT and EPSV\r\n", r"NOOP\r\nNOOP\r\n"],
        "the reply that was due is the last"
    );
    stage.send(Side::Client, b"PORT 10,0,0,9,0,22\r\nPORT 198,51,100,7,156,64\r\nPASV\r\n".repeat(1000).as_slice());
    assert!(stage.to_server.starts_with(b"PORT 192,0,2,1,195,81\r\nPASV\r\nPORT 192,0,2,1,195,82\r\nPASV\r\n"));
    assert!(stage.to_client.is_empty() && !stage.session.rewriter.is_waiting() && is_quiet(&stage));
}

#[test]
fn a_line_passes_as_soon_as_it_cannot_matter() {
    let mut stage = Stage::new(&v4());
    for (side, bytes, passes) in [
        (Side::Client, "P", ""),
        (Side::Client, "A", ""),
        (Side::Client, "S", ""),
        (Side::Client, "S x\r\n", r"PASS x\r\n"),
        (Side::Client, "ep", ""),
        (Side::Client, "x", "epx"),
        (Side::Client, "\nPA", "\\n"),
        (Side::Server, "226 (1,2,3,4,5,6)\r", r"226 (1,2,3,4,5,6)\r"),
        // Three digits tell whether the line names an address.
        (Side::Server, "\n22", "\\n"),
        (Side::Server, "1", "221"),
    ] {
        assert_eq!(stage.get(side, bytes.as_bytes()), passes);
    }
    assert_eq!(stage.end().to_server, b"PA", "an unfinished line is passed on at the end");
}

#[test]
fn a_line_of_a_mebibyte_passes_or_is_refused() {
    let long = vec![b'7'; 1 << 20];
    let mut stage = Stage::new(&v4());
    let site = [b"SITE ", &long[..], b"\r\n"].concat();
    stage.send(Side::Client, &site);
    assert!(stage.to_server == site);
    let reply = [b"220 ", &long[..], b"\r\n"].concat();
    stage.send(Side::Server, &reply);
    assert!(stage.to_client == reply);

    (stage.to_client, stage.to_server) = (Vec::new(), Vec::new());
    assert_eq!(stage.get(Side::Server, b"200 ok\r\n"), r"200 ok\r\n");
    assert!(is_quiet(&stage));
    assert_eq!(stage.get(Side::Client, &[b"PORT ", &long[..], b"\r\nPASV\r\n"].concat()), r"PASV\r\n");
    assert_eq!(stage.take()[0], r"500 The line is too long\r\n");
    assert_eq!(
        stage.get(Side::Server, &[b"227 ", &long[..], b"(192,0,2,2,117,53)\r\n"].concat()),
        r"425 The line is too long\r\n"
    );
    assert_eq!(stage.get(Side::Client, &[&vec![b' '; 1 << 20][..], b"PORT 10,0,0,9,0,22\r\n"].concat()), "");
    assert_eq!(stage.get(Side::Client, &[b"PORT ", &long[..]].concat()), "");
    let played = stage.end();
    assert_eq!(played.events, ["refused long-line"; 3]);
    assert!(played.to_server.is_empty(), "a part of a long line is never passed on");
}

#[test]
fn a_hundred_thousand_pipelined_commands_wait_outside() {
    for (command, reply) in
        [("NOOP\r\n", "200 ok\r\n"), ("EPSV ALL\r\n", "200 ok\r\n"), ("ABOR\n", "500 no\r\n"), ("PASV\n", "500 no\r\n")]
    {
        let mut stage = Stage::new(&v4());
        stage.send(Side::Server, b"220 ready\r\n");
        let input = command.repeat(100_000);
        let mut chunks = input.as_bytes().chunks(4096);
        let (mut waiting, mut replies) = (0, 0);
        loop {
            stage.to_client.clear();
            let next = if stage.session.rewriter.is_waiting() { None } else { chunks.next() };
            if let Some(chunk) = next {
                stage.send(Side::Client, chunk);
            } else if waiting > 0 {
                stage.send(Side::Server, reply.as_bytes());
                (waiting, replies) = (waiting - 1, replies + 1);
            } else {
                break;
            }
            waiting += stage.to_server.iter().filter(|byte| **byte == b'\n').count();
            stage.to_server.clear();
            assert!(matches!(command, "NOOP\r\n" | "ABOR\n") || waiting <= 1);
        }
        assert!(replies == 100_000 && is_quiet(&stage));
    }
}

fn is_quiet(stage: &Stage) -> bool {
    stage.session.rewriter.is_between_lines() && stage.session.rewriter.may_leave()
}

#[test]
fn a_session_that_leaves_ends_the_lines_that_have_begun() {
    for (side, begun, to_client, to_server) in [
        (Side::Client, "P", "421 ", r"\r\nQUIT\r\n"),
        (Side::Client, "NO", "421 ", r"NO\r\nQUIT\r\n"),
        (Side::Server, "2", r"\r\n421 ", r"QUIT\r\n"),
        (Side::Server, "220-x\r\n22", r"220-x\r\n\r\n421 ", r"QUIT\r\n"),
    ] {
        let mut stage = Stage::new(&v4());
        stage.send(side, begun.as_bytes());
        assert!(stage.session.rewriter.may_leave() && !stage.session.rewriter.is_between_lines(), "{begun}");
        stage.leave();
        let [client, server] = stage.take();
        assert!(client.starts_with(to_client) && server == to_server, "{begun}: {client}, {server}");
        stage.send(Side::Client, b"ORT 10,0,0,9,0,22\r\nPASV\r\n\xff\xf1PWD\r\nPW");
        stage.send(Side::Server, b"\xff\xf1226 late\r\n227 (192,0,2,2,117,53)\r\n\xff\xfd\x06221 bye\r\n22");
        assert_eq!(stage.end(), Played::default(), "{begun}");
    }
}

#[test]
fn names_are_printable_and_bounded() {
    let mut stage = Stage::new(&v4());
    stage.send(Side::Client, b"PORT 198,51,100,7,156,64\r\n");
    stage.tick();
    stage.send(Side::Server, b"200 ok\r\n");
    let odd = b"RETR \x1b[2Ja\0b\xff\xff \xc3\xa4.txt \r\n";
    stage.send(Side::Client, odd);
    assert!(stage.to_server.ends_with(odd));
    stage.send(Side::Client, format!("stor {}\r\n", "\u{e4}".repeat(600)).as_bytes());
    let name = "\u{e4}".repeat(127);
    assert_eq!(
        stage.end().events[2..],
        ["transfer 1 RETR ?[2Ja?b? \u{e4}.txt".to_string(), format!("transfer 1 STOR {name}")]
    );
}
