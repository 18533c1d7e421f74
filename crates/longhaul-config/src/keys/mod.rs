//! The keys of a configuration file. One row is the whole key: its parser for the file and for the flag of `longhaul relay`,
//! its default, its help, its line in `longhaul check`, its errors and warnings, and its line in docs/configuration.md
//! (`UPDATE=1 cargo test -p longhaul-config --lib docs_configuration_md` writes that file).

mod addresses;
mod admin;
mod bandwidth;
mod clients;
mod daemon;
mod ftp;
mod leg;
mod probes;

pub use crate::remark::{Remark, Syntax};
pub use crate::row::{Argument, Flag, KeyDefault, KeyValue, Row};
pub use admin::ADMIN;
pub(crate) use bandwidth::background_without_auto;
pub use daemon::DAEMON;
pub use probes::PROBE;

use crate::config::Config;
use crate::document::same_key;
use crate::options::{self, Leg};
use crate::suggest;
use crate::tunnel::{self, Tunnel};

/// The keys of a `[[tunnel]]`, in the order of the manual.
pub const TUNNEL: &[Row<Tunnel>] = &joined::<{ count(GROUPS) }>(GROUPS);

/// The keys by their subjects. A const cannot join slices, so [`joined`] does it.
const GROUPS: &[&[Row<Tunnel>]] = &[
    addresses::ROWS,
    probes::CHECKS,
    clients::ROWS,
    bandwidth::ROWS,
    tunnel::ROWS,
    probes::VERIFY,
    ftp::ROWS,
    leg::ROWS,
];

const fn count(groups: &[&[Row<Tunnel>]]) -> usize {
    let (mut count, mut group) = (0, 0);
    while group < groups.len() {
        count += groups[group].len();
        group += 1;
    }
    count
}

/// Returns the `N` rows of `groups` as one table.
const fn joined<const N: usize>(groups: &[&[Row<Tunnel>]]) -> [Row<Tunnel>; N] {
    let mut rows = [groups[0][0]; N];
    let (mut next, mut group) = (0, 0);
    while group < groups.len() {
        let mut row = 0;
        while row < groups[group].len() {
            rows[next] = groups[group][row];
            (next, row) = (next + 1, row + 1);
        }
        group += 1;
    }
    rows
}

/// Returns the errors, warnings and notes about `tunnel`, in the order of its keys.
pub fn remarks(tunnel: &Tunnel, syntax: Syntax) -> Vec<Remark> {
    TUNNEL.iter().flat_map(|row| (row.check)(tunnel, syntax)).collect()
}

/// Returns the errors, warnings and notes about the keys of the daemon, in the order of the keys. Pass the whole
/// configuration.
pub fn daemon_remarks(config: &Config, syntax: Syntax) -> Vec<Remark> {
    DAEMON.iter().flat_map(|row| (row.check)(config, syntax)).collect()
}

/// Returns where the misplaced key `name` belongs, and what to write there. `header` is the first line in brackets of the
/// file, if it has one.
pub(crate) fn elsewhere(name: &str, header: Option<&str>) -> Option<String> {
    if DAEMON.iter().any(|key| same_key(key.name, name)) {
        let place = header.map_or("at the top of the file, on a line of its own".into(), |header| {
            format!("above the first line in brackets, here `{header}`")
        });
        return Some(format!("it is a key of the whole daemon; write it {place}"));
    }
    if TUNNEL.iter().any(|key| same_key(key.name, name)) {
        return Some("it is a key of one tunnel; write it below its [[tunnel]]".into());
    }
    let option = name.replace('_', "-");
    let legs = Leg::ALL.into_iter().filter(|leg| options::row(*leg, &option).is_some());
    let written: Vec<String> = legs.map(|leg| format!("{leg} = {{ {option} = .. }}")).collect();
    match written.is_empty() {
        true => suggest::advice(name).map(|advice| format!("there is no such key; {advice}")),
        false => Some(format!("it is a socket option; write {} in a [[tunnel]]", written.join(" or "))),
    }
}

#[cfg(test)]
mod tests;
