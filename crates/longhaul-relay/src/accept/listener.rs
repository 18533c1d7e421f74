//! A tunnel's listener: permit, accept, allow-list, flow. It never dies: an error of accept(2) is counted, and the
//! listener tries again after a pause.

use crate::accept::activated::Activated;
use crate::accept::opening::{self, Arrived};
use crate::accept::source_limits;
use crate::flow;
use crate::leg::setup::{self, Protocol, failed};
use crate::leg::stream::{Stream, watched};
use crate::state::permits::Permit;
use crate::state::served_tunnel::ServedTunnel;
use crate::state::shared::Relay;
use longhaul_config::Tunnel;
use longhaul_config::options::{self, Leg, LegOptions, Mismatch, row};
use longhaul_core::opening::Asks;
use longhaul_sys::activation::{accept, has_connection};
use longhaul_sys::{SysError, sockopt};
use socket2::{Domain, SockRef, Socket, Type};
use std::fmt;
use std::future::pending;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;
use tokio::time::{sleep, sleep_until};
use tracing::warn;

/// A socket that listens.
#[derive(Debug)]
pub struct Listener {
    socket: AsyncFd<Socket>,
    /// Whether systemd holds the socket too.
    adopted: bool,
}

/// The tunnels of one listener: its own, or, for a replaced listener, those that have its addresses now.
#[derive(Clone, Debug)]
pub struct Serving {
    /// One tunnel. A replaced listener has each tunnel that covers a part of its address, and none once these are removed.
    pub tunnels: Vec<Arc<ServedTunnel>>,
    /// Whether other listeners have its address, so that it serves only for a moment more.
    pub replaced: bool,
}

/// Why a tunnel cannot start.
#[derive(Clone, Debug)]
pub struct BindError {
    /// The tunnel.
    pub tunnel: String,
    /// The attempted step, such as listening on an address or setting a leg's options.
    pub what: String,
    /// The kernel's answer, with a hint.
    pub err: SysError,
}

impl Listener {
    /// Listens for `tunnel`, whose options were [tried](Listener::dry_run).
    ///
    /// # Errors
    /// The address cannot be listened on, or the kernel refused an option.
    pub fn bind(tunnel: &Tunnel) -> Result<Listener, BindError> {
        Listener::bind_with(tunnel, |_| Ok(()))
    }

    /// Tries the options of both legs on sockets that are then closed. Warns about options that the kernel changed.
    ///
    /// # Errors
    /// The kernel refused an option.
    pub fn dry_run(tunnel: &Tunnel) -> Result<(), BindError> {
        // The dial leg uses the IP version that will be dialled, as far as that is known before a name is resolved.
        let literal = tunnel.to.iter().find_map(|hop| hop.host.parse().ok());
        let dialled = literal.or(tunnel.source).map_or(address_here(tunnel), |ip| SocketAddr::new(ip, 0));
        for (leg, address) in [(Leg::Accept, address_here(tunnel)), (Leg::Dial, dialled)] {
            let mismatches = setup::dry_run(tunnel, leg, &address)
                .map_err(|err| BindError::new(tunnel, format!("set the options of the {leg} leg"), err))?;
            mismatches.iter().for_each(|mismatch| say(tunnel, leg, mismatch));
        }
        Ok(())
    }

    fn bind_with(tunnel: &Tunnel, prepare: Prepare) -> Result<Listener, BindError> {
        let listening = listen(tunnel, &address_here(tunnel), prepare);
        Listener::new(tunnel, listening, format!("listen on {}", tunnel.listen))
    }

    /// Listens on a socket from systemd, which keeps it too. An option that is no longer configured stays until systemd
    /// opens the socket anew.
    ///
    /// # Errors
    /// The kernel refused an option, or EMFILE.
    pub fn adopt(tunnel: &Tunnel, socket: &Activated) -> Result<Listener, BindError> {
        let socket = socket.share();
        let socket = socket.map_err(|err| BindError::new(tunnel, "share its socket".into(), failed("dup", &err)))?;
        let unblocked = SockRef::from(&socket).set_nonblocking(true).map_err(|err| failed("fcntl(O_NONBLOCK)", &err));
        let adopted =
            unblocked.and_then(|()| setup::apply_options(socket, &tunnel.accept, Protocol::of(tunnel, Leg::Accept)));
        let what = format!("use the socket from systemd for {}", tunnel.listen);
        Ok(Listener { adopted: true, ..Listener::new(tunnel, adopted, what)? })
    }
    fn new(tunnel: &Tunnel, socket: longhaul_sys::Result<Socket>, what: String) -> Result<Listener, BindError> {
        let registered = socket.and_then(|socket| {
            watched(socket, Interest::READABLE).map_err(|err| failed("epoll_ctl(EPOLL_CTL_ADD)", &err))
        });
        let socket = registered.map_err(|err| BindError::new(tunnel, what, err))?;
        Ok(Listener { socket, adopted: false })
    }

