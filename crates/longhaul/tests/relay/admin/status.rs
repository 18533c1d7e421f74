//! Tests `longhaul status`, and the problems that it, `/readyz` and the line for Nagios tell.

use crate::admin::browser::Browser;
use crate::admin::top::Top;
use crate::admin::*;
use crate::harness::*;
use serde_json::Value;
use std::fs::{self, Permissions};
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

#[test]
fn status_prints_text_json_or_a_line_for_nagios() {
    let admin = Watched::start("");
    let (client, server) = admin.flow();
    talk(&client, &server);
    let text = stdout(&admin.command(&["status"]));
    let peer = client.local_addr().unwrap().to_string();
    assert!(text.contains(", serving\n") && text.contains("one") && text.contains(&peer), "{text}");
    let output = admin.command(&["status", "--json"]);
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&status["flows"][0]["peer"], stderr(&output)), (&peer.into(), String::new()));
    let nagios = admin.command(&["status", "--nagios"]);
    assert_eq!(nagios.status.code(), Some(0));
    assert_eq!(stdout(&nagios), "longhaul OK - 1 tunnel, 1 flow | flows=1\n");
    admin.daemon.relay.signal("TERM");
    wait_until("it stops", || admin.status()["phase"] == "stopping");
    assert_eq!(admin.get("/readyz"), (503, "stopping\n".into()));
    assert_eq!(by_http(admin.http.address(), "GET", "/healthz").0, 200);
    let nagios = admin.command(&["status", "--nagios"]);
    assert_eq!(
        (nagios.status.code(), stdout(&nagios)),
        (Some(2), "longhaul CRITICAL - stopping, 1 flow left | flows=1\n".into())
    );
    let reload = admin.command(&["reload"]);
    assert_eq!(reload.status.code(), Some(1));
    assert_eq!(stderr(&reload), "reload refused: the daemon stops, so it does not reload\n");
    talk(&client, &server);
}

#[test]
fn a_tunnel_without_a_next_hop_makes_the_daemon_not_ready() {
    let far = Port::reserve("127.0.0.1");
    let admin = Watched::start_to(&[far.address()], CHECKED);
    admin.daemon.relay.wait_log("next hop down: its checks failed");
    let what = format!(": every next hop is down by its checks: {} (refused ", far.address());
    // The age of the last failure differs from answer to answer.
    let (code, why) = admin.get("/readyz");
    assert!(
        code == 503 && why.starts_with(&format!("tunnel one, next hop{what}")) && why.ends_with("s ago)\n"),
        "{code} {why}"
    );
    let status = admin.status();
    assert_eq!((&status["ready"], &status["phase"]), (&false.into(), &"serving".into()));
    let hop = &status["tunnels"][0]["next_hops"][0];
    assert_eq!((&hop["state"], &hop["last_failure"]), (&"down".into(), &"refused".into()));
    assert!(hop["last_failure_seconds"].is_f64(), "{hop}");
    assert_eq!(status["problems"][0]["fatal"], true);
    let text = stdout(&admin.command(&["status"]));
    let line = text.lines().find(|line| line.starts_with("BROKEN: tunnel one, next hop, for "));
    assert!(line.is_some_and(|line| line.contains(&what) && line.ends_with("s ago)")), "{text}");
    let nagios = admin.command(&["status", "--nagios"]);
    assert_eq!(nagios.status.code(), Some(2), "{nagios:?}");
    let said = stdout(&nagios);
    assert!(said.starts_with("longhaul CRITICAL - 1 tunnel, 0 flows; tunnel one, next hop, for "), "{said}");
    assert!(said.contains(&what), "{said}");
    let _far = TcpListener::bind(far.address()).unwrap();
    admin.daemon.relay.wait_log("next hop up: its checks succeed");
    assert_eq!(admin.get("/readyz"), (200, "ready\n".into()));
    assert_eq!(admin.status()["problems"], Value::Array(Vec::new()));
}

