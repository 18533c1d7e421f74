//! Tests the daemon: reload, and the protocol with systemd.

mod drain;
mod ha;
mod logs;
mod random_reload;
mod reload;
mod resources;
pub(crate) mod site;

use crate::harness::*;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
fn a_reload_adds_and_removes_tunnels_and_keeps_live_flows() {
    let (old, new) = (server(), server());
    let (kept, removed, added) = (Port::reserve("127.0.0.1"), Port::reserve("127.0.0.1"), Port::reserve("127.0.0.1"));
    let before = tunnel("kept", kept.address(), &old, "") + &tunnel("removed", removed.address(), &old, "");
    let daemon = Daemon::start(&before);
    daemon.relay.wait_log("listening");
    // One after the other, because the daemon would dial for both tunnels at once.
    let (one, one_far) = (dial(&kept), accept(&old));
    let (two, two_far) = (dial(&removed), accept(&old));
    let bytes = pattern(20, 20_000_000);
    std::thread::scope(|scope| {
        scope.spawn(|| send_all(&one, &bytes));
        // Reloads in the middle of the transfer.
        let mut first = vec![0; 1_000_000];
        (&one_far).read_exact(&mut first).unwrap();
        let result =
            daemon.reload(&(tunnel("kept", kept.address(), &new, "") + &tunnel("added", added.address(), &new, "")));
        assert_eq!(result["message"], "reloaded");
        let (rest, ending) = read_to_end(&one_far);
        assert_same(&[first, rest].concat(), &bytes);
        assert_eq!(ending, Ending::Fin);
    });
    talk(&two, &two_far);
    // The next connection goes to the next hop of the new file. The removed tunnel no longer listens.
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
        let result = daemon.reload(&bad);
        assert_eq!(result["message"], "reload refused: the old configuration stays", "{bad}");
        talk(&dial(&port), &accept(&old));
        assert!(TcpStream::connect(other.address()).is_err(), "half of a bad file took effect");
    }
    assert_eq!(daemon.reload(&good)["message"], "reloaded");
    talk(&dial(&port), &accept(&new));
}