    /// Opens a listener that replaces `old`, the listeners whose addresses conflict with its own. Both listen until the
    /// old ones have stopped serving, so no connection is refused in between. On IPv4 the kernel gives new handshakes
    /// to the new listener at once. On IPv6 it gives them to both, so the old listener serves them by the settings of
    /// the new tunnel. When the old listener closes, its unfinished handshakes are lost, unless the kernel moves them
    /// to the new one (net.ipv4.tcp_migrate_req = 1).
    ///
    /// # Errors
    /// Those of [`bind`](Listener::bind).
    pub fn replace(tunnel: &Tunnel, old: &[&Handle]) -> Result<Listener, BindError> {
        for old in old {
            // This works on a socket that listens already: from now on the kernel lets another socket of ours listen
            // beside it (tried on 6.18). Without it the new listener is refused, and the reload with it.
            let _ = sockopt::set_reuse_port(old.socket.as_fd(), true);
        }
        let new = Listener::bind_with(tunnel, |socket| sockopt::set_reuse_port(socket, true))?;
        // With the option the new listener would share its handshakes with the old ones (tried on 6.18: half each). The
        // call fails only on a socket that is gone.
        let _ = sockopt::set_reuse_port(new.socket.as_fd(), false);
        Ok(new)
    }

    /// Returns the handle that the owner of the listener keeps while it serves.
    ///
    /// # Errors
    /// EMFILE.
    pub fn handle(&self, tunnel: &Tunnel) -> Result<Handle, BindError> {
        match self.socket.get_ref().try_clone() {
            Ok(socket) => Ok(Handle { socket }),
            Err(err) => Err(BindError::new(tunnel, "hold its listener".into(), failed("dup", &err))),
        }
    }

    /// Accepts connections until the sender of `serving` is gone or no tunnel is left in it. A replaced listener
    /// accepts for one more second. At the end it starts flows for the connections that are still in the listen queue.
    /// A change of `serving` takes effect for the next connection; live flows keep their settings.
    pub async fn serve(self, relay: Arc<Relay>, mut serving: watch::Receiver<Serving>) {
        let current = serving.clone();
        let mut pause = FIRST_PAUSE;
        let mut end = None;
        loop {
            // The kernel still gives some handshakes to a replaced listener, and unfinished handshakes need a moment.
            if serving.borrow().replaced && end.is_none() {
                end = Some(Instant::now() + HANDOVER);
            }
            // `next` awaits only before it has a connection and after it has handed it over, so dropping it loses no
            // connection.
            tokio::select! {
                biased;
                changed = serving.changed() => {
                    if changed.is_err() || serving.borrow().tunnels.is_empty() {
                        break;
                    }
                }
                () = sleep_until(end.unwrap_or_else(Instant::now).into()), if end.is_some() => break,
                () = self.next(&relay, &current, &mut pause) => {}
            }
        }
        if !self.adopted {
            self.sweep(&relay, &current);
        }
    }

    /// Starts a flow for each connection in the listen queue that gets a permit. Closing the listener resets the
    /// others. Not for a socket from systemd: its next listener serves the queue.
    fn sweep(&self, relay: &Arc<Relay>, serving: &watch::Receiver<Serving>) {
        let Some(tunnel) = serving.borrow().tunnels.first().cloned() else { return };
        // At most as many as the queue holds. Otherwise a flood of refused clients would keep this worker busy.
        for _ in 0..BACKLOG {
            let Ok(permit) = tunnel.try_enter() else { break };
            let Ok((accept, peer)) = accept(self.socket.get_ref().as_fd()) else { break };
            self.start(relay, serving, permit, accept, peer);
        }
    }

