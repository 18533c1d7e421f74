//! Tests the control socket and the HTTP listener, and the commands that use them.

pub(crate) mod browser;
mod curves;
mod dashboard;
mod gain;
pub(crate) mod metrics;
mod status;
mod top;

use crate::accept::limits::readable_copy;
use crate::harness::*;
use serde_json::Value;
use socket2::{Domain, Socket, Type};
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Keys of a tunnel whose next hop is checked often. Its state changes after one check.
const CHECKED: &str = "check = \"tcp\"\ncheck_interval = \"100ms\"\nrise = 1\nfall = 1\n";

#[test]
fn the_control_socket_is_the_owner_s_alone_and_goes_with_the_process() {
    let mut admin = Watched::start("");
    let found = fs::symlink_metadata(admin.socket()).unwrap();
    assert!(found.file_type().is_socket());
    assert_eq!(found.permissions().mode() & 0o7777, 0o600);
    assert_eq!(admin.get("/healthz"), (200, "ok\n".into()));
    admin.daemon.relay.signal("TERM");
    assert_eq!(admin.daemon.relay.exit(), Some(0));
    assert!(!admin.socket().exists());
}

#[test]
fn another_user_is_refused_even_if_the_file_lets_him_in() {
    if !longhaul_sys::netns::is_root() {
        return skip("needs root, to run a program as another user");
    }
    let admin = Watched::start("");
    let copy = readable_copy();
    let as_nobody = || {
        let socket = admin.socket().display().to_string();
        let mut command = Command::new(copy.path().join("longhaul"));
        command.args(["status", "--admin", &socket]).uid(65534).gid(65534);
        let output = command.output().unwrap();
        assert_eq!((output.status.code(), stdout(&output)), (Some(1), String::new()), "{output:?}");
        stderr(&output)
    };
    fs::set_permissions(admin.daemon.folder.path(), Permissions::from_mode(0o755)).unwrap();
    assert!(as_nobody().contains("Permission denied"));
    fs::set_permissions(admin.socket(), Permissions::from_mode(0o666)).unwrap();
    as_nobody();
    assert_eq!(admin.status()["admin"]["refused"], 1);
}

#[test]
fn a_default_socket_is_tried_and_its_absence_is_one_warning() {
    let (folder, far) = (tempfile::tempdir().unwrap(), server());
    let start = |name: &str| {
        let port = Port::reserve("127.0.0.1");
        let (listen, to) = (port.address().to_string(), far.local_addr().unwrap().to_string());
        let mut command = longhaul();
        command.args(["relay", "--name", name, "--listen", &listen, "--to", &to]);
        // The folder does not exist yet.
        command.env(RUNTIME_DIRECTORY, folder.path().join("longhaul"));
        Relay::spawn(command)
    };
    let first = start("one");
    first.wait_log("control socket is open");
    let socket = folder.path().join("longhaul/one.sock");
    assert_eq!(by_socket(&socket, "GET", "/readyz"), (200, "ready\n".into()));
    assert_eq!(by_socket(&socket, "POST", "/reload").0, 409, "it has no file");
    let second = start("one");
    let warning = second.wait_line("a warning", |message| message.starts_with("no control socket"));
    assert!(warning["err"].as_str().unwrap().contains("another process listens"), "{warning}");
    drop((first, second));
}

#[test]
fn the_http_listener_reads_and_changes_nothing() {
    let admin = Watched::start("");
    let http = admin.http.address();
    assert_eq!(by_http(http, "GET", "/healthz"), (200, "ok\n".into()));
    assert_eq!(by_http(http, "GET", "/readyz"), (200, "ready\n".into()));
    assert_eq!(by_http(http, "HEAD", "/readyz"), (200, String::new()));
    let (code, body) = by_http(http, "GET", "/status.json");
    let status: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((code, &status["phase"], &status["pid"]), (200, &"serving".into(), &admin.daemon.relay.id().into()));
    let (client, server) = admin.flow();
    for path in ["/reload", "/flows/1/kill"] {
        assert_eq!(by_http(http, "POST", path).0, 403, "{path}");
        assert_eq!(by_http(http, "GET", path).0, 403, "{path}");
    }
    assert_eq!(by_http(http, "GET", "/no-such-path").0, 404);
    assert_eq!(by_http(http, "DELETE", "/status.json").0, 405);
    talk(&client, &server);
}