/// Asserts that the daemon is ready, and that the first line of status is doubtful about `problem`.
fn assert_doubtful(admin: &Watched, problem: &str) {
    let first = || stdout(&admin.command(&["status"])).lines().next().unwrap_or_default().to_owned();
    let want = format!("WHOLE, but DOUBTFUL: tunnel one, {problem}");
    wait_until("status is doubtful", || first().starts_with(&want));
    let found = &admin.status()["problems"][0];
    assert_eq!((&found["doubtful"], &found["fatal"]), (&true.into(), &false.into()));
    assert!(admin.get("/readyz").1.starts_with(&format!("ready\ntunnel one, {problem}")));
    assert_eq!(admin.command(&["status", "--nagios"]).status.code(), Some(1));
}

#[test]
fn a_tunnel_whose_only_next_hop_refuses_every_dial_is_doubtful() {
    let far = Port::reserve("127.0.0.1");
    let admin = Watched::start_to(&[far.address()], "");
    for _ in 0..3 {
        assert_eq!(read_to_end(&dial(&admin.port)).1, Ending::Reset);
    }
    assert_doubtful(&admin, &format!("next hop: {}: its last 3 dials failed (refused ", far.address()));
}

/// A relay does so whose `allow` lacks this one.
#[test]
fn a_next_hop_that_resets_each_flow_is_doubtful_until_it_answers_a_live_flow() {
    let far = server();
    let admin = Watched::start_to(&[far.local_addr().unwrap()], "");
    for _ in 0..5 {
        let client = dial(&admin.port);
        reset(accept(&far));
        assert_eq!(read_to_end(&client).1, Ending::Reset);
    }
    assert_doubtful(&admin, &format!("next hop: {} reset the last 5 flows ", far.local_addr().unwrap()));
    let _client = dial(&admin.port);
    let mut far = accept(&far);
    far.write_all(b"answer").unwrap();
    wait_until("the doubt is over", || admin.status()["problems"] == Value::Array(Vec::new()));
}

