//! The client of a flow. A proxy before us may have named it.

use crate::live::data_peer::{DataPeer, Met, TransferFacts};
use crate::lock::lock;
use longhaul_config::options::Leg;
use longhaul_core::ftp::Transfer;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

/// Who began a flow. As small as its address, because every idle flow has one.
#[derive(Debug)]
pub(crate) enum Client {
    /// The client with this address connected to us.
    Direct(SocketAddr),
    /// A proxy connected to us and named its client.
    Via(Box<Via>),
    /// This process itself, with a probe of its own.
    Own(Box<SocketAddr>),
    /// An FTP data connection came to a data listener.
    Data(Box<DataPeer>),
}

/// A connection through a proxy, by its PROXY header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Via {
    /// Address of the client.
    pub(crate) client: SocketAddr,
    /// Address that the client connected to.
    pub(crate) to: SocketAddr,
    /// Address of the proxy: the far end of the accept leg.
    pub(crate) proxy: SocketAddr,
}

impl Client {
    /// Returns the address of the client.
    pub(crate) fn address(&self) -> SocketAddr {
        match self {
            Client::Direct(address) => *address,
            Client::Own(address) => **address,
            Client::Data(peer) => peer.address,
            Client::Via(via) => via.client,
        }
    }

    /// Whether a PROXY header has named no client. HAProxy names itself in a check of version 1. On an IPv6 listener, its IPv4 address is a
    /// mapped one.
    pub(crate) fn is_nobody(&self) -> bool {
        match self {
            Client::Direct(_) => true,
            Client::Via(via) => via.client == SocketAddr::new(via.proxy.ip().to_canonical(), via.proxy.port()),
            Client::Own(_) | Client::Data(_) => false,
        }
    }

    /// Returns the proxy's connection, unless the client connected to us.
    pub(crate) fn via(&self) -> Option<&Via> {
        let Client::Via(via) = self else { return None };
        Some(via)
    }

    /// Returns what the control connection has said about the transfer of an FTP data connection.
    pub(crate) fn transfer_facts(&self) -> Option<&Arc<Mutex<TransferFacts>>> {
        let Client::Data(peer) = self else { return None };
        Some(&peer.facts)
    }

    /// Returns the command that uses an FTP data connection, once it is known.
    pub(crate) fn transfer(&self) -> Option<Transfer> {
        lock(self.transfer_facts()?).transfer.clone()
    }

    /// Tells an FTP control connection that the dial for its data connection has connected or failed.
    pub(super) fn dialled(&self) {
        if let Client::Data(peer) = self {
            peer.has_dialled.send_replace(true);
        }
    }

    /// Takes the connection with the other side of an FTP data connection, if there is one already.
    pub(crate) fn take_met(&self) -> Option<Met> {
        let Client::Data(peer) = self else { return None };
        lock(&peer.met).take()
    }

    /// Waits until the FIN of an FTP data connection's leg `source`, which gave this number of bytes, may be passed on. Ready at once for
    /// that of every other one.
    ///
    /// # Errors
    /// ECONNRESET: it may not, because it may be no file.
    pub(crate) fn poll_before_fin(&self, source: Leg, bytes: u64, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Client::Data(peer) if peer.is_server == (source == Leg::Dial) => match bytes {
                0 if lock(&peer.facts).is_doubtful() => {
                    Poll::Ready(Err(io::Error::from_raw_os_error(libc::ECONNRESET)))
                }
                _ => peer.before_fin.poll(cx).map(Ok),
            },
            _ => Poll::Ready(Ok(())),
        }
    }

    /// Whether it came to an FTP data listener.
    pub(crate) fn is_data(&self) -> bool {
        matches!(self, Client::Data(_))
    }

    /// Whether it came from the next hop of its tunnel, to an FTP data listener, as for a client in active mode. Up is then towards the
    /// client.
    pub(crate) fn is_turned(&self) -> bool {
        matches!(self, Client::Data(peer) if peer.is_server)
    }

    /// Whether its first bytes may be a probe. No prober knows a data listener, and a file may begin like a preface.
    pub(crate) fn may_be_probe(&self) -> bool {
        !self.is_data()
    }

    /// Whether it is a probe of this process.
    pub(crate) fn is_own(&self) -> bool {
        matches!(self, Client::Own(_))
    }
}

impl From<SocketAddr> for Client {
    fn from(address: SocketAddr) -> Client {
        Client::Direct(address)
    }
}
