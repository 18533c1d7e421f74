//! Connects to one address: checks for a loop, opens a socket with the dial leg's options, and waits for the answer.

use crate::leg::setup::{self, failed};
use crate::leg::stream::Stream;
use crate::live::failure_kind::FailureKind;
use crate::lock::lock;
use crate::reach::fast_open;
use crate::state::shared::Relay;
use longhaul_config::Tunnel;
use longhaul_sys::sockopt;
use longhaul_units::show_duration;
use socket2::{SockAddr, SockRef, Socket};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;
use tokio::time::timeout;

/// Why there is no connection to an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Names the call and the kernel's answer.
    text: String,
    /// Its kind.
    pub(crate) kind: FailureKind,
}

impl Failure {
    /// Returns a failure of this host.
    pub(super) fn here(text: impl ToString) -> Failure {
        Failure { text: text.to_string(), kind: FailureKind::Other }
    }

    /// Returns the failure of connect(2), with a hint.
    fn connect(err: &io::Error) -> Failure {
        let failed = failed("connect", err);
        let text = match err.kind() {
            io::ErrorKind::AddrNotAvailable => failed.hint(
                "no free port towards it: set net.ipv4.tcp_tw_reuse = 1 and a wider net.ipv4.ip_local_port_range, as \
                 90-longhaul.conf does, or add a second tunnel with another `source`",
            ),
            _ => failed,
        }
        .to_string();
        let kind = match err.raw_os_error().unwrap_or_default() {
            libc::ECONNREFUSED => FailureKind::Refused,
            libc::ETIMEDOUT => FailureKind::NoAnswer,
            libc::ECONNRESET => FailureKind::Reset,
            libc::EHOSTUNREACH | libc::EHOSTDOWN | libc::ENETUNREACH => FailureKind::Unreachable,
            // RFC 1122 4.2.3.9: ICMP says that the protocol or port is unreachable, or that it is prohibited.
            libc::ENOPROTOOPT | libc::EACCES => FailureKind::Unreachable,
            _ => FailureKind::Other,
        };
        Failure { text, kind }
    }

