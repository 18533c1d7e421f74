//! The daemon: reload, and what it has to say to systemd.

use crate::harness::*;
use serde_json::Value;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// A daemon with a config file of its own.
pub(crate) struct Daemon {
    pub(crate) relay: Relay,
    folder: TempDir,
}

impl Daemon {
    pub(crate) fn start(config: &str) -> Daemon {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(file(&folder), config).expect("a config file");
        let relay = Relay::start(&["run", "-c", &file(&folder).display().to_string()]);
        Daemon { relay, folder }
    }

    /// The same with `socket` from systemd.
    fn activated(config: &str, socket: &TcpListener) -> Daemon {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(file(&folder), config).expect("a config file");
        let relay = Relay::spawn(activated_by(socket, &["run", "-c", &file(&folder).display().to_string()]));
        Daemon { relay, folder }
    }

    /// Writes `config` and has it read; gives the line that says how that went.
    pub(crate) fn reload(&self, config: &str) -> Value {
        std::fs::write(file(&self.folder), config).expect("a config file");
        self.relay.signal("HUP");
        self.relay.wait_log_any(&["reloaded", "reload refused: the old configuration stays"])
    }
}

fn file(folder: &TempDir) -> PathBuf {
    folder.path().join("longhaul.toml")
}

pub(crate) fn tunnel(name: &str, listen: SocketAddr, to: &TcpListener, more: &str) -> String {
    let to = to.local_addr().unwrap();
    format!("[[tunnel]]\nname = \"{name}\"\nlisten = \"{listen}\"\nto = [\"{to}\"]\n{more}\n")
}

pub(crate) fn dial(port: &Port) -> TcpStream {
    patient(TcpStream::connect(port.address()).expect("the daemon listens"))
}

fn accept(server: &TcpListener) -> TcpStream {
    patient(server.accept().expect("the daemon dials").0)
}

#[test]
fn reload_changes_what_is_new_and_leaves_live_flows_alone() {
    let (old, new) = (server(), server());
    let (kept, removed, added) = (Port::reserve("127.0.0.1"), Port::reserve("127.0.0.1"), Port::reserve("127.0.0.1"));
    let before = tunnel("kept", kept.address(), &old, "") + &tunnel("removed", removed.address(), &old, "");
    let daemon = Daemon::start(&before);
    daemon.relay.wait_log("listening");
    // One after the other: the daemon dials for both tunnels at once.
    let (one, one_far) = (dial(&kept), accept(&old));
    let (two, two_far) = (dial(&removed), accept(&old));
    let bytes = pattern(20, 20_000_000);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (&one).write_all(&bytes).unwrap();
            one.shutdown(Shutdown::Write).unwrap();
        });
        // In the middle of it.
        let mut first = vec![0; 1_000_000];
        (&one_far).read_exact(&mut first).unwrap();
        let said =
            daemon.reload(&(tunnel("kept", kept.address(), &new, "") + &tunnel("added", added.address(), &new, "")));
        assert_eq!(said["message"], "reloaded");
        let (rest, ending) = read_to_end(&one_far);
        assert_same(&[first, rest].concat(), &bytes);
        assert_eq!(ending, Ending::Fin);
    });
    talk(&two, &two_far);
    // The next connection goes where the new file says; the removed tunnel listens no more.
    talk(&dial(&kept), &accept(&new));
    talk(&dial(&added), &accept(&new));
    assert_eq!(TcpStream::connect(removed.address()).unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
}

#[test]
fn a_bad_file_is_refused_whole_and_the_old_one_stays() {
    let (old, new, port, other) = (server(), server(), Port::reserve("127.0.0.1"), Port::reserve("127.0.0.1"));
    let daemon = Daemon::start(&tunnel("one", port.address(), &old, ""));
    let taken = server();
    let good = tunnel("one", port.address(), &new, "");
    for bad in [
        good.clone() + "[[tunnel]]\nname = 7\n",
        good.clone() + &tunnel("two", other.address(), &new, "no-such-key = 1"),
        good.clone() + &tunnel("two", taken.local_addr().unwrap(), &new, ""),
        good.clone() + &tunnel("two", other.address(), &new, "dial = { congestion = \"no-such\" }"),
        "not toml at all [".into(),
    ] {
        let said = daemon.reload(&bad);
        assert_eq!(said["message"], "reload refused: the old configuration stays", "{bad}");
        talk(&dial(&port), &accept(&old));
        assert!(TcpStream::connect(other.address()).is_err(), "half of a bad file was taken");
    }
    assert_eq!(daemon.reload(&good)["message"], "reloaded");
    talk(&dial(&port), &accept(&new));
}

