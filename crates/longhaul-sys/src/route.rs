//! Tells whether the kernel delivers packets for an address to this host, by the type of the address's route
//! (rtnetlink(7), RTM_GETROUTE). Sends no packet.
//!
//! Where AF_NETLINK is refused, for example by a unit's `RestrictAddressFamilies=`, UDP sockets tell it: by the source
//! address that the kernel chooses, and by whether bind(2) takes the address. Neither is enough for an address with
//! `ip_nonlocal_bind`; then the answer is an error.

use crate::limits::sysctl;
use crate::{Result, SysError};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};
use std::os::fd::OwnedFd;

/// A socket for any number of queries. It takes one descriptor.
#[derive(Debug)]
pub struct RouteSocket {
    /// `None` if the process may not have a netlink socket.
    netlink: Option<OwnedFd>,
    /// Number of the last query. The kernel repeats it in the reply.
    last: u32,
}

impl RouteSocket {
    /// Opens a socket for destinations of both IP versions.
    ///
    /// # Errors
    /// EMFILE, ENFILE, ENOBUFS, ENOMEM.
    pub fn new() -> Result<RouteSocket> {
        // netlink(7): protocol 0 is NETLINK_ROUTE.
        let made = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None);
        match made {
            Ok(socket) => Ok(RouteSocket { netlink: Some(socket), last: 0 }),
            Err(errno) if REFUSED.contains(&errno) => Ok(RouteSocket { netlink: None, last: 0 }),
            Err(errno) => Err(SysError::new("socket(NETLINK_ROUTE)", errno)),
        }
    }

    /// Returns whether the kernel delivers packets for `to` to this host. The port does not matter. A link-local IPv6
    /// address needs its zone.
    ///
    /// # Errors
    /// The kernel did not answer. Without netlink also EPERM by a BPF program or a firewall, EAGAIN without a free UDP
    /// port, EMFILE and ENFILE, and EADDRNOTAVAIL if sockets cannot tell it.
    pub fn is_here(&mut self, to: SocketAddr) -> Result<bool> {
        // connect(2) takes the unspecified address for loopback.
        if to.ip().is_unspecified() {
            return Ok(true);
        }
        match self.route_type(to) {
            Ok(kind) => Ok(kind == Some(libc::RTN_LOCAL)),
            Err(errno) if REFUSED.contains(&errno) => is_here_by_udp(to),
            Err(errno) => Err(SysError::new(format!("netlink(RTM_GETROUTE, {})", to.ip()), errno)),
        }
    }

    /// Returns the type of the route to `to` (rtnetlink(7), `rtm_type`), or `None` if there is no route.
    fn route_type(&mut self, to: SocketAddr) -> std::result::Result<Option<u8>, Errno> {
        let socket = self.netlink.as_ref().ok_or(Errno::AFNOSUPPORT)?;
        self.last = self.last.wrapping_add(1);
        rustix::net::send(socket, &request(to, self.last), SendFlags::empty())?;
        let mut reply = [0; REPLY_BYTES];
        loop {
            // The kernel queues the reply before send(2) returns. So this never waits.
            let (filled, _) = rustix::net::recv(socket, &mut reply, RecvFlags::DONTWAIT)?;
            match parse(&reply[..filled], self.last) {
                Some(Reply::Route(kind)) => return Ok(Some(kind)),
                Some(Reply::Error(errno)) if NO_ROUTE.contains(&errno) => return Ok(None),
                Some(Reply::Error(errno)) => return Err(errno),
                // An answer to an earlier query, which was not read.
                None => {}
            }
        }
    }
}

/// Returns the number of the interface `name`, which is the zone of its link-local addresses. `None` if there is none.
pub fn interface_number(name: &str) -> Option<u32> {
    // netdevice(7): any socket will do.
    let socket = udp(Ipv4Addr::UNSPECIFIED.into()).ok()?;
    rustix::net::netdevice::name_to_index(&socket, name).ok()
}

/// Returns `address` in the zone of the interface `device` if it is a link-local IPv6 address without a zone.
pub fn with_zone(address: SocketAddr, device: Option<&str>) -> SocketAddr {
    match address {
        SocketAddr::V6(to) if to.ip().is_unicast_link_local() && to.scope_id() == 0 => {
            let zone = device.and_then(interface_number).unwrap_or_default();
            SocketAddrV6::new(*to.ip(), to.port(), to.flowinfo(), zone).into()
        }
        _ => address,
    }
}

