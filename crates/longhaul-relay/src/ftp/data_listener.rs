//! A data listener: admits one data connection from the right peer. Its flow begins then.

use super::commands::Commands;
use super::places::DataPlace;
use super::ports;
use crate::leg::accept_loop;
use crate::leg::setup;
use crate::leg::stream::{Stream, watched};
use crate::leg::talk::poll_look;
use crate::live::client::Client;
use crate::live::data_peer::{BeforeFin, DataPeer, Met, TransferFacts};
use crate::lock::lock;
use crate::state::served_tunnel::ServedTunnel;
use crate::state::shared::Relay;
use longhaul_core::ftp::{Refused, Rules, Side};
use longhaul_sys::{SysError, activation};
use socket2::Socket;
use std::future::{pending, poll_fn};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;
use tokio::time::timeout;
use tracing::warn;

/// A data connection that came to its listener, and what its flow needs. The fields are dropped in this order.
pub(crate) struct NewFlow {
    pub(crate) relay: Arc<Relay>,
    pub(crate) tunnel: Arc<ServedTunnel>,
    pub(crate) accept: Stream,
    pub(crate) client: Client,
    pub(crate) place: DataPlace,
}

/// The parts of a data connection's flow, except its accept leg.
pub(super) struct Prepared {
    pub(super) relay: Arc<Relay>,
    /// The tunnel that is made for the data connection.
    pub(super) tunnel: Arc<ServedTunnel>,
    pub(super) place: DataPlace,
    pub(super) facts: Arc<Mutex<TransferFacts>>,
    pub(super) commands: Commands,
    /// The side from which the data connection comes.
    pub(super) from: Side,
    /// Starts the flow. Passed in, because a flow also begins this module.
    pub(super) start: fn(NewFlow),
}

impl Prepared {
    /// Starts the flow, in a task of its own. `accept` is the connection with `peer`. `met` is the one with the other side, if that
    /// came to us, too. Returns a receiver that becomes true, or closes, when the dial to the other side has ended.
    pub(super) fn start(self, accept: Stream, peer: SocketAddr, met: Option<Met>) -> watch::Receiver<bool> {
        let Prepared { relay, tunnel, place, facts, commands, from, start } = self;
        let (has_dialled, dialled) = watch::channel(false);
        let met = met.or_else(|| lock(&facts).client.take());
        let (address, is_server, met) = (peer, from == Side::Server, Mutex::new(met));
        let before_fin = BeforeFin::new(commands.passed());
        let client = Client::Data(Box::new(DataPeer { address, is_server, facts, has_dialled, met, before_fin }));
        start(NewFlow { relay, tunnel, accept, client, place });
        dialled
    }
}

/// The socket of a data listener.
pub(super) type Listener = Arc<AsyncFd<Socket>>;

/// A data listener that waits for its data connection.
pub(super) struct DataListener {
    pub(super) listener: Listener,
    /// Who may come.
    pub(super) rules: Rules,
    /// Dropped after the listener.
    pub(super) listening: Listening,
}

impl DataListener {
    /// Waits for the data connection, and starts its flow: see [`Prepared::start`]. One of the server waits until its transfer begins,
    /// because a refused one needs no flow, and the client's end must be there for the next one. Returns `None` if there is no data
    /// connection: see [`DataListener::admitted`].
    pub(super) async fn serve(
        self,
        prepared: Prepared,
        begins: watch::Receiver<bool>,
    ) -> Option<watch::Receiver<bool>> {
        let (accept, peer) = self.admitted().await?;
        if prepared.from == Side::Server {
            begun(&accept, begins).await;
        }
        Some(prepared.start(accept, peer, None))
    }

    /// Waits for the data connection. Returns it with its peer, or `None` if it does not come in time or the relay is cut. Dropping this
    /// closes the listener at once, so that its port and its place are free for the next one. A connection that nobody has accepted is
    /// reset then.
    pub(super) async fn admitted(mut self) -> Option<(Stream, SocketAddr)> {
        let came = tokio::select! {
            biased;
            came = timeout(patience(self.listening.from), self.admit()) => came,
            () = self.listening.relay.is_cut() => {
                self.listening.is_told = false;
                return None;
            }
        };
        // Closed before the port is free for others.
        drop(self.listener);
        self.listening.is_told = came.is_err();
        came.ok()
    }

