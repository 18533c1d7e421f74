//! Starts a real relay with each option of the table. Either the relay carries a flow with it, or it does not start and logs
//! one line with the reason. An old kernel that lacks an option must not make it hang.

use crate::harness::*;
use longhaul_config::options::{Leg, ROWS};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Command;

#[test]
fn every_option_carries_a_flow_or_is_refused_with_one_line() {
    for leg in Leg::ALL {
        for row in ROWS.iter().filter(|row| row.legs.contains(&leg)) {
            carries_or_says_why(&format!("{leg}.{}={}", row.key, row.sample));
        }
    }
}

fn carries_or_says_why(option: &str) {
    let server = server();
    let port = Port::reserve("127.0.0.1");
    let mut relay = start(option, port.address(), server.local_addr().unwrap());
    match first_line(&mut relay, option) {
        Start::Listening => {
            let client = patient(TcpStream::connect(port.address()).unwrap());
            // Sends the first byte before the accept: with defer-accept or fast open the relay does not dial without it.
            (&client).write_all(b".").unwrap();
            let far = patient(server.accept().unwrap_or_else(|err| panic!("{option}: no dial: {err}")).0);
            (&far).read_exact(&mut [0]).unwrap();
            talk(&client, &far);
            client.shutdown(Shutdown::Write).unwrap();
            assert_eq!(read_to_end(&far), (Vec::new(), Ending::Fin), "{option}");
            drop(far);
            assert_eq!(read_to_end(&client), (Vec::new(), Ending::Fin), "{option}");
        }
        Start::Refused(line) => {
            let code = relay.0.0.wait().unwrap().code();
            assert_eq!(code, Some(1), "{option}: {line}");
            assert!(line.contains(option.split_once('.').unwrap().1.split_once('=').unwrap().0), "{option}: {line}");
            let line: serde_json::Value = serde_json::from_str(&line).expect("a line of the log");
            println!("REFUSED by this kernel: {option}: {}", line["fields"]["err"]);
        }
    }
}

#[test]
fn with_freebind_a_relay_listens_on_an_address_that_is_not_here() {
    // Addresses for documentation (RFC 5737, RFC 3849), which no test host has.
    for listen in ["192.0.2.77:6077", "[2001:db8::77]:6077"] {
        let args = |option| ["relay", "--listen", listen, "--to", "127.0.0.1:9", "--set", option];
        let _relay = Relay::start(&args("accept.freebind=true"));
        let mut without = longhaul();
        let output = without.args(args("accept.freebind=false")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("EADDRNOTAVAIL") && said.contains("accept = { freebind = true }"), "{said}");
    }
}

/// A relay process and its log.
struct Started(Running, BufReader<UnixStream>);

/// Outcome of the start.
enum Start {
    Listening,
    /// The only line of the log, without its newline.
    Refused(String),
}

fn start(option: &str, listen: SocketAddr, to: SocketAddr) -> Started {
    let (stderr, ours) = UnixStream::pair().unwrap();
    ours.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut command: Command = longhaul();
    command.args(["relay", "--listen", &listen.to_string(), "--to", &to.to_string(), "--set", option]);
    let child = command.stderr(OwnedFd::from(stderr)).spawn().unwrap();
    Started(Running(child), BufReader::new(ours))
}

/// Reads the log until the relay listens or has ended.
fn first_line(relay: &mut Started, option: &str) -> Start {
    let mut refusals: Vec<String> = Vec::new();
    for line in relay.1.by_ref().lines() {
        let line = line.unwrap_or_else(|err| panic!("{option}: neither a refusal nor a listener: {err}"));
        if line.contains(r#""message":"listening""#) {
            return Start::Listening;
        }
        // The caution of an option comes first, as a warning.
        if !line.contains(r#""level":"INFO""#) && !line.contains(r#""level":"WARN""#) {
            refusals.push(line);
        }
    }
    assert_eq!(refusals.len(), 1, "{option}: one line says why: {refusals:?}");
    Start::Refused(refusals.remove(0))
}