/// A page on the web may give its own name the address of this host. Load balancers may ask for the health by any name.
#[test]
fn a_name_that_is_not_this_machine_s_reads_nothing() {
    let admin = Watched::start("");
    let ask = |path: &str, host: &str| answer_to(&admin, path, host, false);
    let own = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert!(ask("/status.json", own.trim()).starts_with("HTTP/1.1 200 "), "{own}");
    assert!(ask("/status.json", "localhost:1").starts_with("HTTP/1.1 200 "));
    let remedy = r#"write hosts = [\"evil.example\"] below [admin], and reload"#;
    let refused = ask("/status.json", "evil.example:9650");
    assert!(refused.starts_with("HTTP/1.1 421 ") && refused.contains(remedy), "{refused}");
    assert!(ask("/metrics", "evil.example").starts_with("HTTP/1.1 421 "));
    assert!(ask("/readyz", "evil.example").starts_with("HTTP/1.1 200 "));
    let known = admin.text("", "").replace("[admin]\n", "[admin]\nhosts = [\"evil.example\"]\n");
    assert_eq!(admin.daemon.reload(&known)["message"], "reloaded");
    assert!(ask("/metrics", "EVIL.example.").starts_with("HTTP/1.1 200 "));
    assert!(ask("/metrics", "").starts_with("HTTP/1.1 400 "), "nothing to write into hosts");
}

/// As `printf .. | socat` does.
#[test]
fn a_client_that_ends_behind_its_request_gets_its_answer() {
    let admin = Watched::start("");
    for path in ["/status.json", "/metrics", "/readyz", "/"].repeat(10) {
        assert!(answer_to(&admin, path, "localhost", true).starts_with("HTTP/1.1 200 "), "{path}");
    }
}

/// Asks the HTTP listener by the name `host`, and ends behind the request if `ends`. Returns the answer.
fn answer_to(admin: &Watched, path: &str, host: &str, ends: bool) -> String {
    let stream = patient(TcpStream::connect(admin.http.address()).unwrap());
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    (&stream).write_all(request.as_bytes()).unwrap();
    if ends {
        stream.shutdown(Shutdown::Write).unwrap();
    }
    String::from_utf8(read_to_end(&stream).0).unwrap()
}

#[test]
fn the_manual_has_each_thread() {
    const MANUAL: &str = include_str!("../../../../../docs/design/data-path.md");
    let admin = Watched::start("bandwidth = \"1Gbit/s\"");
    let (client, server) = admin.flow();
    talk(&client, &server);
    // A thread may end meanwhile, as that of the documents does when nobody asks.
    let name = |task: fs::DirEntry| Some(fs::read_to_string(task.path().join("comm")).ok()?.trim().to_owned());
    let names = || {
        assert_eq!(admin.get("/status.json").0, 200);
        let tasks = fs::read_dir(format!("/proc/{}/task", admin.daemon.relay.id())).unwrap();
        tasks.filter_map(|task| name(task.ok()?)).collect::<Vec<String>>()
    };
    let has_all = |names: &Vec<String>| {
        ["longhaul-admin", "longhaul-docs", "longhaul-caps"]
            .iter()
            .all(|thread| names.iter().any(|name| name == thread))
    };
    let names = wait_for_value("the threads", names, has_all);
    for name in names.iter().filter(|name| *name != "longhaul") {
        assert!(MANUAL.contains(&format!("| `{name}` |")), "{names:?}");
    }
}

