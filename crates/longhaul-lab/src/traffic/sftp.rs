//! A real sftp, with a batch file that puts (or gets) one file.

use crate::plan::place::Direction;
use crate::traffic::copies;
use crate::traffic::row::Kind;
use crate::world::requirement::Requirement;
use crate::world::ssh;

/// Simultaneous copies of one file.
pub(crate) const SFTP: Kind = Kind {
    name: "sftp",
    what: "sftp",
    subject: "this sftp copy",
    needs: &[Requirement::program("sftp", "openssh-client", "openssh-clients"), ssh::SSHD, ssh::KEYGEN],
    run: |drive| {
        copies::run(drive, |copy| {
            let order = match copy.direction {
                Direction::Out => "put",
                Direction::Back => "get",
            };
            let name = copy.to.rsplit('/').next().unwrap_or_default();
            let batch = copy.wan.write(&format!("{name}.sftp"), &format!("{order} {} {}\n", copy.from, copy.to))?;
            let mut command = ssh::client("sftp");
            command.args(["-q", "-P", &copy.entry.port().to_string(), "-b", &batch, &copy.login]);
            Ok(command)
        })
    },
    ..copies::BASE
};