    /// Whether the next hop or the way to it is at fault, and not this host, such as for lack of descriptors.
    pub(super) fn is_of_hop(&self) -> bool {
        self.kind != FailureKind::Other
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Begins to connect to `address`. Returns the connection in progress, and the number of the `first_bytes` that it took.
///
/// # Errors
/// The connection failed already.
pub(crate) fn begin(
    relay: &Relay,
    tunnel: &Tunnel,
    address: SocketAddr,
    first_bytes: &[u8],
) -> Result<(Stream, usize), Failure> {
    start(open(relay, tunnel, address)?, address, first_bytes)
}

/// Like [`begin`], for a connection whose first bytes this relay itself sends as soon as it is made. They come with the end of the
/// handshake, so the peer has them when it accepts the connection.
///
/// # Errors
/// As [`begin`].
pub(crate) fn begin_to_speak(relay: &Relay, tunnel: &Tunnel, address: SocketAddr) -> Result<Stream, Failure> {
    let socket = open(relay, tunnel, address)?;
    sockopt::set_first_bytes_in_handshake(socket.as_fd()).map_err(Failure::here)?;
    start(socket, address, &[]).map(|(stream, _)| stream)
}

/// Opens a socket for a connection to `address`.
fn open(relay: &Relay, tunnel: &Tunnel, address: SocketAddr) -> Result<Socket, Failure> {
    let back = relay.tunnels.leads_back(tunnel, address);
    if back.map_err(|err| Failure::here(format!("cannot tell whether this leads back: {err}")))? {
        let text = "this leads back to the tunnel's own listener: every flow would dial itself";
        return Err(Failure::here(text));
    }
    let socket = setup::open_to_dial(&address, &tunnel.dial).map_err(Failure::here)?;
    if let Some(source) = tunnel.source {
        bind(&socket, source, address)?;
    }
    Ok(socket)
}

/// Begins to connect `socket`.
fn start(socket: Socket, address: SocketAddr, first_bytes: &[u8]) -> Result<(Stream, usize), Failure> {
    let early = send_syn(&socket, &address.into(), first_bytes).map_err(|err| Failure::connect(&err))?;
    // Only after connect(2), because epoll(7) reports EPOLLHUP on a socket that is not connecting.
    let stream = Stream::new(socket).map_err(|err| Failure::here(failed("epoll_ctl(EPOLL_CTL_ADD)", &err)))?;
    Ok((stream, early))
}

/// Waits up to `patience` until `stream` is connected to `address`.
///
/// # Errors
/// There is no connection.
pub(crate) async fn finish(
    relay: &Relay,
    stream: &Stream,
    address: SocketAddr,
    patience: Duration,
) -> Result<(), Failure> {
    match timeout(patience, stream.connected()).await {
        Ok(Ok(())) if lock(&relay.local_ports).contains(&address.port()) && is_itself(stream) => {
            Err(Failure::connect(&io::Error::from_raw_os_error(libc::ECONNREFUSED)))
        }
        Ok(Ok(())) => Ok(()),
        Ok(Err(err)) => Err(Failure::connect(&err)),
        Err(_) => {
            let text = format!("connect: no answer in {}", show_duration(patience));
            Err(Failure { text, kind: FailureKind::NoAnswer })
        }
    }
}

/// Sends the SYN. Returns the number of the client's `first_bytes` that the socket took.
fn send_syn(socket: &Socket, address: &SockAddr, first_bytes: &[u8]) -> io::Result<usize> {
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
///
/// # Errors
/// `source` has another IP version than `address`, or is no address of this host.
pub(super) fn bind(socket: &Socket, source: IpAddr, address: SocketAddr) -> Result<(), Failure> {
    if source.is_ipv4() != address.is_ipv4() {
        let text = format!("cannot be dialled from source {source}, which has another IP version");
        return Err(Failure::here(text));
    }
    // Not fatal: without this option bind(2) chooses the port now, from a smaller set.
    let _ = longhaul_sys::sockopt::set_bind_address_no_port(socket.as_fd());
    socket.bind(&SockAddr::from(SocketAddr::new(source, 0))).map_err(|err| {
        let hint = if err.kind() == io::ErrorKind::AddrNotAvailable { " (not an address of this host)" } else { "" };
        Failure::here(format!("{}{hint}", failed(format!("bind({source})"), &err)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{Domain, Type};
    use std::net::Ipv4Addr;

    #[test]
    fn a_failure_has_its_kind_in_words() {
        let name = |errno| Failure::connect(&io::Error::from_raw_os_error(errno)).kind.name();
        let errnos = [libc::ECONNREFUSED, libc::ETIMEDOUT, libc::ECONNRESET, libc::ENETUNREACH, libc::EADDRNOTAVAIL];
        assert_eq!(errnos.map(name), ["refused", "no answer", "reset", "unreachable", "failed"]);
    }

    #[tokio::test]
    async fn a_connection_to_itself_is_refused_and_only_a_port_that_the_kernel_may_choose_is_looked_at() {
        let connected = |socket: Socket, to: SocketAddr| {
            socket.connect(&to.into()).unwrap();
            socket.set_nonblocking(true).unwrap();
            Stream::new(socket).unwrap()
        };
        let socket = || Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let relay = Relay::new(1000);
        let finish = async |stream: &Stream, to| finish(&relay, stream, to, Duration::from_secs(60)).await;
        let bound = socket();
        bound.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
        let own = bound.local_addr().unwrap().as_socket().unwrap();
        let itself = connected(bound, own);
        // Before the first start the range is unknown, so every port is looked at.
        assert_eq!(finish(&itself, own).await.unwrap_err().kind, FailureKind::Refused);
        *lock(&relay.local_ports) = own.port()..=own.port();
        assert_eq!(finish(&itself, own).await.unwrap_err().kind, FailureKind::Refused);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let other = listener.local_addr().unwrap();
        *lock(&relay.local_ports) = other.port()..=other.port();
        assert_eq!(finish(&connected(socket(), other), other).await, Ok(()));
        assert_eq!(finish(&itself, own).await, Ok(()), "the kernel chooses no such port, so nothing is asked");
    }
}
