//! Asks the host of a silent port for an answer of its kernel, as traceroute(8) does: one UDP datagram to a port on which no
//! program listens, and ICMP port unreachable comes back.
//!
//! ```text
//! relay ── SYN ──────> x  port 22           no answer: the port drops packets, or nothing works there
//! relay ── datagram ────> port 33434
//!       <── ICMP error ── the host itself   the host works, so the port drops packets
//!       <── ICMP error ── a router          says nothing about the host
//! ```
//! The datagram goes the way of the dial: it has the tunnel's `source` and the options of the dial leg.
//!
//! A port is blamed only after a second, brief dial, because the way may be whole again only since the first one. A second
//! dial also tells who rejects dials by an ICMP error. Those of flows do not ask for the sender: an established connection
//! would then break by any ICMP error (ip(7) IP_RECVERR).

use crate::leg::closing::linger_off;
use crate::leg::setup;
use crate::leg::stream::Stream;
use crate::reach::connect;
use longhaul_config::Tunnel;
use longhaul_config::options::key;
use longhaul_sys::{icmp, sockopt};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::time::timeout;

/// Whether the host of `address`, which did not answer a dial of `tunnel`, sends an ICMP error within [`PATIENCE`], and its port
/// does not answer a second dial either. An error of another host, such as a firewall on the way, does not count.
pub(crate) async fn is_port_silent(tunnel: &Tunnel, address: SocketAddr) -> bool {
    matches!(timeout(PATIENCE, ask(tunnel, address.ip())).await, Ok(Ok(())))
        && matches!(dial_again(tunnel, address).await, Ok(Again::Silent))
}

/// Whether the host of `address` itself rejects a dial of `tunnel` by an ICMP error, as its firewall may. Dials once more to
/// find out.
pub(crate) async fn is_prohibited(tunnel: &Tunnel, address: SocketAddr) -> bool {
    matches!(dial_again(tunnel, address).await, Ok(Again::Prohibited))
}

/// Answer to a second dial.
#[derive(Debug)]
enum Again {
    /// None came within [`DIAL_PATIENCE`].
    Silent,
    /// The host itself sent an ICMP error.
    Prohibited,
    /// Any other, such as a connection.
    Other,
}

/// Dials `address` as `tunnel` does, but with plain TCP. The connection, if there is one, ends with FIN before a byte.
async fn dial_again(tunnel: &Tunnel, address: SocketAddr) -> io::Result<Again> {
    let address = match address.ip().to_canonical() {
        // See `ask`.
        IpAddr::V4(ip) => SocketAddr::new(ip.into(), address.port()),
        // With its zone.
        IpAddr::V6(_) => address,
    };
    let socket = setup::open_to_dial(&address, &tunnel.dial.without(&[key::MPTCP]))?;
    sockopt::set_receive_errors(socket.as_fd())?;
    bind(&socket, tunnel, address)?;
    match socket.connect(&address.into()) {
        Err(err) if err.raw_os_error() != Some(libc::EINPROGRESS) => return Ok(Again::Other),
        _ => {}
    }
    let stream = Stream::new(socket)?;
    match timeout(DIAL_PATIENCE, stream.connected()).await {
        Err(_) => Ok(Again::Silent),
        // The queue wakes the wait too, perhaps before the connection has failed (net/ipv4/tcp_ipv4.c, tcp_v4_err).
        Ok(_) if wait_for(stream.as_fd(), address.ip()).is_ok() => Ok(Again::Prohibited),
        Ok(_) => {
            linger_off(&stream);
            Ok(Again::Other)
        }
    }
}

/// Sends a datagram to the host at `ip`, and waits for an ICMP error that this host has sent.
async fn ask(tunnel: &Tunnel, ip: IpAddr) -> io::Result<()> {
    // On an IPv6 socket, the answer of a host at ::ffff:192.0.2.1 would also need IP_RECVERR (ip(7)).
    let ip = ip.to_canonical();
    let socket = open(tunnel, SocketAddr::new(ip, PORT))?;
    socket.send(&[0]).await?;
    socket.async_io(Interest::ERROR, || wait_for(socket.as_fd(), ip)).await
}

/// Opens a socket for datagrams to `address`.
fn open(tunnel: &Tunnel, address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = datagrams(tunnel, address)?;
    sockopt::set_receive_errors(socket.as_fd())?;
    bind(&socket, tunnel, address)?;
    socket.connect(&address.into())?;
    UdpSocket::from_std(socket.into())
}

/// Returns a socket for datagrams that go the way of a dial of `tunnel` to `address`: it has the options of the dial leg that a socket of
/// UDP can have.
///
/// # Errors
/// The kernel refuses an option.
pub(crate) fn datagrams(tunnel: &Tunnel, address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
    for setting in tunnel.dial.before_dial() {
        match setting.tell(socket.as_fd()) {
            // An option of TCP. It does not change the way of a packet.
            Err(err) if err.errno == libc::ENOPROTOOPT => {}
            told => told?,
        }
    }
    Ok(socket)
}

/// Binds `socket` to the `source` of `tunnel`, if it has one.
fn bind(socket: &Socket, tunnel: &Tunnel, address: SocketAddr) -> io::Result<()> {
    let Some(source) = tunnel.source else { return Ok(()) };
    connect::bind(socket, source.to_canonical(), address).map_err(|failure| io::Error::other(failure.to_string()))
}

/// Takes the errors of `socket` up to the first one that the host at `ip` has sent.
fn wait_for(socket: BorrowedFd<'_>, ip: IpAddr) -> io::Result<()> {
    while icmp::take_sender(socket)? != Some(ip) {}
    Ok(())
}

/// Time that the host has to answer: a round trip of any path.
const PATIENCE: Duration = Duration::from_secs(1);

/// Time that a second dial has: one SYN may be lost, and the kernel sends it again after a second.
const DIAL_PATIENCE: Duration = Duration::from_secs(2);

/// The first port of traceroute(8), on which hosts do not listen.
const PORT: u16 = 33434;

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_config::options::{Leg, ROWS};
    use std::net::{Ipv4Addr, Ipv6Addr};

    /// [`icmp::take_sender`] wants a socket without other control messages. This is the proof for each option of a file.
    #[tokio::test]
    async fn no_option_of_the_dial_leg_hides_the_host_that_answers() {
        for ip in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
            if std::net::UdpSocket::bind((ip, 0)).is_err() {
                println!("SKIP {ip}: this host has no such address");
                continue;
            }
            for row in ROWS.iter().filter(|row| row.legs.contains(&Leg::Dial)) {
                let mut tunnel = Tunnel::new("t", "127.0.0.1:1".parse().unwrap(), Vec::new());
                tunnel.dial.set(Leg::Dial, row.key, row.sample).unwrap();
                match timeout(Duration::from_secs(60), ask(&tunnel, ip)).await.expect(row.key) {
                    Err(err) if err.kind() == io::ErrorKind::PermissionDenied => println!("SKIP {}: {err}", row.key),
                    asked => asked.expect(row.key),
                }
            }
        }
    }

    #[tokio::test]
    async fn a_host_at_an_ipv4_mapped_address_answers() {
        let ip = IpAddr::V6(Ipv4Addr::LOCALHOST.to_ipv6_mapped());
        for source in [None, Some(ip)] {
            let tunnel = Tunnel { source, ..Tunnel::new("t", "127.0.0.1:1".parse().unwrap(), Vec::new()) };
            let asked = timeout(Duration::from_secs(60), ask(&tunnel, ip)).await;
            asked.expect("an answer").expect("the host's");
        }
    }
}