/// Returns a request for the route to `to`: nlmsghdr (netlink(7)), rtmsg (rtnetlink(7)) and attributes, each integer in the
/// byte order of the host.
///
/// ```text
/// offset size
///      0    4  length of the message in bytes
///      4    2  RTM_GETROUTE
///      6    2  NLM_F_REQUEST
///      8    4  number of the query
///     12    4  0: the kernel fills in the port
///     16    1  AF_INET or AF_INET6
///     17    1  bits of the address
///     18   10  0
///     28    8  RTA_DST, 4 bytes of an IPv4 address
///        or 20  RTA_DST, 16 bytes of an IPv6 address
///           8  RTA_OIF, the interface of a link-local IPv6 address
/// ```
fn request(to: SocketAddr, number: u32) -> Vec<u8> {
    let (family, address, scope) = match to {
        SocketAddr::V4(to) => (libc::AF_INET, to.ip().octets().to_vec(), 0),
        SocketAddr::V6(to) => (libc::AF_INET6, to.ip().octets().to_vec(), to.scope_id()),
    };
    let mut message = vec![0; HEADER_BYTES + ROUTE_BYTES];
    message[4..6].copy_from_slice(&libc::RTM_GETROUTE.to_ne_bytes());
    message[6..8].copy_from_slice(&(libc::NLM_F_REQUEST as u16).to_ne_bytes());
    message[8..12].copy_from_slice(&number.to_ne_bytes());
    message[16] = family as u8;
    message[17] = 8 * address.len() as u8;
    attribute(&mut message, libc::RTA_DST, &address);
    if scope != 0 {
        attribute(&mut message, libc::RTA_OIF, &scope.to_ne_bytes());
    }
    let length = message.len() as u32;
    message[..4].copy_from_slice(&length.to_ne_bytes());
    message
}

/// Appends a rtattr. The length of `value` is a multiple of 4, so no padding follows.
fn attribute(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    message.extend((4 + value.len() as u16).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(value);
}

/// The kernel's reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reply {
    /// `rtm_type` of the route.
    Route(u8),
    Error(Errno),
}

/// Parses `message`, the beginning of a reply. Returns `None` unless it is the reply to the query `number`.
fn parse(message: &[u8], number: u32) -> Option<Reply> {
    let kind = u16::from_ne_bytes(message.get(4..6)?.try_into().ok()?);
    if message.get(8..12)? != number.to_ne_bytes() {
        return None;
    }
    if kind == libc::NLMSG_ERROR as u16 {
        // netlink(7): nlmsgerr begins with the negative errno.
        let errno = i32::from_ne_bytes(message.get(16..20)?.try_into().ok()?);
        return Some(Reply::Error(Errno::from_raw_os_error(errno.wrapping_neg())));
    }
    let is_route = kind == libc::RTM_NEWROUTE;
    message.get(HEADER_BYTES + 7).filter(|_| is_route).map(|kind| Reply::Route(*kind))
}

/// Returns whether the kernel delivers packets for `to` to this host, without netlink.
fn is_here_by_udp(to: SocketAddr) -> Result<bool> {
    let Some(source) = source(to)? else { return Ok(false) };
    // The source for an address of this host is that address (RFC 6724 5, rule 1) or a loopback address. The kernel chooses
    // a loopback address for 127.0.0.0/8 and for an IPv4 route of type local (ip-route(8)). No packet leaves a host with a
    // loopback source.
    if source == to.ip() || source.is_loopback() {
        return Ok(true);
    }
    // A secondary IPv4 address has the primary one as its source. bind(2) takes it, but no address of another host.
    let mut free = to;
    free.set_port(0);
    match rustix::net::bind(&udp(to.ip())?, &free) {
        Err(Errno::ADDRNOTAVAIL) => Ok(false),
        Err(errno) => Err(SysError::new(format!("bind(UDP, {free})"), errno)),
        Ok(()) if takes_foreign(to.ip()) => {
            let call = format!("tell whether {} is an address of this host", to.ip());
            Err(SysError::new(call, Errno::ADDRNOTAVAIL).hint(NEEDS_NETLINK))
        }
        Ok(()) => Ok(true),
    }
}

