//! Opens the listening socket of a tunnel.

use crate::accept::listener::BACKLOG;
use crate::leg::setup::{self, failed};
use crate::state::listeners::Activated;
use crate::state::listening::Listening;
use longhaul_config::Tunnel;
use longhaul_config::options::{self, Leg, Mismatch, row};
use longhaul_sys::{SysError, sockopt};
use socket2::{Domain, SockRef, Socket, Type};
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use tracing::warn;

/// Why a tunnel cannot start.
#[derive(Clone, Debug)]
pub struct BindError {
    /// The tunnel.
    pub tunnel: String,
    /// The attempted step, such as listening on an address or setting a leg's options.
    pub what: String,
    /// The kernel's answer, with a hint.
    pub err: SysError,
}

/// Tries the options of both legs on sockets that are then closed. Warns about options that the kernel changed.
///
/// # Errors
/// The kernel refused an option.
pub(super) fn dry_run(tunnel: &Tunnel) -> Result<(), BindError> {
    // The dial leg uses the IP version that will be dialled, as far as that is known before a name is resolved.
    let literal = tunnel.to.iter().find_map(|hop| hop.host.parse().ok());
    let dialled = literal.or(tunnel.source).map_or(address_here(tunnel), |ip| SocketAddr::new(ip, 0));
    for (leg, address) in [(Leg::Accept, address_here(tunnel)), (Leg::Dial, dialled)] {
        let mismatches = setup::dry_run(tunnel, leg, &address)
            .map_err(|err| BindError::new(tunnel, format!("set the options of the {leg} leg"), err))?;
        mismatches.iter().for_each(|mismatch| say(tunnel, leg, mismatch));
    }
    Ok(())
}

/// Listens for `tunnel`, whose options were [tried](dry_run), on an address that no listener of this process has.
///
/// # Errors
/// The address cannot be listened on, or the kernel refused an option.
pub(super) fn bind(tunnel: &Tunnel) -> Result<Listening, BindError> {
    listen(tunnel, false)
}

/// Listens on an address that another listener of this process still has. `old` are those of them that still serve; it may be empty,
/// because a listener that an earlier reload replaced keeps the address until its queue is empty.
///
/// Both listen until the old ones have stopped serving, so no connection is refused in between. On IPv4 the kernel gives new
/// handshakes to the new listener at once. On IPv6 it gives them to both, so the old listener serves them by the settings of the new
/// tunnel. When the old listener closes, its unfinished handshakes are lost, unless the kernel moves them to the new one
/// (net.ipv4.tcp_migrate_req = 1).
///
/// # Errors
/// As of [`bind`].
pub(super) fn bind_beside(tunnel: &Tunnel, old: &[Arc<Listening>]) -> Result<Listening, BindError> {
    // Without SO_REUSEPORT on both, bind(2) fails with EADDRINUSE.
    old.iter().for_each(|old| old.share(true));
    let new = listen(tunnel, true)?;
    // With the option the new listener would share its handshakes with the old ones (tried on 6.18: half each).
    new.share(false);
    Ok(new)
}

/// Listens on a socket from systemd, which keeps it too. An option that is no longer configured stays until systemd
/// opens the socket anew.
///
/// # Errors
/// The kernel refused an option, or EMFILE.
pub(super) fn adopt(tunnel: &Tunnel, socket: &Activated) -> Result<Listening, BindError> {
    let socket = socket.socket.try_clone().map(OwnedFd::from);
    let socket = socket.map_err(|err| BindError::new(tunnel, "share its socket".into(), failed("dup", &err)))?;
    let unblocked = SockRef::from(&socket).set_nonblocking(true).map_err(|err| failed("fcntl(O_NONBLOCK)", &err));
    let adopted = unblocked.and_then(|()| setup::apply_options(socket, &tunnel.accept));
    let adopted = adopted.and_then(|socket| Listening::new(tunnel, socket, true));
    adopted.map_err(|err| BindError::new(tunnel, format!("use the socket from systemd for {}", tunnel.listen), err))
}

