//! Dialling: the next hops in the policy's order, the addresses of each in the resolver's order, until one answers.

use super::fast_open::{self, FirstBytes};
use super::leg::{self, failed};
use super::shared::Relay;
use super::stream::Stream;
use longhaul_config::options::Leg;
use longhaul_config::{NextHop, Tunnel};
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

/// A connection that was made. Its peer may have reset it since: what came before is still to be read.
pub(super) struct Dialled {
    pub(super) stream: Stream,
    /// The next hop, by its place in the tunnel's `to`.
    pub(super) hop: usize,
    pub(super) address: SocketAddr,
    /// Bytes that `stream` took while it was made. They were only peeked from the accept leg (`dial.fastopen`).
    pub(super) early: usize,
}

/// Why no connection was made.
pub(super) enum NotDialled {
    /// No address answered. A line with every address that was tried and what it said.
    NoAnswer(String),
    /// The accept leg failed before.
    Accept(io::Error),
}

/// Dials `tunnel`'s next hops for the connection `accept` until one answers.
///
/// # Errors
/// No next hop answered, or the accept leg failed.
pub(super) async fn dial(
    relay: &Relay,
    tunnel: &Tunnel,
    lookups: &Arc<Semaphore>,
    accept: &Stream,
) -> Result<Dialled, NotDialled> {
    let mut said = String::new();
    let first_bytes = FirstBytes::of(tunnel, accept);
    for hop in (tunnel.policy.order)(tunnel.to.len()) {
        let next_hop = &tunnel.to[hop];
        match resolve(next_hop, tunnel.connect_timeout, lookups).await {
            Err(err) => note(&mut said, &next_hop.to_string(), &format!("cannot be resolved: {err}")),
            Ok(addresses) => {
                relay.served.resolved(&next_hop.host, &addresses);
                for address in addresses {
                    let bytes = first_bytes.peek().await.map_err(NotDialled::Accept)?;
                    match connect(relay, tunnel, address, bytes).await {
                        Ok((stream, early)) => return Ok(Dialled { stream, hop, address, early }),
                        Err(why) => note(&mut said, &address.to_string(), &why),
                    }
                }
            }
        }
    }
    Err(NotDialled::NoAnswer(said))
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

/// Returns the connection to `address`, and how many of the client's `first_bytes` it took.
///
/// # Errors
/// The address gave no connection: the call that failed and the kernel's answer.
async fn connect(
    relay: &Relay,
    tunnel: &Tunnel,
    address: SocketAddr,
    first_bytes: Vec<u8>,
) -> Result<(Stream, usize), String> {
    if relay.served.leads_back(tunnel, address).map_err(|err| format!("cannot tell whether this leads back: {err}"))? {
        return Err("this leads back to the tunnel's own listener: every flow would dial itself".to_owned());
    }
    let socket = leg::open_to_dial(&address, &tunnel.dial, tunnel.mptcp(Leg::Dial)).map_err(|err| err.to_string())?;
    if let Some(source) = tunnel.source {
        bind(&socket, source, address)?;
    }
    let early = begin(&socket, &address.into(), &first_bytes).map_err(|err| connect_failed(&err))?;
    drop(first_bytes); // it is not kept while the next hop thinks
    // Only now: of a socket that nobody connects epoll(7) says EPOLLHUP.
    let stream = Stream::new(socket).map_err(|err| failed("epoll_ctl(EPOLL_CTL_ADD)", &err).to_string())?;
    match timeout(tunnel.connect_timeout, stream.connected()).await {
        Ok(Ok(())) if relay.local_ports.contain(address.port()) && is_itself(&stream) => {
            Err(connect_failed(&io::Error::from_raw_os_error(libc::ECONNREFUSED)))
        }
        Ok(Ok(())) => Ok((stream, early)),
        Ok(Err(err)) => Err(connect_failed(&err)),
        Err(_) => Err(format!("connect: no answer in {:?}", tunnel.connect_timeout)),
    }
}

/// Why connect(2) failed, and what helps.
fn connect_failed(err: &io::Error) -> String {
    let failed = failed("connect", err);
    match err.kind() {
        io::ErrorKind::AddrNotAvailable => failed.hint(
            "every port towards it is taken: net.ipv4.tcp_tw_reuse = 1 and a wider net.ipv4.ip_local_port_range, as \
             90-longhaul.conf sets them, or a second tunnel with another `source`",
        ),
        _ => failed,
    }
    .to_string()
}

/// Sends the SYN. Returns how many of the client's `first_bytes` the socket took.
fn begin(socket: &Socket, address: &SockAddr, first_bytes: &[u8]) -> io::Result<usize> {
    if !first_bytes.is_empty() {
        if let Some(taken) = fast_open::connect(socket, address, first_bytes)? {
            return Ok(taken);
        }
    }
    match socket.connect(address) {
        Err(err) if err.raw_os_error() != Some(libc::EINPROGRESS) => Err(err),
        _ => Ok(0),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::local_ports::LocalPorts;
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
        assert!(is_itself(&connected(bound, own.clone())));
        let ports = LocalPorts::unknown();
        assert!(ports.contain(own.as_socket().unwrap().port()) && ports.contain(1));
        ports.read();
        assert!(ports.contain(own.as_socket().unwrap().port()) && !ports.contain(1));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(!is_itself(&connected(socket(), listener.local_addr().unwrap().into())));
    }
}
