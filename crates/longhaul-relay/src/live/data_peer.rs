//! The peer of an FTP data connection, and the command that uses it. The client may send the command before or after its data
//! connection begins.

use crate::leg::stream::Stream;
use crate::lock::lock;
use longhaul_core::ftp::Transfer;
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
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
    /// The connection with a client in active mode, from its dial to the beginning of the flow.
    pub(crate) client: Option<Met>,
    /// Whether this connection was dialled for an earlier transfer, which did not take it. The client may have closed it since then.
    pub(crate) is_kept: bool,
    /// Whether the server had connected before it refused that earlier transfer. The two connections then stand for one, as without a relay.
    pub(crate) is_paired: bool,
}

impl TransferFacts {
    /// Whether an upload without a byte may be none: the client may have closed its connection after the transfer before, and its FIN
    /// have come late.
    pub(super) fn is_doubtful(&self) -> bool {
        self.is_kept && !self.is_paired && self.transfer.as_ref().is_some_and(Transfer::is_upload)
    }
}

/// A connection with the other side that there is before the flow, and its peer.
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
    /// The connection with the other side, until the flow takes it. `None` if the flow dials it.
    pub(crate) met: Mutex<Option<Met>>,
    /// The FIN of an upload waits until this future is ready.
    pub(crate) before_fin: BeforeFin,
}

/// A future that is polled until it is ready.
pub(crate) struct BeforeFin(Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>);

impl BeforeFin {
    /// Returns what waits for `future`.
    pub(crate) fn new(future: impl Future<Output = ()> + Send + 'static) -> BeforeFin {
        BeforeFin(Mutex::new(Some(Box::pin(future))))
    }

    /// Ready when the future was.
    pub(super) fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut future = lock(&self.0);
        if let Some(future) = &mut *future {
            ready!(future.as_mut().poll(cx));
        }
        *future = None;
        Poll::Ready(())
    }
}

impl fmt::Debug for BeforeFin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BeforeFin")
    }
}
