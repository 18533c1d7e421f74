//! The peer of an FTP data connection, and the command that uses it. The client may send the command before or after its data
//! connection begins.

use crate::leg::stream::Stream;
use crate::lock::lock;
use longhaul_core::ftp::Transfer;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

/// What a control connection knows of one of its data connections.
#[derive(Debug, Default)]
pub(crate) struct Naming {
    /// The command that uses it, once it is known.
    transfer: Mutex<Option<Transfer>>,
    /// Whether the server has refused this command.
    is_refused: AtomicBool,
    /// Whether the control connection is over.
    is_over: AtomicBool,
}

/// A connection with the other side that came to us, too, and its peer.
pub(crate) type Met = (Stream, SocketAddr);

/// The peer of a data connection that came to us.
#[derive(Debug)]
pub(crate) struct DataPeer {
    /// Its address.
    pub(crate) address: SocketAddr,
    /// Whether it is the server, so that the connection comes from the next hop of the tunnel.
    pub(crate) is_server: bool,
    /// The command that uses the connection.
    pub(crate) naming: Arc<Naming>,
    /// Becomes true when the dial for it has connected, or when its flow has ended.
    pub(crate) has_dialled: watch::Sender<bool>,
    /// The connection with the other side, until the flow takes it. `None` if the other side is dialled.
    pub(crate) met: Mutex<Option<Met>>,
}

impl Naming {
    /// Records the command. The last one counts, because the server may have refused the ones before it.
    pub(crate) fn set(&self, transfer: Transfer) {
        *lock(&self.transfer) = Some(transfer);
    }

    /// Returns the command. `None` until the client has sent it.
    pub(super) fn get(&self) -> Option<Transfer> {
        lock(&self.transfer).clone()
    }

    /// Records that the server has refused the command, for another reason than the data connection.
    pub(crate) fn refuse(&self) {
        self.is_refused.store(true, Relaxed);
    }

    /// Records that the control connection is over.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Relaxed);
    }

    /// Whether the control connection ended while this data connection was the latest.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Relaxed)
    }

    /// Whether the server has refused the command, for another reason than the data connection.
    pub(crate) fn is_refused(&self) -> bool {
        self.is_refused.load(Relaxed)
    }
}
