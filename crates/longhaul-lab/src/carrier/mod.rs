//! The ways to carry traffic between the hosts. [`table`] has a row for each carrier, and [`row`] defines a row.
//!
//! A carrier leads connections to port [`PORT`] of host B. A carrier on relays runs the same program on each relay: the near
//! relay connects to the far one, and the far one to B. A single relay host connects to B. With [`Protocol::Ftp`], data connections
//! to [`DATA_PORTS`] belong to the traffic, too.

mod row;
mod table;

pub(crate) use row::{Carrier, DATA_PORTS, PORT, Protocol, Role, Running, Tunnel};
pub(crate) use table::{ROWS, SSH_PORT};

/// Returns the carrier called `name`.
///
/// # Errors
/// No carrier has this name.
pub(crate) fn find(name: &str) -> Result<&'static Carrier, String> {
    let names = || ROWS.iter().map(|carrier| carrier.name);
    ROWS.iter().find(|carrier| carrier.name == name).ok_or_else(|| {
        match longhaul_config::suggest::nearest(name, names()) {
            Some(near) => format!("there is no such carrier; did you mean {near}?"),
            None => format!("there is no such carrier; the carriers are {}", names().collect::<Vec<_>>().join(", ")),
        }
    })
}
