//! Programs that may have a window of their own, which neither a relay nor a larger TCP window lifts. One row is one program.

use crate::path::laws::OPENSSH_WINDOW;
use longhaul_units::Bytes;

/// One application.
#[derive(Debug)]
pub struct Application {
    /// Name on the command line.
    pub name: &'static str,
    /// What it is, for people.
    pub title: &'static str,
    /// Bytes that one connection has on the way at most; `None` if it has no such limit, or none is known.
    pub window: Option<Bytes>,
    /// What sets that window, or what is known of it.
    pub what: &'static str,
    /// How to get beyond it; may be empty.
    pub remedy: &'static str,
    /// The document that says so.
    pub source: &'static str,
    /// Whether it was tried.
    pub verified: bool,
}

impl Application {
    /// Returns the row called `name`.
    pub fn named(name: &str) -> Option<&'static Application> {
        APPLICATIONS.iter().find(|application| application.name == name)
    }
}

/// All applications.
pub const APPLICATIONS: &[Application] = &[
    Application {
        name: "ssh",
        title: "OpenSSH: ssh, scp",
        window: Some(OPENSSH_WINDOW),
        what: "The window of each channel is 2 MiB.",
        remedy: "Run several copies at once, each in its own connection.",
        source: "OpenSSH channels.h, CHAN_SES_WINDOW_DEFAULT; the lab's scenario mitre measures it",
        verified: true,
    },
    Application {
        name: "sftp",
        title: "OpenSSH: sftp, and scp since 9.0",
        window: Some(OPENSSH_WINDOW),
        what: "The client has 64 requests of 32 KiB under way, and the channel's window is 2 MiB.",
        remedy: "`sftp -R 256` asks for more requests; the channel's 2 MiB stay. Run several copies at once.",
        source: "sftp(1), -R; the lab's scenario mitre measures it",
        verified: true,
    },
    Application {
        name: "ftp",
        title: "FTP",
        window: None,
        what: "A data connection has no window besides TCP's.",
        remedy: "",
        source: "RFC 959; the lab's scenarios ornl-ftp and ibmi-ftp measure it",
        verified: true,
    },
    Application {
        name: "rsync",
        title: "rsync over ssh",
        window: Some(OPENSSH_WINDOW),
        what: "It runs in one channel of ssh, whose window is 2 MiB. A daemon (rsync://) has no such window.",
        remedy: "Use the daemon through a tunnel, or several copies at once.",
        source: "OpenSSH channels.h, CHAN_SES_WINDOW_DEFAULT",
        verified: true,
    },
    Application {
        name: "rman",
        title: "Oracle RMAN",
        window: None,
        what: "The number of channels is the number of connections. SEND_BUF_SIZE and RECV_BUF_SIZE of Oracle Net cap the socket's window.",
        remedy: "Allocate more channels.",
        source: "general knowledge",
        verified: false,
    },
    Application {
        name: "dataguard",
        title: "Oracle Data Guard redo transport",
        window: None,
        what: "SEND_BUF_SIZE and RECV_BUF_SIZE of Oracle Net cap the socket's window. SYNC transport waits a round trip for each commit.",
        remedy: "Set both to three times the bandwidth-delay product, or leave them out so that the system tunes them.",
        source: "general knowledge",
        verified: false,
    },
    Application {
        name: "db2-hadr",
        title: "Db2 HADR",
        window: None,
        what: "DB2_HADR_SOSNDBUF and DB2_HADR_SORCVBUF cap the socket's window. SYNC and NEARSYNC wait a round trip for each commit.",
        remedy: "Set both to the bandwidth-delay product or more, or use ASYNC or SUPERASYNC over a long path.",
        source: "general knowledge",
        verified: false,
    },
    Application {
        name: "mq",
        title: "IBM MQ channels",
        window: None,
        what: "BATCHSZ messages are sent before the channel waits a round trip for their confirmation.",
        remedy: "Raise BATCHSZ, or run several channels.",
        source: "general knowledge",
        verified: false,
    },
];
