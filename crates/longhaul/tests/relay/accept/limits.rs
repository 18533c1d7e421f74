//! Tests scarce resources: few descriptors or none, few pipes, few pipe pages. Every flow must be served nevertheless. Also
//! tests that an idle flow needs few resources, and that dials which would loop end.

use crate::carry::endings::{OVER_ALL_BUFFERS, SMALL_BUFFERS};
use crate::harness::*;
use longhaul_core::budget::{MAX_HELD, MIN_FILL};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use serde_json::Value;
use socket2::SockRef;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Instant;

/// Starts `longhaul relay` from `port` to `server` after the shell command `limit`, such as `ulimit -n 80`.
fn limited(limit: &str, port: &Port, server: &TcpListener, flags: &[&str]) -> Relay {
    let (listen, to) = (port.address().to_string(), server.local_addr().unwrap().to_string());
    Relay::spawn(limited_to(limit, &listen, &to, flags))
}

fn limited_to(limit: &str, listen: &str, to: &str, flags: &[&str]) -> Command {
    longhaul_after(limit, &[&["relay", "--listen", listen, "--to", to], flags].concat())
}

#[test]
fn eighty_descriptors_survive_a_flood_and_serve_again() {
    let server = server();
    let port = Port::reserve("127.0.0.1");
    let relay = limited("ulimit -n 80", &port, &server, &[]);
    let flood: Vec<TcpStream> = (0..400).map(|_| TcpStream::connect(port.address()).unwrap()).collect();
    // Some of these connections have flows, with bytes in them; the others wait.
    let mut first = patient(server.accept().unwrap().0);
    first.write_all(b"still here").unwrap();
    drop(flood);
    drop(first);
    // Connections of the flood that were not accepted yet become flows without bytes. They end before this one is served.
    let bytes = pattern(30, 500_000);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let client = patient(TcpStream::connect(port.address()).unwrap());
            send_all(&client, &bytes);
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
    let counters = relay.counters();
    assert_eq!(counters["accept_errors"], 0, "a permit comes before accept(2): {counters}");
}

