//! A socket that listens for a tunnel. Its accept loop owns it, and a reload reaches it through its tunnel.

use crate::leg::setup::failed;
use crate::leg::stream::watched;
use longhaul_config::Tunnel;
use longhaul_config::options::LegOptions;
use longhaul_sys::{Result, sockopt};
use socket2::Socket;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tracing::warn;

/// A socket that listens for a tunnel.
#[derive(Debug)]
pub(crate) struct Listening {
    pub(crate) socket: AsyncFd<Socket>,
    /// The address of the tunnel for which it was opened.
    pub(crate) listen: SocketAddr,
    /// Whether systemd holds the socket, too.
    pub(crate) is_held: bool,
}

impl Listening {
    /// Registers a socket that listens for `tunnel` with the runtime.
    ///
    /// # Errors
    /// The kernel has no memory or no epoll watch left.
    pub(crate) fn new(tunnel: &Tunnel, socket: Socket, is_held: bool) -> Result<Listening> {
        let socket = watched(socket, Interest::READABLE).map_err(|err| failed("epoll_ctl(EPOLL_CTL_ADD)", &err))?;
        Ok(Listening { socket, listen: tunnel.listen, is_held })
    }

    /// Returns the address that this host must have, so that clients reach the listener. `None` if it listens on any address, or
    /// on one that always is here, or if somebody may bring the address later: IP_FREEBIND is set, by `freebind` or by systemd
    /// (`FreeBind=`). `None` also for a socket of an interface, whose addresses may be those of a VRF, and if the kernel does
    /// not say.
    pub(super) fn needed_address(&self) -> Option<SocketAddr> {
        let socket = self.socket.get_ref();
        let address = socket.local_addr().ok()?.as_socket()?;
        let ip = address.ip().to_canonical();
        // The kernel finds a link-local address only with its interface.
        let is_link_local = matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
        if ip.is_unspecified() || ip.is_loopback() || is_link_local {
            return None;
        }
        // On a socket of IPv6, too: the kernel has one flag for both.
        let is_free = socket.freebind_v4().ok()? || socket.ip_transparent_v4().ok()?;
        (!is_free && socket.device().ok()?.is_none()).then_some(address)
    }

    /// Lets another socket of ours listen beside this one, or no longer. It works on a socket that listens already (tried on
    /// 6.18), and fails only on one that is gone.
    pub(crate) fn share(&self, is_shared: bool) {
        let _ = sockopt::set_reuse_port(self.socket.as_fd(), is_shared);
    }

    /// Sets the options of `tunnel` that differ from `before`. Connections accepted from then on have them. Handshakes under
    /// way are not disturbed.
    pub(crate) fn tell(&self, before: &LegOptions, tunnel: &Tunnel) {
        for setting in tunnel.accept.changed(before) {
            if let Err(err) = setting.tell(self.socket.as_fd()) {
                warn!(tunnel = %tunnel.name, %err, "the listener did not take a new option; restart to have it");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{Domain, Type};

    #[tokio::test]
    async fn a_listener_needs_no_address_that_may_come_later_or_is_always_here() {
        let needed = |address: &str, prepare: fn(&Socket)| {
            let address: SocketAddr = address.parse().unwrap();
            let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).unwrap();
            prepare(&socket);
            socket.bind(&address.into()).unwrap();
            Listening::new(&Tunnel::new("one", address, Vec::new()), socket, false).unwrap().needed_address()
        };
        assert_eq!(needed("0.0.0.0:0", |_| ()), None);
        assert_eq!(needed("127.0.0.9:0", |_| ()), None);
        // RFC 5737, RFC 3849: for documentation, so they belong to nobody. systemd sets the option of the IP version.
        assert_eq!(needed("192.0.2.7:0", |socket| socket.set_freebind_v4(true).unwrap()), None);
        assert_eq!(needed("[2001:db8::7]:0", |socket| socket.set_freebind_v6(true).unwrap()), None);
    }
}
