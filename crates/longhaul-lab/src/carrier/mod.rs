//! The ways to carry traffic between the hosts. [`table`] has a row for each, and [`row`] says what a row is.
//!
//! A carrier leads connections to port [`PORT`] of host B. Those on relays are the same program on each relay, the near one
//! leading to the far one; where one relay host joins two cables, the one leads to B.

mod row;
mod table;

pub(crate) use row::{Carrier, PORT, Role, Running};
pub(crate) use table::{ROWS, SSH_PORT};

/// Returns the carrier called `name`.
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
