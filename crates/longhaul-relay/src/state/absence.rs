//! The address on which a tunnel listens. When it leaves this host, its socket listens on, and no client reaches it.

use crate::lock::lock;
use longhaul_core::health::GoneAddress;
use longhaul_sys::Result;
use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use std::time::SystemTime;

/// The address of a tunnel that was not of this host at the last look, and the time of the first look that did not find it.
#[derive(Debug, Default)]
pub(crate) struct Absence(Mutex<Option<(SocketAddr, SystemTime)>>);

impl Absence {
    /// Returns `address`, which the tunnel needs now, if it is gone. `is_here` asks the kernel. `None` if it does not say, and if
    /// `ip_nonlocal_bind` shows that addresses are meant to come later.
    pub(super) fn look(
        &self,
        address: Option<SocketAddr>,
        is_here: impl FnOnce(SocketAddr) -> Result<bool>,
        may_come_later: impl FnOnce(IpAddr) -> bool,
        now: SystemTime,
    ) -> Option<GoneAddress> {
        let mut gone = lock(&self.0);
        let before = gone.take();
        let address = address?;
        let ip = address.ip().to_canonical();
        // The route does not depend on the port.
        let is_gone = is_here(SocketAddr::new(ip, 0)).is_ok_and(|is_here| !is_here) && !may_come_later(ip);
        if !is_gone {
            return None;
        }
        let since = before.filter(|(old, _)| *old == address).map_or(now, |(_, since)| since);
        *gone = Some((address, since));
        Some(GoneAddress { ip, since })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_sys::SysError;
    use std::time::Duration;

    #[test]
    fn an_address_is_gone_since_the_first_look_until_it_is_here_again() {
        let (absence, mine) = (Absence::default(), "192.0.2.7:22".parse().ok());
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let gone_at = |is_here, now| absence.look(mine, |_| is_here, |_| false, at(now));
        assert_eq!(gone_at(Ok(true), 0), None);
        let first = gone_at(Ok(false), 1).unwrap();
        assert_eq!((first.ip.to_string().as_str(), first.since), ("192.0.2.7", at(1)));
        assert_eq!(gone_at(Ok(false), 7), Some(first));
        assert_eq!(absence.look(mine, |_| Ok(false), |_| true, at(8)), None, "ip_nonlocal_bind");
        assert_eq!(gone_at(Ok(false), 9).unwrap().since, at(9));
        let unknown = Err(SysError::new("netlink", rustix::io::Errno::NOBUFS));
        assert_eq!(gone_at(unknown, 10), None);
        assert_eq!(gone_at(Ok(false), 11).unwrap().since, at(11));
        let other = absence.look("192.0.2.8:22".parse().ok(), |_| Ok(false), |_| false, at(12)).unwrap();
        assert_eq!((other.ip.to_string().as_str(), other.since), ("192.0.2.8", at(12)));
        assert_eq!(absence.look(None, |_| panic!("the tunnel does not listen"), |_| false, at(13)), None);
    }
}