#[test]
fn a_file_that_cannot_be_read_to_its_end_holds_up_no_signal() {
    let (old, new, port) = (server(), server(), Port::reserve("127.0.0.1"));
    let mut daemon = Daemon::start(&tunnel("one", port.address(), &old, ""));
    let fifo = file(&daemon.folder);
    std::fs::remove_file(&fifo).unwrap();
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    // The file is read to its end only when every writer of the FIFO has closed it (fifo(7)).
    let begin = || {
        daemon.relay.signal("HUP");
        // ENXIO until the daemon has come to open it.
        wait_for("the daemon reads the file", || {
            OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(&fifo)
        })
    };
    let mut writer = begin();
    assert_eq!(daemon.relay.counters()["accepted"], 0);
    talk(&dial(&port), &accept(&old));
    write!(writer, "{}", tunnel("one", port.address(), &new, "")).unwrap();
    drop(writer);
    daemon.relay.wait_log("reloaded");
    talk(&dial(&port), &accept(&new));
    // The next SIGHUP forgets it, and the next SIGTERM too.
    let _never = begin();
    std::fs::remove_file(&fifo).unwrap();
    assert_eq!(daemon.reload(&tunnel("one", port.address(), &old, ""))["message"], "reloaded");
    talk(&dial(&port), &accept(&old));
    std::fs::remove_file(&fifo).unwrap();
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let _never = begin();
    daemon.relay.signal("TERM");
    daemon.relay.wait_log("draining: not reloaded");
    assert_eq!(daemon.relay.exit(), Some(0));
}

#[test]
fn a_file_that_does_not_answer_keeps_a_few_threads_and_is_read_once_it_does() {
    let (old, new, port) = (server(), server(), Port::reserve("127.0.0.1"));
    let daemon = Daemon::start(&tunnel("one", port.address(), &old, ""));
    let fifo = file(&daemon.folder);
    std::fs::remove_file(&fifo).unwrap();
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    // Two signals of one kind may be one: each is answered before the next. Nobody writes, so each open(2) waits.
    let mut reads = 0;
    let no_thread = loop {
        daemon.relay.signal("HUP");
        let lines = daemon.relay.lines_to_counters();
        if let Some(line) = lines.into_iter().find(|line| line["message"] == NO_THREAD) {
            break line;
        }
        reads += 1;
        assert!(reads < 100, "every SIGHUP keeps a thread");
    };
    assert_eq!(no_thread["file"], fifo.display().to_string());
    // All who wait for a writer go on when one comes, and the last of them reads again; by then the file is a file.
    let writer = OpenOptions::new().write(true).open(&fifo).unwrap();
    std::fs::remove_file(&fifo).unwrap();
    std::fs::write(&fifo, tunnel("one", port.address(), &new, "")).unwrap();
    drop(writer);
    daemon.relay.wait_log("reloaded");
    talk(&dial(&port), &accept(&new));

    const NO_THREAD: &str = "reload: the file does not answer; it is read again once it does";
}

#[test]
fn a_line_of_the_log_has_its_level_once() {
    let (far, port) = (server(), Port::reserve("127.0.0.1"));
    let daemon = Daemon::start(&tunnel("one", port.address(), &far, ""));
    for (more, key) in [("accept = { rcvbuf = \"256KiB\" }", "rcvbuf"), ("no-such-key = 1", "no-such-key")] {
        std::fs::write(file(&daemon.folder), tunnel("one", port.address(), &far, more)).unwrap();
        daemon.relay.signal("HUP");
        let line = daemon.relay.wait_line(key, |said| said.contains(key));
        let message = line["message"].as_str().unwrap();
        assert!(message.contains("longhaul.toml:"), "{message}");
        assert!(!message.contains("warning") && !message.contains("error"), "{message}");
    }
}

