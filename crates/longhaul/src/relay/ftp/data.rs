//! The data connections that a session asks for: opens their listeners, or dials both sides.

use super::data_listener::{Admits, DataListener, Listener, Listening, NewFlow, Prepared, patience, register};
use super::fetch::Fetch;
use super::places::{Place, Places};
use super::ports;
use crate::relay::data_peer::Namings;
use crate::relay::leg::Protocol as LegProtocol;
use crate::relay::legs::Legs;
use crate::relay::permits::{DATA_CONNECTIONS, Gate};
use crate::relay::shared::Relay;
use longhaul_config::options::{Leg, key};
use longhaul_config::{Check, Ftp, NextHop, Protocol, Tunnel};
use longhaul_core::ftp::{Channels, Joining, Opening, Refused, Side, Transfer};
use longhaul_core::next_hop::POLICIES;
use longhaul_sys::activation;
use socket2::SockRef;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::warn;

/// The data connections of one control connection. Dropping it closes the one that has not begun.
pub(super) struct DataConnections {
    relay: Arc<Relay>,
    gate: Arc<Gate>,
    /// The tunnel of the control connection.
    tunnel: Arc<Tunnel>,
    peer: SocketAddr,
    sides: Sides,
    places: Arc<Places>,
    /// The latest one, until its flow begins.
    latest: Option<Open>,
    /// The dial to the client for the server's data connection.
    arriving: Option<Dialling>,
    /// Time since when a command waits for room.
    full_since: Option<Instant>,
    namings: Namings,
    /// Starts the flow of a data connection.
    start: fn(NewFlow),
}

/// Addresses of both legs of a control connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sides {
    /// Of the accept leg.
    pub(super) client: Ends,
    /// Of the dial leg.
    pub(super) server: Ends,
}

/// Addresses of one leg, canonical.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    /// Ours. The port is that of the control connection.
    pub(super) local: SocketAddr,
    pub(super) peer: IpAddr,
}

/// A data connection whose flow has not begun.
struct Open {
    source: Source,
    /// [`DataListener::serve`] or [`Fetch::serve`]. Not a task of its own, which would end later than the next one needs its port,
    /// its place and its descriptor.
    serving: Pin<Box<dyn Future<Output = Option<watch::Receiver<bool>>> + Send>>,
}

/// Where a data connection comes from.
enum Source {
    /// From the client, to a listener.
    Client,
    /// From the server, to this listener.
    Server(Listener),
    /// From the server, by a dial. The value becomes true when the transfer begins.
    Fetched(watch::Sender<bool>),
}

/// Ends with the dial for a data connection.
type Dialling = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Sides {
    /// Returns the addresses of `legs`. `None` if a connection has none any more.
    pub(super) fn of(legs: &Legs<'_>) -> Option<Sides> {
        Some(Sides { client: Ends::of(legs, Leg::Accept)?, server: Ends::of(legs, Leg::Dial)? })
    }
}

impl Ends {
    fn of(legs: &Legs<'_>, leg: Leg) -> Option<Ends> {
        let socket = SockRef::from(&**legs.of(leg));
        let peer = socket.peer_addr().ok()?.as_socket()?.ip().to_canonical();
        let mut local = socket.local_addr().ok()?.as_socket()?;
        if local.ip() != local.ip().to_canonical() {
            local.set_ip(local.ip().to_canonical());
        }
        Some(Ends { local, peer })
    }
}

impl DataConnections {
    /// Returns the data connections of a control connection: none yet.
    pub(super) fn new(
        relay: &Arc<Relay>,
        gate: &Arc<Gate>,
        legs: &Legs<'_>,
        sides: Sides,
        start: fn(NewFlow),
    ) -> DataConnections {
        DataConnections {
            relay: relay.clone(),
            gate: gate.clone(),
            tunnel: legs.flow.tunnel.clone(),
            peer: legs.flow.peer(),
            sides,
            places: Places::new(gate),
            latest: None,
            arriving: None,
            full_since: None,
            namings: Namings::default(),
            start,
        }
    }

    /// Returns the number of data connections that have come.
    fn come(&self) -> usize {
        self.places.taken().saturating_sub(usize::from(self.latest.is_some()))
    }

    /// Whether there is a data connection that has come.
    pub(super) fn have_data(&self) -> bool {
        self.come() > 0
    }

