//! The data connections that a session asks for: opens their listeners, or dials both sides.

use super::commands::{Commands, Pass};
use super::data_listener::{DataListener, Listening, NewFlow, Prepared, has_come, register, tell_unused};
use super::fetch::{self, Fetch};
use super::meeting::{Awaited, Meeting};
use super::places::{DataPlace, DataPlaces};
use super::{ports, trouble};
use crate::leg::stream::Stream;
use crate::leg::talk::poll_look;
use crate::live::data_peer::TransferFacts;
use crate::lock::lock;
use crate::state::legs::Legs;
use crate::state::served_tunnel::{DATA_CONNECTIONS, ServedTunnel};
use crate::state::shared::Relay;
use longhaul_config::options::{Leg, key};
use longhaul_config::{Check, Ftp, NextHop, Protocol, Tunnel};
use longhaul_core::ftp::{Data, Ends, Opening, Refused, Rules, Side};
use longhaul_core::next_hop::POLICIES;
use longhaul_sys::splice;
use socket2::Socket;
use std::future::Future;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll};
use tokio::io::unix::AsyncFd;
use tokio::sync::{oneshot, watch};

/// The data connections of one control connection. Dropping it closes the one that has not begun.
pub(super) struct DataConnections {
    relay: Arc<Relay>,
    /// The tunnel of the control connection.
    tunnel: Arc<ServedTunnel>,
    peer: SocketAddr,
    /// Our own addresses on its legs, canonical. The ports are those of the control connection.
    ours: Ends<SocketAddr>,
    /// Who may have an end of a data connection.
    rules: Rules,
    places: Arc<DataPlaces>,
    commands: Commands,
    /// The latest one, until its flow begins.
    latest: Option<Open>,
    /// The one before, if the server has connected for it: pyftpdlib connects at PORT, and answers once too often if its connection is
    /// reset meanwhile. The server's next bytes close it.
    replaced: Option<Open>,
    /// The dial to the client for the server's data connection.
    arriving: Option<Dialling>,
    /// The dial to the server for the client's.
    leaving: Option<Dialling>,
    /// The client's end of the latest one in active mode: where it is, and how it is dialled.
    client: Option<(SocketAddr, Arc<Tunnel>)>,
    /// The dial to it for a transfer, which waits for that.
    calling: Option<Calling>,
    /// The dial to it for which no transfer waits yet.
    calling_early: Option<Calling>,
    /// The facts of the latest one's transfer.
    facts: Arc<Mutex<TransferFacts>>,
    /// Starts the flow of a data connection.
    start: fn(NewFlow),
}

/// A data connection whose flow has not begun.
struct Open {
    source: Source,
    /// Becomes true when the server says that the transfer begins.
    begins: watch::Sender<bool>,
    /// Whether the dial to its client has begun. Only for [`Source::Server`], which dials early.
    has_called: bool,
    /// [`DataListener::serve`], [`Fetch::serve`] or [`Meeting::serve`]. Not a task of its own, which would end later than the next one needs its port,
    /// its place and its descriptor.
    serving: Pin<Box<dyn Future<Output = Option<watch::Receiver<bool>>> + Send>>,
}

/// Where a data connection comes from.
enum Source {
    /// From the client, to this listener, which is gone when the client has come.
    Client(Weak<AsyncFd<Socket>>),
    /// From the server, likewise.
    Server(Weak<AsyncFd<Socket>>),
    /// From the server, by a dial.
    Fetched,
    /// From both, to these listeners.
    Both(Awaited),
}

/// The dial to a client, before its transfer: its address, or why it cannot be reached.
type Calling = Pin<Box<dyn Future<Output = Result<SocketAddr, String>> + Send>>;

/// Ends with the dial for a data connection.
type Dialling = Pin<Box<dyn Future<Output = ()> + Send>>;

