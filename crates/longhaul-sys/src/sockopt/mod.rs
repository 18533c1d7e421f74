//! Socket options. [`Opt`] sets and reads any int option. An option that needs more than one call has a pair of
//! functions here. Keys, units, presets and help are in the option table (`longhaul-config/src/options/table.rs`).

mod opt;

use crate::Result;
use crate::limits::sysctl;
use std::os::fd::BorrowedFd;
use std::time::Duration;

pub use opt::Opt;

/// Returns the congestion controls that the kernel offers: their names, separated by spaces. A module that is not loaded
/// is missing. Returns `None` if /proc cannot be read.
pub fn available_congestion_controls() -> Option<String> {
    sysctl("net/ipv4/tcp_available_congestion_control")
}

/// Returns the congestion controls that a process without CAP_NET_ADMIN may set: their names, separated by spaces.
/// Returns `None` if /proc cannot be read.
pub fn allowed_congestion_controls() -> Option<String> {
    sysctl("net/ipv4/tcp_allowed_congestion_control")
}

/// Sets the congestion control (tcp(7) TCP_CONGESTION).
///
/// # Errors
/// ENOENT: the kernel has no such control. EPERM: only CAP_NET_ADMIN may set it.
pub fn set_congestion(fd: BorrowedFd<'_>, name: &str) -> Result<()> {
    CONGESTION.set_word(fd, name)
}

/// Tries to set the congestion control. Returns false when the kernel refuses it.
pub fn try_congestion(fd: BorrowedFd<'_>, name: &str) -> bool {
    CONGESTION.set_word(fd, name).is_ok()
}

/// Returns the name of the congestion control that the socket uses.
///
/// # Errors
/// ENOPROTOOPT: not a TCP socket.
pub fn congestion(fd: BorrowedFd<'_>) -> Result<String> {
    CONGESTION.word(fd)
}

/// Sets the send buffer in bytes (socket(7) SO_SNDBUF), with CAP_NET_ADMIN beyond net.core.wmem_max. Without it the
/// kernel sets that limit instead and reports no error. [`send_buffer`] returns the actual size.
///
/// # Errors
/// `bytes` has more than 32 bits: EINVAL.
pub fn set_send_buffer(fd: BorrowedFd<'_>, bytes: u64) -> Result<()> {
    set_buffer(fd, SNDBUFFORCE, SNDBUF, bytes)
}

/// Returns the send buffer in bytes, on the scale of [`set_send_buffer`].
///
/// # Errors
/// The descriptor is no socket.
pub fn send_buffer(fd: BorrowedFd<'_>) -> Result<u64> {
    buffer(fd, SNDBUF)
}

/// Sets the receive buffer in bytes (socket(7) SO_RCVBUF). Like [`set_send_buffer`], with net.core.rmem_max.
///
/// # Errors
/// `bytes` has more than 32 bits: EINVAL.
pub fn set_receive_buffer(fd: BorrowedFd<'_>, bytes: u64) -> Result<()> {
    set_buffer(fd, RCVBUFFORCE, RCVBUF, bytes)
}

/// Returns the receive buffer in bytes, on the scale of [`set_receive_buffer`].
///
/// # Errors
/// The descriptor is no socket.
pub fn receive_buffer(fd: BorrowedFd<'_>) -> Result<u64> {
    buffer(fd, RCVBUF)
}

/// Turns keepalive on, with a first probe after `idle` of silence in whole seconds, or off with `None` (socket(7)
/// SO_KEEPALIVE, tcp(7) TCP_KEEPIDLE).
///
/// # Errors
/// EINVAL: `idle` is not 1 to 32767 s.
pub fn set_keepalive(fd: BorrowedFd<'_>, idle: Option<Duration>) -> Result<()> {
    KEEPALIVE.set_switch(fd, idle.is_some())?;
    idle.map_or(Ok(()), |idle| KEEPIDLE.set(fd, idle.as_secs()))
}

/// Returns the silence before the first keepalive probe, or `None` when keepalive is off.
///
/// # Errors
/// The descriptor is no TCP socket.
pub fn keepalive(fd: BorrowedFd<'_>) -> Result<Option<Duration>> {
    match KEEPALIVE.get(fd)? {
        0 => Ok(None),
        _ => KEEPIDLE.get(fd).map(|seconds| Some(Duration::from_secs(seconds.into()))),
    }
}

/// Limits the socket to `bytes_per_second`, headers included (socket(7) SO_MAX_PACING_RATE).
///
/// # Errors
/// ENOPROTOOPT, EOPNOTSUPP: a socket of Multipath TCP.
pub fn set_pacing(fd: BorrowedFd<'_>, bytes_per_second: u64) -> Result<()> {
    MAX_PACING_RATE.set_u64(fd, bytes_per_second)
}