#[test]
fn a_status_names_the_cap_that_limits_a_flow() {
    let admin = Watched::start("");
    admin.reload_with("bandwidth = \"8Mbit/s\"", "");
    let (client, server) = admin.flow();
    std::thread::scope(|scope| {
        scope.spawn(|| while (&client).write_all(&[0; 65_536]).is_ok() {});
        scope.spawn(|| while (&server).read(&mut [0; 65_536]).is_ok_and(|bytes| bytes > 0) {});
        let dial = || admin.status()["flows"][0]["dial"].take();
        let dial = wait_for_value("the cap limits the dial leg", dial, |dial| dial["limit"] == "cap");
        // The share of a single flow is a quarter of the cap to three times the cap.
        let cap = dial["cap_bits_per_second"].as_u64().unwrap();
        assert!((2_000_000..=24_000_000).contains(&cap), "{dial}");
        let finding = || admin.status()["flows"][0]["finding"].take();
        let finding = wait_for_value("the cap is the finding", finding, |finding| finding["kind"] == "cap");
        assert_eq!((&finding["leg"], &finding["direction"]), (&"dial".into(), &"up".into()), "{finding}");
        // Ends both threads.
        client.shutdown(Shutdown::Both).unwrap();
        // Fails if the relay has reset it by now.
        let _ = server.shutdown(Shutdown::Both);
    });
}

#[test]
fn a_status_shows_bytes_that_grow_while_a_flow_lives() {
    let admin = Watched::start("");
    let (mut client, mut server) = admin.flow();
    for bytes in [100_000, 1_000_000] {
        client.write_all(&pattern(1, bytes)).unwrap();
        server.read_exact(&mut vec![0; bytes]).unwrap();
        server.write_all(b"ok").unwrap();
        client.read_exact(&mut [0; 2]).unwrap();
    }
    // The pump counts after it has written.
    let is_counted = |status: &Value| {
        let flow = &status["flows"][0];
        flow["up_bytes"] == 1_100_000 && flow["down_bytes"] == 4
    };
    let status = wait_for_value("the bytes are counted", || admin.status(), is_counted);
    let (flow, tunnel) = (&status["flows"][0], &status["tunnels"][0]);
    assert_eq!((&flow["flow"], &flow["tunnel"], &flow["state"]), (&1.into(), &"one".into(), &"open".into()));
    assert_eq!(flow["peer"], client.local_addr().unwrap().to_string());
    assert_eq!(flow["dial"]["local"], server.peer_addr().unwrap().to_string());
    assert_eq!(flow["next_hop_address"], server.local_addr().unwrap().to_string());
    for leg in ["accept", "dial"] {
        assert!(flow[leg]["rtt_ms"].as_f64().unwrap() > 0.0 && flow[leg]["congestion"].is_string(), "{flow}");
        assert!(flow[leg]["cwnd_segments"].as_u64().unwrap() > 0, "{flow}");
        assert!(flow[leg]["delivery_bits_per_second"].as_u64().unwrap() > 0, "{flow}");
        assert_eq!(flow[leg]["limit"], "application", "nobody sends: {flow}");
    }
    assert!(flow["gain"].is_null(), "both legs are LAN: {flow}");
    assert_eq!((&tunnel["saved_hours"]["today"], &tunnel["saved_hours"]["all"]), (&0.0.into(), &0.0.into()));
    wait_until("nothing moves", || admin.status()["flows"][0]["finding"]["kind"] == "unknown");
    assert_eq!((&tunnel["name"], &tunnel["flows_now"]), (&"one".into(), &1.into()));
    assert_eq!(tunnel["listen"], admin.port.address().to_string());
    assert_eq!((&status["counters"]["accepted"], &status["counters"]["bytes_up"]), (&1.into(), &1_100_000.into()));
    assert_eq!(tunnel["counters"], status["counters"], "it is the only tunnel");
    // Half-closed, and then gone.
    client.shutdown(std::net::Shutdown::Write).unwrap();
    wait_until("the FIN is passed on", || admin.status()["flows"][0]["state"] == "accept-half-closed");
    drop((client, server));
    wait_until("the flow has ended", || admin.status()["flows"].as_array().unwrap().is_empty());
}

