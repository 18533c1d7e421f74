//! Tests a stderr that fails or blocks: only log lines may be lost. Also tests the fields of log lines and their rate limit.

use crate::harness::*;
use rustix::event::PollFlags;
use rustix::pipe::{fcntl_getpipe_size, pipe};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::Command;

/// A relay whose log the test cannot read, and the server behind it.
struct Mute {
    process: Running,
    port: Port,
    server: TcpListener,
}

impl Mute {
    fn start(stderr: OwnedFd, flags: &[&str]) -> Mute {
        let server = server();
        let port = Port::reserve("127.0.0.1");
        let (listen, to) = (port.address().to_string(), server.local_addr().unwrap().to_string());
        let mut command = longhaul();
        command.args(["relay", "--listen", &listen, "--to", &to]).args(flags).stderr(stderr);
        Mute { process: Running(command.spawn().expect("longhaul starts")), port, server }
    }

    /// Connects to the relay, as soon as it listens.
    fn dial(&mut self) -> TcpStream {
        // Without a log to wait for, tries until the connection succeeds.
        patient(wait_for("the relay listens", || {
            assert_eq!(self.process.0.try_wait().unwrap(), None, "the relay has ended");
            TcpStream::connect(self.port.address())
        }))
    }

    /// Carries a flow with `bytes` up and an answer down, to the end of both directions.
    fn carry(&mut self, bytes: &[u8]) {
        let client = self.dial();
        let server = patient(self.server.accept().expect("the relay dials").0);
        pass_all(&client, &server, bytes);
        (&server).write_all(b"done").unwrap();
        drop(server);
        assert_eq!(read_to_end(&client), (b"done".to_vec(), Ending::Fin));
    }

    /// Sends SIGTERM and waits for the end of the relay; returns the exit code.
    fn terminate(&mut self) -> Option<i32> {
        let process = pidfd_open(Pid::from_child(&self.process.0), PidfdFlags::empty()).unwrap();
        assert!(Command::new("kill").arg(self.process.0.id().to_string()).status().expect("kill runs").success());
        wait_for_events(&process, PollFlags::IN); // pidfd_open(2): readable when it has ended
        self.process.0.wait().unwrap().code()
    }
}

#[test]
fn a_log_on_a_full_disk_ends_no_flow() {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut relay = Mute::start(full.into(), &[]);
    relay.carry(&pattern(30, 3_000_000));
    relay.carry(&pattern(31, 3_000_000));
    assert_eq!(relay.terminate(), Some(0));
}

#[test]
fn a_log_whose_reader_is_gone_ends_no_listener() {
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    let mut relay = Mute::start(writer, &["--allow", "192.0.2.0/24"]);
    for _ in 0..20 {
        assert_eq!(read_to_end(&relay.dial()), (Vec::new(), Ending::Reset));
    }
    assert_eq!(relay.terminate(), Some(0));
}

/// Returns the ends of a pipe into which not even one log line fits.
fn full_pipe() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = pipe().unwrap();
    let mut writer = File::from(writer);
    let room = fcntl_getpipe_size(&writer).unwrap();
    writer.write_all(&vec![b'\n'; room]).unwrap();
    (reader, writer.into())
}

#[test]
fn a_log_that_nobody_reads_delays_no_flow() {
    let (reader, writer) = full_pipe();
    let mut relay = Mute::start(writer, &[]);
    for flow in 0..300 {
        relay.carry(&pattern(flow, 10));
    }
    // Once somebody reads, every line arrives, to the last one before the exit.
    let log = std::thread::spawn(|| std::io::read_to_string(File::from(reader)).unwrap());
    assert_eq!(relay.terminate(), Some(0));
    let log = log.join().unwrap();
    assert_eq!(log.matches("\"flow ended\"").count(), 300);
    assert!(log.lines().last().unwrap().contains("\"counters"), "{:?}", log.lines().last());
}

#[test]
fn the_line_of_a_flow_omits_fields_without_a_value() {
    let mut path = Path::new(1, &[]);
    let (client, server) = path.connect();
    talk(&client, &server);
    drop((client, server));
    let end = path.relays[0].wait_log("flow ended");
    assert!(end["next_hop"].is_string() && end["next_hop_address"].is_string(), "{end}");
    assert!(end["accept_rtt_ms"].as_f64() > Some(0.0) && end["dial_rtt_ms"].as_f64() > Some(0.0), "{end}");
    // A flow of a few bytes has no rate, and the relay does not read its congestion control.
    let absent = |end: &serde_json::Value, fields: &[&str]| fields.iter().all(|field| end.get(field).is_none());
    let of_bulk = |leg: &str| ["delivery_mbytes_per_s", "congestion"].map(|field| format!("{leg}_{field}"));
    for leg in ["accept", "dial"] {
        assert!(absent(&end, &of_bulk(leg).each_ref().map(String::as_str)), "{end}");
    }
    path.drop_server();
    reset_by(path.entry());
    let end = path.relays[0].wait_log("flow ended");
    assert_eq!(end["how"], "dial failed");
    assert!(
        absent(&end, &["next_hop", "next_hop_address", "dial_local", "dial_rtt_ms", "dial_retrans_bytes"]),
        "{end}"
    );
}

