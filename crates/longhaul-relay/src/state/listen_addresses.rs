//! The addresses on which the tunnels listen. When one leaves this host, its socket listens on, and no client reaches it.

use crate::lock::lock;
use longhaul_core::health::GoneAddress;
use longhaul_sys::{Result, route};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use std::time::SystemTime;

/// The addresses of the listeners that [need](crate::accept::listener::Handle::needed_address) them, by the names of the tunnels.
#[derive(Debug, Default)]
pub(super) struct ListenAddresses(Mutex<BTreeMap<String, ListenAddress>>);

#[derive(Debug)]
struct ListenAddress {
    address: SocketAddr,
    /// Time of the first look that did not find it. `None` while it is here.
    gone_since: Option<SystemTime>,
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
        now: SystemTime,
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
        Some(GoneAddress { ip, since: *gone_since.get_or_insert(now) })
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
    use std::time::Duration;

    #[test]
    fn an_address_is_gone_since_the_first_look_until_it_is_here_again() {
        let known = ListenAddresses::default();
        let set = |address: &str| known.set([("t".to_string(), address.parse().unwrap())].into_iter());
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let gone_at = |is_here, now| known.gone("t", |_| is_here, |_| false, at(now));
        let gone = |is_here| gone_at(is_here, 7);
        assert_eq!(gone(Ok(false)), None, "the tunnel is not known");
        set("192.0.2.7:22");
        assert_eq!(gone(Ok(true)), None);
        let first = gone_at(Ok(false), 1).unwrap();
        assert_eq!((first.ip.to_string().as_str(), first.since), ("192.0.2.7", at(1)));
        set("192.0.2.7:22");
        assert_eq!(gone(Ok(false)), Some(first), "a reload");
        assert_eq!(known.gone("t", |_| Ok(false), |_| true, at(8)), None, "ip_nonlocal_bind");
        assert_eq!(gone_at(Ok(false), 9).unwrap().since, at(9));
        let unknown = Err(SysError::new("netlink", rustix::io::Errno::NOBUFS));
        assert_eq!(gone(unknown), None);
        set("192.0.2.8:22");
        assert_ne!(gone(Ok(false)).unwrap().ip, first.ip);
        known.set(std::iter::empty());
        assert_eq!(gone(Ok(false)), None, "the tunnel does not listen");
    }
}
