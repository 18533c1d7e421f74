//! The hand-made recipe: the same line of socat on both relays.

use crate::carrier::row::{Carrier, PORT, Started};
use crate::problem::Problem;
use crate::world::wan::Wan;
use std::process::Command;

/// As it is published.
pub(crate) const SOCAT: Carrier = Carrier {
    name: "socat",
    what: "the recipe on two relays",
    hosts: |_, _| {},
    congestion: None,
    start: |wan, _, _| start(wan, ""),
};

/// With Nagle's algorithm off on both sides.
pub(crate) const NODELAY: Carrier = Carrier {
    name: "socat-nodelay",
    what: "the recipe with nodelay",
    hosts: |_, _| {},
    congestion: None,
    start: |wan, _, _| start(wan, ",nodelay"),
};

fn start(wan: &Wan, options: &str) -> Result<Started, Problem> {
    Started::on_relays(wan, "listening", |_, next| {
        let mut command = Command::new("socat");
        // -d -d: it says when it listens.
        command.args(["-d", "-d"]);
        command.arg(format!("TCP4-LISTEN:{PORT},fork,reuseaddr{options}")).arg(format!("TCP4:{next}:{PORT}{options}"));
        Ok((command, String::new()))
    })
}
