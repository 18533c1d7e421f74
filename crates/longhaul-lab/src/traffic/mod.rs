//! The kinds of traffic between the hosts: a table with a row for each kind, in a file of its own.
//!
//! To add a kind, write its row and its `run` in a new file, and name the file and the row here, in one line each. Nothing else
//! names a kind. A row of a program that copies files begins with
//! [`copies::BASE`]. `UPDATE=1 cargo test -p longhaul-lab --lib docs_lab_md` writes the new row into docs/lab.md.

pub(crate) mod beside;
mod connections;
pub(crate) mod copies;
mod exchange;
mod ftp;
mod idle;
pub(crate) mod iperf3;
mod mix;
mod outage;
mod outside;
pub(crate) mod raw;
mod redis;
mod request;
mod resets;
pub(crate) mod row;
mod rsync;
mod scp;
mod sftp;
mod stream;

use crate::error::unknown;
use row::Kind;

/// All kinds of traffic.
pub(crate) const ROWS: &[Kind] = &[
    raw::RAW,
    scp::SCP,
    sftp::SFTP,
    rsync::RSYNC,
    ftp::FTP,
    iperf3::IPERF3,
    request::REQUEST,
    mix::MIX,
    mix::POSTS,
    connections::CONNECTIONS,
    idle::IDLE,
    redis::REDIS,
    redis::REDIS_PIPELINE,
    resets::RESETS,
    outage::OUTAGE,
];

impl Default for &'static Kind {
    /// Returns the first row of the table.
    fn default() -> &'static Kind {
        &ROWS[0]
    }
}

/// Returns the kind of traffic called `name`.
///
/// # Errors
/// No kind has this name.
pub(crate) fn find(name: &str) -> Result<&'static Kind, String> {
    let names = ROWS.iter().map(|kind| kind.name);
    let known = ROWS.iter().find(|kind| kind.name == name);
    known.ok_or_else(|| unknown("such traffic", name, names, "the kinds are"))
}
