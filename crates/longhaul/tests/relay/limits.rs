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
    let counters = relay.wait_log("counters");
    assert_eq!(counters["accept_errors"], 0, "a permit comes before accept(2): {counters}");
}

#[test]
fn an_ordinary_user_s_pipe_pages_are_shared_by_two_thousand_flows() {
    const FLOWS: usize = 2000;
    if !rustix::process::geteuid().is_root() {
        return skip("needs root, to start the relay as another user");
    }
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    socket2::SockRef::from(&server).listen(4096).unwrap(); // std's 128 would drop SYNs of a burst
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
    let clients: Vec<TcpStream> = (0..FLOWS).map(|_| TcpStream::connect(port.address()).unwrap()).collect();
    let small = |socket| socket2::SockRef::from(socket).set_send_buffer_size(16 * 1024).unwrap();
    clients.iter().for_each(small);
    let servers: Vec<TcpStream> = (0..FLOWS).map(|_| server.accept().unwrap().0).collect();
    let sent = fill(&clients);
    // Every flow is blocked now, with bytes in both its sockets and between them.
    clients.iter().for_each(|socket| socket.shutdown(Shutdown::Write).unwrap());
    std::thread::scope(|scope| {
        for part in servers.chunks(FLOWS / 8) {
            let sent = &sent;
            scope.spawn(move || part.iter().for_each(|socket| check(socket, sent)));
        }
    });
    relay.signal("USR1");
    let counters = relay.wait_log("counters");
    assert_ne!(counters["copied"], 0, "the limit was not reached, so nothing was tested: {counters}");

    /// Sends each flow's number again and again until no flow takes more; gives the number of bytes of each.
    fn fill(clients: &[TcpStream]) -> Vec<usize> {
        let mut sent = vec![0; clients.len()];
        let mut before = None;
        while before != Some(sent.clone()) {
            before = Some(sent.clone());
            for ((flow, mut socket), sent) in clients.iter().enumerate().zip(&mut sent) {
                socket.set_nonblocking(true).unwrap();
                let bytes = (flow as u32).to_be_bytes().repeat(250_000);
                while let Ok(more) = socket.write(&bytes[*sent..]) {
                    *sent += more;
                }
                assert!(*sent > 0 && *sent < bytes.len(), "flow {flow} is not blocked after {sent} bytes");
            }
        }
        sent
    }

    /// Of the flow whose number comes first, every byte is there and none of another.
    fn check(socket: &TcpStream, sent: &[usize]) {
        socket.set_read_timeout(Some(LONG)).unwrap();
        let (got, ending) = read_to_end(socket);
        let flow = u32::from_be_bytes(got[..4].try_into().unwrap());
        assert_eq!((got.len(), ending), (sent[flow as usize], Ending::Fin), "flow {flow}");
        assert_same(&got, &flow.to_be_bytes().repeat(got.len() / 4 + 1)[..got.len()]);
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
