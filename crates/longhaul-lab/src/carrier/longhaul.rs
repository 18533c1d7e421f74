//! This program's own relay.

use crate::carrier::row::{Carrier, PORT, Started};
use crate::problem::Problem;
use std::process::Command;

/// At its defaults, but for what the scenario sets.
pub(crate) const LONGHAUL: Carrier = Carrier {
    name: "longhaul",
    what: "on two relays",
    hosts: |_, _| {},
    congestion: Some("bbr"),
    start: |wan, _, set| {
        Started::on_relays(wan, "listening", |_, next| {
            let mut command = Command::new(std::env::current_exe().map_err(Problem::io("finding this program"))?);
            command.args(["relay", "--listen", &PORT.to_string(), "--to", &format!("{next}:{PORT}")]);
            command.args(set.iter().flat_map(|setting| ["--set", setting]));
            Ok((command, String::new()))
        })
    },
};