#[test]
fn changed_options_are_told_to_the_listener_that_is_there() {
    for ip in ["127.0.0.1", "[::1]"] {
        let (far, port) = (server(), Port::reserve(ip));
        let with = |mss: u32| {
            let accept = format!("accept = {{ defer-accept = \"60s\", mss = \"{mss}B\" }}");
            tunnel("one", port.address(), &far, &accept)
        };
        let daemon = Daemon::start(&with(1000));
        // For the listener its handshake is under way until its first byte comes (tcp(7) TCP_DEFER_ACCEPT).
        let early = dial(&port);
        assert_eq!(daemon.reload(&with(500))["message"], "reloaded");
        quiet_for(&early, Duration::from_millis(1500)); // a listener that is replaced is closed after a second
        let late = dial(&port);
        for mut client in [&early, &late] {
            client.write_all(b"first").expect("no reset");
            let mut server = accept(&far);
            server.read_exact(&mut [0; 5]).unwrap();
            talk(client, &server);
        }
        let mss = |socket: &TcpStream| socket2::SockRef::from(socket).tcp_mss().unwrap();
        assert!(mss(&early) > 500 && mss(&late) <= 500, "{} and {}", mss(&early), mss(&late));
    }
}

#[test]
fn a_listener_with_other_options_replaces_the_old_one_without_a_gap() {
    let (far, port) = (server(), Port::reserve("127.0.0.1"));
    let daemon = Daemon::start(&tunnel("one", port.address(), &far, ""));
    let (live, live_far) = (dial(&port), accept(&far));
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Connections without a pause while the listener is replaced: every one of them has to be served.
        let (stop, port, far) = (&stop, &port, &far);
        let dialler = scope.spawn(move || {
            let mut served = 0;
            loop {
                talk(&dial(port), &accept(far));
                served += 1;
                if stop.load(std::sync::atomic::Ordering::Relaxed) {
                    break served;
                }
            }
        });
        // An option that was there is gone each time, so it cannot be told to the listener that is there.
        let with = |round: u32| format!("accept = {{ {} }}", ["mss = \"1000B\"", "dscp = \"ef\""][round as usize % 2]);
        let mut said: Vec<Value> =
            (0..5).map(|round| daemon.reload(&tunnel("one", port.address(), far, &with(round)))).collect();
        // Another name on the same address is a replacement too.
        said.push(daemon.reload(&tunnel("other", port.address(), far, "")));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        eprintln!("{} connections served meanwhile", dialler.join().unwrap());
        said.iter().for_each(|said| assert_eq!(said["message"], "reloaded", "{said}"));
    });
    talk(&live, &live_far);
}

#[test]
fn after_a_reload_no_connection_goes_the_old_way() {
    // With a new listener in the place of the old one, which goes on for a while; under the same name or another.
    for (ip, name) in [("127.0.0.1", "one"), ("127.0.0.1", "another"), ("[::1]", "one"), ("[::1]", "another")] {
        let (old, new, port) = (server(), server(), Port::reserve(ip));
        // An option that is gone cannot be told to the listener that is there.
        let daemon = Daemon::start(&tunnel("one", port.address(), &old, "accept = { dscp = \"ef\" }"));
        talk(&dial(&port), &accept(&old));
        let said = daemon.reload(&tunnel(name, port.address(), &new, "accept = { keepalive-idle = \"100s\" }"));
        assert_eq!(said["message"], "reloaded");
        let clients: Vec<TcpStream> = (0..40).map(|_| dial(&port)).collect();
        let there: Vec<TcpStream> = clients.iter().map(|_| accept(&new)).collect();
        drop((clients, there));
    }
}

#[test]
fn a_place_that_a_replaced_listener_does_not_use_goes_to_the_new_one() {
    let (far, port) = (server(), Port::reserve("127.0.0.1"));
    let with = |more: &str| tunnel("one", port.address(), &far, &format!("max_flows = 1\n{more}"));
    let dial_from = |ip: &str| {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&format!("{ip}:0").parse::<SocketAddr>().unwrap().into()).unwrap();
        socket.connect(&port.address().into()).unwrap();
        patient(socket.into())
    };
    const FULL: &str = "tunnel is full: connections wait in the listen queue";
    for _ in 0..3 {
        let daemon = Daemon::start(&with("accept = { mss = \"1000B\" }"));
        let (inside, inside_far) = (dial(&port), accept(&far));
        let old = dial_from("127.0.0.2");
        daemon.relay.wait_log(FULL);
        // An option that is gone cannot be told to the listener that is there: both wait for the place now, and the client
        // of the old one may not have it any more.
        assert_eq!(daemon.reload(&with("allow = \"127.0.0.1\""))["message"], "reloaded");
        let new = dial_from("127.0.0.1");
        drop((inside, inside_far));
        talk(&new, &accept(&far));
        assert_eq!(read_to_end(&old), (Vec::new(), Ending::Reset));
    }
}