impl DataConnections {
    /// Returns the data connections of a control connection: none yet. They take their places from `places`. Returns `None` if an
    /// address of `legs` is not known. `pass` is what the control connection tells. The kernel is not asked for those of the peers, because it forgets them at a reset, and bytes
    /// from before the reset may still be there.
    pub(super) fn new(
        relay: &Arc<Relay>,
        tunnel: &Arc<ServedTunnel>,
        (legs, pass): (&Legs<'_>, watch::Receiver<Pass>),
        places: Arc<DataPlaces>,
        start: fn(NewFlow),
    ) -> Option<DataConnections> {
        let settings = &tunnel.settings;
        let keys = &settings.ftp;
        let (peer, (_, server)) = (legs.flow.client.address(), legs.flow.next_hop()?);
        let rules = Rules {
            ends: Ends { client: peer.ip().to_canonical(), server: server.ip().to_canonical() },
            data_from: keys.data_from.clone(),
            allow: settings.allow.clone(),
            mode: keys.mode,
        };
        let local = |leg: Leg| {
            let mut local = legs.of(leg).local()?;
            if local.ip() != local.ip().to_canonical() {
                local.set_ip(local.ip().to_canonical());
            }
            Some(local)
        };
        Some(DataConnections {
            rules,
            relay: relay.clone(),
            tunnel: tunnel.clone(),
            peer,
            ours: Ends { client: local(Leg::Accept)?, server: local(Leg::Dial)? },
            places,
            commands: Commands::new(legs, pass),
            latest: None,
            replaced: None,
            arriving: None,
            leaving: None,
            client: None,
            calling: None,
            calling_early: None,
            facts: Arc::default(),
            start,
        })
    }

    /// Returns the rules for the session.
    pub(super) fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Returns what the session needs to know of them.
    pub(super) fn state(&self) -> Data {
        let waiting = usize::from(self.latest.is_some()) + usize::from(self.replaced.is_some());
        let come = self.places.taken().saturating_sub(waiting);
        let from = |open: &Open| if let Source::Client(_) = open.source { Side::Client } else { Side::Server };
        Data {
            come,
            awaited: self.latest.as_ref().map(from),
            has_room: come < usize::from(DATA_CONNECTIONS),
            is_arriving: self.is_arriving(),
            is_leaving: self.is_leaving(),
        }
    }

    /// Returns the places, which tell when there is room.
    pub(super) fn places(&self) -> Arc<DataPlaces> {
        self.places.clone()
    }

    /// Serves the listener that waits, until it has to wait or its data connection has come, and looks at the dials. Returns the
    /// result of a dial to the client: the one for [`Opening::Client`], or an early one.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Option<Result<SocketAddr, String>> {
        self.look_at_kept(cx);
        let called = match self.calling.as_mut().or(self.calling_early.as_mut()) {
            None => None,
            // The server's connection waits, so that the client is not dialled twice.
            Some(calling) => match calling.as_mut().poll(cx) {
                Poll::Pending => return None,
                Poll::Ready(called) => Some(called),
            },
        };
        (self.calling, self.calling_early) = (None, None);
        if let Some(open) = &mut self.latest {
            if let Poll::Ready(came) = open.serving.as_mut().poll(cx) {
                let dial = if let Source::Client(_) = open.source { &mut self.leaving } else { &mut self.arriving };
                *dial = came.map(dialling).or(dial.take());
                self.latest = None;
            }
        }
        for dial in [&mut self.arriving, &mut self.leaving] {
            if dial.as_mut().is_some_and(|dialling| dialling.as_mut().poll(cx).is_ready()) {
                *dial = None;
            }
        }
        if self.call_early() { self.poll(cx) } else { called }
    }

    /// Dials the client of a server that connects before it has a transfer: the client may accept then. Returns whether the dial begins.
    fn call_early(&mut self) -> bool {
        let Some(Open { source: Source::Server(listener), has_called: has_called @ false, .. }) = &mut self.latest
        else {
            return false;
        };
        *has_called = has_come(listener) != Some(false);
        if *has_called {
            self.calling_early = self.client.clone().map(|(client, tunnel)| self.call(client, tunnel));
        }
        self.calling_early.is_some()
    }

    /// Closes the client's end that an earlier transfer has left if the client has closed it, too. It is then dialled anew.
    fn look_at_kept(&self, cx: &mut Context<'_>) {
        let mut facts = self.facts();
        if let (true, Some((stream, _))) = (facts.is_kept, &facts.client) {
            if let Poll::Ready(Ok(0) | Err(_)) = poll_look(stream, cx) {
                (facts.client, facts.is_kept) = (None, false);
            }
        }
    }

