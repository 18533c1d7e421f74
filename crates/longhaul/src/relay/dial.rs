//! Dialling: the next hops in the policy's order, the addresses of each in the resolver's order, until one answers.

use super::Relay;
use super::leg::{self, failed};
use super::stream::Stream;
use crate::config::{NextHop, Tunnel};
use longhaul_sys::sockopt::Leg;
use socket2::{SockAddr, SockRef, Socket};
use std::fmt::Write;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// A connection that was made.
pub(super) struct Dialled {
    pub(super) stream: Stream,
    pub(super) next_hop: NextHop,
    pub(super) address: SocketAddr,
}

/// Dials `tunnel`'s next hops until one answers.
///
/// # Errors
/// A line with every address that was tried and what it said.
pub(super) async fn dial(relay: &Relay, tunnel: &Tunnel, lookups: &Arc<Semaphore>) -> Result<Dialled, String> {
    let mut said = String::new();
    for index in (tunnel.policy.order)(tunnel.to.len()) {
        let next_hop = &tunnel.to[index];
        match resolve(next_hop, tunnel.connect_timeout, lookups).await {
            Err(err) => note(&mut said, &next_hop.to_string(), &format!("cannot be resolved: {err}")),
            Ok(addresses) => {
                relay.served.resolved(&next_hop.host, &addresses);
                for address in addresses {
                    match connect(relay, tunnel, address).await {
                        Ok(stream) => return Ok(Dialled { stream, next_hop: next_hop.clone(), address }),
                        Err(why) => note(&mut said, &address.to_string(), &why),
                    }
                }
            }
        }
    }
    Err(said)
}

/// The addresses of `next_hop` now. A name is looked up each time, by getaddrinfo(3) on a thread that carries no bytes.
/// `patience` is for waiting for one of the tunnel's `lookups` too.
async fn resolve(next_hop: &NextHop, patience: Duration, lookups: &Arc<Semaphore>) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = next_hop.host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, next_hop.port)]);
    }
    let name = (next_hop.host.clone(), next_hop.port);
    let looking = async {
        // It fails only on a closed semaphore, and this one is never closed.
        let permit = lookups.clone().acquire_owned().await.map_err(io::Error::other)?;
        // The permit goes with the thread: getaddrinfo(3) keeps that when we have long stopped waiting.
        let looked_up = spawn_blocking(move || {
            let addresses = name.to_socket_addrs().map(Vec::from_iter);
            drop(permit);
            addresses
        });
        looked_up.await.map_err(io::Error::other)?
    };
    match timeout(patience, looking).await {
        Ok(addresses) => addresses,
        Err(_) => {
            Err(io::Error::new(io::ErrorKind::TimedOut, format!("no answer in {patience:?}; see /etc/resolv.conf")))
        }
    }
}

async fn connect(relay: &Relay, tunnel: &Tunnel, address: SocketAddr) -> Result<Stream, String> {
    if relay.served.leads_back(tunnel, address) {
        return Err("this leads back to the tunnel's own listener: every flow would dial itself".into());
    }
    let socket = leg::open_to_dial(&address, &tunnel.dial, tunnel.mptcp(Leg::Dial)).map_err(|err| err.to_string())?;
    if let Some(source) = tunnel.source {
        bind(&socket, source, address)?;
    }
    match socket.connect(&address.into()) {
        Err(err) if err.raw_os_error() != Some(libc::EINPROGRESS) => return Err(failed("connect", &err).to_string()),
        _ => {}
    }
    // Only now: of a socket that nobody connects epoll(7) says EPOLLHUP.
    let stream = Stream::new(socket).map_err(|err| failed("epoll_ctl(EPOLL_CTL_ADD)", &err).to_string())?;
    match timeout(tunnel.connect_timeout, stream.connected()).await {
        Ok(Ok(())) if is_itself(&stream) => {
            Err(failed("connect", &io::Error::from_raw_os_error(libc::ECONNREFUSED)).to_string())
        }
        Ok(Ok(())) => Ok(stream),
        Ok(Err(err)) => Err(failed("connect", &err).to_string()),
        Err(_) => Err(format!("connect: no answer in {:?}", tunnel.connect_timeout)),
    }
}

/// Whether a connection has both its ends in one socket. A dial to a free port of this host from the range that the
/// kernel takes ports of its own from can meet itself: TCP's simultaneous open (RFC 9293 3.5). Nobody listens there.
fn is_itself(stream: &Stream) -> bool {
    let socket = SockRef::from(stream);
    matches!((socket.local_addr(), socket.peer_addr()), (Ok(local), Ok(peer)) if local == peer)
}

/// Binds to `source` and leaves the port to connect(2), which may then use one port for many next hops
/// (ip(7) IP_BIND_ADDRESS_NO_PORT).
fn bind(socket: &Socket, source: IpAddr, address: SocketAddr) -> Result<(), String> {
    if source.is_ipv4() != address.is_ipv4() {
        return Err(format!("cannot be dialled from source {source}: the other IP version"));
    }
    // Not fatal: without it the port is chosen now, from a smaller set.
    let _ = longhaul_sys::sockopt::set_bind_address_no_port(socket.as_fd());
    socket.bind(&SockAddr::from(SocketAddr::new(source, 0))).map_err(|err| {
        let hint = if err.kind() == io::ErrorKind::AddrNotAvailable { " (not an address of this host)" } else { "" };
        format!("{}{hint}", failed(format!("bind({source})"), &err))
    })
}

fn note(said: &mut String, what: &str, why: &str) {
    let comma = if said.is_empty() { "" } else { "; " };
    // Writing to a String cannot fail.
    let _ = write!(said, "{comma}{what}: {why}");
}

/// How many names a tunnel looks up at once: 320 a second with a resolver that takes 50 ms. One that does not answer keeps
/// these threads and no more, so the other tunnels' lookups find theirs.
pub const LOOKUPS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{Domain, Type};
    use std::net::Ipv4Addr;

    #[tokio::test]
    async fn a_connection_to_itself_is_told_from_one_to_a_listener() {
        let connected = |socket: Socket, to: SockAddr| {
            socket.connect(&to).unwrap();
            socket.set_nonblocking(true).unwrap();
            Stream::new(socket).unwrap()
        };
        let socket = || Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let bound = socket();
        bound.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
        let own = bound.local_addr().unwrap();
        assert!(is_itself(&connected(bound, own)));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(!is_itself(&connected(socket(), listener.local_addr().unwrap().into())));
    }
}
