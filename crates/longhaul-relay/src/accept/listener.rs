//! A tunnel's listener: permit, accept, allow-list, flow. It never dies: an error of accept(2) is counted, and the
//! listener tries again after a pause.

use crate::accept::opening::{self, Arrived};
use crate::accept::source_limits;
use crate::flow;
use crate::leg::accept_loop::{self, Admission};
use crate::leg::setup::{self, failed};
use crate::leg::stream::Stream;
use crate::state::listening::Listening;
use crate::state::permits::Permit;
use crate::state::served_tunnel::ServedTunnel;
use crate::state::shared::Relay;
use crate::state::tunnels::List;
use longhaul_config::Tunnel;
use longhaul_core::loops::{MAX_LOOPED, Sign};
use longhaul_core::opening::Asks;
use longhaul_core::reload::covers_same;
use longhaul_sys::SysError;
use longhaul_sys::activation::accept;
use socket2::Socket;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::sleep_until;
use tracing::warn;

/// Accepts connections on `listening` while a tunnel has it. If other listeners have its address then, it accepts for one
/// more second, for their tunnels. At the end it starts flows for the connections that are still in the listen queue. A change
/// of the tunnels takes effect for the next connection; live flows keep their settings.
pub(crate) async fn serve(relay: Arc<Relay>, listening: Arc<Listening>) {
    let mut changes = relay.tunnels.changes();
    let mut serving = Serving::look(&changes.borrow_and_update(), &listening);
    let mut end = None;
    while !serving.tunnels.is_empty() {
        // The kernel still gives some handshakes to a replaced listener, and unfinished handshakes need a moment.
        if serving.is_replaced && end.is_none() {
            end = Some(Instant::now() + HANDOVER);
        }
        let door = Door { relay: &relay, tunnel: &serving.tunnels[0] };
        // `next` holds no connection while it waits, so dropping it loses none.
        tokio::select! {
            biased;
            now = serving.changed(&mut changes, &listening) => {
                if now.tunnels.is_empty() {
                    break;
                }
                serving = now;
            }
            () = sleep_until(end.unwrap_or_else(Instant::now).into()), if end.is_some() => break,
            (accepted, peer, permit) = accept_loop::next(&listening.socket, &door) => {
                let newer = Serving::newer(&changes, &listening);
                start(&relay, newer.as_ref().unwrap_or(&serving), &listening, permit, accepted, peer);
            }
        }
    }
    if !listening.is_held {
        serve_queue(&relay, &serving, &listening);
    }
}

/// Starts a flow for each connection in the listen queue that gets a permit. Closing the listener resets the
/// others. Not for a socket from systemd: its next listener serves the queue.
fn serve_queue(relay: &Arc<Relay>, serving: &Serving, listening: &Listening) {
    let Some(tunnel) = serving.tunnels.first() else { return };
    // At most as many as the queue holds. Otherwise a flood of refused clients would keep this worker busy.
    for _ in 0..BACKLOG {
        let Ok(permit) = tunnel.try_enter() else { break };
        let Ok((accepted, peer)) = accept(listening.socket.as_fd()) else { break };
        start(relay, serving, listening, permit, accepted.into(), peer);
    }
}