#[test]
fn descriptors_are_shared_out_anew_by_a_reload() {
    let (far, port) = (server(), Port::reserve("127.0.0.1"));
    let (folder, more) = (tempfile::tempdir().unwrap(), [(); 20].map(|()| Port::reserve("127.0.0.1")));
    let one = tunnel("one", port.address(), &far, "");
    std::fs::write(file(&folder), &one).unwrap();
    let relay = Relay::spawn(through_sh("ulimit -n 80 && exec \"$0\" \"$@\"", &folder));
    let daemon = Daemon { relay, folder };
    let others = more.iter().enumerate().map(|(n, port)| tunnel(&format!("more-{n}"), port.address(), &far, ""));
    assert_eq!(daemon.reload(&(one.clone() + &others.collect::<String>()))["message"], "reloaded");
    let flood: Vec<TcpStream> = (0..60).map(|_| dial(&port)).collect();
    drop((accept(&far), flood));
    let mut last = dial(&port);
    last.write_all(b"last").unwrap();
    last.shutdown(Shutdown::Write).unwrap();
    while read_to_end(&accept(&far)).0 != b"last" {} // the flood's flows end before
    let counters = daemon.relay.counters();
    assert_eq!((&counters["accept_errors"], &counters["dials_failed"]), (&0.into(), &0.into()), "{counters}");
    assert_eq!(daemon.reload(&one)["message"], "reloaded");
}

#[test]
fn a_port_in_use_names_errno_and_remedy() {
    let taken = server();
    let address = taken.local_addr().unwrap().to_string();
    let said = longhaul().args(["relay", "--listen", &address, "--to", "127.0.0.1:9"]).output().unwrap();
    let stderr = String::from_utf8(said.stderr).unwrap();
    assert_eq!(said.status.code(), Some(1), "{stderr}");
    let want = format!(
        "EADDRINUSE: Address already in use (who has it: ss -tanp 'sport = :{}')",
        taken.local_addr().unwrap().port()
    );
    assert!(stderr.contains(&want), "{stderr}");
}

#[test]
fn systemd_is_told_ready_reloading_watchdog_and_stopping() {
    let (far, port) = (server(), Port::reserve("127.0.0.1"));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(file(&folder), tunnel("one", port.address(), &far, "")).unwrap();
    let notify = UnixDatagram::bind(folder.path().join("notify")).unwrap();
    notify.set_read_timeout(Some(LONG)).unwrap();
    let mut command = through_sh("WATCHDOG_PID=$$ WATCHDOG_USEC=200000 exec \"$0\" \"$@\"", &folder);
    command.env("NOTIFY_SOCKET", folder.path().join("notify"));
    let mut relay = Relay::spawn(command);
    assert!(wait_notify(&notify, "READY=1").contains("STATUS=1 tunnel, 0 flows\n"));
    wait_notify(&notify, "WATCHDOG=1");
    wait_notify(&notify, "WATCHDOG=1");
    relay.signal("HUP");
    assert!(wait_notify(&notify, "RELOADING=1").contains("MONOTONIC_USEC="));
    assert!(wait_notify(&notify, "READY=1").contains("STATUS=1 tunnel, 0 flows\n"));
    // A port in use is nothing that `longhaul check` could have seen.
    let good = tunnel("one", port.address(), &far, "");
    let taken = server();
    let two = tunnel("two", taken.local_addr().unwrap(), &far, "");
    std::fs::write(file(&folder), good.clone() + &two).unwrap();
    relay.signal("HUP");
    let said = wait_notify(&notify, "READY=1");
    assert!(
        said.contains("STATUS=reload refused: tunnel two: cannot listen on ") && said.contains("EADDRINUSE"),
        "{said}"
    );
    std::fs::write(file(&folder), good).unwrap();
    relay.signal("HUP");
    assert!(wait_notify(&notify, "READY=1").contains("STATUS=1 tunnel, 0 flows\n"));
    let flow = (dial(&port), accept(&far));
    talk(&flow.0, &flow.1);
    wait_notify(&notify, "STATUS=1 tunnel, 1 flow");
    relay.signal("TERM");
    assert!(wait_notify(&notify, "STOPPING=1").contains("STATUS=draining, 1 flow left"));
    // Too late, but `systemctl reload` must not wait for ever.
    relay.signal("HUP");
    assert!(wait_notify(&notify, "RELOADING=1").contains("MONOTONIC_USEC="));
    wait_notify(&notify, "READY=1");
    wait_notify(&notify, "STOPPING=1");
    relay.wait_log("draining: not reloaded");
    talk(&flow.0, &flow.1);
    drop(flow);
    assert_eq!(relay.exit(), Some(0));
}

