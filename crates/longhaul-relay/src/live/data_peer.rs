//! The peer of an FTP data connection, and the command that uses it. The client may send the command before or after its data
//! connection begins.

use crate::leg::stream::Stream;
use longhaul_core::ftp::Transfer;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

/// Facts about the transfer of one data connection, from its control connection.
#[derive(Debug, Default)]
pub(crate) struct TransferFacts {
    /// The command that uses it, once the client has sent one. The last one counts, because the server may have refused the ones
    /// before it.
    pub(crate) transfer: Option<Transfer>,
    /// Whether the server has refused the command, for another reason than the data connection.
    pub(crate) is_refused: bool,
    /// Whether the control connection ended while this data connection was the latest.
    pub(crate) is_over: bool,
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
    /// The facts of its transfer.
    pub(crate) facts: Arc<Mutex<TransferFacts>>,
    /// Becomes true when the dial for it has connected, or when its flow has ended.
    pub(crate) has_dialled: watch::Sender<bool>,
    /// The connection with the other side, until the flow takes it. `None` if the other side is dialled.
    pub(crate) met: Mutex<Option<Met>>,
}
