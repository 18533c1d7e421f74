//! The descriptors that flows and pipes may have.

use super::error::DaemonError;
use crate::relay::Relay;
use longhaul_sys::limits;
use tracing::{info, warn};

/// The descriptors of the process at its start.
pub(super) struct Descriptors {
    /// The limit (RLIMIT_NOFILE).
    pub(super) nofile: u64,
    /// Descriptors for what is neither tunnel, flow nor pipe.
    pub(super) open: usize,
}

impl Descriptors {
    /// Raises the limit to the most that is allowed, and counts what is open. `activated` is the number of sockets from systemd:
    /// one that no tunnel has takes one more.
    ///
    /// # Errors
    /// The kernel did not say.
    pub(super) fn count(nofile: u64, activated: usize) -> Result<Descriptors, DaemonError> {
        let open = limits::open_descriptors().map_err(|err| DaemonError::process("descriptors")(&err))? + activated;
        Ok(Descriptors { nofile, open })
    }

    /// Returns how many are left for the flows and pipes of `tunnels` tunnels.
    ///
    /// # Errors
    /// Too few for a single flow.
    pub(super) fn left(&self, tunnels: usize) -> Result<usize, DaemonError> {
        let Descriptors { nofile, open } = *self;
        let left = left_for_flows(nofile, open, tunnels);
        if left >= ONE_FLOW {
            return Ok(left);
        }
        let least = open + 2 * tunnels + HEADROOM + ONE_FLOW;
        let text = format!(
            "descriptors: a limit of {nofile} leaves none for flows, which begin at {least}; raise \
            RLIMIT_NOFILE: LimitNOFILE= of the unit, or ulimit -n"
        );
        Err(DaemonError::Process(text))
    }
}

/// Shares the descriptors out anew: there may be other tunnels, and another limit (prlimit(1)). `open` as in [`Descriptors`].
pub(super) fn share_out(relay: &Relay, open: usize, tunnels: usize) {
    let before = (relay.max_flows(), relay.max_pipes());
    match limits::raise_nofile() {
        Ok(nofile) => {
            relay.share_out(left_for_flows(nofile, open, tunnels));
            let now = (relay.max_flows(), relay.max_pipes());
            if now != before {
                info!(nofile, most_flows = now.0, most_pipes = now.1, "limits");
            }
        }
        Err(err) => warn!(%err, "descriptors stay shared out as they were"),
    }
}

/// The descriptors that a limit of `nofile` leaves for flows and pipes: each tunnel has a listener and its handle.
fn left_for_flows(nofile: u64, open: usize, tunnels: usize) -> usize {
    let nofile = usize::try_from(nofile).unwrap_or(usize::MAX);
    nofile.saturating_sub(open + 2 * tunnels + HEADROOM)
}

/// The descriptors of a flow's two legs.
const ONE_FLOW: usize = 2;
/// Descriptors for what is neither flow nor pipe and is opened after the count at the start: the epoll set of legs that close
/// (1), the sockets of the loop check (2, one of each IP version) and the configuration file (1, while it is read). The other 20
/// are for the lookups of one tunnel (16 at once, with one descriptor each most of the time) and for a few listeners that a reload
/// has replaced and that serve for a second more. Where lookups need more than that while every flow and pipe is in use, because
/// several tunnels look up at once or a lookup has two files open, one fails with EMFILE, and its dial with it. The log says so.
const HEADROOM: usize = 24;
