//! Tests the gain of a flow, and the time that a tunnel has saved, over an emulated WAN (longhaul-lab).

use crate::harness::*;
use longhaul_lab::{Host, LabError, LinkSpec, Profile, Wan};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;
use tempfile::TempDir;

const PORT: u16 = 7800;

/// Builds two sites 300 ms apart whose host A cannot offer more than 65,535 bytes; returns `None` if the lab cannot be built here.
fn wan() -> Option<Wan> {
    let link = LinkSpec::new(Duration::from_millis(300), "1Gbit/s".parse().ok());
    let small = Profile { route: "window 65535".into(), ..Profile::plain() };
    match Wan::build(&link, [small, Profile::relay(&link), Profile::relay(&link), Profile::plain()]) {
        Ok(wan) => Some(wan),
        Err(why @ (LabError::Missing { .. } | LabError::Sys(_))) => {
            skip(&why.to_string());
            None
        }
        Err(why) => panic!("{why}"),
    }
}

/// Alone, the host would have 1.7 Mbit/s. So no machine is too slow for a gain.
#[test]
fn a_download_to_a_host_with_a_small_window_saves_time_that_a_reload_keeps() {
    let Some(wan) = wan() else { return };
    let folder = TempDir::new().unwrap();
    let socket = folder.path().join("admin.sock");
    let config = |keys| {
        let tunnel = tunnel_to("one", PORT, &[SocketAddr::new(Host::B.lan(), PORT)], keys);
        format!("[admin]\nsocket = \"{}\"\n{tunnel}", socket.display())
    };
    let daemon = Daemon::start_by(&config(""), |file| {
        let mut command = longhaul();
        command.args(["run", "-c", file]);
        Relay::spawn_in(&wan, Host::Near, command)
    });
    let status = || status_of(&socket);
    let saved = |status: &Value| status["tunnels"][0]["saved_hours"]["all"].as_f64().unwrap() * 3600.0;

    let listener = wan.on(Host::B, || Ok(listen((Host::B.lan(), PORT)))).join().unwrap().unwrap();
    let entry = SocketAddr::new(Host::Near.lan(), PORT);
    let client = patient(wan.on(Host::A, move || Ok(TcpStream::connect(entry).unwrap())).join().unwrap().unwrap());
    let server = accept(&listener);
    std::thread::scope(|scope| {
        scope.spawn(|| while (&server).write_all(&[7; 65_536]).is_ok() {});
        scope.spawn(|| while (&client).read(&mut [0; 65_536]).is_ok_and(|bytes| bytes > 0) {});
        let seen = wait_for_value("time is saved", status, |status| saved(status) > 0.0);
        let gain = wait_for_value("a gain", || status()["flows"][0]["gain"].take(), |gain| !gain.is_null());
        let alone = gain["alone_at_most_mbps"].as_f64().unwrap();
        assert!((1.0..1.75).contains(&alone) && gain["direction"] == "down", "{gain}");
        assert!(gain["evidence"].as_str().unwrap().contains("65535 bytes"), "{gain}");
        let later = wait_for_value("it grows", status, |status| saved(status) > saved(&seen));
        let hours = &later["tunnels"][0]["saved_hours"];
        assert!(hours["today"].as_f64() <= hours["all"].as_f64(), "{hours}");
        // Ends both threads.
        client.shutdown(Shutdown::Both).unwrap();
        let _ = server.shutdown(Shutdown::Both);
    });
    drop((client, server));
    let end = daemon.relay.wait_log("flow ended");
    assert!(end["gain"].as_str().unwrap().contains("alone at most 0.2 MB/s"), "{end}");
    let in_the_log = end["saved_seconds"].as_f64().unwrap();
    let is_the_same = |status: &Value| (saved(status) - in_the_log).abs() < 0.002;
    wait_until("the sum is that of the flow, once", || is_the_same(&status()));
    assert_eq!(daemon.reload(&config("max_flows = 7"))["message"], "reloaded");
    assert!(is_the_same(&status()), "{end}");
}