/// Starts the flow of an accepted connection, or resets it when its peer is not allowed. Dropping the socket sends
/// RST, because it has SO_LINGER 0.
fn start(
    relay: &Arc<Relay>,
    serving: &Serving,
    listening: &Listening,
    permit: Permit,
    accept: Socket,
    peer: SocketAddr,
) {
    let Some((tunnel, mut permit)) = admit(serving, &accept, permit) else { return };
    if listening.is_held {
        catch_up(relay, &tunnel.settings, &accept, peer);
    }
    let is_own = relay.probes.own.accepted(peer);
    let expected = if is_own { Some(Asks::OwnProbe) } else { tunnel.settings.proxy_in.map(Asks::Header) };
    // Before the socket is registered with the runtime, so that a flood of refused clients uses no epoll watches.
    let is_admitted = is_own || admit_peer(relay, &tunnel, peer) && admit_echo(relay, &tunnel, peer, &mut permit);
    if !is_admitted {
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

/// The tunnels of one listener: its own, or, if it is replaced, those that have its addresses now.
struct Serving {
    /// One tunnel. A replaced listener has each tunnel that covers a part of its address. None if the listener is to end.
    tunnels: Vec<Arc<ServedTunnel>>,
    /// Whether other listeners have its address, so that it serves only for a moment more.
    is_replaced: bool,
}

impl Serving {
    /// Returns the tunnels of `list` that `listening` serves.
    fn look(list: &List, listening: &Arc<Listening>) -> Serving {
        let own = |tunnel: &&Arc<ServedTunnel>| std::ptr::eq(tunnel.listener.as_ptr(), Arc::as_ptr(listening));
        let heir = |tunnel: &&Arc<ServedTunnel>| {
            tunnel.listens() && !listening.is_held && covers_same(tunnel.settings.listen, listening.listen)
        };
        let own = list.iter().find(own).cloned();
        let is_replaced = own.is_none();
        let tunnels = own.map_or_else(|| list.iter().filter(heir).cloned().collect(), |own| vec![own]);
        Serving { tunnels, is_replaced }
    }

    /// Waits until the listener serves other tunnels, or the same ones with other settings. A reload that leaves them as they are
    /// does not end a wait for a permit. The wait may be dropped.
    async fn changed(&self, changes: &mut watch::Receiver<List>, listening: &Arc<Listening>) -> Serving {
        loop {
            // This fails only when the sender is gone, and the relay has it.
            let _ = changes.changed().await;
            let now = Serving::look(&changes.borrow_and_update(), listening);
            let is_same = |(one, other): (&Arc<ServedTunnel>, _)| Arc::ptr_eq(one, other);
            if now.tunnels.len() != self.tunnels.len() || !now.tunnels.iter().zip(&self.tunnels).all(is_same) {
                return now;
            }
        }
    }

    /// Returns the tunnels for a connection that was accepted just now, if the list has changed since the last look. `None` also if
    /// the listener is to end by the new list: its last connections are served by the old one.
    fn newer(changes: &watch::Receiver<List>, listening: &Arc<Listening>) -> Option<Serving> {
        let has_changed = changes.has_changed().unwrap_or(false);
        let newer = has_changed.then(|| Serving::look(&changes.borrow(), listening));
        newer.filter(|newer| !newer.tunnels.is_empty())
    }

    /// Returns the tunnel for the accepted connection `accept`.
    fn tunnel(&self, accept: &Socket) -> Option<Arc<ServedTunnel>> {
        if !self.is_replaced {
            return self.tunnels.first().cloned();
        }
        let came_to = accept.local_addr().ok()?.as_socket()?;
        self.tunnels.iter().find(|tunnel| covers_same(tunnel.settings.listen, came_to)).cloned()
    }
}

/// The permits of a tunnel, for the connections of its listener.
struct Door<'a> {
    relay: &'a Relay,
    tunnel: &'a ServedTunnel,
}

impl Admission for Door<'_> {
    type Permit = Permit;

    fn try_enter(&self) -> Option<Permit> {
        self.tunnel.try_enter().ok()
    }

    async fn enter(&self) -> Permit {
        self.tunnel.enter(&self.relay.lines).await
    }

    fn failed(&self, err: &SysError) {
        cannot_accept(self.relay, self.tunnel, err);
    }
}

/// Returns the tunnel that carries `accept`, with a permit of that tunnel, or `None` when there is no such tunnel or
/// permit. `permit` belongs to the first tunnel that the listener had before accept(2).
fn admit(serving: &Serving, accept: &Socket, permit: Permit) -> Option<(Arc<ServedTunnel>, Permit)> {
    let tunnel = serving.tunnel(accept)?;
    if tunnel.gave(&permit) {
        return Some((tunnel, permit));
    }
    drop(permit);
    let permit = tunnel.try_enter().ok()?;
    Some((tunnel, permit))
}