    async fn next(&self, relay: &Arc<Relay>, serving: &watch::Receiver<Serving>, pause: &mut Duration) {
        let Ok(mut waiting) = self.socket.readable().await else { return };
        // A listener without a tunnel is about to end and admits nobody.
        let first = serving.borrow().tunnels.first().cloned();
        let Some(tunnel) = first else { return pending().await };
        // Before accept, so that a connection without a permit stays in the listen queue. After a connection has come,
        // so that an unused tunnel holds no permit.
        let permit = match tunnel.try_enter() {
            Ok(permit) => permit,
            // Readiness can be left over from the last connection. If none waits now, the log must not say that
            // connections wait.
            Err(_) if matches!(waiting.try_io(|socket| connection_waits(socket.get_ref())), Err(_nobody)) => return,
            Err(_) => tunnel.enter(&relay.lines).await,
        };
        match waiting.try_io(|socket| accept(socket.get_ref().as_fd())) {
            Ok(Ok((accept, peer))) => {
                *pause = FIRST_PAUSE;
                self.start(relay, serving, permit, accept, peer);
            }
            Err(_nobody) => {}
            Ok(Err(err)) if is_about_one_connection(&err) => {}
            Ok(Err(err)) => {
                cannot_accept(relay, &tunnel, &failed("accept4", &err));
                drop(permit);
                sleep(*pause).await;
                *pause = (*pause * 2).min(LAST_PAUSE);
            }
        }
    }

    /// Starts the flow of an accepted connection, or resets it when its peer is not allowed. Dropping the socket sends
    /// RST, because it has SO_LINGER 0.
    fn start(
        &self,
        relay: &Arc<Relay>,
        serving: &watch::Receiver<Serving>,
        permit: Permit,
        accept: OwnedFd,
        peer: SocketAddr,
    ) {
        let accept = Socket::from(accept);
        let Some((tunnel, mut permit)) = admit(&serving.borrow(), &accept, permit) else { return };
        if self.adopted {
            catch_up(relay, &tunnel.settings, &accept, peer);
        }
        let is_own = relay.own_probes.accepted(peer);
        let expected = if is_own { Some(Asks::OwnProbe) } else { tunnel.settings.proxy_in.map(Asks::Header) };
        // Before the socket is registered with the runtime, so that a flood of refused clients uses no epoll watches.
        if !is_own && (!is_allowed(relay, &tunnel, peer) || is_echo_too_many(relay, &tunnel, peer, &mut permit)) {
            return;
        }
        // Behind a proxy, the source is known only after its header.
        if expected.is_none() && !source_limits::admit(relay, &tunnel, &peer.into(), &mut permit) {
            return;
        }
        match Stream::new(accept) {
            Ok(accept) => {
                let relay = relay.clone();
                match expected {
                    None => tokio::spawn(flow::run(relay, tunnel, accept, peer, permit)),
                    Some(asks) => tokio::spawn(opening::run(asks, Arrived { relay, tunnel, accept, peer, permit })),
                };
            }
            // The kernel has no memory or no epoll watch left. The connection is reset.
            Err(err) => {
                let err = failed("epoll_ctl(EPOLL_CTL_ADD)", &err).hint("ENOSPC: raise fs.epoll.max_user_watches");
                cannot_accept(relay, &tunnel, &err);
            }
        }
    }
}

impl Serving {
    /// Returns the one tunnel of a listener that is not replaced.
    pub fn one(tunnel: Arc<ServedTunnel>) -> Serving {
        Serving { tunnels: vec![tunnel], replaced: false }
    }

    /// Returns the tunnel for the accepted connection `accept`.
    fn tunnel(&self, accept: &Socket) -> Option<Arc<ServedTunnel>> {
        if !self.replaced {
            return self.tunnels.first().cloned();
        }
        let came_to = accept.local_addr().ok()?.as_socket()?;
        self.tunnels.iter().find(|tunnel| longhaul_config::covers_same(tunnel.settings.listen, came_to)).cloned()
    }
}

/// Returns the tunnel that carries `accept`, with a permit of that tunnel, or `None` when there is no such tunnel or
/// permit. `permit` belongs to the first tunnel that the listener had before accept(2).
fn admit(serving: &Serving, accept: &Socket, permit: Permit) -> Option<(Arc<ServedTunnel>, Permit)> {
    let tunnel = serving.tunnel(accept)?;
    match tunnel.gave(&permit) {
        true => Some((tunnel, permit)),
        false => {
            drop(permit);
            let permit = tunnel.try_enter().ok()?;
            Some((tunnel, permit))
        }
    }
}

/// A handle of a serving [`Listener`], which its owner needs to replace it.
#[derive(Debug)]
pub struct Handle {
    socket: Socket,
}

