//! Tests the words about data connections that do not come, or are refused.

use crate::ftp::dialogue::*;
use crate::harness::*;
use serde_json::Value;

const NOBODY_CAME: &str = "nobody connected to the FTP data listener: does a firewall drop the connection (ftp.ports)? is ftp.advertise right?";

#[test]
fn a_data_connection_that_never_comes_is_reported_when_its_control_connection_ends() {
    // A far relay would name the wrong address to the near one.
    for (relays, flags) in [(1, &["--ftp-advertise", "127.0.0.2"][..]), (2, &[])] {
        let ftp = Dialogue::begin(relays, flags);
        let told = ftp.passive(&server());
        let Dialogue { chain, client, server, .. } = ftp;
        drop((client, server));
        for (index, relay) in chain.relays.iter().enumerate() {
            let line = relay.wait_log(NOBODY_CAME);
            assert_eq!(line["expected"], "127.0.0.1", "{line}");
            if index == 0 {
                // The relay's own address, and not the one that the client was told.
                assert_eq!(line["listener"], format!("127.0.0.1:{}", told.port()), "{line}");
            }
            assert_eq!(relay.counters()["ftp_unused"], 1);
        }
    }
}

#[test]
fn a_refusal_is_told_to_the_client_in_the_log_and_as_a_problem() {
    let shown = Shown::begin("");
    assert_eq!(shown.watched.status()["problems"], Value::Array(Vec::new()));
    // The first line of a reason holds back the next one.
    for (command, answer, reason, reply, advice) in [
        (
            "PASV",
            "227 (192,0,2,1,200,200)",
            Some("third-host"),
            "425 Address 192.0.2.1 is neither the server's own nor in ftp.data_from",
            "; if 127.0.0.1 is a relay, write protocol = \"ftp\" on it, and ftp.advertise if it is behind a NAT; if it is the FTP server, correct the address that it names",
        ),
        (
            "PASV",
            "227 (0,0,0,0,200,200)",
            Some("bad-address"),
            "425 The server named 0.0.0.0, which is no host's address",
            "",
        ),
        (
            "PORT 192,0,2,1,200,200",
            "",
            None,
            "504 Address 192.0.2.1 is neither the client's own nor in ftp.data_from",
            "; if 127.0.0.1 is a relay, write protocol = \"ftp\" on it",
        ),
    ] {
        shown.client.say(command);
        if !answer.is_empty() {
            assert_eq!(shown.server.line(), command);
            shown.server.say(answer);
        }
        assert_eq!(shown.client.line(), reply);
        let why = format!("{}{advice}", &reply[4..]);
        if let Some(reason) = reason {
            let line = shown.watched.daemon.relay.wait_log("refused an FTP data connection");
            assert_eq!((&line["reason"], &line["why"]), (&reason.into(), &why.clone().into()));
        }
        let problem = shown.watched.status()["problems"][0].clone();
        assert_eq!((&problem["tunnel"], &problem["stage"]), (&"one".into(), &"FTP data".into()), "{problem}");
        assert!(problem["what"].as_str().unwrap().contains(&why), "{problem}");
    }
    assert_eq!(shown.watched.status()["ready"], true);
}