/// Admits a client that `allow` has.
fn admit_peer(relay: &Relay, tunnel: &ServedTunnel, peer: SocketAddr) -> bool {
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

/// Admits a client unless it is a next hop of the tunnel, or sends the tunnel's own flows back to it, and too many flows have such clients
/// already. The reset of the one that is refused travels all the way round, and every flow of the loop ends.
fn admit_echo(relay: &Relay, tunnel: &ServedTunnel, peer: SocketAddr, permit: &mut Permit) -> bool {
    let (from, now) = (peer.ip().to_canonical(), Instant::now());
    let suspected = tunnel.loops.suspecting().map(|watch| (watch.sign(from, now), watch.is_limited(from, now)));
    let (sign, is_limited) = suspected.unwrap_or_default();
    let is_loop = matches!(sign, Some(Sign::Loop(_)));
    // Many clients that close without a byte may look like the FIN of a test, so that alone refuses nobody.
    if !is_loop && !relay.tunnels.loop_guard.is_next_hop(&tunnel.settings, from) {
        return true;
    }
    if !tunnel.loops.change(|watch| watch.comes_from(from, now)) {
        return true;
    }
    // Flows from before the loop was known count, too.
    let newest = || tunnel.loops.newest(&relay.registry, |flow| flow.began_by(from), MAX_LOOPED);
    let is_full = is_limited && newest().len() == MAX_LOOPED;
    if !is_full && permit.note_next_hop(is_limited) {
        return true;
    }
    tunnel.counters.count(|counters| &counters.refused);
    tunnel.counters.count(|counters| &counters.looped);
    let name = &tunnel.settings.name;
    let is_told = tunnel.loops.change(|watch| watch.tells_refusal(from));
    if let Some(more) = is_told.then(|| relay.lines.refused.pass(name, now)).flatten() {
        warn!(tunnel = %name, %peer, is_loop, more, "refused: too many flows that may be this tunnel's own; \
            do two relays point at each other?");
    }
    false
}

fn catch_up(relay: &Relay, tunnel: &Tunnel, accept: &Socket, peer: SocketAddr) {
    let Err(err) = setup::catch_up(accept, &tunnel.accept) else { return };
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

/// Length of the listen queue. The kernel limits it to net.core.somaxconn.
pub(crate) const BACKLOG: i32 = 4096;
/// Time that a replaced listener goes on: several round trips of any LAN, and one of most WANs.
const HANDOVER: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_config::NextHop;
    use std::io::{self, Read};
    use std::net::{Ipv4Addr, TcpStream};
    use std::sync::atomic::Ordering::Relaxed;

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
        let socket = Socket::from(std::net::TcpListener::bind(tunnel.listen).unwrap());
        socket.set_linger(Some(Duration::ZERO)).unwrap(); // as for every tunnel
        socket.set_nonblocking(true).unwrap();
        let address = socket.local_addr().unwrap().as_socket().unwrap();
        let listening = Arc::new(Listening::new(&tunnel, socket, false).unwrap());
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
        let tunnel = Arc::new(tunnel);
        relay.tunnels.set(vec![Arc::new(relay.tunnels.open(tunnel.clone()).with(tunnel, &listening))]);
        apply_filter(&filter).unwrap();
        let served = runtime.block_on(async {
            let serving = tokio::spawn(serve(relay.clone(), listening));
            (&mut clients_done).await.unwrap();
            relay.tunnels.set(Vec::new());
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
            relay.tunnels.open(Arc::new(Tunnel { max_flows, ..tunnel }))
        };
        let (one, two) = (tunnel("one", [127, 0, 0, 1], None), tunnel("two", [127, 0, 0, 2], Some(1)));
        relay.tunnels.set(vec![one.clone(), two.clone()]);
        let serving = Serving { tunnels: vec![one.clone(), two.clone()], is_replaced: true };
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
