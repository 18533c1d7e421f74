//! A real rsync over ssh: whole files, uncompressed, as usual for large new files.

use crate::traffic::copies;
use crate::traffic::row::Kind;
use crate::world::requirement::Requirement;
use crate::world::ssh;
use std::process::{Command, Stdio};

/// Simultaneous copies of one file.
pub(crate) const RSYNC: Kind = Kind {
    name: "rsync",
    what: "rsync over ssh",
    subject: "this traffic (rsync)",
    needs: &[Requirement::program("rsync", "rsync", "rsync"), ssh::SSH, ssh::SSHD, ssh::KEYGEN],
    run: |drive| {
        copies::run(drive, |copy| {
            let words = ssh::client_options().join(" ");
            let shell = format!("ssh -p {} {words} -o LogLevel=ERROR", copy.entry.port());
            let mut command = Command::new("rsync");
            command.args(["--whole-file", "-e", &shell]).args(copy.places());
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
            Ok(command)
        })
    },
    ..copies::BASE
};
