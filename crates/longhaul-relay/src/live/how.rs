//! Why a flow ended.

use longhaul_config::options::Leg;
use longhaul_sys::errno_text;
use std::fmt;
use std::io;

/// The leg that a flow broke on, and the errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    pub(crate) leg: Leg,
    errno: i32,
}

impl Broken {
    /// Returns the record that `leg` broke with `err`.
    pub(crate) fn of(leg: Leg, err: &io::Error) -> Broken {
        Broken { leg, errno: err.raw_os_error().unwrap_or(libc::EIO) }
    }
}

/// Why a flow ended. Every ending but [`Finished`](How::Finished) sends RST on both legs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Both directions ended with FIN, and the peers acknowledged every byte.
    Finished,
    /// The leg was reset by its peer, so the other leg was reset too.
    Reset(Leg),
    /// The client sent RST within a second and no byte before it, and none was carried: a health check.
    Checked,
    /// The leg's peer stopped answering: keepalive, user-timeout or retransmission gave up.
    TimedOut(Leg),
    /// The leg failed with another errno.
    Failed(Leg, i32),
    /// No next hop answered.
    DialFailed,
    /// longhaul refused the probe that the flow was.
    ProbeRefused,
    /// `linger-half-open` ran out.
    HalfOpenTooLong,
    /// longhaul ended it: drain timeout, second SIGTERM, exit, or an FTP client that did not leave after 421.
    Cut,
    /// longhaul ended this flow because a command asked for it.
    Killed,
}

impl From<Broken> for How {
    fn from(broken: Broken) -> How {
        match broken.errno {
            // EPIPE: the reset came before our write, so write(2) reports it this way (tcp(7)).
            libc::ECONNRESET | libc::EPIPE | libc::ENOTCONN => How::Reset(broken.leg),
            libc::ETIMEDOUT => How::TimedOut(broken.leg),
            errno => How::Failed(broken.leg, errno),
        }
    }
}

impl How {
    /// Whether the flow ended for another reason than a failure of `leg`.
    pub(crate) fn is_of_other(self, leg: Leg) -> bool {
        !matches!(self, How::Reset(of) | How::TimedOut(of) | How::Failed(of, _) if of == leg)
    }
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            How::Finished => f.write_str("finished"),
            How::Reset(leg) => write!(f, "reset by the {leg} leg"),
            How::Checked => f.write_str("health check"),
            How::TimedOut(leg) => write!(f, "{leg} leg timed out"),
            How::Failed(leg, errno) => write!(f, "{leg} leg failed: {}", errno_text(*errno)),
            How::DialFailed => f.write_str("dial failed"),
            How::ProbeRefused => f.write_str("probe refused"),
            How::HalfOpenTooLong => f.write_str("half-open too long"),
            How::Cut => f.write_str("cut by drain or exit"),
            How::Killed => f.write_str("cut by command"),
        }
    }
}
