//! A leg's socket. Its options are set before it listens or connects, and it gets BBR when longhaul-core decides so. It
//! ends in RST unless the flow ends well, so that nobody mistakes a truncated stream for a whole one.

use crate::leg::sample::sample;
use crate::leg::stream::Stream;
use longhaul_config::Tunnel;
use longhaul_config::options::{Leg, LegOptions, Mismatch, Setting, When, key};
use longhaul_core::path::{AutoCongestion, BBR, RENO, Start, WAN_RTT, first_controls};
use longhaul_sys::sockopt;
use longhaul_sys::tcp_info::TcpInfo;
use longhaul_sys::{Result, SysError};
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

/// Whether this process may set BBR, by the last call of [`try_bbr`].
static MAY_HAVE_BBR: AtomicBool = AtomicBool::new(false);

/// Whether a new socket has BBR, by the last call of [`try_bbr`].
static IS_BBR_DEFAULT: AtomicBool = AtomicBool::new(false);

/// Hint for a kernel without sockets of Multipath TCP: EPROTONOSUPPORT, as in Debian 11's kernel, or ENOPROTOOPT.
const NO_MPTCP: &str = "this kernel has no Multipath TCP, or net.mptcp.enabled is 0; remove mptcp";

/// Opens a socket for the IP version of `address`, with every option that takes effect from the start.
///
/// # Errors
/// socket(2) failed, or the kernel refused an option.
pub(crate) fn open(address: &SocketAddr, options: &LegOptions) -> Result<Socket> {
    apply_options(fresh(address, options)?, options)
}

/// Opens a socket for the IP version of `address`, with every option that a dial needs. Keepalive is set once the flow
/// is some seconds old.
///
/// # Errors
/// socket(2) failed, or the kernel refused an option.
pub(crate) fn open_to_dial(address: &SocketAddr, options: &LegOptions) -> Result<Socket> {
    prepare(fresh(address, options)?, options, options.before_dial(), IS_BBR_DEFAULT.load(Relaxed))
}

fn fresh(address: &SocketAddr, options: &LegOptions) -> Result<OwnedFd> {
    let open = |protocol| Socket::new(Domain::for_address(*address), Type::STREAM.nonblocking(), Some(protocol));
    let socket = match options.is_on(key::MPTCP) {
        false => open(Protocol::TCP).map_err(|err| failed("socket(IPPROTO_TCP)", &err)),
        true => open(Protocol::MPTCP).map_err(|err| failed("socket(IPPROTO_MPTCP)", &err).hint(NO_MPTCP)),
    };
    socket.map(OwnedFd::from)
}

/// Sets every option that takes effect from the start on `socket`, which must be O_NONBLOCK.
///
/// # Errors
/// The kernel refused an option.
pub(crate) fn apply_options(socket: OwnedFd, options: &LegOptions) -> Result<Socket> {
    // Of a listener, so asked each time: that of systemd may have BBR of its own.
    let has_bbr = has_bbr(socket.as_fd());
    prepare(socket, options, options.at(When::Start), has_bbr)
}

fn prepare<'a>(
    socket: OwnedFd,
    options: &LegOptions,
    settings: impl Iterator<Item = &'a Setting>,
    is_bbr_default: bool,
) -> Result<Socket> {
    let socket = Socket::from(socket);
    keep_loud(&socket, options)?;
    begin_unpaced(&socket, options, is_bbr_default);
    for setting in settings {
        setting.tell(socket.as_fd())?;
    }
    Ok(socket)
}

/// Sets the options on a connection that the kernel accepted on systemd's socket before longhaul had set them on the
/// listener. Every option is tried, though a few take effect only before the handshake.
///
/// # Errors
/// The first option that the kernel refused.
pub(crate) fn catch_up(accepted: &Socket, options: &LegOptions) -> Result<()> {
    // Every listener of ours sets SO_LINGER. So a connection that has it was accepted after the first longhaul got the
    // socket, and inherited the options of that time. After a change it may lack the new ones, like a connection that
    // waits in the queue during a reload.
    if accepted.linger().is_ok_and(|linger| linger.is_some()) {
        return Ok(());
    }
    let told = options.at(When::Start).map(|setting| setting.tell(accepted.as_fd()));
    told.fold(keep_loud(accepted, options), Result::and)
}

/// Tries every option of `leg` on a socket that is then closed. Returns the options whose value the kernel changed. So
/// a tunnel that cannot work is refused at startup, and later legs need not read options back.
///
/// # Errors
/// The kernel refused an option.
pub(crate) fn dry_run(tunnel: &Tunnel, leg: Leg, address: &SocketAddr) -> Result<Vec<Mismatch>> {
    let options = tunnel.options(leg);
    let socket = open(address, options)?;
    let settings = options.at(When::Start);
    settings.filter_map(|setting| setting.apply(socket.as_fd()).transpose()).collect()
}

/// Returns the choice of the congestion control of `leg`, whose connection `socket` has just begun. The choice is open
/// with `congestion = "auto"`, if this process may set BBR.
pub(crate) fn auto_congestion(tunnel: &Tunnel, leg: Leg, socket: &Stream) -> AutoCongestion {
    if tunnel.options(leg).is_auto() {
        return AutoCongestion::begin(MAY_HAVE_BBR.load(Relaxed));
    }
    if let Some(asked) = tunnel.options(leg).find(key::CONGESTION) {
        // At the handshake, a congctl of the route replaces the configured control (net/ipv4/tcp_output.c,
        // tcp_ca_dst_init), so set it again. A locked congctl stays; the log line at the flow's end shows it.
        let _ = asked.tell(socket.as_fd());
    }
    AutoCongestion::settled()
}

