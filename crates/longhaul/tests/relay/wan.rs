//! The matrix again, with 300 ms between the relays: an emulated WAN in namespaces (`longhaul::lab`).
//!
//! Needs root, of the system or of a user namespace; what cannot run prints SKIP and why, and fails in CI.

use crate::endings::CELLS;
use crate::harness::*;
use longhaul::lab::{Host, LinkSpec, Problem, Profile, Wan};
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

/// Two sites 300 ms apart; `None` where the lab cannot be built.
fn wan() -> Option<Arc<Wan>> {
    let link = LinkSpec::new(Duration::from_millis(300), "1Gbit/s".parse().ok());
    let relay = Profile::relay(&link);
    match Wan::build(&link, [Profile::plain(), relay.clone(), relay, Profile::plain()]) {
        Ok(wan) => Some(Arc::new(wan)),
        Err(why @ (Problem::Missing { .. } | Problem::Sys(_))) => {
            skip(&why.to_string());
            None
        }
        Err(why) => panic!("{why}"),
    }
}

#[test]
fn the_matrix_holds_across_300_ms() {
    let Some(wan) = wan() else { return };
    // All at once: they wait for round trips, not for the processor.
    std::thread::scope(|scope| {
        for (row, cell) in CELLS.iter().enumerate() {
            for (column, (relays, up)) in [(1, true), (1, false), (2, true), (2, false)].into_iter().enumerate() {
                let (wan, port) = (&wan, 7000 + (row * 4 + column) as u16);
                let run = move || cell.run_on(&mut Path::across(wan, port, relays, cell.flags), up);
                let name = format!("{}, {relays} relays, up: {up}", cell.name);
                std::thread::Builder::new().name(name).spawn_scoped(scope, run).expect("a thread");
            }
        }
    });
}

#[test]
fn across_a_wan_a_dead_next_hop_and_a_dead_line_are_resets() {
    let Some(wan) = wan() else { return };
    let mut refused = Path::across(&wan, 7100, 2, &[]);
    refused.drop_server();
    assert_eq!(read_to_end(&refused.dial()), (Vec::new(), Ending::Reset));
    assert_eq!(refused.relays[1].flow_end(), (0, 0, "dial failed".into()));

    let dark = Path::across(&wan, 7101, 2, &["--set", "accept.user-timeout=3s", "--set", "dial.user-timeout=3s"]);
    let (mut client, mut server) = dark.connect();
    client.write_all(b"before").unwrap();
    server.read_exact(&mut [0; 6]).unwrap();
    wan.output(Host::Far, "ip", &["link", "set", "wan0", "down"]).unwrap();
    client.write_all(b"into the dark").unwrap();
    server.write_all(b"into the dark").unwrap();
    assert_eq!(read_to_end(&client), (Vec::new(), Ending::Reset));
    assert_eq!(read_to_end(&server), (Vec::new(), Ending::Reset));
    assert_eq!(dark.relays[0].flow_end().2, "dial leg timed out");
}
