//! ICMP errors about the packets of a socket, with the host that sent each: the socket's error queue (ip(7) IP_RECVERR,
//! ipv6(7) IPV6_RECVERR). [`sockopt::set_receive_errors`](crate::sockopt::set_receive_errors) turns the queue on.

use std::io;
use std::mem::zeroed;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Takes the oldest error from the queue of `socket`. Returns the address of the host that sent it by ICMP, or `None` for an
/// error of this host's own kernel. Does not wait. `socket` must have no option that adds another control message, such as
/// IP_RECVTTL or SO_TIMESTAMP: the kernel may put it before the error, and then the sender is unknown.
///
/// # Errors
/// `WouldBlock`: the queue is empty. Otherwise the error of recvmsg(2).
pub fn take_sender(socket: BorrowedFd<'_>) -> io::Result<Option<IpAddr>> {
    let mut control = [0; CONTROL_BYTES];
    // SAFETY: a msghdr of zeros is valid: no name, no pieces and no control data.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = CONTROL_BYTES as _;
    // SAFETY: `socket` is open while it is borrowed, and the kernel writes at most CONTROL_BYTES bytes to `control`.
    let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) };
    if got < 0 { Err(io::Error::last_os_error()) } else { Ok(sender(&control)) }
}

/// Returns the address of the host that sent the ICMP error in `control`: a cmsghdr (cmsg(3)), a sock_extended_err and the
/// address (ip(7) SO_EE_OFFENDER).
fn sender(control: &[u8]) -> Option<IpAddr> {
    let error = control.get(size_of::<libc::cmsghdr>()..)?;
    if !matches!(*error.get(ORIGIN_AT)?, libc::SO_EE_ORIGIN_ICMP | libc::SO_EE_ORIGIN_ICMP6) {
        return None;
    }
    let name = error.get(size_of::<libc::sock_extended_err>()..)?;
    match i32::from(u16::from_ne_bytes(*name.first_chunk()?)) {
        libc::AF_INET => Some(Ipv4Addr::from(*name.get(IPV4_AT..)?.first_chunk::<4>()?).into()),
        libc::AF_INET6 => Some(Ipv6Addr::from(*name.get(IPV6_AT..)?.first_chunk::<16>()?).into()),
        _ => None,
    }
}

/// Size in bytes of the largest control message: 16 of cmsghdr, 16 of sock_extended_err, and 28 of sockaddr_in6.
const CONTROL_BYTES: usize = 64;

/// Offset of `ee_origin` in a sock_extended_err (linux/errqueue.h).
const ORIGIN_AT: usize = 4;

/// Offset of the address in a sockaddr_in (ip(7)).
const IPV4_AT: usize = 4;

/// Offset of the address in a sockaddr_in6 (ipv6(7)).
const IPV6_AT: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sockopt::set_receive_errors;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;
    use std::time::{Duration, Instant};

    #[test]
    fn the_sender_of_port_unreachable_is_the_host_itself() {
        for host in ["127.0.0.1", "::1"].map(|ip| ip.parse::<IpAddr>().unwrap()) {
            let Ok(closed) = UdpSocket::bind((host, 0)) else {
                println!("SKIP {host}: this host has no such address");
                continue;
            };
            let port = closed.local_addr().unwrap();
            drop(closed);
            let socket = UdpSocket::bind((host, 0)).unwrap();
            set_receive_errors(socket.as_fd()).unwrap();
            socket.connect(port).unwrap();
            assert_eq!(take_sender(socket.as_fd()).unwrap_err().kind(), io::ErrorKind::WouldBlock);
            socket.send(&[0]).unwrap();
            let start = Instant::now();
            let sender = loop {
                match take_sender(socket.as_fd()) {
                    Err(err) if err.kind() == io::ErrorKind::WouldBlock => {
                        assert!(start.elapsed() < Duration::from_secs(60), "no error came");
                        std::thread::yield_now();
                    }
                    taken => break taken.unwrap(),
                }
            };
            assert_eq!(sender, Some(host));
        }
    }

    #[test]
    fn an_error_of_the_own_kernel_has_no_sender_and_a_short_message_neither() {
        let mut control = [0; CONTROL_BYTES];
        let error = size_of::<libc::cmsghdr>();
        let name = error + size_of::<libc::sock_extended_err>();
        control[name..name + 2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        control[name + IPV4_AT..name + IPV4_AT + 4].copy_from_slice(&[192, 0, 2, 7]);
        control[error + ORIGIN_AT] = libc::SO_EE_ORIGIN_LOCAL;
        assert_eq!(sender(&control), None);
        control[error + ORIGIN_AT] = libc::SO_EE_ORIGIN_ICMP;
        assert_eq!(sender(&control), Some([192, 0, 2, 7].into()));
        for length in 0..name + IPV4_AT + 4 {
            assert_eq!(sender(&control[..length]), None);
        }
    }
}