#[test]
fn a_flow_is_killed_by_its_number() {
    let admin = Watched::start("");
    let (kept, first, second) = (admin.flow(), admin.flow(), admin.flow());
    let number_of = |client: &TcpStream| {
        let (flows, peer) = (admin.status()["flows"].clone(), client.local_addr().unwrap().to_string());
        let flow = flows.as_array().unwrap().iter().find(|flow| flow["peer"] == peer).cloned();
        flow.expect("the flow lives")["flow"].to_string()
    };
    let reset = |(client, server): &(TcpStream, TcpStream)| {
        assert_eq!(read_to_end(client), (Vec::new(), Ending::Reset));
        assert_eq!(read_to_end(server), (Vec::new(), Ending::Reset));
    };
    assert_eq!(by_socket(&admin.socket(), "POST", &format!("/flows/{}/kill", number_of(&first.0))).0, 200);
    reset(&first);
    assert_eq!(by_socket(&admin.socket(), "POST", "/flows/999/kill").0, 404);
    // A number that belongs to no flow is no reason to spare the others.
    let number = number_of(&second.0);
    let output = admin.command(&["kill", "999", &number]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(1), format!("flow {number}: killed\n")));
    assert_eq!(stderr(&output), "flow 999: there is no such flow\n");
    reset(&second);
    let output = admin.command(&["kill", &number_of(&kept.0)]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    reset(&kept);
}

#[test]
fn a_reload_through_the_socket_answers_with_the_outcome() {
    let admin = Watched::start("");
    let good = admin.text("", "");
    let (second, taken) = (Port::reserve("127.0.0.1"), server());
    let more = |listen| good.clone() + &tunnel("two", listen, &admin.far, "");
    admin.daemon.write(&more(second.address()));
    let output = admin.command(&["reload"]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(0), "reloaded, tunnels: 2\n".into()));
    for (bad, why) in [
        (more(taken.local_addr().unwrap()), "tunnel two: cannot listen on"),
        (good.clone() + "[[tunnel]]\nname = 7\n", "this [[tunnel]] has no listen"),
        (good.replace("admin.sock", "no-folder/admin.sock"), "control socket: cannot listen: bind("),
        (good.replace(&admin.http.address().to_string(), &taken.local_addr().unwrap().to_string()), "admin.listen = "),
    ] {
        admin.daemon.write(&bad);
        let output = admin.command(&["reload"]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(said.starts_with("reload refused: ") && said.contains(why), "{said}");
        let status = admin.status();
        assert!(status["reload_refused"].as_str().unwrap().contains(why), "{status}");
        assert_eq!(status["tunnels"].as_array().unwrap().len(), 2, "nothing has changed");
        let (ready, text) = (by_http(admin.http.address(), "GET", "/readyz"), stdout(&admin.command(&["status"])));
        let problem = ": the last reload was refused, and the old configuration stays: ";
        assert!(ready.0 == 200 && ready.1.starts_with(&format!("ready\nprocess{problem}")), "{ready:?}");
        assert!(text.starts_with("WHOLE, with 1 warning\nwarning: process, for ") && text.contains(problem), "{text}");
        assert_eq!(text.matches("reload was refused").count(), 1, "{text}");
    }
    // The tunnel gives its port up in the same reload.
    let given_up = good.replace(&admin.http.address().to_string(), &second.address().to_string());
    admin.daemon.write(&given_up);
    let (said, two) = (stderr(&admin.command(&["reload"])), second.address());
    let culprit =
        format!("(tunnel \"two\" listens on {two} until the reload is done: reload with the old admin.listen first)");
    assert!(
        said.contains(&format!("admin.listen = {two}: cannot listen: EADDRINUSE")) && said.contains(&culprit),
        "{said}"
    );
    for text in [&good, &given_up] {
        admin.daemon.write(text);
        assert_eq!(admin.command(&["reload"]).status.code(), Some(0));
    }
    assert_eq!(admin.status()["reload_refused"], Value::Null);
}

