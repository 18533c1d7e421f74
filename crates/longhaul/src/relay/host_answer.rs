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

use super::connect;
use longhaul_config::Tunnel;
use longhaul_sys::{icmp, sockopt};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::time::timeout;

/// Whether the host at `ip`, which did not answer a dial of `tunnel`, sends an ICMP error within [`PATIENCE`]. An error of
/// another host, such as a firewall on the way, does not count.
pub(super) async fn comes_from(tunnel: &Tunnel, ip: IpAddr) -> bool {
    let asking = async {
        let socket = open(tunnel, SocketAddr::new(ip, PORT))?;
        socket.send(&[0]).await?;
        socket.async_io(Interest::ERROR, || wait_for(&socket, ip)).await
    };
    matches!(timeout(PATIENCE, asking).await, Ok(Ok(())))
}

/// Opens a socket for datagrams to `address`.
fn open(tunnel: &Tunnel, address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
    for setting in tunnel.dial.before_dial() {
        match setting.tell(socket.as_fd()) {
            // An option of TCP. It does not change the way of a packet.
            Err(err) if err.errno == libc::ENOPROTOOPT => {}
            told => told?,
        }
    }
    sockopt::set_receive_errors(socket.as_fd())?;
    if let Some(source) = tunnel.source {
        connect::bind(&socket, source, address).map_err(|failure| io::Error::other(failure.to_string()))?;
    }
    socket.connect(&address.into())?;
    UdpSocket::from_std(socket.into())
}

/// Takes the errors of `socket` up to the first one that the host at `ip` has sent.
fn wait_for(socket: &UdpSocket, ip: IpAddr) -> io::Result<()> {
    while icmp::take_sender(socket.as_fd())? != Some(ip) {}
    Ok(())
}

/// Time that the host has to answer: a round trip of any path.
const PATIENCE: Duration = Duration::from_secs(1);

/// The first port of traceroute(8), on which hosts do not listen.
const PORT: u16 = 33434;
