//! Queries the source address that the kernel's routing tables choose for a destination, and whether the destination is
//! this host, by a UDP socket that sends nothing.

use crate::{Result, SysError};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

/// A socket for any number of queries. It takes one descriptor.
#[derive(Debug)]
pub struct RouteSocket(OwnedFd);

impl RouteSocket {
    /// Opens a socket for destinations of the IP version of `ip`.
    ///
    /// # Errors
    /// EMFILE, ENFILE, ENOBUFS, ENOMEM. EAFNOSUPPORT on a host without this IP version.
    pub fn new(ip: IpAddr) -> Result<RouteSocket> {
        let family = if ip.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let made = rustix::net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
        made.map(RouteSocket).map_err(|errno| SysError::new("socket(SOCK_DGRAM)", errno))
    }

    /// Returns the source address of packets from this host to `to`, or `None` if there is no route.
    ///
    /// # Errors
    /// The kernel did not answer: EPERM by a BPF program or a firewall, EAGAIN without a free UDP port.
    pub fn source(&self, to: SocketAddr) -> Result<Option<IpAddr>> {
        // Disconnected first, because a connected socket keeps its source (net/ipv4/datagram.c,
        // __ip4_datagram_connect).
        rustix::net::connect_unspec(&self.0).map_err(|errno| SysError::new("connect(AF_UNSPEC)", errno))?;
        // udp(7): connect(2) sends nothing and only looks up the route.
        match rustix::net::connect(&self.0, &to) {
            Ok(()) => {}
            Err(errno) if NO_ROUTE.contains(&errno) => return Ok(None),
            Err(errno) => return Err(SysError::new(format!("connect(UDP, {to})"), errno)),
        }
        let name = rustix::net::getsockname(&self.0).map_err(|errno| SysError::new("getsockname", errno))?;
        Ok(SocketAddr::try_from(name).ok().map(|name| name.ip()))
    }

    /// Returns whether the kernel delivers packets for `to` to this host.
    ///
    /// # Errors
    /// Those of [`source`](RouteSocket::source).
    pub fn is_here(&self, to: SocketAddr) -> Result<bool> {
        // The source for an address of this host is that address (RFC 6724 5, rule 1) or a loopback address. The kernel
        // chooses a loopback address for 127.0.0.0/8 and for an IPv4 route of type local (ip-route(8)). No packet
        // leaves a host with a loopback source.
        Ok(self.source(to)?.is_some_and(|source| source == to.ip() || source.is_loopback()))
    }
}

/// Errnos for a missing route, and for routes of the types unreachable, prohibit and blackhole (ip-route(8)).
const NO_ROUTE: [Errno; 4] = [Errno::NETUNREACH, Errno::HOSTUNREACH, Errno::ACCESS, Errno::INVAL];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_destination_has_its_own_source() {
        let loopback: SocketAddr = "127.0.0.1:9".parse().unwrap();
        let socket = RouteSocket::new(loopback.ip()).unwrap();
        // This machine may have any route to documentation's addresses (RFC 5737), but its source is no loopback
        // address.
        let elsewhere = || socket.source("192.0.2.77:9".parse().unwrap()).unwrap();
        for _ in 0..2 {
            assert_eq!(socket.source(loopback).unwrap(), Some(loopback.ip()));
            assert!(elsewhere().is_none_or(|source| !source.is_loopback()));
        }
        assert_eq!(socket.is_here("127.9.9.9:9".parse().unwrap()), Ok(true));
        assert_eq!(socket.is_here("192.0.2.77:9".parse().unwrap()), Ok(false));
    }
}