/// Returns the address on which `tunnel` listens on this host. On a host without IPv6, `[::]` becomes `0.0.0.0`.
fn address_here(tunnel: &Tunnel) -> SocketAddr {
    let any = tunnel.listen;
    let no_ipv6 = || {
        Socket::new(Domain::IPV6, Type::STREAM, None).is_err_and(|err| err.raw_os_error() == Some(libc::EAFNOSUPPORT))
    };
    match any.is_ipv6() && any.ip().is_unspecified() && no_ipv6() {
        true => SocketAddr::from((Ipv4Addr::UNSPECIFIED, any.port())),
        false => any,
    }
}

/// Listens for `tunnel`. With `reuse_port`, SO_REUSEPORT is set.
fn listen(tunnel: &Tunnel, reuse_port: bool) -> Result<Listening, BindError> {
    let socket = open(tunnel, &address_here(tunnel), reuse_port);
    let listening = socket.and_then(|socket| Listening::new(tunnel, socket, false));
    listening.map_err(|err| BindError::new(tunnel, format!("listen on {}", tunnel.listen), err))
}

/// Returns a socket that listens on `address`.
fn open(tunnel: &Tunnel, address: &SocketAddr, reuse_port: bool) -> Result<Socket, SysError> {
    let socket = setup::open(address, &tunnel.accept)?;
    // A restart must not wait for TIME_WAIT (socket(7) SO_REUSEADDR). SO_REUSEPORT is set only to replace a listener of
    // our own, because it would let a second longhaul take half of the connections.
    sockopt::set_reuse_address(socket.as_fd())?;
    if reuse_port {
        sockopt::set_reuse_port(socket.as_fd(), true)?;
    }
    if address.is_ipv6() {
        // `[::]` means every address, IPv4 included, regardless of net.ipv6.bindv6only.
        let only = !address.ip().is_unspecified();
        sockopt::set_ipv6_only(socket.as_fd(), only)?;
    }
    socket.bind(&(*address).into()).map_err(|err| with_remedy(failed(format!("bind({address})"), &err), address))?;
    socket.listen(BACKLOG).map_err(|err| with_remedy(failed(format!("listen({address})"), &err), address))?;
    Ok(socket)
}

fn with_remedy(err: SysError, address: &SocketAddr) -> SysError {
    let port = address.port();
    match io::Error::from_raw_os_error(err.errno).kind() {
        io::ErrorKind::AddrInUse => err.hint(format!("who has it: ss -tanp 'sport = :{port}'")),
        io::ErrorKind::PermissionDenied => err.hint("a port below 1024 needs CAP_NET_BIND_SERVICE"),
        io::ErrorKind::AddrNotAvailable => err.hint(
            "not an address of this host: see `ip addr`; for one that VRRP brings later: accept = { freebind = true }",
        ),
        _ => err,
    }
}

fn say(tunnel: &Tunnel, leg: Leg, mismatch: &Mismatch) {
    // `show` adds the units. Every mismatch has a row.
    let shown = |value| row(leg, mismatch.key).map_or_else(String::new, |row| options::show(row, value));
    warn!(
        tunnel = %tunnel.name,
        option = %format_args!("{leg}.{}", mismatch.key),
        asked = %shown(&mismatch.asked),
        got = %shown(&mismatch.got),
        remedy = (!mismatch.remedy.is_empty()).then_some(mismatch.remedy),
        "the kernel changed a socket option"
    );
}

impl BindError {
    fn new(tunnel: &Tunnel, what: String, err: SysError) -> BindError {
        BindError { tunnel: tunnel.name.clone(), what, err }
    }
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tunnel {}: cannot {}: {}", self.tunnel, self.what, self.err)
    }
}

impl std::error::Error for BindError {}