    /// Whether one from the server is waited for.
    pub(super) fn await_server(&self) -> bool {
        self.latest.as_ref().is_some_and(|open| !matches!(open.source, Source::Client))
    }

    /// Returns the time at which a command that waits for room waits no longer. `None` if none waits.
    pub(super) fn room_limit(&self) -> Option<Instant> {
        self.full_since.map(|since| since + ROOM_PATIENCE)
    }

    /// Begins the wait for room anew if it is over, and the command could not be taken because a reply has begun.
    pub(super) fn wait_on(&mut self) {
        let is_over = self.room_limit().is_some_and(|limit| limit <= Instant::now());
        if is_over {
            self.full_since = Some(Instant::now());
        }
    }

    /// Returns the places, which tell when there is room.
    pub(super) fn places(&self) -> Arc<Places> {
        self.places.clone()
    }

    /// Serves the listener that waits, until it has to wait or its data connection has come, and looks at the dial for that one.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) {
        if let Some(open) = &mut self.latest {
            if let Poll::Ready(came) = open.serving.as_mut().poll(cx) {
                let dialling = came.filter(|_| !matches!(open.source, Source::Client)).map(dialling);
                self.arriving = dialling.or(self.arriving.take());
                self.latest = None;
            }
        }
        if self.arriving.as_mut().is_some_and(|dialling| dialling.as_mut().poll(cx).is_ready()) {
            self.arriving = None;
        }
    }

    /// Whether the server's data connection has come, and is not yet dialled to the client. A reply that came after it must not
    /// overtake it: curl takes a transfer for failed whose last reply comes before the data connection.
    pub(super) fn is_arriving(&self) -> bool {
        let has_come = |open: &Open| match &open.source {
            Source::Client => false,
            // The runtime may tell this later than a reply. A failure means no memory; nothing waits for that.
            Source::Server(listener) => activation::has_connection(listener.as_fd()).unwrap_or(false),
            Source::Fetched(begins) => *begins.borrow(),
        };
        self.arriving.is_some() || self.latest.as_ref().is_some_and(has_come)
    }

    fn ends(&self, side: Side) -> Ends {
        match side {
            Side::Client => self.sides.client,
            Side::Server => self.sides.server,
        }
    }

    /// Returns the tunnel of the data connection of `opening`: the control connection's, turned round if the server
    /// connects. It dials from the control connection's address, because servers and clients look at that.
    fn data_tunnel(&self, opening: &Opening) -> Tunnel {
        let control = &*self.tunnel;
        let (accept, dial, source) = match opening.accept_from {
            Side::Client => (&control.accept, &control.dial, self.sides.server.local.ip()),
            Side::Server => (&control.dial, &control.accept, self.sides.client.local.ip()),
        };
        // The client of a download sends nothing, and would wait for ever.
        let without = [key::DEFER_ACCEPT, key::FASTOPEN];
        Tunnel {
            to: vec![NextHop::new(opening.dial.ip().to_string(), opening.dial.port())],
            policy: &POLICIES[0],
            check: Check::NONE,
            proxy_in: None,
            proxy_out: None,
            source: Some(source),
            verify: None,
            verify_hops: Some(0),
            verify_final: true,
            protocol: Protocol::Tcp,
            ftp: Ftp::default(),
            accept: accept.without(&without),
            dial: dial.without(&without),
            ..control.clone()
        }
    }

    /// Returns what the log adds to the reason of a refusal.
    fn advice(&self, why: &Refused) -> String {
        match why {
            // A relay that does not rewrite passes on the address of the host behind it.
            Refused::ThirdHost(side, _) => {
                format!("; if {} is a relay, write protocol = \"ftp\" on it", self.ends(*side).peer)
            }
            _ => String::new(),
        }
    }

    /// Opens the data listener of `opening`. Returns its address.
    fn try_open(&mut self, opening: &Opening) -> Result<SocketAddr, String> {
        let place = self.places.one()?;
        let tunnel = Arc::new(self.data_tunnel(opening));
        let Ends { local, peer } = self.ends(opening.accept_from);
        let protocol = LegProtocol::of(&tunnel, Leg::Accept);
        let listener = ports::listen(local, self.tunnel.ftp.ports.as_ref(), &tunnel.accept, protocol)?;
        let listener = register(listener)?;
        let address = listener.get_ref().local_addr().ok().and_then(|address| address.as_socket());
        let address = address.ok_or("the kernel does not tell its port")?;
        let allow = match opening.accept_from {
            Side::Client => self.tunnel.allow.clone(),
            Side::Server => Vec::new(),
        };
        let listening = Listening::begin(&self.relay, &self.gate, &tunnel, address, peer, opening.accept_from);
        let source = match opening.accept_from {
            Side::Client => Source::Client,
            Side::Server => Source::Server(listener.clone()),
        };
        let data_listener = DataListener {
            prepared: self.prepare(opening.channel, tunnel, place),
            listener,
            admits: Admits { peer, data_from: self.tunnel.ftp.data_from.clone(), allow },
            listening,
            patience: patience(opening.accept_from),
        };
        self.latest = Some(Open { source, serving: Box::pin(data_listener.serve()) });
        Ok(address)
    }

    fn prepare(&mut self, channel: u64, tunnel: Arc<Tunnel>, place: Place) -> Prepared {
        Prepared {
            relay: self.relay.clone(),
            gate: self.gate.beside(),
            tunnel,
            place,
            naming: self.namings.of(channel),
            start: self.start,
        }
    }
}