/// Returns the limit of [`set_pacing`] in bytes per second. All bits are set when there is no limit.
///
/// # Errors
/// The descriptor is no socket.
pub fn pacing(fd: BorrowedFd<'_>) -> Result<u64> {
    MAX_PACING_RATE.u64(fd)
}

/// Sets the DSCP of the socket's packets, 0 to 63 (ip(7) IP_TOS, ipv6(7) IPV6_TCLASS).
///
/// # Errors
/// EINVAL: a greater number.
pub fn set_dscp(fd: BorrowedFd<'_>, dscp: u64) -> Result<()> {
    if dscp > DSCP_MAX {
        return Err(TOS.refused(dscp, libc::EINVAL));
    }
    // RFC 2474: the DSCP is the upper six bits of the octet. The lower two are ECN's, and TCP keeps its own.
    let octet = dscp << 2;
    if is_ipv6(fd)? {
        TCLASS.set(fd, octet)?;
    }
    // An AF_INET6 socket may carry IPv4 (::ffff:a.b.c.d), whose header takes the class from IP_TOS.
    TOS.set(fd, octet)
}

/// Returns the DSCP of the socket's packets, 0 to 63.
///
/// # Errors
/// The descriptor is no socket of IPv4 or IPv6.
pub fn dscp(fd: BorrowedFd<'_>) -> Result<u64> {
    let octet = if is_ipv6(fd)? { TCLASS } else { TOS }.get(fd)?;
    Ok(u64::from(octet) >> 2 & DSCP_MAX)
}

/// Binds the socket to the interface or VRF `device` (socket(7) SO_BINDTODEVICE).
///
/// # Errors
/// ENODEV: there is no such interface. EPERM: it needs CAP_NET_RAW, before Linux 5.7 or when the socket is bound
/// already.
pub fn set_device(fd: BorrowedFd<'_>, device: &str) -> Result<()> {
    BINDTODEVICE.set_word(fd, device)
}

/// Returns the interface that the socket is bound to, or an empty text.
///
/// # Errors
/// The descriptor is no socket.
pub fn device(fd: BorrowedFd<'_>) -> Result<String> {
    BINDTODEVICE.word(fd)
}

/// Whether the socket was made for Multipath TCP (socket(7) SO_PROTOCOL).
///
/// # Errors
/// The descriptor is no socket.
pub fn is_mptcp(fd: BorrowedFd<'_>) -> Result<bool> {
    PROTOCOL.get(fd).map(|protocol| protocol == libc::IPPROTO_MPTCP as u32)
}

/// Makes bind(2) to an address leave the choice of the port to connect(2), which may then use one port for many peers
/// (ip(7) IP_BIND_ADDRESS_NO_PORT).
///
/// # Errors
/// ENOPROTOOPT before kernel 4.2.
pub fn set_bind_address_no_port(fd: BorrowedFd<'_>) -> Result<()> {
    BIND_ADDRESS_NO_PORT.set_switch(fd, true)
}

/// Makes the close of the socket's last descriptor send RST, even when the process is killed (socket(7) SO_LINGER with
/// a linger time of 0). A socket accepted from this one inherits it.
///
/// # Errors
/// The descriptor is no socket.
pub fn set_reset_on_close(fd: BorrowedFd<'_>) -> Result<()> {
    LINGER.set_bytes(fd, &linger(1), &"on, 0 s")
}

/// Makes the close of the socket send FIN after its last byte, which is the default (socket(7) SO_LINGER).
///
/// # Errors
/// The descriptor is no socket.
pub fn set_fin_on_close(fd: BorrowedFd<'_>) -> Result<()> {
    LINGER.set_bytes(fd, &linger(0), &"off")
}

/// Leaves urgent data in the stream (socket(7) SO_OOBINLINE). A socket accepted from this one inherits it.
///
/// # Errors
/// EOPNOTSUPP: a socket of Multipath TCP.
pub fn set_urgent_inline(fd: BorrowedFd<'_>) -> Result<()> {
    OOBINLINE.set_switch(fd, true)
}

/// Lets bind(2) take a port that only connections in TIME_WAIT have (socket(7) SO_REUSEADDR).
///
/// # Errors
/// The descriptor is no socket.
pub fn set_reuse_address(fd: BorrowedFd<'_>) -> Result<()> {
    REUSEADDR.set_switch(fd, true)
}