impl Handle {
    /// Returns the address that this host must have, so that clients reach the listener. `None` if it listens on any address, or
    /// on one that always is here, or if somebody may bring the address later: IP_FREEBIND is set, by `freebind` or by systemd
    /// (`FreeBind=`). `None` also for a socket of an interface, whose addresses may be those of a VRF, and if the kernel does
    /// not say.
    pub fn needed_address(&self) -> Option<SocketAddr> {
        let address = self.socket.local_addr().ok()?.as_socket()?;
        let ip = address.ip().to_canonical();
        // The kernel finds a link-local address only with its interface.
        let is_link_local = matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
        if ip.is_unspecified() || ip.is_loopback() || is_link_local {
            return None;
        }
        // On a socket of IPv6, too: the kernel has one flag for both.
        let is_free = self.socket.freebind_v4().ok()? || self.socket.ip_transparent_v4().ok()?;
        (!is_free && self.socket.device().ok()?.is_none()).then_some(address)
    }

    /// Undoes [`Listener::replace`] on the old listener, because it is not replaced after all.
    pub fn stay(&self) {
        // This fails only on a socket that is gone.
        let _ = sockopt::set_reuse_port(self.socket.as_fd(), false);
    }

    /// Sets the options of `tunnel` that differ from `before` on the listening socket. Connections accepted from then
    /// on have them. Handshakes under way are not disturbed.
    pub fn tell(&self, before: &LegOptions, tunnel: &Tunnel) {
        for setting in tunnel.accept.changed(before) {
            if let Err(err) = setting.tell(self.socket.as_fd()) {
                warn!(tunnel = %tunnel.name, %err, "the listener did not take a new option; restart to have it");
            }
        }
    }
}

