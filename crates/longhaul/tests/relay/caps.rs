//! Tests the bandwidth caps: the pacing rates that the kernel reports, and the bytes. How well a cap is kept depends on the
//! machine, so it is measured elsewhere (docs/design/caps.md).

use crate::carry::wan::wan_of;
use crate::harness::*;
use longhaul_lab::{Host, LinkSpec};
use longhaul_sys::sockopt::pacing;
use socket2::Socket;
use std::io::Write;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Returns the maximum pacing rate of a leg in bit/s; `None` means no limit.
fn limit(leg: &Socket) -> Option<u64> {
    let bytes = pacing(leg.as_fd()).unwrap();
    (bytes != u64::MAX).then(|| bytes * 8)
}

/// Returns the legs of the flow between `client` and `far`, or `None` where a test may not look at them.
fn legs(relay: &Relay, client: &TcpStream, far: &TcpStream) -> Option<[Socket; 2]> {
    let legs = relay.other_end(client).zip(relay.other_end(far)).map(|(accept, dial)| [accept, dial]);
    if legs.is_none() {
        skip("pidfd_getfd(2) is not allowed here");
    }
    legs
}

/// Waits until both legs have a limit within `from` and `to`, in eighths of `wanted`; `None` means no limit.
fn have(legs: &[Socket; 2], wanted: Option<u64>, (from, to): (u64, u64)) {
    let is_near = |limit: &Option<u64>| match (limit, wanted) {
        (Some(limit), Some(wanted)) => (wanted * from / 8..=wanted * to / 8).contains(limit),
        (limit, wanted) => *limit == wanted,
    };
    let limits = || [limit(&legs[0]), limit(&legs[1])];
    wait_for_value("the limits", limits, |limits| limits.iter().all(is_near));
}

/// The relay leaves a limit alone that differs by a sixteenth.
const NEAR: (u64, u64) = (7, 9);
/// While bytes move, the limit of a direction changes with what was sent.
const MOVING: (u64, u64) = (1, 16);

#[test]
fn a_reload_changes_the_limits_of_live_flows_and_their_bytes_stay_right() {
    let (server, port, other) = (server(), Port::reserve("127.0.0.1"), Port::reserve("127.0.0.1"));
    let free = tunnel("free", other.address(), &server, "");
    let with = |more: &str| tunnel("one", port.address(), &server, more) + &free;
    let daemon = Daemon::start(&with("bandwidth = \"800Mbit/s\""));
    let (client, far) = (dial(&port), accept(&server));
    let (unlimited, its_far) = (dial(&other), accept(&server));
    let Some(capped) = legs(&daemon.relay, &client, &far) else { return };
    let Some(uncapped) = legs(&daemon.relay, &unlimited, &its_far) else { return };
    have(&capped, Some(800_000_000), NEAR);
    let bytes = pattern(31, 20_000_000);
    std::thread::scope(|scope| {
        scope.spawn(|| send_all(&client, &bytes));
        for (more, rate) in [
            ("flow_bandwidth = \"400Mbit/s\"", Some(400_000_000)),
            ("", None),
            ("bandwidth = \"8Gbit/s\"\nbandwidth_schedule = [\"00:00-24:00 1Gbit/s\"]", Some(1_000_000_000)),
        ] {
            assert_eq!(daemon.reload(&with(more))["message"], "reloaded");
            have(&capped, rate, MOVING);
        }
        assert_whole(&far, &bytes);
    });
    assert_eq!([limit(&uncapped[0]), limit(&uncapped[1])], [None; 2]);
    // The daemon's cap is shared by all tunnels.
    assert_eq!(daemon.reload(&("bandwidth = \"1Mbit/s\"\n".to_string() + &with("")))["message"], "reloaded");
    have(&uncapped, Some(500_000), NEAR);
    talk(&unlimited, &its_far);
}

#[test]
fn flows_of_a_capped_relay_carry_every_byte_both_ways() {
    let path = Path::new(2, &["--bandwidth", "4Gbit/s", "--flow-bandwidth", "3Gbit/s"]);
    path.echo_all([32; 8].into_iter().map(|seed| pattern(seed, 3_000_000)));
    for relay in &path.relays {
        (0..8).for_each(|_| assert_eq!(relay.flow_end(), (3_000_000, 3_000_000, "finished".into())));
    }
}

#[test]
fn without_a_wan_leg_auto_says_so() {
    let relay = Setup { head: "bandwidth = \"auto\"\n", ..Setup::default() }.start();
    talk(&dial(&relay.port), &accept(&relay.far));
    assert!(stdout(&relay.command(&["status"])).contains("bandwidth auto: no WAN path"));
    assert_eq!(relay.status()["paths"], serde_json::json!([]));
}

/// How well the queue is kept short depends on the machine, so benches/gentle measures it.
#[test]
fn a_full_line_has_a_cap_that_is_found_by_itself() {
    let Some(wan) = wan_of(&LinkSpec::new(Duration::from_millis(40), "20Mbit/s".parse().ok())) else { return };
    let server = wan.on(Host::B, || Ok(listen((Host::B.lan(), 7710)))).join().unwrap().unwrap();
    let relay = |host: Host, to: IpAddr| {
        let to = vec![SocketAddr::new(to, 7710).to_string()];
        Setup { to, listen: "7710", head: "bandwidth = \"auto\"\n", ..Setup::default() }.start_by(|file| {
            let mut command = longhaul();
            command.args(["run", "-c", file]);
            Relay::spawn_in(&wan, host, command)
        })
    };
    let (_far, near) = (relay(Host::Far, Host::B.lan()), relay(Host::Near, Host::Far.wan()));
    let entry = SocketAddr::new(Host::Near.lan(), 7710);
    let client = wan.on(Host::A, move || Ok(TcpStream::connect(entry).expect("the relay accepts")));
    let client = client.join().unwrap().unwrap();
    let server = patient(server.accept().unwrap().0);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sends = scope.spawn(|| {
            let (piece, mut sent) = (pattern(9, 1 << 16), 0);
            while !is_over.load(Relaxed) {
                (&client).write_all(&piece).unwrap();
                sent += piece.len();
            }
            client.shutdown(Shutdown::Write).unwrap();
            sent
        });
        let receives = scope.spawn(|| read_to_end(&server));
        let path = wait_for_value(
            "the path has a cap",
            || near.status()["paths"][0].clone(),
            |path| path["state"] == "short queue" && path["cap_bits_per_second"].is_u64(),
        );
        // Headers take 3 %. On a busy machine the line may seem slower.
        let cap = path["cap_bits_per_second"].as_u64().unwrap();
        assert!((2_000_000..40_000_000).contains(&cap), "{path}");
        assert_eq!((&path["address"], &path["way"]), (&Host::Far.wan().to_string().into(), &"up".into()));
        let (_, metrics) = near.get("/metrics");
        assert!(
            metrics.contains("longhaul_path_cap_bytes_per_second{path=\"10.99.0.2\",direction=\"up\"} "),
            "{metrics}"
        );
        is_over.store(true, Relaxed);
        let (sent, (got, ending)) = (sends.join().unwrap(), receives.join().unwrap());
        assert_eq!((got.len(), ending), (sent, Ending::Fin));
        assert!(got.chunks(1 << 16).all(|piece| piece == pattern(9, 1 << 16)), "the bytes differ");
    });
    let line = near.daemon.relay.wait_log("the state of a path has changed");
    assert_eq!(line["state"], "short queue");
}
