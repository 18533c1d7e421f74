//! Dialling: tries the next hops in the policy's order, and the addresses of each in the resolver's order, until one
//! answers.

use super::fast_open::{self, FirstBytes};
use super::leg::{self, Protocol, failed};
use super::shared::Relay;
use super::stream::Stream;
use longhaul_config::Tunnel;
use longhaul_config::options::Leg;
use longhaul_units::show_duration;
use socket2::{SockAddr, SockRef, Socket};
use std::fmt::Write;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use tokio::time::timeout;

/// A connection that was made. The peer may have reset it since. Bytes that came before the reset can still be read.
pub(super) struct Dialled {
    pub(super) stream: Stream,
    /// The next hop, as an index into the tunnel's `to`.
    pub(super) hop: usize,
    pub(super) address: SocketAddr,
    /// Number of bytes that `stream` took during connect. They were only peeked from the accept leg (`dial.fastopen`).
    pub(super) early: usize,
}

/// Why no connection was made.
pub(super) enum NotDialled {
    /// No address answered. The text names every address that was tried and its error.
    NoAnswer(String),
    /// The accept leg failed first.
    Accept(io::Error),
}

/// Dials `tunnel`'s next hops for the connection `accept` until one answers.
///
/// # Errors
/// No next hop answered, or the accept leg failed.
pub(super) async fn dial(relay: &Relay, tunnel: &Tunnel, accept: &Stream) -> Result<Dialled, NotDialled> {
    let mut said = String::new();
    let first_bytes = FirstBytes::of(tunnel, accept);
    for hop in (tunnel.policy.order)(tunnel.to.len()) {
        let next_hop = &tunnel.to[hop];
        match relay.addresses(next_hop, tunnel.connect_timeout).await {
            Err(why) => note(&mut said, &next_hop.to_string(), &format!("cannot be resolved: {why}")),
            Ok(addresses) => {
                relay.served.resolved(next_hop, &addresses);
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

/// Returns the connection to `address` and the number of the client's `first_bytes` that it took.
///
/// # Errors
/// The connection failed. The text names the call and the kernel's answer.
async fn connect(
    relay: &Relay,
    tunnel: &Tunnel,
    address: SocketAddr,
    first_bytes: Vec<u8>,
) -> Result<(Stream, usize), String> {
    if relay.served.leads_back(tunnel, address).map_err(|err| format!("cannot tell whether this leads back: {err}"))? {
        return Err("this leads back to the tunnel's own listener: every flow would dial itself".to_owned());
    }
    let socket =
        leg::open_to_dial(&address, &tunnel.dial, Protocol::of(tunnel, Leg::Dial)).map_err(|err| err.to_string())?;
    if let Some(source) = tunnel.source {
        bind(&socket, source, address)?;
    }
    let early = begin(&socket, &address.into(), &first_bytes).map_err(|err| connect_failed(&err))?;
    drop(first_bytes); // frees them while the next hop takes its time
    // Only after connect(2), because epoll(7) reports EPOLLHUP on a socket that is not connecting.
    let stream = Stream::new(socket).map_err(|err| failed("epoll_ctl(EPOLL_CTL_ADD)", &err).to_string())?;
    match timeout(tunnel.connect_timeout, stream.connected()).await {
        Ok(Ok(())) if relay.local_ports.contain(address.port()) && is_itself(&stream) => {
            Err(connect_failed(&io::Error::from_raw_os_error(libc::ECONNREFUSED)))
        }
        Ok(Ok(())) => Ok((stream, early)),
        Ok(Err(err)) => Err(connect_failed(&err)),
        Err(_) => Err(format!("connect: no answer in {}", show_duration(tunnel.connect_timeout))),
    }
}

/// Returns the error of connect(2) with a hint.
fn connect_failed(err: &io::Error) -> String {
    let failed = failed("connect", err);
    match err.kind() {
        io::ErrorKind::AddrNotAvailable => failed.hint(
            "no free port towards it: set net.ipv4.tcp_tw_reuse = 1 and a wider net.ipv4.ip_local_port_range, as \
             90-longhaul.conf does, or add a second tunnel with another `source`",
        ),
        _ => failed,
    }
    .to_string()
}

/// Sends the SYN. Returns the number of the client's `first_bytes` that the socket took.
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

/// Whether both ends of a connection are the same socket. A dial to a free port of this host can connect to itself when
/// the kernel chooses the same port as its source: TCP's simultaneous open (RFC 9293 3.5). No process listens there.
fn is_itself(stream: &Stream) -> bool {
    let socket = SockRef::from(stream);
    matches!((socket.local_addr(), socket.peer_addr()), (Ok(local), Ok(peer)) if local == peer)
}

/// Binds to `source` and leaves the choice of the port to connect(2), which may then use one port for many next hops
/// (ip(7) IP_BIND_ADDRESS_NO_PORT).
fn bind(socket: &Socket, source: IpAddr, address: SocketAddr) -> Result<(), String> {
    if source.is_ipv4() != address.is_ipv4() {
        return Err(format!("cannot be dialled from source {source}, which has another IP version"));
    }
    // Not fatal: without this option bind(2) chooses the port now, from a smaller set.
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
