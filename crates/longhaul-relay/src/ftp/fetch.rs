//! Fetches the server's data connection in passive mode, for a client in active mode (`ftp.mode = "passive"`).
//!
//! ```text
//! server   227 ─────────────── accepts ──────────────── RETR ── 150 ─── the file ──>
//! relay         dials the server      dials the client               the flow begins
//! client                         RETR ───── accepts                 ─── the file ──>
//! ```
//! The flow begins only when the transfer does. A transfer that the server refuses leaves none behind.

use super::data_listener::{Prepared, patience};
use crate::leg::stream::Stream;
use crate::reach::connect::{self, Failure};
use crate::state::shared::Relay;
use crate::state::silence;
use longhaul_config::Tunnel;
use longhaul_core::ftp::Side;
use std::net::SocketAddr;
use std::time::Instant;
use tokio::sync::watch;
use tokio::time::timeout;
use tracing::warn;

/// A data connection that is dialled on both sides.
pub(super) struct Fetch {
    /// Its flow comes from the server, and dials the client.
    pub(super) prepared: Prepared,
    /// A tunnel that dials the server.
    pub(super) towards_server: Tunnel,
    /// The address that the server named.
    pub(super) server: SocketAddr,
    /// Becomes true when the transfer begins.
    pub(super) begins: watch::Receiver<bool>,
}

impl Fetch {
    /// Dials the server, waits until the transfer begins, and starts the flow: see [`Prepared::start`]. Returns `None` if the server
    /// does not answer; it then sends its own error, because nobody connects to its port. Returns `None` also if no transfer begins in
    /// time. Dropping this closes the connection.
    pub(super) async fn serve(mut self) -> Option<watch::Receiver<bool>> {
        let relay = self.prepared.relay.clone();
        let fetched = tokio::select! {
            biased;
            fetched = self.fetch() => fetched,
            () = relay.is_cut() => None,
        };
        fetched.map(|stream| self.prepared.start(stream, self.server, None))
    }

    async fn fetch(&mut self) -> Option<Stream> {
        let dialled = dial(&self.prepared.relay, &self.towards_server, self.server).await;
        let stream = dialled.inspect_err(|failure| self.tell(failure)).ok()?;
        let begins = timeout(patience(Side::Server), self.begins.wait_for(|begins| *begins)).await;
        // The inner one fails only when the control connection is over, which drops this, too.
        begins.is_ok_and(|begins| begins.is_ok()).then_some(stream)
    }

    fn tell(&self, failure: &Failure) {
        let Prepared { relay, tunnel, .. } = &self.prepared;
        tunnel.counters.count(|counters| &counters.ftp_unused);
        let name = &tunnel.settings.name;
        tunnel.data_problem.note(format!("the server's data port {} cannot be reached: {failure}", self.server));
        if let Some(more) = relay.lines.dial.pass(name, Instant::now()) {
            warn!(tunnel = %name, server = %self.server, why = %failure, more, "cannot connect to the FTP server's data port");
        }
    }
}

/// Connects to `to`, as `tunnel` does.
///
/// # Errors
/// It does not answer.
pub(super) async fn dial(relay: &Relay, tunnel: &Tunnel, to: SocketAddr) -> Result<Stream, Failure> {
    let (stream, _) = connect::begin(relay, tunnel, to, &[])?;
    connect::finish(relay, &stream, to, tunnel.connect_timeout).await?;
    // It has no flow yet, and the server may need long for the file.
    silence::keep_alive(&stream, &tunnel.dial);
    Ok(stream)
}