/// Returns the source address of packets from this host to `to`, or `None` if there is no route. Sends nothing.
///
/// # Errors
/// EPERM by a BPF program or a firewall, EAGAIN without a free UDP port, EMFILE, ENFILE.
pub fn source(to: SocketAddr) -> Result<Option<IpAddr>> {
    let socket = udp(to.ip())?;
    // udp(7): connect(2) sends nothing and only looks up the route.
    match rustix::net::connect(&socket, &to) {
        Ok(()) => {}
        Err(errno) if NO_ROUTE.contains(&errno) => return Ok(None),
        Err(errno) => return Err(SysError::new(format!("connect(UDP, {to})"), errno)),
    }
    let name = rustix::net::getsockname(&socket).map_err(|errno| SysError::new("getsockname", errno))?;
    Ok(SocketAddr::try_from(name).ok().map(|name| name.ip()))
}

fn udp(ip: IpAddr) -> Result<OwnedFd> {
    let family = if ip.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let made = rustix::net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
    made.map_err(|errno| SysError::new("socket(SOCK_DGRAM)", errno))
}

/// Returns whether bind(2) may take addresses of other hosts of the IP version of `ip` (ip(7), `ip_nonlocal_bind`). True if the
/// sysctl cannot be read.
pub fn takes_foreign(ip: IpAddr) -> bool {
    let version = if ip.is_ipv4() { "ipv4" } else { "ipv6" };
    sysctl(&format!("net/{version}/ip_nonlocal_bind")).is_none_or(|value| value != "0")
}

/// Errnos for a missing route, and for routes of the types unreachable, prohibit and blackhole (ip-route(8)).
const NO_ROUTE: [Errno; 4] = [Errno::NETUNREACH, Errno::HOSTUNREACH, Errno::ACCESS, Errno::INVAL];

/// Errnos with which systemd, seccomp or a security module refuses AF_NETLINK or a query. EOPNOTSUPP: this kernel has no
/// such query.
const REFUSED: [Errno; 5] = [Errno::AFNOSUPPORT, Errno::PROTONOSUPPORT, Errno::PERM, Errno::ACCESS, Errno::OPNOTSUPP];

const NEEDS_NETLINK: &str = "netlink is refused, and ip_nonlocal_bind is set: allow AF_NETLINK, in a unit with \
    RestrictAddressFamilies=AF_NETLINK";

/// Lengths in bytes of nlmsghdr and rtmsg.
const HEADER_BYTES: usize = 16;
const ROUTE_BYTES: usize = 12;