/// Allows several sockets to listen on one port, or forbids it for later binds (socket(7) SO_REUSEPORT).
///
/// # Errors
/// The descriptor is no socket.
pub fn set_reuse_port(fd: BorrowedFd<'_>, on: bool) -> Result<()> {
    REUSEPORT.set_switch(fd, on)
}

/// Makes an IPv6 listener accept IPv6 connections only, or both with `on` false, regardless of net.ipv6.bindv6only
/// (ipv6(7) IPV6_V6ONLY).
///
/// # Errors
/// EINVAL: the socket is bound already.
pub fn set_ipv6_only(fd: BorrowedFd<'_>, on: bool) -> Result<()> {
    V6ONLY.set_switch(fd, on)
}

/// Puts ICMP errors about the socket's packets into its error queue (ip(7) IP_RECVERR, ipv6(7) IPV6_RECVERR).
///
/// # Errors
/// The descriptor is no socket of IPv4 or IPv6.
pub fn set_receive_errors(fd: BorrowedFd<'_>) -> Result<()> {
    if is_ipv6(fd)? { IPV6_RECVERR } else { IP_RECVERR }.set_switch(fd, true)
}

/// Sets DF in each datagram, whatever the kernel knows of the path, so that none is cut into fragments; or with `false`, lets the
/// path cut them (ip(7) IP_MTU_DISCOVER, IP_PMTUDISC_PROBE and IP_PMTUDISC_DONT). IPv6 has no DF: there, this host does not cut, or does.
///
/// # Errors
/// The descriptor is no socket of IPv4 or IPv6.
pub fn set_do_not_fragment(fd: BorrowedFd<'_>, on: bool) -> Result<()> {
    if is_ipv6(fd)? {
        IPV6_MTU_DISCOVER.set(fd, if on { libc::IPV6_PMTUDISC_PROBE } else { libc::IPV6_PMTUDISC_DONT } as u64)?;
    }
    // An AF_INET6 socket may carry IPv4 (::ffff:a.b.c.d), which has DF by IP_MTU_DISCOVER.
    IP_MTU_DISCOVER.set(fd, if on { libc::IP_PMTUDISC_PROBE } else { libc::IP_PMTUDISC_DONT } as u64)
}

/// Lets the last packet of the handshake that connect(2) begins wait for the first bytes, up to 200 ms, so that both arrive as one packet
/// (tcp(7) TCP_QUICKACK off; net/ipv4/tcp_input.c, `tcp_rcv_synsent_state_process`). The kernel takes the option back at the end of the
/// handshake.
///
/// # Errors
/// The descriptor is no TCP socket.
pub fn set_first_bytes_in_handshake(fd: BorrowedFd<'_>) -> Result<()> {
    QUICKACK.set_switch(fd, false)
}

/// Makes poll(2) and epoll(7) report a socket readable only when `bytes` are there (socket(7) SO_RCVLOWAT). They report
/// its end and its errors at once.
///
/// # Errors
/// The descriptor is no socket.
pub fn set_receive_low_water(fd: BorrowedFd<'_>, bytes: u32) -> Result<()> {
    RCVLOWAT.set(fd, bytes.into())
}

/// Sets the longest time between two retransmissions, or two probes of a closed window (TCP_RTO_MAX_MS, Linux 6.15).
///
/// # Errors
/// EINVAL: `max` is not 1 to 120 s. ENOPROTOOPT: before Linux 6.15. EOPNOTSUPP: a socket of Multipath TCP.
pub fn set_rto_max(fd: BorrowedFd<'_>, max: Duration) -> Result<()> {
    RTO_MAX.set(fd, max.as_millis() as u64)
}

/// Returns the time of [`set_rto_max`]. On a new socket it is the sysctl net.ipv4.tcp_rto_max_ms.
///
/// # Errors
/// ENOPROTOOPT: before Linux 6.15. EOPNOTSUPP: a socket of Multipath TCP.
pub fn rto_max(fd: BorrowedFd<'_>) -> Result<Duration> {
    RTO_MAX.get(fd).map(|ms| Duration::from_millis(ms.into()))
}

/// Sets the time after which a peer that acknowledges nothing is given up, or leaves that to the kernel with `None` (tcp(7)
/// TCP_USER_TIMEOUT).
///
/// # Errors
/// EOPNOTSUPP: a socket of Multipath TCP.
pub fn set_user_timeout(fd: BorrowedFd<'_>, time: Option<Duration>) -> Result<()> {
    USER_TIMEOUT.set(fd, time.map_or(0, |time| time.as_millis() as u64))
}

/// Sets a buffer beyond the sysctl's limit if the process may, otherwise within it.
fn set_buffer(fd: BorrowedFd<'_>, force: Opt, plain: Opt, bytes: u64) -> Result<()> {
    match force.set(fd, bytes) {
        Err(err) if err.errno == libc::EPERM => plain.set(fd, bytes),
        done => done,
    }
}