#[test]
fn a_reload_moves_the_listeners() {
    let admin = Watched::start("");
    let (moved, http) = (admin.daemon.folder.path().join("moved.sock"), Port::reserve("127.0.0.1"));
    let text = admin.text("", "").replace("admin.sock", "moved.sock");
    admin.daemon.write(&text.replace(&admin.http.address().to_string(), &http.address().to_string()));
    // The answer comes through the socket that the reload closes.
    assert_eq!(by_socket(&admin.socket(), "POST", "/reload").0, 200);
    assert!(!admin.socket().exists());
    assert_eq!(by_socket(&moved, "GET", "/healthz").0, 200);
    assert_eq!(by_http(http.address(), "GET", "/healthz").0, 200);
    wait_until("the old HTTP listener is closed", || {
        TcpStream::connect(admin.http.address()).is_err_and(|err| err.kind() == ErrorKind::ConnectionRefused)
    });
    // Without [admin], there is no HTTP listener, and the default socket cannot be made here.
    admin.daemon.write(&tunnel("one", admin.port.address(), &admin.far, ""));
    assert_eq!(by_socket(&moved, "POST", "/reload").0, 200);
    wait_until("both are closed", || !moved.exists() && TcpStream::connect(http.address()).is_err());
}

/// The port may not be shared: then any process of the same user could take a part of the requests.
/// A request, and a number of them whose answers fill the buffers of a connection.
const ASK: &[u8] = b"GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n";
const MANY: usize = 2_000;

#[test]
fn a_reload_moves_the_http_listener_to_another_port_alone() {
    in_own_network(|| {
        let admin = Watched::start("");
        let (text, own) = (admin.text("", ""), admin.http.address());
        let wide = SocketAddr::from(([0, 0, 0, 0], own.port()));
        let moved = Port::reserve("127.0.0.9");
        let at = |address: SocketAddr| text.replace(&own.to_string(), &address.to_string());
        let kept = || {
            let mut kept = patient(TcpStream::connect(own).unwrap());
            kept.write_all(ASK).unwrap();
            kept.read_exact(&mut [0]).unwrap();
            kept
        };
        let (mut kept, mut deaf) = (kept(), kept());
        deaf.write_all(&b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".repeat(MANY)).unwrap();
        let refused = admin.daemon.reload(&at(wide));
        assert!(refused["err"].as_str().unwrap().contains("a reload can take another port"), "{refused}");
        let refused = admin.daemon.reload(&at(SocketAddr::from(([192, 0, 2, 1], own.port()))));
        assert!(refused["err"].as_str().unwrap().contains("no interface has this address"), "{refused}");
        // Nobody shares it, not even one that would.
        let second = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        longhaul_sys::sockopt::set_reuse_port(second.as_fd(), true).unwrap();
        assert_eq!(second.bind(&own.into()).unwrap_err().kind(), ErrorKind::AddrInUse);
        assert_eq!(by_http(own, "GET", "/readyz").0, 200);
        assert_eq!(admin.daemon.reload(&at(moved.address()))["message"], "reloaded");
        // A connection that asks for ever ends too, beside one that does not read its answers.
        let ends = || kept.write_all(ASK).and_then(|()| kept.read_exact(&mut [0])).err().map(|err| err.kind());
        wait_for_value("the connection of the old listener ends", ends, Option::is_some);
        drop(deaf);
        assert_eq!(by_http(moved.address(), "GET", "/readyz").0, 200);
        let closed = || TcpStream::connect(own).map_err(|err| err.kind()).err();
        wait_for_value("the old listener is closed", closed, |err| *err == Some(ErrorKind::ConnectionRefused));
    });
}

/// More connections than either listener has room for.
const FLOOD: usize = 100;

#[test]
fn garbage_and_silence_keep_nobody_out() {
    let admin = Watched::start("");
    let (client, server) = admin.flow();
    let to_socket = || UnixStream::connect(admin.socket());
    let to_http = || TcpStream::connect(admin.http.address());
    // Connections that say nothing, or begin a request and do not end it.
    let mut slow: (Vec<UnixStream>, Vec<TcpStream>) = (Vec::new(), Vec::new());
    for _ in 0..FLOOD {
        slow.0.push(to_socket().unwrap());
        slow.1.push(to_http().unwrap());
        // It fails on a connection that was displaced.
        let _ = slow.0.last_mut().unwrap().write_all(b"GET /status.json HT");
        let _ = slow.1.last_mut().unwrap().write_all(b"GET /status.json HT");
    }
    assert_eq!(admin.status()["flows"].as_array().unwrap().len(), 1);
    assert_eq!(by_http(admin.http.address(), "GET", "/readyz").0, 200);
    let garbage = pattern(3, 40_000);
    for _ in 0..FLOOD {
        let (mut one, mut two) = (to_socket().unwrap(), to_http().unwrap());
        let _ = one.write_all(&garbage);
        let _ = two.write_all(&garbage);
    }
    // A head that is too large.
    let mut large = patient(to_http().unwrap());
    let _ = large.write_all(format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(100_000)).as_bytes());
    let mut answer = Vec::new();
    let _ = large.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    let counted = || ["malformed", "displaced"].map(|name| admin.status()["admin"][name].as_u64().unwrap());
    // Bytes that come after the connection was displaced are not seen.
    let all = |counted: &[u64; 2]| counted.iter().sum::<u64>() >= 2 * FLOOD as u64;
    let counted = wait_for_value("the garbage is counted", counted, all);
    assert!(counted.iter().all(|number| *number > 0), "{counted:?}");
    talk(&client, &server);
    drop(slow);
}