#[test]
fn a_descriptor_limit_too_low_for_any_flow_is_refused_at_start() {
    let refused = |limit: u32| {
        let listen = Port::reserve("127.0.0.1").address().to_string();
        let output = limited_to(&format!("ulimit -n {limit}"), &listen, "127.0.0.1:9", &[]).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let error = refused(20);
    assert!(error.contains("a limit of 20 leaves none for flows") && error.contains("LimitNOFILE="), "{error}");
    let min = error.split_once("flows; at least ").unwrap().1.split_once(' ').unwrap().0.parse::<u32>().unwrap();
    refused(min - 1);
    let (port, server) = (Port::reserve("127.0.0.1"), server());
    let _relay = limited(&format!("ulimit -n {min}"), &port, &server, &[]);
    talk(&patient(TcpStream::connect(port.address()).unwrap()), &patient(server.accept().unwrap().0));
}

/// Two tunnels have next hops that do not answer. Each is flooded until it gets no more flows. The third tunnel must still serve.
#[test]
fn next_hops_that_do_not_answer_leave_flows_for_other_tunnels() {
    const DESCRIPTORS: usize = 240;
    /// More than a tunnel can have flows.
    const FLOOD_CONNECTIONS: usize = 200;
    /// The reserve of a tunnel with so many descriptors.
    const FLOWS: usize = 10;
    let (far, silent) = (server(), Silent::new());
    let (good, dead) = (Port::reserve("127.0.0.1"), ["one", "two"].map(|name| (name, Port::reserve("127.0.0.1"))));
    let tunnel = |name: &str, port: &Port, to| tunnel_to(name, port.address(), &[to], "connect_timeout = \"10min\"");
    let config: String = dead.iter().map(|(name, port)| tunnel(name, port, silent.address())).collect();
    let config = config + &tunnel("good", &good, far.local_addr().unwrap());
    let limit = format!("ulimit -n {DESCRIPTORS}");
    let daemon = Daemon::start_by(&config, |file| Relay::spawn(longhaul_after(&limit, &["run", "-c", file])));
    let relay = &daemon.relay;
    let mut flood = Vec::new();
    for (name, port) in &dead {
        flood.extend((0..FLOOD_CONNECTIONS).map(|_| TcpStream::connect(port.address()).unwrap()));
        let line =
            relay.wait_log("no descriptors for another flow of this tunnel: connections wait in the listen queue");
        assert_eq!(line["tunnel"], *name, "{line}");
        assert!(line["remedy"].as_str().unwrap().contains("LimitNOFILE="), "{line}");
    }
    let served: Vec<_> = (0..FLOWS).map(|_| (dial(&good), accept(&far))).collect();
    served.iter().for_each(|(client, server)| talk(client, server));
    let counters = relay.counters();
    assert_eq!((&counters["without_permit"], &counters["accept_errors"]), (&2.into(), &0.into()), "{counters}");
}

#[test]
fn a_listener_without_descriptors_backs_off_and_recovers() {
    const WAITING: usize = 50;
    const CANNOT_ACCEPT: &str = "cannot accept, trying again; EMFILE: raise RLIMIT_NOFILE, ENFILE: fs.file-max";
    let path = Path::new(1, &[]);
    let relay = &path.relays[0];
    let mut live = path.connect();
    // Lowers the limit after the relay has planned with the old one, so that accept(2) has no free descriptor.
    // A file of /proc or /sys is open only for the moment in which the relay reads about its resources.
    let mut kept = relay.descriptors();
    kept.retain(|(_, what)| !what.starts_with("/proc/") && !what.starts_with("/sys/"));
    let lowest_free = (0..).find(|number| kept.iter().all(|(taken, _)| taken != number)).unwrap();
    limit_descriptors(relay, Some(lowest_free as u64));
    let started = Instant::now();
    let waiting: Vec<TcpStream> = (0..WAITING).map(|_| path.dial()).collect();
    let first = relay.wait_log(CANNOT_ACCEPT);
    assert!(first["err"].as_str().unwrap().contains("EMFILE"), "{first}");
    assert_eq!(first["more"], 0);
    // The live flow continues by copying, because a pipe would need descriptors, too.
    let bytes = pattern(28, 100_000);
    live.0.write_all(&bytes).unwrap();
    let mut got = vec![0; bytes.len()];
    live.1.read_exact(&mut got).unwrap();
    assert_same(&got, &bytes);
    // The next line comes a second later. The pause between two attempts begins at 10 ms and doubles each time up to a second.
    // So there are at most eight attempts in the first second and one in each later second, and fewer on a busy machine.
    let more = relay.wait_log_any(&[CANNOT_ACCEPT, "lines held back"])["more"].as_u64().unwrap();
    let errors = relay.counters()["accept_errors"].as_u64().unwrap();
    assert!((more + 1..=8 + started.elapsed().as_secs()).contains(&errors), "{errors} in {:?}", started.elapsed());
    limit_descriptors(relay, None);
    std::thread::scope(|scope| {
        scope.spawn(|| echo(path.server(), WAITING));
        for (seed, client) in waiting.into_iter().enumerate() {
            scope.spawn(move || round_trip(client, &pattern(seed as u64, 100_000 + seed)));
        }
    });
    talk(&live.0, &live.1);
    drop(live);
    let counters = relay.counters();
    assert_eq!((&counters["accepted"], &counters["reset"]), (&(WAITING + 1).into(), &0.into()), "{counters}");
    assert_ne!(counters["copied"], 0, "{counters}");
}

/// Limits the descriptors of `relay` to `max`; `None` restores the limit that it had after its start.
fn limit_descriptors(relay: &Relay, max: Option<u64>) {
    let maximum = getrlimit(Resource::Nofile).maximum; // the relay has raised its limit to this hard limit, which it inherited
    let limit = Rlimit { current: max.or(maximum), maximum };
    prlimit(Pid::from_raw(relay.id() as i32), Resource::Nofile, limit).expect("it is our child");
}

#[test]
fn an_idle_flow_holds_two_descriptors_and_no_pipe() {
    const FLOWS: usize = 100;
    let path = Path::new(1, &[]);
    // Until then the relay may hold the descriptor of a control socket that it cannot open.
    path.relays[0].wait_line("the warning", |message| message.starts_with("no control socket"));
    let count = |is_it: fn(&str) -> bool| path.relays[0].descriptors().iter().filter(|(_, what)| is_it(what)).count();
    let count_pipes = || count(|what| what.starts_with("pipe:"));
    // But those of files, such as those of proc(5) that the relay reads now and then.
    let count_all = || count(|what| !what.starts_with('/'));
    let (all, pipes) = (count_all(), count_pipes());
    let flows: Vec<_> = (0..FLOWS).map(|_| path.connect()).collect();
    assert_eq!((count_all(), count_pipes()), (all + 2 * FLOWS, pipes));
    // Small messages need no pipe either.
    flows.iter().for_each(|(client, server)| talk(client, server));
    assert_eq!((count_all(), count_pipes()), (all + 2 * FLOWS, pipes));
    // Bulk needs pipes. Afterwards the relay keeps as many as its threads use at once. One more is possible, because a thread
    // may not have returned its pipe yet when the next bytes come.
    let bytes = pattern(29, 100_000);
    for (client, server) in &flows {
        (&*client).write_all(&bytes).unwrap();
        (&*server).read_exact(&mut vec![0; bytes.len()]).unwrap();
    }
    let threads = std::thread::available_parallelism().unwrap().get();
    let new_pipes = count_pipes() - pipes;
    assert!((2..=2 * (threads + 1)).contains(&new_pipes), "{new_pipes} descriptors of pipes");
    assert_eq!(count_all(), all + 2 * FLOWS + new_pipes);
}

#[test]
fn a_lack_of_pipes_is_logged_once_and_counted_each_time() {
    const FLOWS: usize = 12;
    let server = server();
    let port = Port::reserve("127.0.0.1");
    // Enough descriptors for these flows, but not for a pipe for each.
    let relay = limited("ulimit -n 80", &port, &server, SMALL_BUFFERS);
    let bytes = pattern(31, OVER_ALL_BUFFERS);
    let (mut copied, mut lines) = (0, Vec::new());
    for _ in 0..2 {
        std::thread::scope(|scope| {
            for flow in 0..FLOWS {
                let client = patient(TcpStream::connect(port.address()).unwrap());
                let reader = patient(server.accept().unwrap().0);
                let bytes = &bytes[1000 * flow..];
                scope.spawn(move || {
                    let taken = fill_up(&client, bytes); // now every flow has bytes between its sockets
                    client.shutdown(Shutdown::Write).unwrap();
                    assert_whole(&reader, &bytes[..taken]);
                });
            }
        });
        lines.extend(relay.lines_to_counters());
        let counted = lines.last().unwrap()["copied"].as_u64().unwrap();
        assert!(counted > copied, "{copied} before, {counted} now");
        copied = counted;
    }
    let told = |line: &&Value| line["message"].as_str().unwrap().starts_with("no more pipes");
    assert_eq!(lines.iter().filter(told).count(), 1);
}

#[test]
fn flows_whose_readers_stop_hold_few_bytes_and_no_pipe() {
    const FLOWS: usize = 150;
    /// Bytes for code, threads and tasks.
    const MAX_BASE_MEMORY: usize = 32 << 20;
    let server = server();
    // A megabyte waits for each reader, and little of it fits into the sockets behind the relay.
    SockRef::from(&server).set_recv_buffer_size(16 * 1024).unwrap();
    let port = Port::reserve("127.0.0.1");
    let buffers = ["--set", "accept.rcvbuf=1MiB", "--set", "dial.sndbuf=64KiB"];
    // Enough descriptors for these flows, but not for a pipe for each.
    let relay = limited("ulimit -n 1000", &port, &server, &buffers);
    if relay.pipes().is_none() {
        return skip("pidfd_getfd(2) is not allowed");
    }
    let connect = || (TcpStream::connect(port.address()).unwrap(), server.accept().unwrap().0);
    let flows: Vec<(TcpStream, TcpStream)> = (0..FLOWS).map(|_| connect()).collect();
    let bytes = pattern(32, 3_000_000);
    relay.stop();
    let sent: Vec<usize> = flows.iter().map(|(client, _)| fill_now(client, &bytes)).collect();
    assert!(sent.iter().sum::<usize>() > 2 * MAX_HELD, "too little to reach the bound: {sent:?}");
    relay.signal("CONT");

    // Waits until the last flow has returned its pipe.
    let pipes = || relay.pipes().expect("it was allowed before");
    let have_moved = |(resident, pipes): &(usize, Vec<(usize, usize)>)| {
        *resident > MAX_HELD / 4 && pipes.iter().all(|(held, _)| *held == 0)
    };
    wait_for_value("every pipe is empty", || (relay.resident(), pipes()), have_moved);
    let resident = relay.resident();
    assert!(resident < MAX_HELD + FLOWS * MIN_FILL + MAX_BASE_MEMORY, "{resident} bytes of user memory");
    let capacity: usize = pipes().iter().map(|(_, capacity)| capacity).sum();
    assert!(capacity < 2 * MAX_HELD, "pipes for {capacity} bytes");

    // A flow whose reader reads is still spliced.
    let copied = relay.counters()["copied"].clone();
    let (client, reader) = connect();
    pass_all(&patient(client), &patient(reader), &bytes);
    assert_eq!(relay.counters()["copied"], copied);
    // The other flows get every byte once their readers read.
    for ((client, reader), sent) in flows.into_iter().zip(sent) {
        client.shutdown(Shutdown::Write).unwrap();
        assert_whole(&patient(reader), &bytes[..sent]);
    }
}

/// Writes as many bytes as the socket takes without waiting; returns their number.
fn fill_now(mut socket: &TcpStream, bytes: &[u8]) -> usize {
    socket.set_nonblocking(true).unwrap();
    SockRef::from(socket).set_send_buffer_size(64 * 1024).unwrap();
    let mut sent = 0;
    while let Ok(more) = socket.write(&bytes[sent..]) {
        sent += more;
    }
    assert!(sent > 0 && sent < bytes.len(), "{sent} bytes");
    sent
}

#[test]
fn two_thousand_flows_share_the_pipe_pages_of_an_ordinary_user() {
    const FLOWS: usize = 2000;
    if !rustix::process::geteuid().is_root() {
        return skip("needs root, to start the relay as another user");
    }
    let server = server();
    SockRef::from(&server).listen(4096).unwrap(); // with std's backlog of 128, the kernel would drop SYNs of the burst
    // The buffers are small, so that every flow blocks with bytes in its pipe.
    SockRef::from(&server).set_recv_buffer_size(16 * 1024).unwrap();
    let port = Port::reserve("127.0.0.1");
    let (listen, to) = (port.address().to_string(), server.local_addr().unwrap().to_string());
    let folder = readable_copy();
    let mut command = Command::new(folder.path().join("longhaul"));
    command.args(["--log-format", "json", "relay", "--listen", &listen, "--to", &to]);
    command.args(["--set", "accept.rcvbuf=64KiB", "--set", "dial.sndbuf=64KiB"]);
    command.uid(NOBODY).gid(NOBODY);
    let relay = Relay::spawn(command);
    let clients: Vec<TcpStream> = (0..FLOWS).map(|_| TcpStream::connect(port.address()).unwrap()).collect();
    let small = |socket| SockRef::from(socket).set_send_buffer_size(16 * 1024).unwrap();
    clients.iter().for_each(small);
    let servers: Vec<TcpStream> = (0..FLOWS).map(|_| server.accept().unwrap().0).collect();
    let sent = fill(&clients);
    // Now every flow is blocked, with bytes in both its sockets and between them.
    clients.iter().for_each(|socket| socket.shutdown(Shutdown::Write).unwrap());
    std::thread::scope(|scope| {
        for part in servers.chunks(FLOWS / 8) {
            let sent = &sent;
            scope.spawn(move || part.iter().for_each(|socket| check(socket, sent)));
        }
    });
    let counters = relay.counters();
    assert_ne!(counters["copied"], 0, "the limit was not reached, so nothing was tested: {counters}");

    /// Sends each flow's number again and again until no flow takes more. Returns the bytes sent by each flow.
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

    /// Asserts that the socket gets every byte of the flow named by its first number, and none of another flow.
    fn check(socket: &TcpStream, sent: &[usize]) {
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        let (got, ending) = read_to_end(socket);
        let flow = u32::from_be_bytes(got[..4].try_into().unwrap());
        assert_eq!((got.len(), ending), (sent[flow as usize], Ending::Fin), "flow {flow}");
        assert_same(&got, &flow.to_be_bytes().repeat(got.len() / 4 + 1)[..got.len()]);
    }
}

#[test]
fn a_flow_whose_splice_is_refused_is_copied_and_logged_once() {
    for errno in [libc::EINVAL, libc::ENOSYS, libc::EPERM, libc::EACCES, libc::EOPNOTSUPP] {
        let server = server();
        let port = Port::reserve("127.0.0.1");
        let mut command = longhaul();
        command.args(["relay", "--listen", &port.address().to_string()]);
        command.args(["--to", &server.local_addr().unwrap().to_string()]);
        let Some(relay) = without(libc::SYS_splice, Vec::new(), errno, || Relay::spawn(command)) else { return };
        // A small message is always copied; only bulk is spliced.
        let flows = [(1, false), (3_000_000, true), (3_000_000, false)];
        for (bytes, is_logged) in flows.map(|(len, is_logged)| (pattern(40, len), is_logged)) {
            let client = patient(TcpStream::connect(port.address()).unwrap());
            let far = patient(server.accept().unwrap().0);
            std::thread::scope(|scope| {
                for (from, to) in [(&client, &far), (&far, &client)] {
                    let bytes = &bytes;
                    scope.spawn(move || pass_all(from, to, bytes));
                }
            });
            let mut line = relay.wait_log_any(&[SPLICE_REFUSED, "flow ended"]);
            assert_eq!(line["message"] == SPLICE_REFUSED, is_logged, "errno {errno}: {line}");
            if is_logged {
                line = relay.wait_log_any(&[SPLICE_REFUSED, "flow ended"]);
            }
            assert_eq!((&line["message"], &line["how"]), (&"flow ended".into(), &"finished".into()), "logged twice");
        }
    }

    const SPLICE_REFUSED: &str = "splice is refused: flows are copied, which is slower; a seccomp filter, SELinux or an \
        mptcp leg can cause this";
}

/// A dial that might lead back to the relay must not happen: it could loop for ever.
#[test]
fn a_dial_fails_if_the_kernel_cannot_tell_where_it_leads() {
    use seccompiler::{SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};
    let Some(own) = own_address() else { return skip("this host has no address but loopback's") };
    let port = Port::reserve("0.0.0.0");
    let number = port.address().port();
    let mut command = longhaul();
    // The tunnel dials itself: each dial would make the next flow and its dial.
    command.args(["relay", "--listen", &number.to_string(), "--to", &format!("{own}:{number}")]);
    // The relay asks the kernel through a netlink socket.
    let (equal, family) = (SeccompCmpOp::Eq, libc::AF_NETLINK as u64);
    let netlink = SeccompCondition::new(0, SeccompCmpArgLen::Dword, equal, family).unwrap();
    let rule = SeccompRule::new(vec![netlink]).unwrap();
    let start = || Relay::spawn(command);
    let Some(relay) = without(libc::SYS_socket, vec![rule], libc::EMFILE, start) else { return };
    reset_by((own, number).into());
    let why = relay.wait_log("dial failed")["why"].to_string();
    assert!(why.contains("cannot tell whether this leads back: socket(NETLINK_ROUTE): EMFILE"), "{why}");
    assert_eq!(relay.flow_end(), (0, 0, "dial failed".into()));
    let counters = relay.counters();
    assert_eq!(counters["accepted"], 1, "the relay dialled itself: {counters}");
}

/// Runs `start` on a thread where the system call `call` fails with `errno`: always, or if one of `rules` matches. The processes
/// started by that thread inherit this. Returns the result of `start`; `None` if there is no seccomp filter for this processor.
fn without<T: Send>(
    call: libc::c_long,
    rules: Vec<seccompiler::SeccompRule>,
    errno: i32,
    start: impl FnOnce() -> T + Send,
) -> Option<T> {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};
    let Ok(machine) = std::env::consts::ARCH.try_into() else {
        skip("no seccomp filter for this processor");
        return None;
    };
    let rules = [(call, rules)].into_iter().collect();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(errno as u32), machine).unwrap();
    let filter: BpfProgram = filter.try_into().unwrap();
    std::thread::scope(|scope| {
        let started = scope.spawn(move || {
            apply_filter(&filter).unwrap();
            start()
        });
        Some(started.join().unwrap())
    })
}