#[test]
fn a_socket_from_systemd_is_used() {
    let (far, activated) = (server(), server());
    let address = activated.local_addr().unwrap();
    // It was listening before the daemon was there: a client that came early is served.
    let early = patient(TcpStream::connect(address).unwrap());
    let daemon = Daemon::activated(&tunnel("one", address, &far, ""), &activated);
    talk(&early, &accept(&far));
    drop(early);
    assert_eq!(daemon.relay.flow_end(), (4, 4, "finished".into()));
}

#[test]
fn a_connection_from_before_the_daemon_has_its_options() {
    let (far, activated) = (server(), server());
    let address = activated.local_addr().unwrap();
    let early = patient(TcpStream::connect(address).unwrap());
    let keepalive = "accept = { keepalive-idle = \"77s\" }";
    let mut daemon = Daemon::activated(&tunnel("one", address, &far, keepalive), &activated);
    let there = accept(&far);
    talk(&early, &there);
    if let Some(leg) = daemon.relay.other_end(&early) {
        assert_eq!(leg.tcp_keepalive_time().unwrap(), Duration::from_secs(77));
        assert!(leg.tcp_nodelay().unwrap() && leg.out_of_band_inline().unwrap());
        assert_eq!(leg.linger().unwrap(), Some(Duration::ZERO));
    }
    daemon.relay.signal("KILL");
    daemon.relay.exit();
    for end in [&early, &there] {
        assert_eq!(read_to_end(end), (Vec::new(), Ending::Reset));
    }
}

#[test]
fn a_tunnel_of_systemd_s_that_was_removed_is_served_by_the_next_start() {
    let (far, other_far, port) = (server(), server(), Port::reserve("127.0.0.1"));
    let activated = server();
    let address = activated.local_addr().unwrap();
    let other = tunnel("other", port.address(), &other_far, "");
    let both = tunnel("one", address, &far, "") + &other;
    let mut daemon = Daemon::activated(&both, &activated);
    let connect = || patient(TcpStream::connect(address).unwrap());
    let live = (connect(), accept(&far));
    assert_eq!(daemon.reload(&other)["message"], "reloaded");
    talk(&live.0, &live.1);
    // It is systemd's, so it listens on, and who connects would wait for ever.
    reset_by(address);
    assert_eq!(daemon.relay.wait_log("refused: no tunnel listens here")["listen"], address.to_string());
    talk(&dial(&port), &accept(&other_far));
    far.set_nonblocking(true).unwrap();
    assert!(far.accept().is_err(), "the tunnel was removed");
    far.set_nonblocking(false).unwrap();
    daemon.relay.signal("TERM");
    drop(live);
    assert_eq!(daemon.relay.exit(), Some(0));
    let early = connect();
    let _next = Daemon::activated(&both, &activated);
    talk(&early, &accept(&far));
}