    /// Whether the server's data connection has come, and is not yet dialled to the client.
    fn is_arriving(&self) -> bool {
        let is_coming = |open: &Open| match &open.source {
            Source::Client(_) => false,
            // The reply to PORT does not wait for a client that may be silent.
            Source::Server(_) if self.calling_early.is_some() => *open.begins.borrow(),
            Source::Server(listener) => has_come(listener).unwrap_or_else(|| *open.begins.borrow()),
            Source::Fetched => *open.begins.borrow(),
            Source::Both(awaited) => awaited.have_come(),
        };
        self.calling.is_some() || self.arriving.is_some() || self.latest.as_ref().is_some_and(is_coming)
    }

    /// Whether the client's data connection has come, and is not yet dialled to the server.
    pub(super) fn is_leaving(&self) -> bool {
        let has_come = |open: &Open| match &open.source {
            Source::Client(listener) => has_come(listener) == Some(true),
            Source::Server(_) | Source::Fetched | Source::Both(_) => false,
        };
        self.leaving.is_some() || self.latest.as_ref().is_some_and(has_come)
    }

    /// Returns the tunnel of a data connection from this side to `to`: the control connection's, turned round if the server
    /// connects. It dials from the control connection's address, because servers and clients look at that.
    fn data_tunnel(&self, from: Side, to: SocketAddr) -> Tunnel {
        let control = &*self.tunnel.settings;
        let (accept, dial) = match from {
            Side::Client => (&control.accept, &control.dial),
            Side::Server => (&control.dial, &control.accept),
        };
        // The client of a download sends nothing, and would wait for ever.
        let without = [key::DEFER_ACCEPT, key::FASTOPEN];
        Tunnel {
            to: vec![NextHop::new(to.ip().to_string(), to.port())],
            policy: &POLICIES[0],
            check: Check::NONE,
            proxy_in: None,
            proxy_out: None,
            source: Some(self.ours[from.other()].ip()),
            protocol: Protocol::Tcp,
            ftp: Ftp::default(),
            accept: accept.without(&without),
            dial: dial.without(&without),
            ..control.clone()
        }
    }

    /// Returns the tunnel of a data connection from this side to an address that the other side has not named.
    fn half_tunnel(&self, from: Side) -> Tunnel {
        self.data_tunnel(from, SocketAddr::new(self.rules.ends[from.other()], DATA_PORT))
    }

    /// Opens a data listener for the peer on side `from`, with the options of the accept leg of `tunnel`. Returns it, and the address to
    /// tell the peer.
    fn listen(&mut self, from: Side, tunnel: &Tunnel) -> Result<(DataListener, SocketAddr), String> {
        let local = self.ours[from];
        let listen = || ports::listen(local, self.tunnel.settings.ftp.ports.as_ref(), &tunnel.accept);
        let listener = register(or_instead_of(&mut self.replaced, listen)?)?;
        let address = listener.get_ref().local_addr().ok().and_then(|address| address.as_socket());
        let address = address.ok_or("the kernel does not tell its port")?;
        let listening = Listening::begin(&self.relay, &self.tunnel, address, self.rules.ends[from], from);
        let data_listener = DataListener { listener, rules: self.rules.clone(), listening };
        let told = match (from, self.tunnel.settings.ftp.advertise) {
            (Side::Client, Some(ip)) => SocketAddr::new(ip.into(), address.port()),
            _ => address,
        };
        Ok((data_listener, told))
    }

    fn prepare(&self, from: Side, tunnel: Arc<Tunnel>, place: DataPlace) -> Prepared {
        Prepared {
            relay: self.relay.clone(),
            tunnel: Arc::new(self.tunnel.beside(tunnel)),
            place,
            facts: self.facts.clone(),
            commands: self.commands.clone(),
            from,
            start: self.start,
        }
    }

    /// Opens a data connection. Returns the address that is told to a side. `None`: [`DataConnections::poll`] returns it.
    ///
    /// # Errors
    /// It cannot be opened. The text goes to the client.
    pub(super) fn open(&mut self, opening: Opening) -> Option<Result<SocketAddr, String>> {
        let opened = match opening {
            Opening::Listener { accept_from, dial } => self.open_listener(accept_from, dial),
            Opening::Join { server, client } => self.join(server, client),
            Opening::ForServer => self.open_for_server(),
            Opening::ForClient => return Some(self.open_for_client()),
            Opening::Client => {
                let Some((client, tunnel)) = self.client.clone() else {
                    return Some(Err("the client, which named no address".into()));
                };
                let Some(open) = &mut self.latest else {
                    // Its flow has begun and dials the client, or the server finds no listener.
                    return Some(Ok(client));
                };
                // The transfer before is over.
                open.begins.send_replace(false);
                open.has_called = true;
                self.calling = self.calling_early.take().or_else(|| Some(self.call(client, tunnel)));
                return None;
            }
        };
        Some(opened.map(|(latest, told)| {
            self.latest = Some(latest);
            told
        }))
    }