/// Copies the program to a folder where every user may run it, because the checkout may be in a folder of root alone.
pub(crate) fn readable_copy() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    // By another process. If this one wrote the file, a program that another test is just starting could hold it open for
    // writing, and execve(2) of the copy would fail with ETXTBSY.
    let status = Command::new("cp").arg(PROGRAM).arg(folder.path()).status().unwrap();
    assert!(status.success());
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

/// Returns the address that this host would send from, if it has another than loopback's. Sends nothing (connect(2), UDP).
fn own_address() -> Option<std::net::IpAddr> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.77:9").ok()?;
    Some(socket.local_addr().ok()?.ip())
}

const NOBODY: u32 = 65534;

#[test]
fn a_loop_of_two_relays_ends_by_itself() {
    const DESCRIPTORS: u64 = 400;
    in_own_network(|| {
        ["10.7.0.1/32", "10.7.0.2/32"].iter().for_each(|own| ip(&format!("address add {own} dev lo")));
        let (one, two) = ("10.7.0.1:6000", "10.7.0.2:6000");
        let start = |listen: &str, to: &str| {
            // The address that the other relay dials. Between two hosts the routing table would choose this source.
            let source = listen.split(':').next().unwrap();
            // The way is as long as the relays have permits: with 1,024 from a next hop it takes a minute on a busy core.
            Relay::spawn(limited_to(&format!("ulimit -n {DESCRIPTORS}"), listen, to, &["--source", source]))
        };
        let relays = [start(one, two), start(two, one)];
        let client = patient(TcpStream::connect(one).unwrap());
        assert_eq!(read_to_end(&client), (Vec::new(), Ending::Reset));
        let counters = || relays.each_ref().map(Relay::counters);
        let have_ended = |counters: &[Value; 2]| counters.iter().all(|counters| counters["flows_now"] == 0);
        let counters = wait_for_value("every flow has ended", counters, have_ended);
        let of_both = |name: &str| counters.each_ref().map(|counters| counters[name].as_u64().unwrap());
        // Some are those of the tests whether they come back, which go round, too.
        let flows = of_both("accepted");
        assert!(flows.iter().all(|flows| (2..=DESCRIPTORS).contains(flows)), "{flows:?}");
        assert!(of_both("refused").iter().sum::<u64>() >= 1);
    });
}