impl Channels for DataConnections {
    /// The flow of a transfer that is over goes on until its last byte is acknowledged.
    fn have_room(&mut self) -> bool {
        // One that is arriving must not be closed in favour of the next one.
        if self.come() < usize::from(DATA_CONNECTIONS) && !self.is_arriving() {
            self.full_since = None;
            return true;
        }
        let since = *self.full_since.get_or_insert_with(Instant::now);
        let is_over = since.elapsed() >= ROOM_PATIENCE;
        if is_over {
            self.full_since = None;
        }
        is_over
    }

    fn open(&mut self, opening: Opening) -> Result<SocketAddr, String> {
        (self.latest, self.full_since) = (None, None);
        self.namings.forget_before(opening.channel);
        let mut address = self.try_open(&opening)?;
        if let (Side::Client, Some(ip)) = (opening.accept_from, self.tunnel.ftp.advertise) {
            address = SocketAddr::new(ip.into(), address.port());
        }
        Ok(address)
    }

    fn join(&mut self, Joining { channel, server, client }: Joining) -> Result<(), String> {
        (self.latest, self.full_since) = (None, None);
        self.namings.forget_before(channel);
        let place = self.places.one()?;
        let from_server = self.data_tunnel(&Opening { channel, accept_from: Side::Server, dial: client });
        let (begins, has_begun) = watch::channel(false);
        let fetch = Fetch {
            prepared: self.prepare(channel, Arc::new(from_server), place),
            towards_server: self.data_tunnel(&Opening { channel, accept_from: Side::Client, dial: server }),
            server,
            begins: has_begun,
        };
        self.latest = Some(Open { source: Source::Fetched(begins), serving: Box::pin(fetch.serve()) });
        Ok(())
    }

    fn begins(&mut self) {
        if let Some(Open { source: Source::Fetched(begins), .. }) = &self.latest {
            begins.send_replace(true);
        }
    }

    fn transfer(&mut self, channel: u64, transfer: Transfer) {
        self.namings.of(channel).set(transfer);
    }

    fn refused(&mut self, why: &Refused) {
        self.gate.counters.count(|counters| &counters.ftp_refused);
        let tunnel = &self.tunnel.name;
        let reason = why.name();
        if let Some(more) = self.relay.lines.ftp.pass_kind(tunnel, reason, std::time::Instant::now()) {
            let why = format!("{why}{}", self.advice(why));
            warn!(tunnel = %tunnel, peer = %self.peer, reason, why, more, "refused an FTP data connection");
        }
    }
}

/// Time that a command waits for the end of a data connection before it is refused.
const ROOM_PATIENCE: Duration = Duration::from_secs(60);

/// Returns what ends with the dial that `dialled` tells about, or with its flow.
fn dialling(mut dialled: watch::Receiver<bool>) -> Dialling {
    Box::pin(async move { drop(dialled.wait_for(|has_ended| *has_ended).await) })
}

impl Drop for DataConnections {
    fn drop(&mut self) {
        self.latest = None; // before the places are counted
        self.places.leave();
    }
}
