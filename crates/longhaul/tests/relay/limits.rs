//! Little to live on: few descriptors, few pipe pages. Every flow is served all the same.

use crate::harness::*;
use std::io::Write;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// `longhaul relay` through `sh`, so that the shell can set what it may have.
fn limited(limit: &str, listen: &str, to: &str, flags: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{limit} && exec \"$0\" \"$@\"")]);
    command.args([env!("CARGO_BIN_EXE_longhaul"), "--log-format", "json", "relay", "--listen", listen, "--to", to]);
    command.args(flags);
    command
}

#[test]
fn eighty_descriptors_survive_a_flood_and_serve_again() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = Port::reserve("127.0.0.1");
    let (listen, to) = (port.address().to_string(), server.local_addr().unwrap().to_string());
    let relay = Relay::spawn(limited("ulimit -n 80", &listen, &to, &[]));
    let flood: Vec<TcpStream> = (0..400).map(|_| TcpStream::connect(port.address()).unwrap()).collect();
    // Some of them have flows, with bytes in them; the others wait.
    let mut first = patient(server.accept().unwrap().0);
    first.write_all(b"still here").unwrap();
    drop(flood);
    drop(first);
    // The flood's connections that were never accepted end as flows of no bytes, before this one gets its turn.
    let bytes = pattern(30, 500_000);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = patient(TcpStream::connect(port.address()).unwrap());
            client.write_all(&bytes).unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            assert_eq!(read_to_end(&client), (Vec::new(), Ending::Fin));
        });
        loop {
            let (got, ending) = read_to_end(&patient(server.accept().unwrap().0));
            if !got.is_empty() {
                assert_same(&got, &bytes);
                break assert_eq!(ending, Ending::Fin);
            }
        }
    });
    relay.signal("USR1");
    let counters = relay.wait_log_with("counters");
    assert!(counters.contains("accept_errors=0"), "a permit comes before accept(2): {counters}");
}

#[test]
fn an_ordinary_user_s_pipe_pages_are_shared_by_two_thousand_flows() {
    const FLOWS: usize = 2000;
    const BYTES: usize = 300_000;
    if !rustix::process::geteuid().is_root() {
        return skip("needs root, to start the relay as another user");
    }
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    // Small buffers, so that every flow is blocked with bytes in its pipe.
    socket2::SockRef::from(&server).set_recv_buffer_size(16 * 1024).unwrap();
    let port = Port::reserve("127.0.0.1");
    let (listen, to) = (port.address().to_string(), server.local_addr().unwrap().to_string());
    let folder = readable_copy();
    let mut command = Command::new(folder.path().join("longhaul"));
    command.args(["--log-format", "json", "relay", "--listen", &listen, "--to", &to]);
    command.args(["--set", "accept.rcvbuf=64KiB", "--set", "dial.sndbuf=64KiB"]);
    command.uid(NOBODY).gid(NOBODY);
    let relay = Relay::spawn(command);
    let all_blocked = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let sockets: Vec<TcpStream> = (0..FLOWS).map(|_| server.accept().unwrap().0).collect();
            all_blocked.wait();
            std::thread::scope(|scope| {
                for part in sockets.chunks(FLOWS / 8) {
                    scope.spawn(move || part.iter().for_each(|socket| check(socket)));
                }
            });
        });
        let clients: Vec<TcpStream> = (0..FLOWS).map(|_| TcpStream::connect(port.address()).unwrap()).collect();
        let sent: Vec<usize> = clients.iter().enumerate().map(|(flow, socket)| start(flow as u8, socket)).collect();
        all_blocked.wait();
        for (flow, (mut socket, sent)) in clients.iter().zip(sent).enumerate() {
            socket.set_nonblocking(false).unwrap();
            socket.write_all(&vec![flow as u8; BYTES - sent]).unwrap();
            socket.shutdown(Shutdown::Write).unwrap();
        }
    });
    relay.signal("USR1");
    let counters = relay.wait_log_with("counters");
    assert!(!counters.contains(" copied=0"), "the limit was not reached, so nothing was tested: {counters}");

    /// Sends what the path takes at once.
    fn start(flow: u8, mut socket: &TcpStream) -> usize {
        socket2::SockRef::from(socket).set_send_buffer_size(16 * 1024).unwrap();
        socket.set_nonblocking(true).unwrap();
        let (bytes, mut sent) = (vec![flow; BYTES], 0);
        while let Ok(more) = socket.write(&bytes[sent..]) {
            sent += more;
        }
        assert!(sent > 0 && sent < BYTES, "flow {flow} is not blocked after {sent} bytes");
        sent
    }

    /// Every byte of a flow is the same, and not one is missing.
    fn check(socket: &TcpStream) {
        socket.set_read_timeout(Some(LONG)).unwrap();
        let (got, ending) = read_to_end(socket);
        assert_eq!((got.len(), ending), (BYTES, Ending::Fin));
        assert!(got.iter().all(|byte| *byte == got[0]), "flows were mixed");
    }
}

/// The program where every user may run it: a checkout may be in a folder that is root's alone.
fn readable_copy() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(env!("CARGO_BIN_EXE_longhaul"), folder.path().join("longhaul")).unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

const NOBODY: u32 = 65534;