/// Replaces the file at `path` by a FIFO.
fn make_fifo(path: &std::path::Path) {
    std::fs::remove_file(path).unwrap();
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn a_file_that_blocks_on_read_delays_no_signal() {
    let (old, new, port) = (server(), server(), Port::reserve("127.0.0.1"));
    let mut daemon = Daemon::start(&tunnel("one", port.address(), &old, ""));
    let fifo = daemon.file();
    make_fifo(&fifo);
    // A read of the FIFO ends only when every writer has closed it (fifo(7)).
    let begin = || {
        daemon.relay.signal("HUP");
        // ENXIO until the daemon has opened the FIFO.
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
    // The next SIGHUP abandons the read, and so does the next SIGTERM.
    let _never = begin();
    std::fs::remove_file(&fifo).unwrap();
    assert_eq!(daemon.reload(&tunnel("one", port.address(), &old, ""))["message"], "reloaded");
    talk(&dial(&port), &accept(&old));
    make_fifo(&fifo);
    let _never = begin();
    daemon.relay.signal("TERM");
    daemon.relay.wait_log("draining: not reloaded");
    assert_eq!(daemon.relay.exit(), Some(0));
}

#[test]
fn a_file_that_blocks_on_open_keeps_few_threads_and_is_read_later() {
    let (old, new, port) = (server(), server(), Port::reserve("127.0.0.1"));
    let daemon = Daemon::start(&tunnel("one", port.address(), &old, ""));
    let fifo = daemon.file();
    make_fifo(&fifo);
    // Two pending signals of one kind may merge into one, so the loop waits for each answer. Nobody writes to the FIFO, so each
    // open(2) blocks.
    let mut reads = 0;
    let no_thread = loop {
        daemon.relay.signal("HUP");
        let lines = daemon.relay.lines_to_counters();
        if let Some(line) = lines.into_iter().find(|line| line["message"] == NO_THREAD) {
            break line;
        }
        reads += 1;
        assert!(reads < 100, "every SIGHUP blocks another thread");
    };
    assert_eq!(no_thread["file"], fifo.display().to_string());
    // A writer wakes all blocked readers. The last of them reads the file again, which by then is a regular file.
    let writer = OpenOptions::new().write(true).open(&fifo).unwrap();
    std::fs::remove_file(&fifo).unwrap();
    std::fs::write(&fifo, tunnel("one", port.address(), &new, "")).unwrap();
    drop(writer);
    daemon.relay.wait_log("reloaded");
    talk(&dial(&port), &accept(&new));

    const NO_THREAD: &str = "reload: the file does not answer; it is read again once it does";
}

#[test]
fn changed_options_are_applied_to_the_running_listener() {
    for ip in ["127.0.0.1", "[::1]"] {
        let (far, port) = (server(), Port::reserve(ip));
        let with = |mss: u32| {
            let accept = format!("accept = {{ defer-accept = \"60s\", mss = \"{mss}B\" }}");
            tunnel("one", port.address(), &far, &accept)
        };
        let daemon = Daemon::start(&with(1000));
        // The listener treats the handshake as incomplete until the first byte comes (tcp(7) TCP_DEFER_ACCEPT).
        let early = dial(&port);
        assert_eq!(daemon.reload(&with(500))["message"], "reloaded");
        quiet_for(&early, Duration::from_millis(1500)); // a replaced listener would be closed after a second
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
fn a_permit_that_a_replaced_listener_does_not_use_goes_to_the_new_one() {
    let (far, port) = (server(), Port::reserve("127.0.0.1"));
    let with = |more: &str| tunnel("one", port.address(), &far, &format!("max_flows = 1\n{more}"));
    let dial_from = |ip: &str| dial_from(ip, port.address()).unwrap();
    const FULL: &str = "tunnel is full: connections wait in the listen queue";
    for _ in 0..3 {
        let daemon = Daemon::start(&with("accept = { mss = \"1000B\" }"));
        let (inside, inside_far) = (dial(&port), accept(&far));
        let old = dial_from("127.0.0.2");
        daemon.relay.wait_log(FULL);
        // A running listener cannot drop an option, so it is replaced. Now both listeners wait for the permit, and the client
        // of the old listener is no longer allowed.
        assert_eq!(daemon.reload(&with("allow = \"127.0.0.1\""))["message"], "reloaded");
        let new = dial_from("127.0.0.1");
        drop((inside, inside_far));
        talk(&new, &accept(&far));
        assert_eq!(read_to_end(&old), (Vec::new(), Ending::Reset));
    }
}

#[test]
fn a_reload_redistributes_the_descriptors() {
    let (far, port) = (server(), Port::reserve("127.0.0.1"));
    let more = [(); 20].map(|()| Port::reserve("127.0.0.1"));
    let one = tunnel("one", port.address(), &far, "");
    let daemon = Daemon::start_by(&one, |file| Relay::spawn(longhaul_after("ulimit -n 80", &["run", "-c", file])));
    let others = more.iter().enumerate().map(|(n, port)| tunnel(&format!("more-{n}"), port.address(), &far, ""));
    assert_eq!(daemon.reload(&(one.clone() + &others.collect::<String>()))["message"], "reloaded");
    let flood: Vec<TcpStream> = (0..60).map(|_| dial(&port)).collect();
    drop((accept(&far), flood));
    let last = dial(&port);
    send_all(&last, b"last");
    while read_to_end(&accept(&far)).0 != b"last" {} // the flows of the flood come first
    let counters = daemon.relay.counters();
    assert_eq!((&counters["accept_errors"], &counters["dials_failed"]), (&0.into(), &0.into()), "{counters}");
    assert_eq!(daemon.reload(&one)["message"], "reloaded");
}

#[test]
fn systemd_is_told_ready_reloading_watchdog_and_stopping() {
    let (far, port) = (server(), Port::reserve("127.0.0.1"));
    let folder = tempfile::tempdir().unwrap();
    let notify = UnixDatagram::bind(folder.path().join("notify")).unwrap();
    notify.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut daemon = Daemon::start_by(&tunnel("one", port.address(), &far, ""), |file| {
        let mut command = longhaul_after("export WATCHDOG_PID=$$ WATCHDOG_USEC=200000", &["run", "-c", file]);
        command.env("NOTIFY_SOCKET", folder.path().join("notify"));
        Relay::spawn(command)
    });
    assert!(wait_notify(&notify, "READY=1").contains("STATUS=1 tunnel, 0 flows\n"));
    wait_notify(&notify, "WATCHDOG=1");
    wait_notify(&notify, "WATCHDOG=1");
    daemon.relay.signal("HUP");
    assert!(wait_notify(&notify, "RELOADING=1").contains("MONOTONIC_USEC="));
    assert!(wait_notify(&notify, "READY=1").contains("STATUS=1 tunnel, 0 flows\n"));
    // `longhaul check` could not have seen that the port is in use.
    let good = tunnel("one", port.address(), &far, "");
    let taken = server();
    let two = tunnel("two", taken.local_addr().unwrap(), &far, "");
    daemon.write(&(good.clone() + &two));
    daemon.relay.signal("HUP");
    let text = wait_notify(&notify, "READY=1");
    assert!(
        text.contains("STATUS=reload refused: tunnel two: cannot listen on ") && text.contains("EADDRINUSE"),
        "{text}"
    );
    daemon.write(&good);
    daemon.relay.signal("HUP");
    assert!(wait_notify(&notify, "READY=1").contains("STATUS=1 tunnel, 0 flows\n"));
    let flow = (dial(&port), accept(&far));
    talk(&flow.0, &flow.1);
    wait_notify(&notify, "STATUS=1 tunnel, 1 flow");
    daemon.relay.signal("TERM");
    assert!(wait_notify(&notify, "STOPPING=1").contains("STATUS=draining, 1 flow left"));
    // A drain does not reload, but it must answer, or `systemctl reload` would wait for ever.
    daemon.relay.signal("HUP");
    assert!(wait_notify(&notify, "RELOADING=1").contains("MONOTONIC_USEC="));
    wait_notify(&notify, "READY=1");
    wait_notify(&notify, "STOPPING=1");
    daemon.relay.wait_log("draining: not reloaded");
    talk(&flow.0, &flow.1);
    drop(flow);
    assert_eq!(daemon.relay.exit(), Some(0));
}

#[test]
fn a_connection_accepted_before_startup_gets_the_options() {
    let (far, activated) = (server(), server());
    let address = activated.local_addr().unwrap();
    let early = patient(TcpStream::connect(address).unwrap());
    let keepalive = "accept = { keepalive-idle = \"77s\" }";
    let mut daemon = start_activated(&tunnel("one", address, &far, keepalive), &activated);
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
fn a_failed_start_with_a_socket_from_systemd_loses_no_waiting_client() {
    let (far, activated) = (server(), server());
    let address = activated.local_addr().unwrap().to_string();
    let early = patient(TcpStream::connect(&address).unwrap());
    let to = far.local_addr().unwrap().to_string();
    let args = ["relay", "--listen", &address, "--to", &to];
    for (bad, code, why) in [
        ("accept.congestion=no-such", 1, r#"setsockopt(TCP_CONGESTION, \"no-such\"): ENOENT"#),
        ("accept.no-such=1", 2, "there is no such option"),
    ] {
        let output = activated_by(&activated, &[&args[..], &["--set", bad]].concat()).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        assert!(stderr.contains(why), "{stderr}");
    }
    let relay = Relay::spawn(activated_by(&activated, &args));
    talk(&early, &accept(&far));
    drop(early);
    assert_eq!(relay.flow_end(), (4, 4, "finished".into()));
}

#[test]
fn a_socket_from_systemd_without_a_tunnel_resets_until_it_has_one_or_the_daemon_has_ended() {
    let (far, activated, port) = (server(), server(), Port::reserve("127.0.0.1"));
    let address = activated.local_addr().unwrap();
    let other = tunnel("other", port.address(), &far, "");
    let both = tunnel("one", address, &far, "") + &other;
    let connect = || patient(TcpStream::connect(address).unwrap());
    let early = connect();
    let mut daemon = start_activated(&other, &activated);
    // systemd keeps the socket listening, so the daemon must reset clients that would otherwise wait for ever.
    assert_eq!(read_to_end(&early), (Vec::new(), Ending::Reset));
    assert_eq!(daemon.relay.wait_log("refused: no tunnel listens here")["listen"], address.to_string());
    for _ in 0..3 {
        assert_eq!(daemon.reload(&both)["message"], "reloaded");
        let live = (connect(), accept(&far));
        assert_eq!(daemon.reload(&other)["message"], "reloaded");
        reset_by(address);
        talk(&live.0, &live.1);
    }
    assert_eq!(daemon.reload("not toml at all [")["message"], "reload refused: the old configuration stays");
    reset_by(address);
    assert_not_dialled(&far);
    talk(&dial(&port), &accept(&far));
    daemon.relay.signal("TERM");
    assert_eq!(daemon.relay.exit(), Some(0));
    // A client that comes meanwhile is served by the next daemon.
    let early = connect();
    let _next = start_activated(&both, &activated);
    talk(&early, &accept(&far));
}

#[test]
fn a_refused_reload_changes_no_listener() {
    let (far, activated, taken, port) = (server(), server(), server(), Port::reserve("127.0.0.1"));
    let both = |more| {
        tunnel("passed", activated.local_addr().unwrap(), &far, more) + &tunnel("bound", port.address(), &far, more)
    };
    let daemon = start_activated(&both(""), &activated);
    // The daemon cannot listen on all addresses of this port, because this listener has one of them.
    let everywhere = SocketAddr::from(([0, 0, 0, 0], port.address().port()));
    let _foreign = TcpListener::bind(("127.0.0.2", everywhere.port())).unwrap();
    // Returns two options that an accepted socket inherits from its listener: the time until keepalive, and SO_REUSEPORT.
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
        assert_eq!(legs(), [Some((60, false)); 2], "half of a bad file took effect: {bad}");
    }
    assert_eq!(daemon.reload(&both(new))["message"], "reloaded");
    assert_eq!(legs(), [Some((77, false)); 2]);
}

/// Starts a daemon that gets `socket` from systemd.
fn start_activated(config: &str, socket: &TcpListener) -> Daemon {
    Daemon::start_by(config, |file| Relay::spawn(activated_by(socket, &["run", "-c", file])))
}

/// Returns the command that starts `longhaul` with `args` and passes it a copy of `socket` by systemd's protocol.
fn activated_by(socket: &TcpListener, args: &[&str]) -> Command {
    // sd_listen_fds(3): descriptor 3 is the first one passed, and LISTEN_PID must be the program's own pid.
    let mut command = longhaul_after("export LISTEN_PID=$$ LISTEN_FDS=1 && exec 3<&0 </dev/null", args);
    command.stdin(Stdio::from(OwnedFd::from(socket.try_clone().expect("a descriptor"))));
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
