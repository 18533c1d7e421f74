//! The addresses on which the tunnels listen. When one leaves this host, its socket listens on, and no client reaches it.

use super::lock::lock;
use longhaul_sys::{Result, route};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use std::time::SystemTime;

/// The addresses of the listeners that [need](super::Handle::needed_address) them, by the names of the tunnels.
#[derive(Debug, Default)]
pub(super) struct ListenAddresses(Mutex<BTreeMap<String, ListenAddress>>);

#[derive(Debug)]
struct ListenAddress {
    address: SocketAddr,
    /// Time of the first look that did not find it. `None` while it is here.
    gone_since: Option<SystemTime>,
}

/// An address of a listener that is not of this host any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GoneAddress {
    /// The address.
    pub ip: IpAddr,
    /// Time of the first look that did not find it.
    pub since: SystemTime,
}

impl ListenAddresses {
    /// Replaces the addresses by `needed`. An address that stays keeps its state.
    pub(super) fn set(&self, needed: impl Iterator<Item = (String, SocketAddr)>) {
        let mut known = lock(&self.0);
        let before = std::mem::take(&mut *known);
        let gone_since = |name: &str, address| before.get(name).filter(|old| old.address == address)?.gone_since;
        known.extend(needed.map(|(name, address)| {
            let gone_since = gone_since(&name, address);
            (name, ListenAddress { address, gone_since })
        }));
    }

    /// Returns the address of `tunnel` if it is gone. `is_here` asks the kernel. `None` if it does not say, and if
    /// `ip_nonlocal_bind` shows that addresses are meant to come later.
    pub(super) fn gone(
        &self,
        tunnel: &str,
        is_here: impl FnOnce(SocketAddr) -> Result<bool>,
        may_come_later: impl FnOnce(IpAddr) -> bool,
    ) -> Option<GoneAddress> {
        let mut known = lock(&self.0);
        let ListenAddress { address, gone_since } = known.get_mut(tunnel)?;
        let ip = address.ip().to_canonical();
        // The route does not depend on the port.
        let is_gone = is_here(SocketAddr::new(ip, 0)).is_ok_and(|is_here| !is_here) && !may_come_later(ip);
        if !is_gone {
            *gone_since = None;
            return None;
        }
        Some(GoneAddress { ip, since: *gone_since.get_or_insert_with(SystemTime::now) })
    }
}

/// Whether the kernel lets a socket listen on an address that this host does not have.
pub(super) fn may_come_later(ip: IpAddr) -> bool {
    route::takes_foreign(ip)
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_sys::SysError;

    #[test]
    fn an_address_is_gone_since_the_first_look_until_it_is_here_again() {
        let known = ListenAddresses::default();
        let set = |address: &str| known.set([("t".to_string(), address.parse().unwrap())].into_iter());
        let gone = |is_here| known.gone("t", |_| is_here, |_| false);
        assert_eq!(gone(Ok(false)), None, "the tunnel is not known");
        set("192.0.2.7:22");
        assert_eq!(gone(Ok(true)), None);
        let first = gone(Ok(false)).unwrap();
        assert_eq!(first.ip.to_string(), "192.0.2.7");
        set("192.0.2.7:22");
        assert_eq!(gone(Ok(false)), Some(first), "a reload");
        assert_eq!(known.gone("t", |_| Ok(false), |_| true), None, "ip_nonlocal_bind");
        let again = gone(Ok(false)).unwrap();
        assert!(again.since > first.since);
        let unknown = Err(SysError::new("netlink", rustix::io::Errno::NOBUFS));
        assert_eq!(gone(unknown), None);
        set("192.0.2.8:22");
        assert_ne!(gone(Ok(false)).unwrap().ip, first.ip);
        known.set(std::iter::empty());
        assert_eq!(gone(Ok(false)), None, "the tunnel does not listen");
    }
}
