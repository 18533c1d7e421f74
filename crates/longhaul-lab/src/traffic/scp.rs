//! A real scp to a real sshd.

use crate::traffic::copies;
use crate::traffic::row::Kind;
use crate::world::requirement::Requirement;
use crate::world::ssh;

/// Simultaneous copies of one file.
pub(crate) const SCP: Kind = Kind {
    name: "scp",
    what: "scp",
    subject: "this scp copy",
    needs: &[Requirement::program("scp", "openssh-client", "openssh-clients"), ssh::SSHD, ssh::KEYGEN],
    run: |drive| {
        copies::run(drive, |copy| {
            let mut command = ssh::client("scp");
            command.args(["-q", "-P", &copy.entry.port().to_string()]).args(copy.places());
            Ok(command)
        })
    },
    ..copies::BASE
};
