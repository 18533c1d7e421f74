//! Tells whether this host has a certain TCP connection (proc_pid_net(5), `/proc/net/tcp`). The kernel writes a line for each socket
//! of the network namespace, so ask only when the answer is likely yes.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Whether a TCP socket of this network namespace has the address `local` and is connected to `peer`, accepted or not. False if
/// /proc does not tell it.
pub fn has_connection(local: SocketAddr, peer: SocketAddr) -> bool {
    // A socket of an IPv6 listener has IPv4 addresses as mapped ones.
    let (mapped, plain) = (|ip| write_pair(local, peer, ip), |ip: IpAddr| ip.to_canonical());
    let wanted = [("tcp", mapped(&plain)), ("tcp6", mapped(&as_ipv6))];
    wanted.into_iter().any(|(table, line)| {
        // Bytes of another process that begins or ends meanwhile do no harm: the line is there or it is not.
        std::fs::read_to_string(format!("/proc/thread-self/net/{table}")).is_ok_and(|text| text.contains(&line))
    })
}

fn as_ipv6(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().into(),
        ip => ip,
    }
}

/// Returns the two addresses as a line of the table has them, each changed by `form`.
fn write_pair(local: SocketAddr, peer: SocketAddr, form: &dyn Fn(IpAddr) -> IpAddr) -> String {
    let mut line = String::new();
    for address in [local, peer] {
        let bytes = match form(address.ip()) {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        line.push(' ');
        // Words in the byte order of the host, as the kernel prints a __be32.
        for word in bytes.chunks_exact(size_of::<Ipv4Addr>()) {
            let word = u32::from_ne_bytes([word[0], word[1], word[2], word[3]]);
            let _ = write!(line, "{word:08X}"); // writing to a String cannot fail
        }
        let _ = write!(line, ":{:04X}", address.port());
    }
    line + " "
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_connection_is_found_by_both_ends_and_no_other() {
        for (listen, to) in [("127.0.0.1:0", "127.0.0.1"), ("[::1]:0", "::1"), ("[::]:0", "127.0.0.1")] {
            let Ok(listener) = TcpListener::bind(listen) else {
                eprintln!("SKIP: no IPv6 here");
                continue;
            };
            let to = SocketAddr::new(to.parse().unwrap(), listener.local_addr().unwrap().port());
            let client = TcpStream::connect(to).unwrap();
            let peer = client.local_addr().unwrap();
            assert!(has_connection(to, peer) && has_connection(peer, to), "{listen}: not accepted yet");
            let other = SocketAddr::new(peer.ip(), peer.port() ^ 1);
            assert!(!has_connection(to, other) && !has_connection(other, peer), "{listen}");
        }
    }
}