/// Returns half of the kernel's value. socket(7) SO_SNDBUF: "The kernel doubles this value", for its own bookkeeping.
fn buffer(fd: BorrowedFd<'_>, opt: Opt) -> Result<u64> {
    opt.get(fd).map(|doubled| u64::from(doubled / 2))
}

/// Returns `struct linger` of socket(7) with a linger time of 0 s.
fn linger(on: i32) -> [u8; 8] {
    let [a, b, c, d] = on.to_ne_bytes();
    [a, b, c, d, 0, 0, 0, 0]
}

fn is_ipv6(fd: BorrowedFd<'_>) -> Result<bool> {
    DOMAIN.get(fd).map(|domain| domain == libc::AF_INET6 as u32)
}

const DSCP_MAX: u64 = 63;

const CONGESTION: Opt = Opt::tcp(libc::TCP_CONGESTION, "TCP_CONGESTION");
const KEEPIDLE: Opt = Opt::tcp(libc::TCP_KEEPIDLE, "TCP_KEEPIDLE");
const QUICKACK: Opt = Opt::tcp(libc::TCP_QUICKACK, "TCP_QUICKACK");
const USER_TIMEOUT: Opt = Opt::tcp(libc::TCP_USER_TIMEOUT, "TCP_USER_TIMEOUT");
/// Number in linux/tcp.h. The libc crate does not have it.
const RTO_MAX: Opt = Opt::tcp(44, "TCP_RTO_MAX_MS");
const KEEPALIVE: Opt = Opt::socket(libc::SO_KEEPALIVE, "SO_KEEPALIVE");
const SNDBUF: Opt = Opt::socket(libc::SO_SNDBUF, "SO_SNDBUF");
const RCVBUF: Opt = Opt::socket(libc::SO_RCVBUF, "SO_RCVBUF");
const SNDBUFFORCE: Opt = Opt::socket(libc::SO_SNDBUFFORCE, "SO_SNDBUFFORCE");
const RCVBUFFORCE: Opt = Opt::socket(libc::SO_RCVBUFFORCE, "SO_RCVBUFFORCE");
const RCVLOWAT: Opt = Opt::socket(libc::SO_RCVLOWAT, "SO_RCVLOWAT");
const LINGER: Opt = Opt::socket(libc::SO_LINGER, "SO_LINGER");
const OOBINLINE: Opt = Opt::socket(libc::SO_OOBINLINE, "SO_OOBINLINE");
const REUSEADDR: Opt = Opt::socket(libc::SO_REUSEADDR, "SO_REUSEADDR");
const REUSEPORT: Opt = Opt::socket(libc::SO_REUSEPORT, "SO_REUSEPORT");
const MAX_PACING_RATE: Opt = Opt::socket(libc::SO_MAX_PACING_RATE, "SO_MAX_PACING_RATE");
const BINDTODEVICE: Opt = Opt::socket(libc::SO_BINDTODEVICE, "SO_BINDTODEVICE");
const DOMAIN: Opt = Opt::socket(libc::SO_DOMAIN, "SO_DOMAIN");
const PROTOCOL: Opt = Opt::socket(libc::SO_PROTOCOL, "SO_PROTOCOL");
const TOS: Opt = Opt { level: libc::IPPROTO_IP, number: libc::IP_TOS, name: "IP_TOS" };
const TCLASS: Opt = Opt { level: libc::IPPROTO_IPV6, number: libc::IPV6_TCLASS, name: "IPV6_TCLASS" };
const IP_RECVERR: Opt = Opt { level: libc::IPPROTO_IP, number: libc::IP_RECVERR, name: "IP_RECVERR" };
const IPV6_RECVERR: Opt = Opt { level: libc::IPPROTO_IPV6, number: libc::IPV6_RECVERR, name: "IPV6_RECVERR" };
const IP_MTU_DISCOVER: Opt = Opt { level: libc::IPPROTO_IP, number: libc::IP_MTU_DISCOVER, name: "IP_MTU_DISCOVER" };
const IPV6_MTU_DISCOVER: Opt =
    Opt { level: libc::IPPROTO_IPV6, number: libc::IPV6_MTU_DISCOVER, name: "IPV6_MTU_DISCOVER" };
