//! What carries the traffic between the hosts: a table, one file and one row a carrier.
//!
//! A carrier leads connections to port [`PORT`] of host B. Those on relays are the same program on each relay, the near one
//! leading to the far one; where one relay host joins two cables, the one leads to B.

mod direct;
mod haproxy;
mod longhaul;
mod nginx;
mod row;
mod socat;
mod socket_proxyd;
mod ssh;

pub(crate) use row::{Carrier, PORT, Running};
pub(crate) use ssh::SSH_PORT;

/// Every carrier there is.
pub(crate) const ROWS: &[Carrier] = &[
    direct::DIRECT,
    direct::TUNED,
    socat::SOCAT,
    socat::NODELAY,
    ssh::SSH,
    haproxy::HAPROXY,
    nginx::NGINX,
    socket_proxyd::SOCKET_PROXYD,
    longhaul::LONGHAUL,
];

/// The carrier of that name.
///
/// # Errors
/// There is none.
pub(crate) fn find(name: &str) -> Result<&'static Carrier, String> {
    let names = || ROWS.iter().map(|carrier| carrier.name);
    ROWS.iter().find(|carrier| carrier.name == name).ok_or_else(|| {
        match longhaul_config::suggest::nearest(name, names()) {
            Some(near) => format!("there is no such carrier; did you mean {near}?"),
            None => format!("there is no such carrier; there are {}", names().collect::<Vec<_>>().join(", ")),
        }
    })
}