    /// Waits for the data connection. Resets every other connection.
    async fn admit(&self) -> (Stream, SocketAddr) {
        let cannot_accept = |err: &SysError| self.cannot_accept(err);
        loop {
            let (socket, peer, ()) = accept_loop::next(&self.listener, &cannot_accept).await;
            if let Err(why) = self.rules.admit_host(self.listening.from, peer.ip().to_canonical()) {
                self.refuse(peer, &why);
                continue;
            }
            match Stream::new(socket) {
                Ok(stream) => return (stream, peer),
                Err(err) => self.cannot_accept(&setup::failed("accept", &err)),
            }
        }
    }

    fn refuse(&self, peer: SocketAddr, why: &Refused) {
        let Listening { relay, tunnel, from, .. } = &self.listening;
        tunnel.counters.count(|counters| &counters.refused);
        tunnel.counters.count(|counters| &counters.not_allowed);
        let tunnel = &tunnel.settings.name;
        if let Some(more) = relay.lines.refused.pass(tunnel, Instant::now()) {
            let expected = self.rules.ends[*from];
            match why {
                Refused::NotAllowed(_) => {
                    warn!(tunnel = %tunnel, %peer, %expected, more, "refused: an FTP data connection from a host that is not in allow");
                }
                _ => warn!(tunnel = %tunnel, %peer, %expected, more,
                    "refused: an FTP data connection from another host than the control connection's, and not in ftp.data_from; \
                     is protocol = \"ftp\" missing on the relay `expected`?"),
            }
        }
    }

    fn cannot_accept(&self, err: &SysError) {
        let Listening { relay, tunnel, .. } = &self.listening;
        tunnel.counters.count(|counters| &counters.accept_errors);
        let tunnel = &tunnel.settings.name;
        if let Some(more) = relay.lines.accept.pass(tunnel, Instant::now()) {
            warn!(tunnel = %tunnel, %err, more, "cannot accept an FTP data connection, trying again");
        }
    }
}

/// Waits until the transfer begins: the server says so, or sends its first bytes on `accept`.
async fn begun(accept: &Stream, mut begins: watch::Receiver<bool>) {
    let sends = async {
        match poll_fn(|cx| poll_look(accept, cx)).await {
            Ok(1) => return,
            // An empty file, or a transfer that will be refused.
            Ok(_) => {}
            Err(_) => accept.note_reset(),
        }
        pending().await
    };
    tokio::select! {
        biased;
        // The sender is dropped together with this future.
        _ = begins.wait_for(|begins| *begins) => {}
        () = sends => {}
    }
}

/// Counts a data listener while it waits, and reports it if nobody comes. Dropping it means that the client has asked for
/// another one, or that the control connection has ended.
pub(super) struct Listening {
    relay: Arc<Relay>,
    /// The tunnel of the control connection.
    tunnel: Arc<ServedTunnel>,
    /// Address of the listener.
    address: SocketAddr,
    /// The side of the peer that is expected.
    from: Side,
    /// This peer.
    expected: IpAddr,
    /// Whether it is reported when it is dropped.
    is_told: bool,
}

impl Listening {
    /// Begins to count the listener at `address`, to which `expected`, the peer on side `from`, should connect.
    pub(super) fn begin(
        relay: &Arc<Relay>,
        tunnel: &Arc<ServedTunnel>,
        address: SocketAddr,
        expected: IpAddr,
        from: Side,
    ) -> Listening {
        tunnel.counters.count(|counters| &counters.ftp_listeners_now);
        // A server that refuses the transfer, for example because there is no such file, does not connect. A client connects
        // before it asks for the transfer.
        let is_told = from == Side::Client;
        let (relay, tunnel) = (relay.clone(), tunnel.clone());
        Listening { relay, tunnel, address, from, expected, is_told }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.tunnel.counters.uncount(|counters| &counters.ftp_listeners_now);
        ports::closed(self.address.ip());
        if self.is_told {
            let Listening { relay, tunnel, address, expected, .. } = self;
            tell_unused(relay, tunnel, *address, *expected);
        }
    }
}

/// Reports that `expected` did not connect to the data listener at `address`.
pub(super) fn tell_unused(relay: &Relay, tunnel: &ServedTunnel, address: SocketAddr, expected: IpAddr) {
    tunnel.counters.count(|counters| &counters.ftp_unused);
    tunnel.data_problem.note(format!("{expected} did not connect to {address}"));
    let tunnel = &tunnel.settings.name;
    if let Some(more) = relay.lines.unused.pass(tunnel, Instant::now()) {
        warn!(tunnel = %tunnel, listener = %address, %expected, more,
            "nobody connected to the FTP data listener: does a firewall drop the connection (ftp.ports)? is ftp.advertise right?");
    }
}

