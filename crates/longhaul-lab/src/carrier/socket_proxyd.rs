//! systemd-socket-proxyd, which takes a listening socket from whoever starts it: here systemd-socket-activate, so that no
//! systemd need run.

use crate::carrier::row::{Carrier, PORT, Started};
use crate::world::supervisor::missing;
use std::path::Path;
use std::process::Command;

/// At its defaults, but for the most connections, which are 256.
pub(crate) const SOCKET_PROXYD: Carrier = Carrier {
    name: "socket-proxyd",
    what: "systemd's",
    hosts: |_, _| {},
    congestion: None,
    start: |wan, _, _| {
        let places = PLACES.iter().map(Path::new);
        let Some(program) = places.into_iter().find(|place| place.exists()) else { return Err(missing(PLACES[1])) };
        Started::on_relays(wan, "Listening on", |_, next| {
            let mut command = Command::new("systemd-socket-activate");
            command.arg("-l").arg(PORT.to_string()).arg(program);
            command.arg("--connections-max=6000").arg(format!("{next}:{PORT}"));
            command.env("SYSTEMD_LOG_TARGET", "console");
            Ok((command, String::new()))
        })
    },
};

/// Where systemd keeps what nobody types.
const PLACES: [&str; 2] = ["/lib/systemd/systemd-socket-proxyd", "/usr/lib/systemd/systemd-socket-proxyd"];