/// Prepares a socket before bind(2).
type Prepare = fn(BorrowedFd<'_>) -> Result<(), SysError>;

/// Returns the address on which `tunnel` listens on this host. On a host without IPv6, `[::]` becomes `0.0.0.0`.
fn address_here(tunnel: &Tunnel) -> SocketAddr {
    let any = tunnel.listen;
    let no_ipv6 = || {
        Socket::new(Domain::IPV6, Type::STREAM, None).is_err_and(|err| err.raw_os_error() == Some(libc::EAFNOSUPPORT))
    };
    match any.is_ipv6() && any.ip().is_unspecified() && no_ipv6() {
        true => SocketAddr::from((Ipv4Addr::UNSPECIFIED, any.port())),
        false => any,
    }
}

fn listen(tunnel: &Tunnel, address: &SocketAddr, prepare: Prepare) -> Result<Socket, SysError> {
    let socket = setup::open(address, &tunnel.accept, Protocol::of(tunnel, Leg::Accept))?;
    // A restart must not wait for TIME_WAIT (socket(7) SO_REUSEADDR). SO_REUSEPORT is set only to replace a listener of
    // our own, because it would let a second longhaul take half of the connections.
    sockopt::set_reuse_address(socket.as_fd())?;
    prepare(socket.as_fd())?;
    if address.is_ipv6() {
        // `[::]` means every address, IPv4 included, regardless of net.ipv6.bindv6only.
        let only = !address.ip().is_unspecified();
        sockopt::set_ipv6_only(socket.as_fd(), only)?;
    }
    socket.bind(&(*address).into()).map_err(|err| with_remedy(failed(format!("bind({address})"), &err), address))?;
    socket.listen(BACKLOG).map_err(|err| with_remedy(failed(format!("listen({address})"), &err), address))?;
    Ok(socket)
}

fn with_remedy(err: SysError, address: &SocketAddr) -> SysError {
    let port = address.port();
    match io::Error::from_raw_os_error(err.errno).kind() {
        io::ErrorKind::AddrInUse => err.hint(format!("who has it: ss -tanp 'sport = :{port}'")),
        io::ErrorKind::PermissionDenied => err.hint("a port below 1024 needs CAP_NET_BIND_SERVICE"),
        io::ErrorKind::AddrNotAvailable => err.hint(
            "not an address of this host: see `ip addr`; for one that VRRP brings later: accept = { freebind = true }",
        ),
        _ => err,
    }
}

fn is_allowed(relay: &Relay, tunnel: &ServedTunnel, peer: SocketAddr) -> bool {
    let Tunnel { name, allow, .. } = &*tunnel.settings;
    // An IPv4 client of an IPv6 listener has the address ::ffff:a.b.c.d.
    let ip = peer.ip().to_canonical();
    if allow.is_empty() || allow.iter().any(|net| net.contains(&ip)) {
        return true;
    }
    tunnel.counters.count(|counters| &counters.refused);
    tunnel.counters.count(|counters| &counters.not_allowed);
    if let Some(more) = relay.lines.refused.pass(name, Instant::now()) {
        warn!(tunnel = %name, %peer, more, "refused: not in `allow`");
    }
    false
}

/// Whether the client is a next hop of the tunnel, and too many flows have such clients already. Such a client may be
/// another relay that dials the flows of this one. Its reset travels all the way round, and every flow of the loop
/// ends.
fn is_echo_too_many(relay: &Relay, tunnel: &ServedTunnel, peer: SocketAddr, permit: &mut Permit) -> bool {
    if !relay.served.is_next_hop(&tunnel.settings, peer.ip()) || permit.note_next_hop() {
        return false;
    }
    tunnel.counters.count(|counters| &counters.refused);
    tunnel.counters.count(|counters| &counters.not_allowed);
    let name = &tunnel.settings.name;
    if let Some(more) = relay.lines.refused.pass(name, Instant::now()) {
        warn!(tunnel = %name, %peer, more, "refused: too many flows from this tunnel's own next hop; \
            do two relays point at each other?");
    }
    true
}

fn catch_up(relay: &Relay, tunnel: &Tunnel, accept: &Socket, peer: SocketAddr) {
    let Err(err) = setup::catch_up(accept, &tunnel.accept, Protocol::of(tunnel, Leg::Accept)) else { return };
    if let Some(more) = relay.lines.early.pass(&tunnel.name, Instant::now()) {
        warn!(tunnel = %tunnel.name, %peer, %err, more, "socket option not applied to a connection accepted before startup");
    }
}

fn cannot_accept(relay: &Relay, tunnel: &ServedTunnel, err: &SysError) {
    tunnel.counters.count(|counters| &counters.accept_errors);
    let name = &*tunnel.settings.name;
    if let Some(more) = relay.lines.accept.pass(name, Instant::now()) {
        warn!(tunnel = name, %err, more, "cannot accept, trying again; EMFILE: raise RLIMIT_NOFILE, ENFILE: fs.file-max");
    }
}

/// Returns `Ok` when a connection waits for accept(2), and `WouldBlock` when none does.
fn connection_waits(listener: &Socket) -> io::Result<()> {
    match has_connection(listener.as_fd()) {
        Ok(false) => Err(io::ErrorKind::WouldBlock.into()),
        // If the kernel does not tell, assume that one waits.
        Ok(true) | Err(_) => Ok(()),
    }
}

/// Whether an error of accept(2) concerns only the new connection, which is gone already. Then accept(2) may work for
/// the next one.
fn is_about_one_connection(err: &io::Error) -> bool {
    matches!(err.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted)
}

fn say(tunnel: &Tunnel, leg: Leg, mismatch: &Mismatch) {
    // `show` adds the units. Every mismatch has a row.
    let shown = |value| row(leg, mismatch.key).map_or_else(String::new, |row| options::show(row, value));
    warn!(
        tunnel = %tunnel.name,
        option = %format_args!("{leg}.{}", mismatch.key),
        asked = %shown(&mismatch.asked),
        got = %shown(&mismatch.got),
        remedy = (!mismatch.remedy.is_empty()).then_some(mismatch.remedy),
        "the kernel changed a socket option"
    );
}

impl BindError {
    fn new(tunnel: &Tunnel, what: String, err: SysError) -> BindError {
        BindError { tunnel: tunnel.name.clone(), what, err }
    }
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tunnel {}: cannot {}: {}", self.tunnel, self.what, self.err)
    }
}

impl std::error::Error for BindError {}