/// Length in bytes of the part of a reply that is read. The kernel discards the rest.
const REPLY_BYTES: usize = HEADER_BYTES + ROUTE_BYTES;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netns::{NetNs, is_root};
    use std::process::Command;

    fn at(ip: &str) -> SocketAddr {
        SocketAddr::new(ip.parse().unwrap(), 9)
    }

    #[test]
    fn only_addresses_of_this_host_are_here() {
        let mut socket = RouteSocket::new().unwrap();
        for _ in 0..2 {
            // RFC 5737, RFC 3849: for documentation, so they belong to nobody.
            for (ip, is_here) in [
                ("127.0.0.1", true),
                ("127.9.9.9", true),
                ("0.0.0.0", true),
                ("::", true),
                ("::1", true),
                ("192.0.2.77", false),
                ("2001:db8::77", false),
            ] {
                assert_eq!(socket.is_here(at(ip)), Ok(is_here), "{ip}");
                assert!(!ip.contains("77") || is_here_by_udp(at(ip)) == Ok(false), "{ip} without netlink");
            }
        }
    }

    /// Runs `test` in a network namespace with addresses on a device, or prints SKIP. The ip(8) of busybox, or a kernel without
    /// veth, cannot make the device.
    fn with_addresses(test: impl FnOnce() + Send) {
        if !is_root() {
            return println!("SKIP: needs root, to make network namespaces");
        }
        let in_namespace = || {
            NetNs::create().unwrap();
            let run = |setup| Command::new("sh").args(["-ec", setup]).status().unwrap().success();
            if !run("ip link add e0 index 99 type veth peer name e1") {
                return println!("SKIP: ip(8) cannot make a veth device with an index here");
            }
            let setup = "ip link set lo up; ip link set e1 up; ip link set e0 up; \
                ip address add 10.1.0.1/24 dev e0; ip address add 10.1.0.9/24 dev e0; \
                ip address add 10.1.0.8/32 dev e0; ip address add 2001:db8::1/64 dev e0 nodad; \
                ip address add 2001:db8::9/64 dev e0 nodad; ip address add fe80::9/64 dev e0 nodad; \
                ip route add local 10.3.0.0/16 dev lo; ip route add default via 10.1.0.2; \
                ip route add prohibit 10.4.0.0/16; ip route add blackhole 10.5.0.0/16; \
                ip route add unreachable 10.6.0.0/16; ip route add unreachable 2001:db8:6::/64";
            assert!(run(setup), "{setup}");
            test();
        };
        std::thread::scope(|scope| scope.spawn(in_namespace).join().unwrap());
    }

    /// Index of the device of [`with_addresses`].
    const E0: u32 = 99;

    /// Addresses of the namespace of [`with_addresses`], and whether they are here.
    const ADDRESSES: [(&str, bool); 14] = [
        ("10.1.0.1", true),
        ("10.1.0.9", true), // secondary: its source is 10.1.0.1
        ("10.1.0.8", true),
        ("10.1.0.7", false),
        ("10.1.0.255", false), // broadcast
        ("10.3.7.7", true),
        ("10.4.0.1", false),
        ("10.5.0.1", false),
        ("10.6.0.1", false),
        ("192.0.2.77", false),
        ("2001:db8::1", true),
        ("2001:db8::9", true),
        ("2001:db8::7", false),
        ("2001:db8:6::1", false),
    ];

    #[test]
    fn a_secondary_address_is_here() {
        with_addresses(|| {
            assert_eq!(source(at("10.1.0.9")), Ok(Some("10.1.0.1".parse().unwrap())));
            let near = |ip: &str| with_zone(at(ip), Some("e0"));
            assert_eq!(near("fe80::9"), SocketAddrV6::new("fe80::9".parse().unwrap(), 9, 0, E0).into());
            assert_eq!((near("2001:db8::9"), with_zone(at("fe80::9"), Some("e7"))), (at("2001:db8::9"), at("fe80::9")));
            let mut socket = RouteSocket::new().unwrap();
            assert_eq!((socket.is_here(near("fe80::9")), socket.is_here(near("fe80::7"))), (Ok(true), Ok(false)));
            for nonlocal_bind in ["0", "1"] {
                std::fs::write("/proc/sys/net/ipv4/ip_nonlocal_bind", nonlocal_bind).unwrap();
                let mut socket = RouteSocket::new().unwrap();
                assert!(socket.netlink.is_some());
                for (ip, is_here) in ADDRESSES {
                    assert_eq!(socket.is_here(at(ip)), Ok(is_here), "{ip}, ip_nonlocal_bind {nonlocal_bind}");
                }
            }
        });
    }

    #[test]
    fn without_netlink_an_answer_is_right_or_an_error() {
        with_addresses(|| {
            let mut socket = RouteSocket { netlink: None, last: 0 };
            for (ip, is_here) in ADDRESSES {
                assert_eq!(socket.is_here(at(ip)), Ok(is_here), "{ip}");
            }
            std::fs::write("/proc/sys/net/ipv4/ip_nonlocal_bind", "1").unwrap();
            for (ip, is_here) in ADDRESSES {
                match socket.is_here(at(ip)) {
                    Ok(answer) => assert_eq!(answer, is_here, "{ip}"),
                    Err(err) => assert!(err.hint.contains("AF_NETLINK") && at(ip).is_ipv4(), "{ip}: {err}"),
                }
            }
        });
    }

    #[test]
    fn only_the_reply_to_the_query_is_read() {
        let mut reply = request(at("10.1.0.9"), 7);
        reply[4..6].copy_from_slice(&libc::RTM_NEWROUTE.to_ne_bytes());
        reply[HEADER_BYTES + 7] = libc::RTN_LOCAL;
        assert_eq!(parse(&reply, 7), Some(Reply::Route(libc::RTN_LOCAL)));
        assert_eq!(parse(&reply, 8), None);
        (0..24).for_each(|length| assert_eq!(parse(&reply[..length], 7), None, "{length} bytes"));
        reply[4..6].copy_from_slice(&(libc::NLMSG_ERROR as u16).to_ne_bytes());
        reply[16..20].copy_from_slice(&(-libc::ENETUNREACH).to_ne_bytes());
        assert_eq!(parse(&reply, 7), Some(Reply::Error(Errno::NETUNREACH)));
    }
}