/// A single hop is never ejected, so its state stays `up`.
#[test]
fn a_next_hop_whose_dials_fail_is_told_alike_in_every_view() {
    let far = Port::reserve("127.0.0.1");
    let admin = Watched::start_to(&[far.address()], "");
    let fail = |times| (0..times).for_each(|_| assert_eq!(read_to_end(&dial(&admin.port)).1, Ending::Reset));
    let hop = || admin.status()["tunnels"][0]["next_hops"][0].take();
    // The line of the hop in `status`, with one blank between two words.
    let line = || {
        let text = stdout(&admin.command(&["status"]));
        let line = text.lines().find(|line| line.starts_with(&format!("one     {}", far.address()))).unwrap();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for (dials, health, failed) in [(1, "failing", 1), (10, "doubtful", 11)] {
        fail(dials);
        let told = wait_for_value("the dials are counted", hop, |hop| hop["failed_dials"] == failed);
        assert_eq!((&told["state"], &told["health"]), (&"up".into(), &health.into()), "{told}");
        assert!(told["failure"].as_str().unwrap().starts_with("refused "), "{told}");
        let line = line();
        assert!(line.contains(&format!(" up, {health} ")) && line.contains(&format!(" {failed} refused ")), "{line}");
    }
    let mut top = Top::start(&admin);
    top.resize(160, 30);
    top.wait(&format!("{} up, doubtful", far.address()));
    top.press("t");
    top.wait("; state up, doubtful; state age ");
    top.wait("; failed dials 11; failing refused ");
    if let Some(mut browser) = Browser::start() {
        browser.open(&format!("http://{}/", admin.http.address()));
        let cells =
            "[...(document.querySelector('.hops tbody tr')?.cells ?? [])].map((cell) => cell.textContent).join('; ')";
        browser.wait(&format!("/; ! up, doubtful; .*; 11; refused .* ago, failing for /.test({cells})"));
    }
    let _far = TcpListener::bind(far.address()).unwrap();
    let _flow = dial(&admin.port);
    let told = wait_for_value("the hop answers", hop, |hop| hop["failed_dials"] == 0);
    assert_eq!((&told["health"], &told["failure"]), (&"good".into(), &Value::Null), "{told}");
    assert!(line().ends_with(" 0 -"), "{}", line());
}

#[test]
fn a_tunnel_whose_clients_wait_is_doubtful_until_they_are_served() {
    let admin = Watched::start("max_flows = 1\n");
    let (first, served) = admin.flow();
    talk(&first, &served);
    let second = dial(&admin.port);
    assert_doubtful(&admin, "resources: connections wait in the listen queue: the tunnel has its `max_flows`");
    let since = || admin.status()["problems"][0]["since_unix_seconds"].clone();
    let began = since();
    admin.reload("max_flows = 1\n");
    assert_eq!(since(), began, "a reload that leaves the tunnel as it is ends no wait");
    drop((first, served));
    talk(&second, &accept(&admin.far));
    let is_doubtful =
        || admin.status()["problems"].as_array().unwrap().iter().any(|problem| problem["doubtful"] == true);
    wait_until("no client waits", || !is_doubtful());
}

#[test]
fn without_a_daemon_status_says_so_and_asks_systemd() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("admin.sock").display().to_string();
    let file = folder.path().join("longhaul.toml").display().to_string();
    // The socket is found although the file has an error elsewhere.
    fs::write(&file, format!("[admin]\nsocket = \"{socket}\"\n[[tunnel]]\nname = 7\n")).unwrap();
    let commands: [&[&str]; 4] = [
        &["status", "--admin", &socket],
        &["status", "-c", &file],
        &["reload", "-c", &file],
        &["kill", "1", "2", "-c", &file],
    ];
    for args in commands {
        let output = program().args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(stderr(&output).trim_end().ends_with(&format!("no daemon at {socket}")), "{output:?}");
    }
    let nagios = program().args(["status", "--nagios", "--admin", &socket]).output().unwrap();
    assert_eq!(nagios.status.code(), Some(2));
    assert_eq!(stdout(&nagios), format!("longhaul CRITICAL - no daemon at {socket}\n"));
    // A systemctl of our own.
    let systemctl = folder.path().join("systemctl");
    let script = "#!/bin/sh\n[ \"$2\" = longhaul.service ] || exit 1\n\
                  printf 'LoadState=loaded\\nActiveState=failed\\nSubState=failed\\nResult=exit-code\\nNRestarts=14\\n'\n";
    fs::write(&systemctl, script).unwrap();
    fs::set_permissions(&systemctl, Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let status = program().arg("status").env("PATH", path).env(RUNTIME_DIRECTORY, folder.path()).output().unwrap();
    let want = "longhaul.service is failed (failed), never started, 14 restarts, result exit-code";
    assert_eq!(status.status.code(), Some(1));
    assert!(stderr(&status).contains(want), "{}", stderr(&status));
}

#[test]
fn a_file_that_cannot_be_read_is_told_once() {
    let why = "/nonexistent.toml: No such file or directory (os error 2); write the file, or name another with -c FILE";
    let said = |args: &[&str]| program().args(args).args(["-c", "/nonexistent.toml"]).output().unwrap();
    for args in [&["status"][..], &["reload"], &["drain"], &["kill", "1"], &["top", "--once"]] {
        let output = said(args);
        assert_eq!((output.status.code(), stderr(&output)), (Some(1), format!("error: {why}\n")), "{args:?}");
    }
    let nagios = said(&["status", "--nagios"]);
    assert_eq!((nagios.status.code(), stdout(&nagios)), (Some(3), format!("longhaul UNKNOWN - {why}\n")));
}

#[test]
fn verify_finds_the_tunnels_of_a_daemon_by_its_socket() {
    let admin = Watched::start("");
    let socket = admin.socket().display().to_string();
    let verify = |args: &[&str]| {
        program().args(["verify", "--admin", &socket, "--timeout", "500ms"]).args(args).output().unwrap()
    };
    let none = verify(&["two"]);
    assert_eq!(
        (none.status.code(), stderr(&none)),
        (Some(2), format!("error: {socket} has no tunnel `two`; it has: one\n"))
    );
    // The next hop accepts, and knows no probes.
    let output = verify(&["one"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(stdout(&output).starts_with("one: cannot tell, far relay: no answer\n  near relay  "), "{output:?}");
    drop(admin);
    let nagios = verify(&["--nagios"]);
    assert_eq!(
        (nagios.status.code(), stdout(&nagios)),
        (Some(2), format!("longhaul CRITICAL - no daemon at {socket}\n"))
    );
}