    /// Returns the dial to the client's end of the latest one.
    fn call(&self, client: SocketAddr, tunnel: Arc<Tunnel>) -> Calling {
        let (relay, facts) = (self.relay.clone(), self.facts.clone());
        Box::pin(async move {
            if !has_client(&mut lock(&facts)) {
                let dialled = fetch::dial(&relay, &tunnel, client).await;
                lock(&facts).client = Some((dialled.map_err(|failure| format!("{client}: {failure}"))?, client));
            }
            Ok(client)
        })
    }

    /// Begins the next one, for a client in active mode at `client`. Closes what waits for the one before, but not the connection with
    /// the same client: it may be in the queue of a listener that the client keeps. Returns its place.
    fn begin_next(&mut self, client: Option<SocketAddr>) -> Result<DataPlace, String> {
        let kept = self.facts().client.take().filter(|(_, kept)| client == Some(*kept));
        let facts = TransferFacts { is_kept: kept.is_some(), client: kept, ..TransferFacts::default() };
        let from_server = |open: &Open| matches!(&open.source, Source::Server(at) if has_come(at) != Some(false));
        (self.replaced, self.client) = (self.latest.take().filter(from_server), None);
        (self.calling, self.calling_early) = (None, None);
        self.facts = Arc::new(Mutex::new(facts));
        or_instead_of(&mut self.replaced, || self.places.one())
    }

    /// Notes that the server has sent bytes: after a PORT, they are most likely the reply to it.
    pub(super) fn server_sent(&mut self) {
        self.replaced = None;
    }

    fn open_listener(&mut self, accept_from: Side, dial: SocketAddr) -> Result<(Open, SocketAddr), String> {
        let place = self.begin_next(Some(dial).filter(|_| accept_from == Side::Server))?;
        let tunnel = Arc::new(self.data_tunnel(accept_from, dial));
        let (data_listener, address) = self.listen(accept_from, &tunnel)?;
        let listener = Arc::downgrade(&data_listener.listener);
        let source = match accept_from {
            Side::Client => Source::Client(listener),
            Side::Server => {
                self.client = Some((dial, tunnel.clone()));
                Source::Server(listener)
            }
        };
        let (begins, has_begun) = watch::channel(false);
        let prepared = self.prepare(accept_from, tunnel, place);
        Ok((
            Open { source, begins, has_called: false, serving: Box::pin(data_listener.serve(prepared, has_begun)) },
            address,
        ))
    }

    fn join(&mut self, server: SocketAddr, client: SocketAddr) -> Result<(Open, SocketAddr), String> {
        let place = self.begin_next(Some(client))?;
        let from_server = Arc::new(self.data_tunnel(Side::Server, client));
        self.client = Some((client, from_server.clone()));
        let (begins, has_begun) = watch::channel(false);
        let fetch = Fetch {
            prepared: self.prepare(Side::Server, from_server, place),
            towards_server: self.data_tunnel(Side::Client, server),
            server,
            begins: has_begun,
        };
        Ok((Open { source: Source::Fetched, begins, has_called: false, serving: Box::pin(fetch.serve()) }, client))
    }

    fn open_for_server(&mut self) -> Result<(Open, SocketAddr), String> {
        let place = self.begin_next(None)?;
        let (from_server, address) = self.listen(Side::Server, &self.half_tunnel(Side::Server))?;
        let (open, from_client) = oneshot::channel();
        let source = Source::Both(Awaited::new(&from_server.listener, open));
        let prepared = self.prepare(Side::Client, Arc::new(self.half_tunnel(Side::Client)), place);
        let meeting = Meeting { from_server, from_client };
        let begins = watch::Sender::default();
        Ok((Open { source, begins, has_called: false, serving: Box::pin(meeting.serve(prepared)) }, address))
    }

