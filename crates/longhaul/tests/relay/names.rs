//! Tests host names whose resolver does not answer.

use crate::harness::*;
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::process::Command;

#[test]
fn a_resolver_that_does_not_answer_holds_up_no_other_tunnel() {
    const STUCK: usize = 600; // more than the 512 threads of tokio's blocking pool
    if !rustix::process::geteuid().is_root() {
        return skip("needs root, to give the relay its own resolv.conf");
    }
    let _silent = match UdpSocket::bind("127.9.9.9:53") {
        Ok(socket) => socket,
        Err(err) => return skip(&format!("needs port 53 of a loopback address: {err}")),
    };
    let far = server();
    let (dead, good) = (Port::reserve("127.0.0.1"), Port::reserve("127.0.0.1"));
    let folder = tempfile::tempdir().unwrap();
    let file = |name| folder.path().join(name).display().to_string();
    std::fs::write(file("resolv.conf"), "nameserver 127.9.9.9\noptions timeout:30 attempts:1\n").unwrap();
    let tunnel = |name, port: &Port, to: &str| {
        format!("[[tunnel]]\nname = \"{name}\"\nlisten = \"{}\"\nto = [\"{to}\"]\n", port.address())
    };
    let to = format!("localhost:{}", far.local_addr().unwrap().port()); // /etc/hosts has it
    let config = tunnel("dead", &dead, "nobody.invalid:9") + &tunnel("good", &good, &to);
    std::fs::write(file("longhaul.toml"), config).unwrap();
    let mut command = Command::new("unshare");
    command.args([
        "--mount",
        "sh",
        "-c",
        "mount --bind \"$1\" /etc/resolv.conf && exec \"$0\" --log-format json run -c \"$2\"",
    ]);
    command.args([env!("CARGO_BIN_EXE_longhaul"), &file("resolv.conf"), &file("longhaul.toml")]);
    let relay = Relay::spawn(command);
    let _stuck: Vec<TcpStream> = (0..STUCK).map(|_| TcpStream::connect(dead.address()).unwrap()).collect();
    let accepted = || {
        relay.signal("USR1");
        relay.wait_log("counters")["accepted"].as_u64().unwrap()
    };
    wait_until("every flow has begun", || accepted() >= STUCK as u64);
    let mut client = patient(TcpStream::connect(good.address()).unwrap());
    client.write_all(b"ping").unwrap();
    // Accepts on another thread, because the dial may come late or never. In that case the relay resets the client, and its
    // read fails.
    let answer = std::thread::spawn(move || far.accept().and_then(|(mut socket, _)| socket.write_all(b"pong")));
    let mut got = [0; 4];
    client.read_exact(&mut got).expect("the other tunnel is served");
    assert_eq!(&got, b"pong");
    answer.join().unwrap().unwrap();
}

#[test]
fn a_name_that_is_not_resolved_costs_no_flow_its_connect_timeout() {
    if !rustix::process::geteuid().is_root() {
        return skip("needs root, to give the relay its own resolv.conf");
    }
    let _silent = match UdpSocket::bind("127.9.9.8:53") {
        Ok(socket) => socket,
        Err(err) => return skip(&format!("needs port 53 of a loopback address: {err}")),
    };
    let (server, port, folder) = (server(), Port::reserve("127.0.0.1"), tempfile::tempdir().unwrap());
    let resolv = folder.path().join("resolv.conf").display().to_string();
    std::fs::write(&resolv, "nameserver 127.9.9.8\noptions timeout:30 attempts:5\n").unwrap();
    let (listen, to) = (port.address().to_string(), format!("nobody.invalid:9,{}", server.local_addr().unwrap()));
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", "mount --bind \"$1\" /etc/resolv.conf && shift && exec \"$0\" \"$@\""]);
    command.args([env!("CARGO_BIN_EXE_longhaul"), &resolv, "--log-format", "json", "relay"]);
    command.args(["--listen", &listen, "--to", &to, "--connect-timeout", "10min"]);
    let relay = Relay::spawn(command);
    let client = patient(TcpStream::connect(port.address()).unwrap());
    let accepted = patient(server.accept().expect("the second hop is dialled").0);
    talk(&client, &accepted);
    drop((client, accepted));
    assert_eq!(relay.flow_end(), (4, 4, "finished".into()));
}