/// Length of the listen queue. The kernel limits it to net.core.somaxconn.
const BACKLOG: i32 = 4096;
/// Time that a replaced listener goes on: several round trips of any LAN, and one of most WANs.
const HANDOVER: Duration = Duration::from_secs(1);
/// First pause after accept(2) has failed.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// Longest pause after accept(2) has failed.
const LAST_PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_config::NextHop;
    use std::io::Read;
    use std::net::TcpStream;
    use std::sync::atomic::Ordering::Relaxed;

    #[tokio::test]
    async fn a_listener_needs_no_address_that_may_come_later_or_is_always_here() {
        let needed = |address: &str, prepare: fn(&Socket)| {
            let address: SocketAddr = address.parse().unwrap();
            let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).unwrap();
            prepare(&socket);
            socket.bind(&address.into()).unwrap();
            Handle { socket }.needed_address()
        };
        assert_eq!(needed("0.0.0.0:0", |_| ()), None);
        assert_eq!(needed("127.0.0.9:0", |_| ()), None);
        // RFC 5737, RFC 3849: for documentation, so they belong to nobody. systemd sets the option of the IP version.
        assert_eq!(needed("192.0.2.7:0", |socket| socket.set_freebind_v4(true).unwrap()), None);
        assert_eq!(needed("[2001:db8::7]:0", |socket| socket.set_freebind_v6(true).unwrap()), None);
    }

    /// On a thread whose epoll_ctl(2) fails once the listener is registered. Only an allowed client would reach that
    /// call.
    #[test]
    fn a_refusal_needs_no_watch() {
        use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};
        let rules = [(libc::SYS_epoll_ctl, Vec::new())].into_iter().collect();
        let (allow, refuse) = (SeccompAction::Allow, SeccompAction::Errno(libc::ENOSPC as u32));
        let filter = SeccompFilter::new(rules, allow, refuse, std::env::consts::ARCH.try_into().unwrap()).unwrap();
        let filter: BpfProgram = filter.try_into().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _entered = runtime.enter();
        let relay = Relay::new(100);
        let to = NextHop::new("127.0.0.1", 9);
        let mut tunnel = Tunnel::new("one", SocketAddr::from(([127, 0, 0, 1], 0)), vec![to]);
        let listener = Listener::bind(&tunnel).unwrap();
        let address = listener.socket.get_ref().local_addr().unwrap().as_socket().unwrap();
        let (done, mut clients_done) = tokio::sync::oneshot::channel();
        let clients = std::thread::spawn(move || {
            for _ in 0..3 {
                // The reset may arrive before connect(2) has ended.
                let ended = TcpStream::connect(address).and_then(|mut client| {
                    client.set_read_timeout(Some(Duration::from_secs(60)))?;
                    client.read(&mut [0])
                });
                assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
            }
            done.send(()).unwrap();
        });
        tunnel.allow = vec!["192.0.2.77/32".parse().unwrap()]; // RFC 5737: belongs to nobody
        let (sender, serving) = watch::channel(Serving::one(relay.tunnel(Arc::new(tunnel))));
        apply_filter(&filter).unwrap();
        let served = runtime.block_on(async {
            let serving = tokio::spawn(listener.serve(relay.clone(), serving));
            (&mut clients_done).await.unwrap();
            drop(sender);
            serving.await
        });
        served.unwrap();
        clients.join().unwrap();
        let counters = [&relay.counters.refused, &relay.counters.accept_errors];
        assert_eq!(counters.map(|counter| counter.load(Relaxed)), [3, 0]);
    }

    /// A client of a replaced listener takes a permit of the tunnel that now has the address it connected to.
    #[test]
    fn a_replaced_listener_admits_by_the_permits_of_the_tunnel_that_carries() {
        let listener = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let relay = Relay::new(100);
        let tunnel = |name: &str, ip: [u8; 4], max_flows| {
            let tunnel = Tunnel::new(name, SocketAddr::from((ip, port)), Vec::new());
            relay.tunnel(Arc::new(Tunnel { max_flows, ..tunnel }))
        };
        let (one, two) = (tunnel("one", [127, 0, 0, 1], None), tunnel("two", [127, 0, 0, 2], Some(1)));
        relay.permit(&[one.clone(), two.clone()]);
        let serving = Serving { tunnels: vec![one.clone(), two.clone()], replaced: true };
        let came_to = |ip: [u8; 4]| {
            let client = TcpStream::connect((Ipv4Addr::from(ip), port)).unwrap();
            (client, Socket::from(listener.accept().unwrap().0))
        };
        let admit = |accept: &Socket| admit(&serving, accept, one.try_enter().unwrap());
        let (_client, accept) = came_to([127, 0, 0, 2]);
        let (tunnel, permit) = admit(&accept).unwrap();
        assert!(tunnel.settings.name == "two" && two.gave(&permit));
        assert!(admit(&accept).is_none(), "max_flows of the second tunnel is 1");
        let (_other, at_one) = came_to([127, 0, 0, 1]);
        let (tunnel, of_one) = admit(&at_one).unwrap();
        assert!(tunnel.settings.name == "one" && one.gave(&of_one), "the first tunnel still has room");
        drop(permit);
        assert!(admit(&accept).is_some(), "its flow has ended");
    }
}