/// The log tells the number of failures in a burst, even if no later line follows.
#[test]
fn lines_held_back_in_a_burst_are_counted_after_it() {
    for (refusing, message, line) in
        [(true, "refused: not in `allow`", "refused"), (false, "dial failed", "dial failed")]
    {
        const BURST: u64 = 30;
        let mut path = Path::new(1, if refusing { &["--allow", "192.0.2.0/24"] } else { &[] });
        path.drop_server();
        for _ in 0..BURST {
            reset_by(path.entry());
        }
        let mut told = 0;
        while told < BURST {
            let found = path.relays[0].wait_log_any(&[message, "lines held back"]);
            let more = found["more"].as_u64().unwrap();
            told += more + u64::from(found["message"] == message);
            assert!(found["message"] == message || found["line"] == line && more > 0, "{found}");
        }
        assert_eq!(told, BURST);
    }
}

#[test]
fn debug_level_logs_the_begin_and_the_dial_of_a_flow() {
    let path = Path::new(1, &["--log-level", "debug"]);
    let (client, server) = path.connect();
    talk(&client, &server);
    let peer = client.local_addr().unwrap().to_string();
    let (began, connected) = (path.relays[0].wait_log("flow began"), path.relays[0].wait_log("flow connected"));
    assert_eq!((&began["peer"], &began["flow"]), (&peer.clone().into(), &connected["flow"]));
    assert_eq!((&connected["peer"], &connected["tunnel"]), (&peer.into(), &began["tunnel"]));
    let to = server.local_addr().unwrap().to_string();
    assert_eq!((&connected["next_hop"], &connected["next_hop_address"]), (&to.clone().into(), &to.into()));
    assert_eq!(connected["dial_local"], server.peer_addr().unwrap().to_string());
    assert!(connected["dial_ms"].as_f64() > Some(0.0), "{connected}");
}

/// This also holds if the kernel has already closed the legs, because their peers have reset them.
#[test]
fn dial_local_of_the_near_line_is_peer_of_the_far_line() {
    let path = Path::new(2, &[]);
    let ends: [fn(TcpStream, TcpStream); 3] =
        [|client, server| drop((client, server)), |client, _server| reset(client), |_client, server| reset(server)];
    for end in ends {
        let (client, server) = path.connect();
        talk(&client, &server);
        end(client, server);
        let [near, far] = [0, 1].map(|relay: usize| path.relays[relay].wait_log("flow ended"));
        assert!(near["dial_local"].is_string() && near["dial_local"] == far["peer"], "{near} {far}");
    }
}

#[test]
fn usr2_is_ignored_usr1_works_during_a_drain_and_a_second_sigterm_cuts_with_reset() {
    let mut path = Path::new(1, &[]);
    let (client, server) = path.connect();
    talk(&client, &server);
    let relay = &mut path.relays[0];
    let ignored = "SIGUSR2 is ignored; SIGUSR1 writes the counters, SIGHUP reloads, SIGTERM drains";
    relay.signal("USR2");
    relay.wait_log(ignored);
    relay.signal("TERM");
    relay.wait_log("draining: no new connections; a second signal cuts the flows");
    relay.signal("USR2");
    relay.wait_log(ignored);
    let counters = relay.counters();
    assert_eq!((&counters["flows_now"], &counters["reset"]), (&1.into(), &0.into()), "{counters}");
    talk(&client, &server);
    relay.signal("TERM");
    assert_eq!(relay.flow_end(), (8, 8, "cut by drain or exit".into()));
    [&client, &server].iter().for_each(|end| assert_eq!(read_to_end(end), (Vec::new(), Ending::Reset)));
    let counters = relay.wait_log("counters");
    assert_eq!((&counters["cut"], &counters["reset"]), (&1.into(), &1.into()), "{counters}");
    assert_eq!(relay.exit(), Some(0));
}

#[test]
fn lines_held_back_are_counted_before_the_exit() {
    let mut path = Path::new(1, &["--allow", "192.0.2.0/24"]);
    for _ in 0..3 {
        reset_by(path.entry());
    }
    path.relays[0].signal("TERM");
    let mut told = 0;
    loop {
        let found = path.relays[0].wait_log_any(&["refused: not in `allow`", "lines held back", "counters"]);
        told += match found["message"].as_str() {
            Some("counters") => break,
            Some("lines held back") => found["more"].as_u64().unwrap(),
            _ => found["more"].as_u64().unwrap() + 1,
        };
    }
    assert_eq!(told, 3);
    assert_eq!(path.relays[0].exit(), Some(0));
}

#[test]
fn a_log_that_nobody_reads_does_not_block_the_exit() {
    let (_reader, writer) = full_pipe();
    let mut relay = Mute::start(writer, &[]);
    relay.carry(b"a few bytes");
    assert_eq!(relay.terminate(), Some(0));
}

/// Where no probe and no check looks, the outage has a line at its beginning and one at its end.
#[test]
fn a_next_hop_that_fails_leaves_a_line_and_another_once_it_answers() {
    let far = Port::reserve("127.0.0.1");
    let watched = Watched::start_to(&[far.address()], "");
    let refused = || assert_eq!(read_to_end(&dial(&watched.port)).1, Ending::Reset);
    (0..3).for_each(|_| refused());
    let line = watched.daemon.relay.wait_log("problem found");
    let what = format!("{}: its last 3 dials failed (refused)", far.address());
    assert_eq!((&line["tunnel"], &line["stage"]), (&"one".into(), &"next hop".into()));
    assert!(line["why"].as_str().unwrap().starts_with(&what), "{line}");
    let server = listen(far.address());
    talk(&dial(&watched.port), &accept(&server));
    let line = watched.daemon.relay.wait_log("problem ended");
    assert!(line["was"].as_str().unwrap().starts_with(&what) && line["seconds"].is_u64(), "{line}");
}
