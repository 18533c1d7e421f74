//! Tests the words about tunnels with `protocol = "ftp"` in the log and in `longhaul check`.

use crate::ftp::dialogue::*;
use crate::harness::*;

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
fn a_listener_that_had_its_connection_and_one_that_the_server_refused_are_not_reported() {
    let ftp = Dialogue::begin(1, &[]);
    let (client, server) = ftp.data(true);
    talk(&client, &server);
    drop((client, server));
    ftp.active(&crate::harness::server());
    assert_eq!(ftp.ask("RETR none", "RETR none", "550 no such file"), "550 no such file");
    let Dialogue { chain, client, server, .. } = ftp;
    drop((client, server));
    let relay = &chain.relays[0];
    wait_until("the listener is closed", || relay.counters()["ftp_listeners_now"] == 0);
    assert_eq!(relay.counters()["ftp_unused"], 0);
}

#[test]
fn a_refused_address_says_that_the_peer_may_be_a_relay_without_ftp_and_one_of_no_host_does_not() {
    let ftp = Dialogue::begin(1, &[]);
    let refused = |command, heard, answer| {
        let reply = ftp.ask(command, heard, answer);
        let line = ftp.near().wait_log("refused an FTP data connection");
        (reply, line["reason"].as_str().unwrap().to_string(), line["why"].as_str().unwrap().to_string())
    };
    let advice = "; if 127.0.0.1 is a relay, write protocol = \"ftp\" on it, and ftp.advertise if it is behind a NAT; if it is the FTP server, correct the address that it names";
    let third = "Address 192.0.2.1 is neither the server's own nor in ftp.data_from";
    let (reply, reason, why) = refused("PASV", "PASV", "227 Entering Passive Mode (192,0,2,1,200,200)");
    assert_eq!((reply, reason.as_str(), why), (format!("425 {third}"), "third-host", format!("{third}{advice}")));
    // Of another reason, so the line before does not hold this one back.
    let nobody = "The server named 0.0.0.0, which is no host's address";
    let (reply, reason, why) = refused("PASV", "PASV", "227 Entering Passive Mode (0,0,0,0,200,200)");
    assert_eq!((reply, reason.as_str(), why), (format!("425 {nobody}"), "bad-address", nobody.into()));
}

#[test]
fn the_same_is_said_of_the_relay_before_this_one() {
    let ftp = Dialogue::begin(1, &[]);
    ftp.client.say("PORT 192,0,2,1,200,200");
    let reply = ftp.client.line();
    assert_eq!(reply, "504 Address 192.0.2.1 is neither the client's own nor in ftp.data_from");
    let why = format!("{}; if 127.0.0.1 is a relay, write protocol = \"ftp\" on it", &reply[4..]);
    assert_eq!(ftp.near().wait_log("refused an FTP data connection")["why"], why);
}

#[test]
fn check_names_the_line_of_a_key_without_protocol() {
    let check = |protocol: &str| {
        let keys = format!("{protocol}ftp.ports = \"2000-2009\"\n");
        stderr(&check(&tunnel_to("files", "127.0.0.1:2121", &["127.0.0.1:21"], &keys)))
    };
    let warning =
        ":5:13: warning: ftp.ports = \"2000-2009\": has no effect without protocol = \"ftp\"; add that line\n";
    let text = check("");
    assert!(text.contains(warning), "{text}");
    let text = check("protocol = \"ftp\"\n");
    assert!(!text.contains("has no effect"), "{text}");
}
