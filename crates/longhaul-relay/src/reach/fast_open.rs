//! Fast open (RFC 7413): sends the client's first bytes to the next hop in the SYN, which saves a round trip.
//!
//! ```text
//! client ──bytes──> accept leg ──peek──> SYN + bytes ──> next hop 1    no answer
//!                              ──peek──> SYN + bytes ──> next hop 2    answers: the accept leg is read only now
//! ```
//! The bytes are only peeked until a next hop answers, so each next hop can get them. Once one has answered, exactly
//! the bytes that its socket took are read from the accept leg and dropped. The pump sends the rest.
//!
//! TCP_FASTOPEN_CONNECT is not used: connect(2) would succeed before a SYN is sent, so a dead next hop would go
//! unnoticed. Before Linux 6.5, splice(2) into such a socket never sends the SYN.

use crate::leg::peek::{MAX_PEEKED_BYTES, ask, peek};
use crate::leg::stream::Stream;
use longhaul_config::Tunnel;
use longhaul_core::opening::{Asks, Found, Opening};
use longhaul_sys::splice;
use socket2::{SockAddr, Socket};
use std::io;
use std::os::fd::AsFd;

/// The first bytes of a flow's client, which wait for a next hop.
pub(super) struct SynBytes<'a> {
    /// The accept leg, and the question about its bytes. `None` if the tunnel dials without fast open.
    awaited: Option<(&'a Stream, Opening)>,
}

impl SynBytes<'_> {
    /// Starts the time limit for the first bytes on `accept`, if `tunnel` dials with fast open.
    pub(super) fn of<'a>(tunnel: &Tunnel, accept: &'a Stream) -> SynBytes<'a> {
        SynBytes { awaited: tunnel.dial.fast_open().then(|| (accept, ask(Asks::BesideDial))) }
    }

    /// Waits for the bytes and copies them. Returns no bytes when an ordinary dial is needed: without fast open, when
    /// nothing came in time (perhaps the server speaks first), when the client has sent FIN, when the first byte is
    /// urgent, or when the bytes may be a probe.
    ///
    /// # Errors
    /// The accept leg failed. This call has taken the socket's error, so no later call sees it.
    pub(super) async fn peek(&self) -> io::Result<Vec<u8>> {
        let Some((accept, opening)) = self.awaited else { return Ok(Vec::new()) };
        let mut bytes = vec![0; MAX_PEEKED_BYTES];
        let (found, peeked) = peek(accept, opening, &mut bytes).await?;
        // Checked after the peek, so that it sees an urgent byte that came in between. The peek itself stops before a later
        // urgent byte (net/ipv4/tcp.c, tcp_recvmsg_locked).
        let is_payload = found == Found::Payload && !splice::is_at_urgent_byte(accept.as_fd());
        bytes.truncate(if is_payload { peeked } else { 0 });
        Ok(bytes)
    }
}

/// Starts to connect `socket` to `address`, with as many of `bytes` in the SYN as fit. Returns the number of bytes that
/// the socket took. The kernel delivers these once, in the SYN or after the handshake. Returns `None` if the caller
/// must call connect(2).
///
/// # Errors
/// Those of connect(2).
pub(super) fn connect(socket: &Socket, address: &SockAddr, bytes: &[u8]) -> io::Result<Option<usize>> {
    const FLAGS: i32 = libc::MSG_FASTOPEN | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    match socket.send_to_with_flags(bytes, address, FLAGS) {
        Ok(taken) => Ok(Some(taken)),
        Err(err) => match err.raw_os_error() {
            // RFC 7413 4.1.1: without a cookie the SYN only asks for one. The SYN was sent and took no byte.
            Some(libc::EINPROGRESS) => Ok(Some(0)),
            // Bit 1 of net.ipv4.tcp_fastopen is off, or Multipath TCP does not support it (Linux 6.1).
            Some(libc::EOPNOTSUPP) => Ok(None),
            _ => Err(err),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leg::stream::pair;
    use longhaul_config::options::Leg;
    use std::io::Write;
    use std::time::Duration;
    use tokio::time::Instant;

    /// In virtual time: while nothing else runs, the clock jumps to the end of the wait.
    #[tokio::test(start_paused = true)]
    async fn a_silent_client_is_waited_for_once_for_20_ms() {
        let (accept, mut client) = pair();
        let mut tunnel = Tunnel::new("one", client.local_addr().unwrap(), Vec::new());

        let start = Instant::now();
        assert!(SynBytes::of(&tunnel, &accept).peek().await.unwrap().is_empty());
        assert_eq!(start.elapsed(), Duration::ZERO, "no wait without fast open");

        tunnel.dial.set(Leg::Dial, "fastopen", "true").unwrap();
        let first_bytes = SynBytes::of(&tunnel, &accept);
        for address in ["the first address", "the second"] {
            assert!(first_bytes.peek().await.unwrap().is_empty());
            // The runtime's timers count in milliseconds.
            let waited = start.elapsed().as_millis();
            assert!((20..=21).contains(&waited), "{address}: {waited} ms");
        }
        client.write_all(b"hello").unwrap();
        assert_eq!(SynBytes::of(&tunnel, &accept).peek().await.unwrap(), b"hello");
    }
}
