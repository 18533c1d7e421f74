//! A real scp to a real sshd.

use crate::traffic::copies;
use crate::traffic::row::{Counts, Kind, LARGEST_COPY, THREADED, grows};
use crate::world::ssh;

/// Copies of one file, at once.
pub(crate) const SCP: Kind = Kind {
    name: "scp",
    what: "scp",
    laws: &["window", "openssh"],
    counts: Counts::Speed,
    keys: &["direction"],
    largest: LARGEST_COPY,
    figures: &[grows("login_s")],
    most: THREADED,
    run: |drive| {
        copies::run(drive, |copy| {
            let mut command = ssh::client("scp");
            command.args(["-q", "-P", &copy.entry.port().to_string()]).args(copy.places());
            Ok(command)
        })
    },
};
