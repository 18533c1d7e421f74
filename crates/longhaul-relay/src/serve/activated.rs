//! The sockets that systemd opened for us (socket activation).
//!
//! systemd holds them too. If we closed ours, the kernel would not refuse connections, and clients would wait forever.
//! So we keep the sockets for the life of the process, and reset the connections to a socket while no tunnel listens on
//! it.
//!
//! shutdown(2) would make the kernel refuse connections, but systemd marks its socket unit as failed when it finds the
//! socket shut down.

use crate::leg::accept_loop;
use crate::leg::stream::watched;
use crate::state::listeners::Activated;
use crate::state::shared::Relay;
use longhaul_sys::{SysError, sockopt};
use socket2::Socket;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tracing::{error, warn};

impl Activated {
    /// Takes over `socket`. Returns `None` and closes the socket unless it listens on an IP address.
    pub(super) fn new(socket: OwnedFd) -> Option<Activated> {
        let socket = Socket::from(socket);
        let address = socket.local_addr().ok().and_then(|address| address.as_socket());
        let listens = socket.is_listener().is_ok_and(|listens| listens);
        match (address, listens) {
            (Some(address), true) => Some(Activated { socket, address, refusing: None }),
            _ => {
                warn!("a socket from systemd listens on no IP address and is closed; look at longhaul.socket");
                None
            }
        }
    }

    /// Stops resetting connections, because a tunnel listens on the socket now.
    pub(super) fn serve(&mut self) {
        if let Some(task) = self.refusing.take() {
            task.abort();
        }
    }

    /// Resets every connection from now on, because no tunnel listens on the socket. Logs a warning.
    pub(super) fn refuse(&mut self, relay: &Arc<Relay>) {
        if self.refusing.is_some() {
            return;
        }
        let listen = self.address;
        let socket = self.socket.try_clone().and_then(|socket| {
            socket.set_nonblocking(true)?;
            watched(socket, Interest::READABLE)
        });
        match socket {
            Ok(socket) => {
                warn!(%listen, "no tunnel listens on this socket from systemd: connections to it are reset; configure a \
                    tunnel for it, or remove its ListenStream= from longhaul.socket");
                self.refusing = Some(tokio::spawn(reset_all(socket, listen, relay.clone())).abort_handle());
            }
            // The next reload tries again.
            Err(err) => {
                error!(%listen, %err, "no tunnel listens on this socket from systemd: connections to it hang; remove its \
                ListenStream= from longhaul.socket and restart both units")
            }
        }
    }
}

/// Resets every new connection, and those already in the listen queue.
async fn reset_all(socket: AsyncFd<Socket>, listen: SocketAddr, relay: Arc<Relay>) {
    let name = listen.to_string();
    loop {
        // Without a descriptor for a connection, it stays in the queue.
        let (connection, peer, ()) = accept_loop::next(&socket, &|_: &SysError| ()).await;
        // Closing sends RST (socket(7) SO_LINGER). A connection accepted before startup did not inherit this
        // from the listener.
        let _ = sockopt::set_reset_on_close(connection.as_fd());
        drop(connection);
        relay.counters.refused.fetch_add(1, Relaxed);
        if let Some(more) = relay.lines.refused.pass(&name, Instant::now()) {
            warn!(%listen, %peer, more, "refused: no tunnel listens here");
        }
    }
}
