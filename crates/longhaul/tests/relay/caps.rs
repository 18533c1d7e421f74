//! Tests the bandwidth caps: the pacing rates that the kernel reports, and the bytes. How well a cap is kept depends on the
//! machine, so it is measured elsewhere (docs/design/caps.md).

use crate::harness::*;
use longhaul_sys::sockopt::pacing;
use socket2::Socket;
use std::net::TcpStream;
use std::os::fd::AsFd;

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
