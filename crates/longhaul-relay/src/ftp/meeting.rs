//! Joins a client's data connection with the server's where both come to this relay (`ftp.mode = "active"`).
//!
//! ```text
//! client   PASV ──────────────── 227 ── connects ── RETR ─────────────────── the file
//! relay         listens for the server, then for the client                  the flow begins
//! server        PORT ── 200 ────────────────────────────── connects ── 150 ── the file
//! ```
//! Its flow is that of passive mode: it comes from the client, and its dial leg is the server's connection.

use super::data_listener::{DataListener, Listener, Prepared, has_come, patience};
use crate::leg::stream::Stream;
use longhaul_config::{NextHop, Tunnel};
use longhaul_core::ftp::Side;
use socket2::Socket;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use tokio::io::unix::AsyncFd;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

/// A data connection that both sides open.
pub(super) struct Meeting {
    pub(super) from_server: DataListener,
    /// The listener for the client. It opens when the server has accepted the address of the other one.
    pub(super) from_client: oneshot::Receiver<DataListener>,
}

/// The listeners of a [`Meeting`].
pub(super) struct Awaited {
    /// Gone when the server has come.
    pub(super) server: Weak<AsyncFd<Socket>>,
    /// Gone when the client has come. `None` before it is opened.
    client: Option<Weak<AsyncFd<Socket>>>,
    /// Takes the client's listener.
    open: Option<oneshot::Sender<DataListener>>,
}

impl Meeting {
    /// Waits for both connections, and starts the flow: see [`Prepared::start`]. Returns `None` if one of them does not come in time, or
    /// the relay is cut. Dropping this closes both.
    pub(super) async fn serve(self, mut prepared: Prepared) -> Option<watch::Receiver<bool>> {
        let from_client = async {
            let opened = timeout(patience(Side::Client), self.from_client).await;
            opened.ok()?.ok()?.admitted().await
        };
        let both = tokio::try_join!(or_end(from_client), or_end(self.from_server.admitted()));
        let ((accept, peer), (dial, server)) = both.ok()?;
        let to = vec![NextHop::new(server.ip().to_canonical().to_string(), server.port())];
        let settings = Tunnel { to, ..Tunnel::clone(&prepared.tunnel.settings) };
        prepared.tunnel = Arc::new(prepared.tunnel.beside(Arc::new(settings)));
        Some(prepared.start(accept, peer, Some((dial, server))))
    }
}

/// Turns `None` into an error, which ends the wait for the other one.
async fn or_end(came: impl Future<Output = Option<(Stream, SocketAddr)>>) -> Result<(Stream, SocketAddr), ()> {
    came.await.ok_or(())
}

impl Awaited {
    /// Returns the listeners before the client has one. `open` takes that.
    pub(super) fn new(server: &Listener, open: oneshot::Sender<DataListener>) -> Awaited {
        Awaited { server: Arc::downgrade(server), client: None, open: Some(open) }
    }

    /// Adds the listener for the client.
    ///
    /// # Errors
    /// There is one already, or the server did not come in time. The text goes to the client.
    pub(super) fn add(&mut self, client: DataListener) -> Result<(), String> {
        self.client = Some(Arc::downgrade(&client.listener));
        let open = self.open.take().ok_or("it has a listener already")?;
        open.send(client).map_err(|_| "the listener for the server is closed".to_string())
    }

    /// Whether both connections have come.
    pub(super) fn have_come(&self) -> bool {
        let has_come = |listener| has_come(listener).unwrap_or(true);
        self.client.as_ref().is_some_and(has_come) && has_come(&self.server)
    }
}
