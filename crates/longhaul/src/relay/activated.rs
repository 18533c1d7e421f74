//! The sockets that systemd opened for us (socket activation). systemd holds them too, so closing ours does not make the
//! kernel refuse connections: a client would wait for ever. So they are kept for the life of the process, and while no tunnel
//! listens on one, its connections are reset.
//!
//! Not shutdown(2), which would refuse: systemd takes its socket unit for failed when it finds the socket shut down.

use super::shared::Relay;
use longhaul_sys::activation::accept;
use longhaul_sys::sockopt;
use socket2::Socket;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::AbortHandle;
use tokio::time::sleep;
use tracing::{error, warn};

/// A listening socket of systemd's.
#[derive(Debug)]
pub struct Activated {
    socket: Socket,
    address: SocketAddr,
    /// The task that resets whoever connects, while no tunnel listens here.
    refusing: Option<AbortHandle>,
}

impl Activated {
    /// Takes over `socket`; `None`, and it is closed, unless it listens on an IP address.
    pub fn new(socket: OwnedFd) -> Option<Activated> {
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

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A descriptor of it for a listener of ours.
    ///
    /// # Errors
    /// EMFILE.
    pub(super) fn share(&self) -> io::Result<OwnedFd> {
        self.socket.try_clone().map(OwnedFd::from)
    }

    /// Stops to reset connections, because a tunnel listens on it now.
    pub fn serve(&mut self) {
        if let Some(task) = self.refusing.take() {
            task.abort();
        }
    }

    /// Resets each connection from now on, because no tunnel listens on it, and says so in the log.
    pub fn refuse(&mut self, relay: &Arc<Relay>) {
        if self.refusing.is_some() {
            return;
        }
        let listen = self.address;
        match self.register() {
            Ok(socket) => {
                warn!(%listen, "no tunnel listens on this socket from systemd, so who connects is reset; give it a tunnel, \
                    or take its ListenStream= out of longhaul.socket");
                self.refusing = Some(tokio::spawn(reset_all(socket, listen, relay.clone())).abort_handle());
            }
            // The next reload tries again.
            Err(err) => {
                error!(%listen, %err, "no tunnel listens on this socket from systemd: who connects there hangs; \
                take its ListenStream= out of longhaul.socket and restart both")
            }
        }
    }

    #[allow(deprecated, reason = "sound for a socket that owns its descriptor; what replaces it is unsafe")]
    fn register(&self) -> io::Result<AsyncFd<Socket>> {
        let socket = self.socket.try_clone()?;
        socket.set_nonblocking(true)?;
        AsyncFd::with_interest(socket, Interest::READABLE)
    }
}

/// Resets every connection that comes, and those that wait in the queue already.
async fn reset_all(socket: AsyncFd<Socket>, listen: SocketAddr, relay: Arc<Relay>) {
    let name = listen.to_string();
    loop {
        let Ok(mut waiting) = socket.readable().await else { return };
        match waiting.try_io(|socket| accept(socket.get_ref().as_fd())) {
            Ok(Ok((connection, peer))) => {
                // RST (socket(7) SO_LINGER). A connection that came before longhaul has not inherited it from the listener.
                let _ = sockopt::set_reset_on_close(connection.as_fd());
                drop(connection);
                relay.counters.refused.fetch_add(1, Relaxed);
                if let Some(more) = relay.lines.refused.pass(&name, Instant::now()) {
                    warn!(%listen, %peer, more, "refused: no tunnel listens here");
                }
            }
            Err(_nobody) => {}
            // One that is gone already, or no descriptor left for it: it waits in the queue.
            Ok(Err(_)) => sleep(PAUSE).await,
        }
    }
}

/// Pause after accept(2) has failed.
const PAUSE: Duration = Duration::from_millis(100);
