//! The probes that the daemon makes of its own tunnels, which a listener admits whatever `allow` says.
//!
//! ```text
//! verifier   announces the address and the nonce of a probe, and connects
//! listener   finds the address: reads the preface before anything is dialled
//! opening    the nonce is that of the announced probe, and unused: the flow begins
//! ```
//! The address is that of a socket of this process, so no other client can have it. The nonce is random and good for one
//! connection.

use crate::lock::lock;
use longhaul_core::wire::probe::Nonce;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// The announced probes.
#[derive(Debug, Default)]
pub(crate) struct OwnProbes(Mutex<Vec<Announced>>);

#[derive(Debug)]
struct Announced {
    from: SocketAddr,
    nonce: Nonce,
    was_accepted: Arc<AtomicBool>,
    is_used: bool,
}

/// An announced probe. Dropping it ends the announcement.
#[derive(Debug)]
pub(crate) struct Announcement {
    own: Arc<OwnProbes>,
    nonce: Nonce,
}

impl OwnProbes {
    /// Announces a probe with `nonce` that will come from `from`. Sets `was_accepted` when the listener has accepted it.
    pub(crate) fn announce(
        self: &Arc<OwnProbes>,
        nonce: Nonce,
        from: SocketAddr,
        was_accepted: &Arc<AtomicBool>,
    ) -> Announcement {
        let was_accepted = was_accepted.clone();
        lock(&self.0).push(Announced { from: plain(from), nonce, was_accepted, is_used: false });
        Announcement { own: self.clone(), nonce }
    }

    /// Whether the client `peer` is the socket of an announced probe.
    pub(crate) fn accepted(&self, peer: SocketAddr) -> bool {
        let probes = lock(&self.0);
        // Mostly there is none, and this is asked for every connection.
        let found = probes.iter().find(|probe| probe.from == plain(peer));
        found.inspect(|probe| probe.was_accepted.store(true, Relaxed)).is_some()
    }

    /// Whether the probe with `nonce` from `peer` was announced and has not been admitted yet.
    pub(crate) fn admit(&self, peer: SocketAddr, nonce: &Nonce) -> bool {
        let mut probes = lock(&self.0);
        let probe = probes.iter_mut().find(|probe| probe.from == plain(peer) && probe.nonce == *nonce);
        probe.is_some_and(|probe| !std::mem::replace(&mut probe.is_used, true))
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        lock(&self.own.0).retain(|probe| probe.nonce != self.nonce);
    }
}

/// Returns `address` as IPv4 if it is an IPv4-mapped IPv6 address, and without a zone.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_is_admitted_once_and_only_from_its_address() {
        let own = Arc::new(OwnProbes::default());
        let from: SocketAddr = "192.0.2.1:1000".parse().unwrap();
        let mapped: SocketAddr = "[::ffff:192.0.2.1]:1000".parse().unwrap();
        let was_accepted = Arc::default();
        let announcement = own.announce([7; 16], from, &was_accepted);
        assert!(!own.accepted("192.0.2.1:1001".parse().unwrap()) && !was_accepted.load(Relaxed));
        assert!(own.accepted(mapped) && was_accepted.load(Relaxed));
        assert!(!own.admit(mapped, &[8; 16]) && !own.admit("192.0.2.2:1000".parse().unwrap(), &[7; 16]));
        assert!(own.admit(mapped, &[7; 16]) && !own.admit(from, &[7; 16]), "a nonce is good for one connection");
        drop(announcement);
        assert!(!own.accepted(from) && !own.admit(from, &[7; 16]));
    }
}