/// Every address of 127.0.0.0/8 is a source of its own.
#[test]
fn answers_that_nobody_reads_keep_no_health_check_out() {
    // A health check from elsewhere, and one from the same host.
    for (ip, others) in [("127.0.0.1", FLOOD), ("127.0.0.2", 10)] {
        let admin = Watched::start("");
        // So many that `/metrics` is several times 128 KiB: only a document that is sent in pieces keeps its request busy.
        let port = admin.port.address().port();
        let more = (1..=30).map(|n| tunnel(&format!("more{n}"), format!("127.0.1.{n}:{port}"), &admin.far, ""));
        assert_eq!(admin.daemon.reload(&(admin.text("", "") + &more.collect::<String>()))["message"], "reloaded");
        let dial = |ip| dial_from(ip, admin.http.address()).unwrap();
        let ready = |stream| ask(stream, "GET /readyz", "*/*");
        let unread: Vec<TcpStream> = (0..31).map(|_| dial("127.0.0.2")).collect();
        for mut stream in &unread {
            // More answers than the buffers hold: one of the requests waits for ever.
            stream.write_all(&b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(FLOOD)).unwrap();
            stream.peek(&mut [0]).unwrap();
        }
        let check = dial(ip);
        let _flood: Vec<TcpStream> = (0..others).map(|_| dial("127.0.0.2")).collect();
        // They are accepted in turn.
        assert!(ready(dial("127.0.0.2")).starts_with("HTTP/1.1 200 "), "{ip}");
        assert!(ready(check).starts_with("HTTP/1.1 200 "), "{ip}");
    }
}

/// Returns a daemon whose drain has a grace of `grace`.
fn with_grace(grace: &str) -> Watched {
    let admin = Watched::start("");
    admin.reload_with(&format!("drain_grace = \"{grace}\""), "");
    admin
}

