//! The PROXY header that a dial leg begins with, for a tunnel with `proxy_out`. The flow's bytes do not count it.

use crate::leg::setup::failed;
use crate::leg::stream::Stream;
use crate::live::flow::Flow;
use longhaul_config::Tunnel;
use longhaul_core::proxy_header::{self, Ends};
use longhaul_sys::splice;
use std::io::ErrorKind;

/// The header of a flow. It is empty for a tunnel without `proxy_out`.
pub(crate) struct Header(Vec<u8>);

impl Header {
    /// Returns the header that names the client of `flow`, and the address that the client connected to.
    pub(crate) fn of(flow: &Flow) -> Header {
        let Some(version) = flow.tunnel.proxy_out else { return Header(Vec::new()) };
        let ends = flow.client_to().map(|to| Ends { client: flow.client.address(), to });
        Header(proxy_header::write(version, ends))
    }

    /// Returns the header of a connection of this relay's own, which names no client.
    pub(crate) fn own(tunnel: &Tunnel) -> Header {
        Header(tunnel.proxy_out.map_or(Vec::new(), proxy_header::write_own))
    }

    /// Returns this header with `bytes` behind it, which one call sends with it.
    pub(crate) fn and(mut self, bytes: &[u8]) -> Header {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Returns the bytes that connect may send in the SYN: the header, and the client's `first_bytes` after it. Without
    /// fast open the header is not among them.
    pub(super) fn before(&self, mut first_bytes: Vec<u8>, tunnel: &Tunnel) -> Vec<u8> {
        if tunnel.dial.fast_open() {
            first_bytes.splice(0..0, self.0.iter().copied());
        }
        first_bytes
    }

    /// Sends what connect did not take of the header. Connect took `taken` bytes of those [before](Header::before).
    /// Returns the number of the client's bytes among them.
    ///
    /// # Errors
    /// The header was not sent whole. Nothing else may be sent on `dial` then.
    pub(crate) fn send_rest(&self, dial: &Stream, taken: usize) -> Result<usize, String> {
        let rest = self.0.get(taken..).unwrap_or_default();
        // A connection that its peer has reset takes no more bytes. Those that it has sent are still read.
        if !rest.is_empty() && !dial.was_reset() {
            match splice::send(dial, rest) {
                Ok(sent) if sent == rest.len() => {}
                Ok(sent) => return Err(format!("send: only {sent} of {} bytes of the PROXY header", rest.len())),
                Err(err) if matches!(err.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {
                    dial.note_reset();
                }
                Err(err) => return Err(format!("{} of the PROXY header", failed("send", &err))),
            }
        }
        dial.note_header_sent(self.0.len());
        Ok(taken.saturating_sub(self.0.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leg::stream::pair;
    use longhaul_config::options::Leg;
    use std::io::Read;

    #[tokio::test]
    async fn the_header_goes_out_once_however_much_of_it_connect_took() {
        let header = Header(b"header".to_vec());
        for (taken, sent, early) in [(0, "header", 0), (2, "ader", 0), (6, "", 0), (9, "", 3)] {
            let (ours, mut peer) = pair();
            assert_eq!(header.send_rest(&ours, taken), Ok(early), "{taken} bytes");
            assert_eq!(ours.header_sent(), 6);
            drop(ours);
            let mut got = String::new();
            peer.read_to_string(&mut got).unwrap();
            assert_eq!(got, sent);
        }
    }

    #[tokio::test]
    async fn a_peer_that_has_reset_gets_no_header_and_is_still_read() {
        let (ours, peer) = pair();
        socket2::SockRef::from(&peer).set_linger(Some(std::time::Duration::ZERO)).unwrap();
        drop(peer);
        ours.failed().await;
        assert_eq!(Header(b"header".to_vec()).send_rest(&ours, 0), Ok(0));
        assert!(ours.was_reset());
    }

    #[test]
    fn only_fast_open_sends_the_header_in_the_syn() {
        let mut tunnel = Tunnel::new("one", "127.0.0.1:1".parse().unwrap(), Vec::new());
        let header = Header(b"header".to_vec());
        assert_eq!(header.before(Vec::new(), &tunnel), b"");
        tunnel.dial.set(Leg::Dial, "fastopen", "true").unwrap();
        assert_eq!(header.before(b"hello".to_vec(), &tunnel), b"headerhello");
        assert_eq!(header.before(Vec::new(), &tunnel), b"header");
    }
}