const V6ONLY: Opt = Opt { level: libc::IPPROTO_IPV6, number: libc::IPV6_V6ONLY, name: "IPV6_V6ONLY" };
const BIND_ADDRESS_NO_PORT: Opt =
    Opt { level: libc::IPPROTO_IP, number: libc::IP_BIND_ADDRESS_NO_PORT, name: "IP_BIND_ADDRESS_NO_PORT" };

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{Domain, Protocol, Socket, Type};
    use std::os::fd::AsFd;

    fn socket(domain: Domain) -> Socket {
        Socket::new(domain, Type::STREAM, Some(Protocol::TCP)).unwrap()
    }

    #[test]
    fn each_pair_reads_what_it_set() {
        for domain in [Domain::IPV4, Domain::IPV6] {
            let socket = socket(domain);
            let fd = socket.as_fd();
            let nodelay = Opt::tcp(libc::TCP_NODELAY, "TCP_NODELAY");
            assert_eq!((nodelay.set_switch(fd, true), nodelay.get(fd)), (Ok(()), Ok(1)));
            assert_eq!((set_congestion(fd, "reno"), congestion(fd)), (Ok(()), Ok("reno".into())));
            assert_eq!((set_send_buffer(fd, 65_536), send_buffer(fd)), (Ok(()), Ok(65_536)));
            assert_eq!((set_receive_buffer(fd, 65_536), receive_buffer(fd)), (Ok(()), Ok(65_536)));
            let idle = Some(Duration::from_secs(90));
            assert_eq!((set_keepalive(fd, idle), keepalive(fd)), (Ok(()), Ok(idle)));
            assert_eq!((set_keepalive(fd, None), keepalive(fd)), (Ok(()), Ok(None)));
            assert_eq!((set_user_timeout(fd, idle), USER_TIMEOUT.get(fd)), (Ok(()), Ok(90_000)));
            assert_eq!((set_user_timeout(fd, None), USER_TIMEOUT.get(fd)), (Ok(()), Ok(0)));
            match rto_max(fd) {
                Ok(_) => {
                    let max = Duration::from_millis(1500);
                    assert_eq!((set_rto_max(fd, max), rto_max(fd)), (Ok(()), Ok(max)));
                }
                Err(err) => println!("SKIP: before Linux 6.15: {err}"),
            }
            assert_eq!((set_pacing(fd, 1_000_000), pacing(fd)), (Ok(()), Ok(1_000_000)));
            assert_eq!((set_dscp(fd, 46), dscp(fd)), (Ok(()), Ok(46)));
            assert_eq!((set_receive_low_water(fd, 4096), RCVLOWAT.get(fd)), (Ok(()), Ok(4096)));
            assert_eq!((device(fd), is_mptcp(fd)), (Ok(String::new()), Ok(false)));
            assert_eq!((set_reset_on_close(fd), socket.linger().unwrap()), (Ok(()), Some(Duration::ZERO)));
            assert_eq!((set_fin_on_close(fd), socket.linger().unwrap()), (Ok(()), None));
            assert_eq!(set_receive_errors(fd), Ok(()));
            assert_eq!((set_urgent_inline(fd), socket.out_of_band_inline().unwrap()), (Ok(()), true));
            assert_eq!((set_reuse_address(fd), socket.reuse_address().unwrap()), (Ok(()), true));
            for on in [true, false] {
                assert_eq!((set_reuse_port(fd, on), socket.reuse_port().unwrap()), (Ok(()), on));
                let is_ipv6 = domain == Domain::IPV6;
                assert_eq!(set_ipv6_only(fd, on).is_ok(), is_ipv6);
                assert!(!is_ipv6 || socket.only_v6().unwrap() == on);
            }
        }
    }

    #[test]
    fn a_refusal_names_call_and_value() {
        let socket = socket(Domain::IPV4);
        let fd = socket.as_fd();
        let call = |refused: Result<()>| refused.map_err(|err| (err.call, err.errno));
        let refusal = |call: &str, errno| Err((call.to_string(), errno));
        let mss = Opt::tcp(libc::TCP_MAXSEG, "TCP_MAXSEG");
        assert_eq!(call(mss.set(fd, 20)), refusal("setsockopt(TCP_MAXSEG, 20)", libc::EINVAL));
        assert_eq!(call(mss.set(fd, 1 << 32)), refusal("setsockopt(TCP_MAXSEG, 4294967296)", libc::EINVAL));
        assert_eq!(call(set_dscp(fd, 64)), refusal("setsockopt(IP_TOS, 64)", libc::EINVAL));
        assert_eq!(call(set_device(fd, "nosuch0")), refusal("setsockopt(SO_BINDTODEVICE, \"nosuch0\")", libc::ENODEV));
        assert_eq!(call(set_congestion(fd, "nosuch")), refusal("setsockopt(TCP_CONGESTION, \"nosuch\")", libc::ENOENT));
    }
}
