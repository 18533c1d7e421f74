//! A real sftp, told by a batch file to put (or get) one file.

use super::{Counts, Kind, LARGEST_COPY, THREADED, copies, grows};
use crate::ssh;

/// Copies of one file, at once.
pub(super) const SFTP: Kind = Kind {
    name: "sftp",
    what: "sftp",
    laws: &["window", "openssh"],
    counts: Counts::Speed,
    keys: &["direction"],
    largest: LARGEST_COPY,
    figures: &[grows("login_s")],
    most: THREADED,
    run: |drive| {
        copies::run(drive, |copy| {
            let order = if copy.down { "get" } else { "put" };
            let name = copy.to.rsplit('/').next().unwrap_or_default();
            let batch = copy.wan.write(&format!("{name}.sftp"), &format!("{order} {} {}\n", copy.from, copy.to))?;
            let mut command = ssh::client("sftp");
            command.args(["-q", "-P", &copy.entry.port().to_string(), "-b", &batch, &copy.login]);
            Ok(command)
        })
    },
};
