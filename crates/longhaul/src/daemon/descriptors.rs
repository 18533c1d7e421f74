//! The number of descriptors for flows and pipes.

use super::error::DaemonError;
use crate::admin;
use longhaul_relay::Relay;
use longhaul_sys::limits;
use tracing::{info, warn};

/// The descriptors of the process at its start.
pub(super) struct Descriptors {
    /// The limit (RLIMIT_NOFILE).
    pub(super) nofile: u64,
    /// Number of descriptors used for anything but tunnels, flows and pipes.
    pub(super) open: usize,
}

impl Descriptors {
    /// Counts the open descriptors. `nofile` is the limit, `activated` the number of sockets from systemd. Each of these
    /// counts once more, for the duplicate that resets its connections while it has no tunnel.
    ///
    /// # Errors
    /// The kernel did not tell.
    pub(super) fn count(nofile: u64, activated: usize) -> Result<Descriptors, DaemonError> {
        let open = limits::open_descriptors().map_err(|err| DaemonError::process("descriptors")(&err))? + activated;
        Ok(Descriptors { nofile, open })
    }

    /// Returns the number of descriptors left for the flows and pipes of `tunnels` tunnels.
    ///
    /// # Errors
    /// Too few for one flow.
    pub(super) fn left(&self, tunnels: usize) -> Result<usize, DaemonError> {
        let Descriptors { nofile, open } = *self;
        let left = left_for_flows(nofile, open, tunnels);
        if left >= ONE_FLOW {
            return Ok(left);
        }
        let min = open + 2 * tunnels + HEADROOM + admin::descriptors(nofile) + ONE_FLOW;
        let text = format!(
            "descriptors: a limit of {nofile} leaves none for flows; at least {min} are needed: raise RLIMIT_NOFILE \
            (LimitNOFILE= of the unit, or ulimit -n)"
        );
        Err(DaemonError::Process(text))
    }
}

/// Divides the descriptors anew, because the number of tunnels or the limit (prlimit(1)) may have changed. `open` as in
/// [`Descriptors`]. `max_flows` further limits the number of flows.
pub(super) fn share_out(relay: &Relay, open: usize, tunnels: usize, max_flows: Option<usize>) {
    let before = (relay.max_flows(), relay.max_pipes());
    match limits::raise_nofile() {
        Ok(nofile) => {
            relay.share_out(Some(left_for_flows(nofile, open, tunnels)), max_flows);
            let now = (relay.max_flows(), relay.max_pipes());
            if now != before {
                info!(nofile, most_flows = now.0, most_pipes = now.1, "limits");
            }
        }
        Err(err) => {
            relay.share_out(None, max_flows);
            warn!(%err, "cannot raise the limit of descriptors: flows and pipes keep their shares");
        }
    }
}

/// Returns the number of descriptors that a limit of `nofile` leaves for flows and pipes. Each tunnel needs two: for
/// its listener, and for the one that replaces it at a reload.
fn left_for_flows(nofile: u64, open: usize, tunnels: usize) -> usize {
    let admin = admin::descriptors(nofile);
    let nofile = usize::try_from(nofile).unwrap_or(usize::MAX);
    nofile.saturating_sub(open + 2 * tunnels + HEADROOM + admin)
}

/// Number of descriptors of a flow's two legs.
const ONE_FLOW: usize = 2;
/// Number of descriptors kept for everything that is neither flow, pipe nor admin connection, and is opened after the
/// count at the start.
///
/// Five have a fixed use: the epoll set of legs that close (1), the sockets of the loop check (2, one of each IP
/// version), the configuration file (1, while it is read) and the files of the resources (1, while one is read). The
/// other 19 are for the exchanges with nameservers (16 at once, each with one descriptor) and for a few listeners that a
/// reload has replaced and that serve for a second more.
///
/// Queries can need more: their files, a connection over TCP, many names by getaddrinfo(3). If every flow and pipe is
/// in use then, a query fails with EMFILE. The last good answer serves, and the query is repeated.
const HEADROOM: usize = 24;