/// Gives `socket`, a connection of `leg` that carries the bulk of a measurement, the congestion control that a flow of bulk has
/// after its start.
pub(crate) fn settle_congestion(tunnel: &Tunnel, leg: Leg, socket: &Stream) {
    let is_open = !auto_congestion(tunnel, leg, socket).is_settled();
    if is_open && TcpInfo::of(socket.as_fd()).is_ok_and(|info| info.min_rtt >= WAN_RTT) {
        start_bbr(socket.as_fd(), Start::First);
    }
}

/// Gives `socket` BBR when `auto` asks for it. `info` is a fresh sample of the socket, which currently takes no more
/// bytes.
pub(crate) fn follow_path(auto: &mut AutoCongestion, socket: &Stream, info: &TcpInfo) {
    let start = auto.look(&sample(info), Instant::now());
    if start.is_some_and(|start| !start_bbr(socket.as_fd(), start)) {
        auto.settle();
    }
}

/// Gives `socket` BBR. Returns false when no further sample is needed: the socket has BBR already since the handshake,
/// or BBR is no longer allowed. In the second case a socket without BBR keeps its control.
fn start_bbr(socket: BorrowedFd<'_>, start: Start) -> bool {
    let controls = start.controls(|| has_bbr(socket)).iter();
    controls.fold(false, |_, control| sockopt::try_congestion(socket, control))
}

/// Tries whether this process may set BBR, and whether a new socket has it, and keeps both answers for all later legs. As root this
/// also loads the module.
///
/// # Errors
/// ENOENT: the kernel has no such module. EPERM: BBR is not in tcp_allowed_congestion_control.
pub(crate) fn try_bbr() -> Result<()> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).map_err(|err| failed("socket(IPPROTO_TCP)", &err))?;
    IS_BBR_DEFAULT.store(has_bbr(socket.as_fd()), Relaxed);
    // Where BBR is the default, setting it again would always succeed.
    let _ = sockopt::try_congestion(socket.as_fd(), RENO);
    let tried = sockopt::set_congestion(socket.as_fd(), BBR);
    MAY_HAVE_BBR.store(tried.is_ok(), Relaxed);
    tried
}

/// Replaces the congestion control of a leg with `congestion = "auto"` if it must not [begin](first_controls) with it.
fn begin_unpaced(socket: &Socket, options: &LegOptions, is_bbr_default: bool) {
    if options.is_auto() {
        let mut controls = first_controls(MAY_HAVE_BBR.load(Relaxed), is_bbr_default).iter();
        // If the kernel accepts none, the leg keeps its control.
        let _ = controls.any(|control| sockopt::try_congestion(socket.as_fd(), control));
    }
}

fn has_bbr(socket: BorrowedFd<'_>) -> bool {
    sockopt::congestion(socket).is_ok_and(|name| name == BBR)
}

/// Returns `err` as the error of the system call `call`, without a hint.
pub(crate) fn failed(call: impl Into<String>, err: &io::Error) -> SysError {
    SysError { call: call.into(), errno: err.raw_os_error().unwrap_or_default(), hint: "".into() }
}

/// Sets SO_LINGER 0. The kernel closes the sockets of a dead process with FIN, so a truncated stream looks whole. With
/// SO_LINGER 0 it sends RST (socket(7)), so every leg has that from the start until both directions have ended well.
/// Also sets SO_OOBINLINE, which urgent data needs to pass (`longhaul_sys::splice`). An accepted socket inherits both
/// from its listener.
fn keep_loud(socket: &Socket, options: &LegOptions) -> Result<()> {
    sockopt::set_reset_on_close(socket.as_fd())?;
    match options.is_on(key::MPTCP) {
        false => sockopt::set_urgent_inline(socket.as_fd()),
        // MPTCP supports neither the option nor urgent data (mptcp_setsockopt: EOPNOTSUPP).
        true => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As where BBR is the kernel's default: the socket has it before its options are set.
    #[test]
    fn auto_begins_without_bbr_and_a_name_is_left_alone() {
        if !may_have_bbr() {
            return;
        }
        let begins_with = |asked: Option<&str>| {
            let mut options = LegOptions::default();
            asked.map_or(Ok(()), |name| options.set(Leg::Dial, "congestion", name)).unwrap();
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            socket.set_tcp_congestion(BBR.as_bytes()).unwrap();
            let settings = options.at(When::Start);
            let socket = prepare(socket.into(), &options, settings, true).unwrap();
            sockopt::congestion(socket.as_fd()).unwrap()
        };
        assert!(["cubic", "reno"].contains(&begins_with(None).as_str()), "{}", begins_with(None));
        assert_eq!(begins_with(Some("bbr")), "bbr");
        assert_eq!(begins_with(Some("reno")), "reno");
    }

    #[test]
    fn bbr_from_a_route_is_not_started_anew() {
        if !may_have_bbr() {
            return;
        }
        let with = |name: &[u8]| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            socket.set_tcp_congestion(name).unwrap();
            socket
        };
        assert!(!start_bbr(with(b"bbr").as_fd(), Start::First), "the route's");
        for (name, start) in [(b"reno".as_slice(), Start::First), (b"bbr", Start::Again)] {
            let socket = with(name);
            assert!(start_bbr(socket.as_fd(), start) && has_bbr(socket.as_fd()));
        }
    }

    fn may_have_bbr() -> bool {
        let tried = try_bbr();
        if let Err(err) = &tried {
            assert!(std::env::var_os("CI").is_none(), "cannot run in CI: {err}");
            println!("SKIP: this process may not have BBR: {err}");
        }
        tried.is_ok()
    }
}