/// Waits until nobody listens on the tunnel's port.
fn nobody_listens(admin: &Watched) {
    admin.daemon.relay.wait_log("drain: every listener is closed");
    assert_eq!(TcpStream::connect(admin.port.address()).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

/// Asserts that the first line of status and of top says since when it drains, and how it treats new connections.
fn assert_drains(admin: &Watched, new_connections: &str) {
    let said = format!("): draining, new connections {new_connections}; `longhaul drain --undo`");
    for (args, since, said) in [(&["status"][..], "for ", &said[1..]), (&["top", "--once"], "since ", &said)] {
        let text = stdout(&admin.command(args));
        assert!(text.starts_with(&format!("NOT WHOLE {since}")) && text.contains(said), "{text}");
    }
}

#[test]
fn a_drain_waits_for_the_last_flow_and_is_undone() {
    let mut admin = with_grace("0");
    let (client, far) = admin.flow();
    std::thread::scope(|scope| {
        let drain = scope.spawn(|| admin.command(&["drain"]));
        wait_until("it is not ready", || by_http(admin.http.address(), "GET", "/readyz") == (503, "draining\n".into()));
        nobody_listens(&admin);
        let status = admin.status();
        assert_eq!((&status["phase"], &status["tunnels"][0]["listening"]), (&"draining".into(), &false.into()));
        assert!(status["draining_since_unix_seconds"].as_f64() >= status["started_unix_seconds"].as_f64(), "{status}");
        assert_drains(&admin, "are refused");
        assert!(stdout(&admin.command(&["status"])).contains(&format!("{} closed", admin.port.address())));
        assert_eq!(by_http(admin.http.address(), "GET", "/healthz").0, 200);
        let reload = admin.command(&["reload"]);
        assert_eq!(stderr(&reload), "reload refused: the daemon drains; first: longhaul drain --undo\n");
        assert_eq!(admin.command(&["status", "--nagios"]).status.code(), Some(2));
        talk(&client, &far);
        assert!(!drain.is_finished());
        drop((client, far));
        let drain = drain.join().unwrap();
        assert_eq!(drain.status.code(), Some(0), "{drain:?}");
        assert!(stdout(&drain).starts_with("drained: ") && stderr(&drain).starts_with("draining, flows left: 1\n"));
    });
    // The process stays.
    assert_eq!(admin.command(&["drain"]).status.code(), Some(0), "a second drain has nothing to wait for");
    let undo = admin.command(&["drain", "--undo"]);
    assert_eq!((undo.status.code(), stdout(&undo)), (Some(0), "the tunnels listen\n".into()));
    assert_eq!(by_http(admin.http.address(), "GET", "/readyz").0, 200);
    let (client, far) = admin.flow();
    talk(&client, &far);
    drop((client, far));
    assert_eq!(admin.command(&["drain"]).status.code(), Some(0));
    admin.daemon.relay.signal("TERM");
    assert_eq!(admin.daemon.relay.exit(), Some(0));
}

#[test]
fn a_drain_listens_until_its_grace_is_over() {
    let admin = with_grace("1h");
    std::thread::scope(|scope| {
        let drain = scope.spawn(|| admin.command(&["drain"]));
        wait_until("it is not ready", || by_http(admin.http.address(), "GET", "/readyz").0 == 503);
        let (client, far) = admin.flow();
        talk(&client, &far);
        assert_eq!(admin.status()["tunnels"][0]["listening"], true);
        assert_drains(&admin, "are still accepted");
        assert_eq!(admin.command(&["drain", "--undo"]).status.code(), Some(0));
        let drain = drain.join().unwrap();
        assert_eq!(drain.status.code(), Some(1));
        assert!(stderr(&drain).ends_with("error: the drain was undone\n"), "{drain:?}");
        assert_eq!(by_http(admin.http.address(), "GET", "/readyz").0, 200);
        talk(&client, &far);
    });
}

#[test]
fn a_drain_that_cannot_be_undone_goes_on() {
    let admin = with_grace("0");
    assert_eq!(admin.command(&["drain"]).status.code(), Some(0));
    let taken = TcpListener::bind(admin.port.address()).unwrap();
    let undo = admin.command(&["drain", "--undo"]);
    assert_eq!(undo.status.code(), Some(1));
    assert!(stderr(&undo).contains("tunnel one: cannot listen on"), "{undo:?}");
    assert_eq!(admin.status()["phase"], "draining");
    drop(taken);
    assert_eq!(admin.command(&["drain", "--undo"]).status.code(), Some(0));
    let (client, far) = admin.flow();
    talk(&client, &far);
}

#[test]
fn a_drain_goes_on_when_its_client_goes_away_and_ends_with_sigterm() {
    let mut admin = with_grace("0");
    let (client, far) = admin.flow();
    let mut gone = UnixStream::connect(admin.socket()).unwrap();
    gone.write_all(b"POST /drain HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
    gone.read_exact(&mut [0; 9]).unwrap();
    drop(gone);
    nobody_listens(&admin);
    let socket = admin.socket().display().to_string();
    let mut waiting = program();
    waiting.args(["drain", "--admin", &socket]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut waiting = waiting.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(waiting.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "draining, flows left: 1\n");
    admin.daemon.relay.signal("TERM");
    wait_until("it stops", || admin.status()["phase"] == "stopping");
    talk(&client, &far);
    drop((client, far));
    assert_eq!(admin.daemon.relay.exit(), Some(0));
    assert!(stdout(&waiting.wait_with_output().unwrap()).starts_with("drained: "));
}