/// Whether a connection has come to this data listener. `None`: it is closed. The runtime may tell this later than a reply.
pub(super) fn has_come(listener: &Weak<AsyncFd<Socket>>) -> Option<bool> {
    // A failure means no memory; nothing waits for that.
    listener.upgrade().map(|listener| activation::has_connection(listener.as_fd()).unwrap_or(false))
}

/// Returns the time that a data connection from `side` has to come.
pub(super) fn patience(side: Side) -> Duration {
    match side {
        // Clients connect as soon as they know the port. vsftpd's accept_timeout is the same.
        Side::Client => Duration::from_secs(60),
        // A server connects once it has the file, which may first have to come from a tape.
        Side::Server => Duration::from_secs(600),
    }
}

/// Registers a listener with the runtime.
///
/// # Errors
/// The kernel has no memory or no epoll watch left. The text goes to the client.
pub(super) fn register(listener: Socket) -> Result<Listener, String> {
    let listener = watched(listener, Interest::READABLE);
    listener.map(Arc::new).map_err(|err| format!("epoll_ctl(EPOLL_CTL_ADD): {err}"))
}

#[cfg(test)]
mod tests {
    use super::super::commands::Pass;
    use super::super::places::DataPlaces;
    use super::super::ports;
    use super::*;
    use longhaul_config::Tunnel;
    use longhaul_config::options::LegOptions;
    use longhaul_core::ftp::{Ends, Mode};
    use std::sync::atomic::Ordering::Relaxed;

    /// Returns a listener that waits for `side`, its address, and the rest of the data connection, in `places`.
    fn data_listener(
        relay: &Arc<Relay>,
        tunnel: &Arc<ServedTunnel>,
        places: &Arc<DataPlaces>,
        side: Side,
    ) -> (DataListener, SocketAddr, Prepared) {
        let here = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = ports::listen(here, None, &LegOptions::default()).unwrap();
        let address = listener.local_addr().unwrap().as_socket().unwrap();
        let data_listener = DataListener {
            listening: Listening::begin(relay, tunnel, address, here.ip(), side),
            listener: register(listener).unwrap(),
            rules: Rules {
                ends: Ends { client: here.ip(), server: here.ip() },
                data_from: Vec::new(),
                allow: Vec::new(),
                mode: Mode::Client,
            },
        };
        let prepared = Prepared {
            relay: relay.clone(),
            tunnel: tunnel.clone(),
            place: places.one().unwrap(),
            facts: Arc::default(),
            commands: Commands { client: Weak::new(), server: Weak::new(), pass: watch::channel(Pass::Done).1 },
            from: side,
            start: |_| panic!("nobody came"),
        };
        (data_listener, address, prepared)
    }

    #[tokio::test(start_paused = true)]
    async fn a_listener_to_which_nobody_comes_is_closed_and_gives_its_place_back() {
        let relay = Relay::new(1000);
        let tunnel = relay.tunnels.open(Arc::new(Tunnel::new("a", ([127, 0, 0, 1], 0).into(), Vec::new())));
        let places = DataPlaces::new(tunnel.clone());
        let [listeners, unused] = [&tunnel.counters.ftp_listeners_now, &tunnel.counters.ftp_unused];
        for (number, side, seconds) in [(1, Side::Client, 60), (2, Side::Server, 600)] {
            let (data_listener, address, prepared) = data_listener(&relay, &tunnel, &places, side);
            let mut serving = Box::pin(data_listener.serve(prepared, watch::channel(false).1));
            let early = timeout(Duration::from_secs(seconds - 1), &mut serving).await;
            assert!(early.is_err() && places.taken() == 1 && listeners.load(Relaxed) == 1);
            timeout(Duration::from_secs(2), serving).await.unwrap();
            assert_eq!((places.taken(), listeners.load(Relaxed), unused.load(Relaxed)), (0, 0, number));
            std::net::TcpStream::connect(address).unwrap_err();
        }
    }

    #[tokio::test]
    async fn a_client_that_does_not_come_is_counted_at_the_end_of_its_control_connection_and_a_server_is_not() {
        let relay = Relay::new(1000);
        let tunnel = relay.tunnels.open(Arc::new(Tunnel::new("a", ([127, 0, 0, 1], 0).into(), Vec::new())));
        for (side, unused) in [(Side::Server, 0), (Side::Client, 1)] {
            let (data_listener, _, prepared) = data_listener(&relay, &tunnel, &DataPlaces::new(tunnel.clone()), side);
            drop(data_listener.serve(prepared, watch::channel(false).1));
            assert_eq!(tunnel.counters.ftp_unused.load(Relaxed), unused);
            assert_eq!(tunnel.counters.ftp_listeners_now.load(Relaxed), 0);
        }
    }
}