    fn open_for_client(&mut self) -> Result<SocketAddr, String> {
        let (from_client, address) = self.listen(Side::Client, &self.half_tunnel(Side::Client))?;
        match &mut self.latest {
            Some(Open { source: Source::Both(awaited), .. }) => awaited.add(from_client)?,
            _ => return Err("the listener for the server is closed".into()),
        }
        Ok(address)
    }

    /// Begins the flow of the latest one, if it waits for that. It dials the client anew if the connection that is there has bytes already:
    /// no client sends a file before the reply that begins it, so they are of a transfer that was refused.
    pub(super) fn begin(&self) {
        has_client(&mut self.facts());
        if let Some(open) = &self.latest {
            open.begins.send_replace(true);
        }
    }

    /// Returns what was said about the transfer of the latest one.
    pub(super) fn facts(&self) -> MutexGuard<'_, TransferFacts> {
        lock(&self.facts)
    }

    /// Notes that the server has refused the transfer.
    pub(super) fn refused_transfer(&self) {
        let has_come = |open: &Open| matches!(&open.source, Source::Server(listener) if listener.strong_count() == 0);
        let mut facts = self.facts();
        (facts.is_refused, facts.is_kept) = (true, facts.client.is_some());
        facts.is_paired = self.latest.as_ref().is_some_and(has_come);
    }

    /// Notes that the server says that the transfer does not have the latest one. Closes the client's end if the transfer had begun, because
    /// the client may wait for its bytes.
    pub(super) fn lacks_data(&self) {
        let has_begun = self.latest.as_ref().is_none_or(|open| *open.begins.borrow());
        let mut facts = self.facts();
        facts.client = facts.client.take().filter(|_| !has_begun);
        facts.is_kept = facts.client.is_some();
        drop(facts);
        let listener = self.latest.as_ref().and_then(|open| match &open.source {
            Source::Server(listener) => listener.upgrade(),
            Source::Both(awaited) => awaited.server.upgrade(),
            Source::Client(_) | Source::Fetched => None,
        });
        let address = listener.and_then(|listener| listener.get_ref().local_addr().ok()?.as_socket());
        if let Some(address) = address {
            tell_unused(&self.relay, &self.tunnel, address, self.rules.ends.server);
        }
    }

    /// Tells of a refused command or reply.
    pub(super) fn refused(&self, why: &Refused) {
        trouble::tell_refused(&self.relay, &self.tunnel, self.peer, &self.rules.ends, why);
    }
}

impl Drop for DataConnections {
    fn drop(&mut self) {
        self.facts().is_over = true;
    }
}

/// Takes something, if need be in place of what `replaced` holds: perhaps the last place or the only port.
fn or_instead_of<T>(replaced: &mut Option<Open>, take: impl Fn() -> Result<T, String>) -> Result<T, String> {
    match take() {
        Err(_) if replaced.take().is_some() => take(),
        taken => taken,
    }
}

/// Stands for the port of a peer that names none, but connects. RFC 959 3.2: the port of the server's end in active mode.
const DATA_PORT: u16 = 20;

/// Whether there is a connection with the client for the next transfer. Closes that of an earlier one if its end is here, or a byte of an
/// earlier upload.
fn has_client(facts: &mut TransferFacts) -> bool {
    let is_idle =
        |client: &Stream| splice::peek(client, &mut [0]).is_err_and(|err| err.kind() == ErrorKind::WouldBlock);
    if facts.is_kept && facts.client.as_ref().is_some_and(|(stream, _)| !is_idle(stream)) {
        (facts.client, facts.is_kept) = (None, false);
    }
    facts.client.is_some()
}

