//! A real curl that puts (or gets) a file by FTP at a real vsftpd.

use crate::carrier::row::DATA_PORTS;
use crate::plan::law;
use crate::plan::place::{Direction, Host};
use crate::traffic::copies;
use crate::traffic::row::{Kind, ServedBy};
use crate::world::ftp;
use crate::world::requirement::Requirement;
use std::process::{Command, Stdio};

/// Simultaneous copies of one file, each over a session of its own: a control connection and a data connection.
pub(crate) const FTP: Kind = Kind {
    name: "ftp",
    what: "FTP, passive, a session for each file",
    subject: "this FTP transfer",
    needs: &[Requirement::program("curl", "curl", "curl"), ftp::VSFTPD],
    laws: &[law::WINDOW],
    server: ServedBy::Ftpd,
    max_connections: SESSIONS,
    run: |drive| {
        let _server = ftp::start(drive.wan, Host::B, drive.server(), &DATA_PORTS)?;
        copies::run_with(drive, &format!("ftp://{}", drive.running.entry), |copy| {
            let mut command = Command::new("curl");
            // --disable: without the user's own configuration.
            command.args(["--disable", "--silent", "--show-error", "--noproxy", "*"]);
            let url = |path: &str| format!("{}/{}", copy.login, path.rsplit('/').next().unwrap_or_default());
            match copy.direction {
                Direction::Out => command.args(["--upload-file", &copy.from, &url(&copy.to)]),
                Direction::Back => command.args(["--output", &copy.to, &url(&copy.from)]),
            };
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
            Ok(command)
        })
    },
    ..copies::BASE
};

/// Maximum number of sessions at once: a fifth of [`DATA_PORTS`], because vsftpd tries ports at random.
const SESSIONS: u32 = 200;