#[test]
fn a_bad_option_with_a_socket_from_systemd_starts_nothing_and_loses_nobody() {
    let (far, activated) = (server(), server());
    let address = activated.local_addr().unwrap().to_string();
    let early = patient(TcpStream::connect(&address).unwrap());
    let to = far.local_addr().unwrap().to_string();
    let args = ["relay", "--listen", &address, "--to", &to];
    for (bad, code, why) in [
        ("accept.congestion=no-such", 1, r#"setsockopt(TCP_CONGESTION, \"no-such\"): ENOENT"#),
        ("accept.no-such=1", 2, "there is no such option"),
    ] {
        let said = activated_by(&activated, &[&args[..], &["--set", bad]].concat()).output().unwrap();
        let stderr = String::from_utf8(said.stderr).unwrap();
        assert_eq!(said.status.code(), Some(code), "{stderr}");
        assert!(stderr.contains(why), "{stderr}");
    }
    let relay = Relay::spawn(activated_by(&activated, &args));
    talk(&early, &accept(&far));
    drop(early);
    assert_eq!(relay.flow_end(), (4, 4, "finished".into()));
}

#[test]
fn a_socket_from_systemd_without_a_tunnel_resets_until_it_has_one() {
    let (far, activated, port) = (server(), server(), Port::reserve("127.0.0.1"));
    let address = activated.local_addr().unwrap();
    let other = tunnel("other", port.address(), &far, "");
    let both = tunnel("one", address, &far, "") + &other;
    let connect = || patient(TcpStream::connect(address).unwrap());
    let early = connect();
    let daemon = Daemon::activated(&other, &activated);
    const NO_TUNNEL: &str = "refused: no tunnel listens here";
    assert_eq!(read_to_end(&early), (Vec::new(), Ending::Reset));
    assert_eq!(daemon.relay.wait_log(NO_TUNNEL)["listen"], address.to_string());
    for _ in 0..3 {
        assert_eq!(daemon.reload(&both)["message"], "reloaded");
        let live = (connect(), accept(&far));
        assert_eq!(daemon.reload(&other)["message"], "reloaded");
        reset_by(address);
        talk(&live.0, &live.1);
    }
    assert_eq!(daemon.reload("not toml at all [")["message"], "reload refused: the old configuration stays");
    reset_by(address);
}

#[test]
fn a_refused_reload_changes_no_listener_and_no_socket_of_systemd_s() {
    let (far, activated, taken, port) = (server(), server(), server(), Port::reserve("127.0.0.1"));
    let both = |more| {
        tunnel("passed", activated.local_addr().unwrap(), &far, more) + &tunnel("bound", port.address(), &far, more)
    };
    let daemon = Daemon::activated(&both(""), &activated);
    // Where one address of it is somebody else's.
    let everywhere = SocketAddr::from(([0, 0, 0, 0], port.address().port()));
    let _foreign = TcpListener::bind(("127.0.0.2", everywhere.port())).unwrap();
    // The time until keepalive, and whether another listener is let in beside: accepted sockets have it of their listener.
    let leg = |address| {
        let flow = (patient(TcpStream::connect(address).unwrap()), accept(&far));
        talk(&flow.0, &flow.1);
        let leg = daemon.relay.other_end(&flow.0)?;
        Some((leg.tcp_keepalive_time().unwrap().as_secs(), leg.reuse_port().unwrap()))
    };
    let legs = || [leg(activated.local_addr().unwrap()), leg(port.address())];
    if legs().contains(&None) {
        return skip("pidfd_getfd(2) is not allowed here");
    }
    let new = "accept = { keepalive-idle = \"77s\" }";
    for bad in [
        both(new) + &tunnel("two", taken.local_addr().unwrap(), &far, ""),
        tunnel("passed", activated.local_addr().unwrap(), &far, new) + &tunnel("bound", everywhere, &far, ""),
        both(new) + &tunnel("two", Port::reserve("127.0.0.1").address(), &far, "accept = { congestion = \"no-such\" }"),
    ] {
        assert_eq!(daemon.reload(&bad)["message"], "reload refused: the old configuration stays", "{bad}");
        assert_eq!(legs(), [Some((60, false)); 2], "half of a bad file was taken: {bad}");
    }
    assert_eq!(daemon.reload(&both(new))["message"], "reloaded");
    assert_eq!(legs(), [Some((77, false)); 2]);
}

/// `longhaul` with `args`, started by systemd's protocol with `socket`, which stays ours as well.
fn activated_by(socket: &TcpListener, args: &[&str]) -> Command {
    let mut command = Command::new("sh");
    // Descriptor 3 is the first that is passed; the pid in the environment is the program's own.
    command.args(["-c", "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" \"$@\" 3<&0 </dev/null"]);
    command.args([env!("CARGO_BIN_EXE_longhaul"), "--log-format", "json"]).args(args);
    command.stdin(Stdio::from(OwnedFd::from(socket.try_clone().expect("a descriptor"))));
    command
}

/// `longhaul run` by `script`, a shell's: the pid that systemd puts into the environment is the program's own.
fn through_sh(script: &str, folder: &TempDir) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_longhaul"), "--log-format", "json", "run", "-c"]).arg(file(folder));
    command
}

fn wait_notify(socket: &UnixDatagram, wanted: &str) -> String {
    loop {
        let mut bytes = [0; 4096];
        let got = uninterrupted(|| socket.recv(&mut bytes)).unwrap_or_else(|err| panic!("no {wanted}: {err}"));
        let text = String::from_utf8_lossy(&bytes[..got]).into_owned();
        if text.lines().any(|line| line == wanted) {
            return text;
        }
    }
}