/// Returns a future that is ready when the dial has connected, or its flow has ended.
fn dialling(mut dialled: watch::Receiver<bool>) -> Dialling {
    Box::pin(async move { drop(dialled.wait_for(|has_dialled| *has_dialled).await) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leg::stream;
    use std::io::Read;
    use std::net::TcpListener;
    use std::time::Duration;
    use tokio::time::timeout;

    /// Returns the data connections of a control connection on loopback.
    fn data_connections() -> DataConnections {
        let relay = Relay::new(1000);
        let [(accept, client), (dial, server)] = [stream::pair(), stream::pair()];
        let (peer, next_hop) = (client.local_addr().unwrap(), server.local_addr().unwrap());
        let tunnel = Tunnel::new("files", peer, vec![NextHop::new(next_hop.ip().to_string(), next_hop.port())]);
        let (accept, dial) = (Arc::new(accept), Arc::new(dial));
        let tunnel = relay.tunnels.open(Arc::new(tunnel));
        let flow = relay.registry.add(tunnel.settings.clone(), &tunnel.counters, peer, &accept);
        flow.connected(0, next_hop, &dial);
        let legs = Legs { relay: &relay, flow: &flow, accept: &accept, dial: &dial };
        let places = DataPlaces::new(Arc::new(()));
        DataConnections::new(&relay, &tunnel, (&legs, watch::channel(Pass::Done).1), places, |_| {
            panic!("no flow begins")
        })
        .unwrap()
    }

    /// The runtime has not told that the connections have come.
    #[tokio::test]
    async fn replies_wait_for_a_data_connection_whose_both_sides_have_come_and_not_for_one_side() {
        for comes_first in [Side::Client, Side::Server] {
            let mut data = data_connections();
            let for_server = data.open(Opening::ForServer).unwrap().unwrap();
            let for_client = data.open(Opening::ForClient).unwrap().unwrap();
            let (first, second) =
                if comes_first == Side::Client { (for_client, for_server) } else { (for_server, for_client) };
            let awaits = Data { awaited: Some(Side::Server), has_room: true, ..Data::default() };
            assert_eq!(data.state(), awaits);
            let _first = std::net::TcpStream::connect(first).unwrap();
            assert!(!data.is_arriving());
            let _second = std::net::TcpStream::connect(second).unwrap();
            assert!(data.is_arriving());
        }
        // One that is dialled on both sides: once its transfer begins.
        let mut data = data_connections();
        let [server, client] = [8, 9].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        data.open(Opening::Join { server, client }).unwrap().unwrap();
        assert!(!data.is_arriving());
        data.begin();
        assert!(data.is_arriving());
    }

    /// A server may need long for the file, and the client may leave meanwhile.
    #[tokio::test]
    async fn the_connection_with_a_client_has_keepalive_before_its_flow_begins() {
        let mut data = data_connections();
        let client = TcpListener::bind("127.0.0.1:0").unwrap();
        let (accept_from, dial) = (Side::Server, client.local_addr().unwrap());
        data.open(Opening::Listener { accept_from, dial }).unwrap().unwrap();
        assert!(data.open(Opening::Client).is_none());
        data.calling.take().unwrap().await.unwrap();
        let (stream, _) = data.facts().client.take().unwrap();
        let socket = socket2::SockRef::from(&stream);
        assert_eq!((socket.keepalive().unwrap(), socket.tcp_keepalive_time().unwrap().as_secs()), (true, 60));
    }

    #[tokio::test]
    async fn the_server_s_connection_is_open_until_it_has_answered_the_port_that_takes_its_place() {
        let mut data = data_connections();
        let open = |data: &mut DataConnections, port| {
            let dial = SocketAddr::from(([127, 0, 0, 1], port));
            data.open(Opening::Listener { accept_from: Side::Server, dial }).unwrap().unwrap()
        };
        let mut server = std::net::TcpStream::connect(open(&mut data, 8)).unwrap();
        server.set_nonblocking(true).unwrap();
        let awaits = Data { awaited: Some(Side::Server), has_room: true, ..Data::default() };
        open(&mut data, 9);
        assert_eq!((data.state(), data.places.taken()), (awaits, 2));
        assert_eq!(server.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        data.server_sent();
        assert_eq!((data.state(), data.places.taken()), (awaits, 1));
        assert_eq!(server.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_whose_transfer_does_not_begin_is_reset_after_ten_minutes() {
        let mut data = data_connections();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = SocketAddr::from(([127, 0, 0, 1], 40_000));
        data.open(Opening::Join { server: listener.local_addr().unwrap(), client }).unwrap().unwrap();
        let Open { mut serving, begins: _begins, .. } = data.latest.take().unwrap();
        // The clock does not jump while a task is ready, so the dial has its time.
        for _ in 0..1000 {
            tokio::select! {
                biased;
                _ = &mut serving => panic!("the dial failed"),
                () = tokio::task::yield_now() => {}
            }
        }
        assert!(timeout(Duration::from_secs(599), &mut serving).await.is_err());
        let mut server = listener.accept().unwrap().0;
        server.set_nonblocking(true).unwrap();
        assert_eq!(server.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert!(timeout(Duration::from_secs(2), serving).await.unwrap().is_none());
        assert_eq!(server.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
}
