//! A leg's socket: made with its options before it listens or connects, tuned once its path is known, and ended so that
//! nobody mistakes a broken stream for a whole one.

use super::stream::Stream;
use longhaul_config::Tunnel;
use longhaul_config::options::{Leg, LegOptions, Mismatch, Setting, When, remedied};
use longhaul_sys::sockopt;
use longhaul_sys::tcp_info::TcpInfo;
use longhaul_sys::{Result, SysError};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

const BBR: &str = "bbr";

/// Whether this process may have BBR, as [`try_bbr`] last found.
static MAY_HAVE_BBR: AtomicBool = AtomicBool::new(false);

/// The RTT from which on a leg counts as WAN: no LAN has it, every WAN does.
pub(super) const WAN_RTT: Duration = Duration::from_millis(5);

/// How many acknowledged bytes are enough to know a path's RTT: some were acknowledged at once. The handshake does not do,
/// for with TCP_DEFER_ACCEPT the client's silence is in its sample, and with fast open there may be none.
pub(super) const ENOUGH: u64 = 64 * 1024;

/// For how many round trips on end the congestion window has to hold bytes back where none were lost: what ended slow start
/// then was a round trip that grew, and perhaps by chance.
const BULK: u32 = 5;

/// How many round trips BBR has to fill the path, and how often it starts anew when it has not.
const START: u32 = 10;
const STARTS: u8 = 5;
/// So many times the rate that it had before, and it has filled it.
const FOUND: u32 = 8;

/// The bytes per second that a leg without BBR delivers when it is left so: BBR paces by a timer for each 64 KiB, which took
/// the two relays 0.4 s of processor time more a GB (docs/design/data-path.md).
const FAST: u64 = 500_000_000;

/// The remedy where there is no socket of Multipath TCP: EPROTONOSUPPORT, as in Debian 11's kernel, or ENOPROTOOPT.
const NO_MPTCP: &str = "this kernel has no Multipath TCP, or net.mptcp.enabled is 0; leave mptcp out";

/// A socket that fits `address`, with every option that holds from the start.
///
/// # Errors
/// socket(2) failed, or the kernel refused an option.
pub(super) fn open(address: &SocketAddr, options: &LegOptions, mptcp: bool) -> Result<Socket> {
    dress(fresh(address, mptcp)?, options, mptcp)
}

/// A socket that fits `address`, with every option that a dial needs: keepalive comes once the flow is some seconds old.
///
/// # Errors
/// socket(2) failed, or the kernel refused an option.
pub(super) fn open_to_dial(address: &SocketAddr, options: &LegOptions, mptcp: bool) -> Result<Socket> {
    prepare(fresh(address, mptcp)?, options, options.before_dial(), mptcp)
}

fn fresh(address: &SocketAddr, mptcp: bool) -> Result<OwnedFd> {
    let protocol = if mptcp { Protocol::MPTCP } else { Protocol::TCP };
    let call = if mptcp { "socket(IPPROTO_MPTCP)" } else { "socket(IPPROTO_TCP)" };
    let socket = Socket::new(Domain::for_address(*address), Type::STREAM.nonblocking(), Some(protocol))
        .map_err(|err| if mptcp { failed(call, &err).hint(NO_MPTCP) } else { failed(call, &err) })?;
    Ok(socket.into())
}

/// Gives `socket`, which is O_NONBLOCK, every option that holds from the start.
///
/// # Errors
/// The kernel refused an option.
pub(super) fn dress(socket: OwnedFd, options: &LegOptions, mptcp: bool) -> Result<Socket> {
    prepare(socket, options, options.at(When::Start), mptcp)
}

fn prepare<'a>(
    socket: OwnedFd,
    options: &LegOptions,
    settings: impl Iterator<Item = &'a Setting>,
    mptcp: bool,
) -> Result<Socket> {
    let socket = Socket::from(socket);
    keep_loud(&socket, mptcp)?;
    begin_unpaced(&socket, options);
    for setting in settings {
        setting.tell(socket.as_fd())?;
    }
    Ok(socket)
}

/// Gives an accepted connection what its listener had not yet when it came: systemd's socket takes connections before we
/// are there. Every option is tried, though a few take only before the handshake.
///
/// # Errors
/// The first option that the kernel refused.
pub(super) fn catch_up(accepted: &Socket, options: &LegOptions, mptcp: bool) -> Result<()> {
    // Every listener of ours has it, so who has it came after the first longhaul that had the socket, and has the options
    // that were on it then: after a change, perhaps not yet the new ones, like a connection that waits during a reload.
    if accepted.linger().is_ok_and(|linger| linger.is_some()) {
        return Ok(());
    }
    let told = options.at(When::Start).map(|setting| setting.tell(accepted.as_fd()));
    told.fold(keep_loud(accepted, mptcp), Result::and)
}

/// Tries every option of `leg` on a socket that is thrown away, and says what the kernel made of it: so that a tunnel
/// that cannot work is refused at start, and later legs need no reading back.
///
/// # Errors
/// The kernel refused an option.
pub(super) fn rehearse(tunnel: &Tunnel, leg: Leg, address: &SocketAddr) -> Result<Vec<Mismatch>> {
    let options = tunnel.options(leg);
    let socket = open(address, options, tunnel.mptcp(leg)).map_err(|err| remedied(err, options.asked()))?;
    let settings = options.at(When::Start);
    settings.filter_map(|setting| setting.apply(socket.as_fd()).transpose()).collect()
}

/// What `congestion = "auto"` makes of one leg: BBR when the control that it [began](begin_unpaced) with holds back bulk on
/// a WAN path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// Nothing more is to be done.
    Made,
    /// Nothing speaks for BBR so far.
    Open,
    /// Since then the congestion window has held bytes back, out of slow start, and they went more slowly than [`FAST`].
    Slow {
        since: Instant,
        /// How long it had held bytes back by then.
        held: Duration,
    },
    /// It is to have BBR, now and perhaps so many times more.
    Due { rate: u32, again: u8 },
    /// It has had BBR since then, when it delivered `rate` kilobytes per second.
    Started { since: Instant, rate: u32, again: u8 },
}

impl Choice {
    /// After the handshake of `socket`, the one of `leg`.
    pub(super) fn of(tunnel: &Tunnel, leg: Leg, socket: &Stream) -> Choice {
        if tunnel.options(leg).is_auto() {
            return if MAY_HAVE_BBR.load(Relaxed) { Choice::Open } else { Choice::Made };
        }
        if let Some(asked) = tunnel.options(leg).find("congestion") {
            // A route's congctl has taken its place at the handshake (net/ipv4/tcp_output.c, tcp_ca_dst_init). One that is
            // locked stays, and the line at the flow's end tells.
            let _ = asked.tell(socket.as_fd());
        }
        Choice::Made
    }

    /// `socket`, whose leg this is and which has had [`ENOUGH`] bytes, takes no more for now: `info` says why. Messages do not
    /// come so far.
    pub(super) fn full(&mut self, socket: &Stream, info: &TcpInfo) {
        let now = Instant::now();
        *self = self.seeing(info, now);
        if let Choice::Due { rate, again } = *self {
            *self = match start_bbr(&SockRef::from(socket), again == STARTS) {
                true => Choice::Started { since: now, rate, again },
                false => Choice::Made,
            };
        }
    }

    /// What `info` of the leg's socket, just asked for, makes of it.
    fn seeing(self, info: &TcpInfo, now: Instant) -> Choice {
        // With bytes under way, and neither the peer's window nor our buffer to blame: what a slow reader holds back is not
        // for another congestion control to speed up.
        let held = info.busy_time.saturating_sub(info.rwnd_limited + info.sndbuf_limited);
        let rate = u32::try_from(info.delivery_rate / 1000).unwrap_or(u32::MAX);
        let first = Choice::Due { rate, again: STARTS };
        let is_in_slow_start = info.snd_cwnd < info.snd_ssthresh;
        match self {
            // A queue, or several times the rate: BBR has found the path. Where it starts among losses it may take the first
            // rounds for all there is, and then needs seconds for each doubling.
            Choice::Started { rate: before, again, .. }
                if again == 0 || info.rtt * 4 >= info.min_rtt * 5 || rate / FOUND >= before =>
            {
                Choice::Made
            }
            Choice::Started { since, rate, again } if now - since >= info.min_rtt * START => {
                Choice::Due { rate, again: again - 1 }
            }
            Choice::Started { .. } | Choice::Made => self,
            _ if info.bytes_acked < ENOUGH => Choice::Open,
            // The smallest, for an acknowledgement that was held back is a larger one.
            _ if info.min_rtt < WAN_RTT => Choice::Made,
            _ if info.notsent_bytes == 0 || is_in_slow_start || info.delivery_rate >= FAST => Choice::Open,
            // Not while it recovers: BBR would take the little that goes then for the path.
            _ if info.bytes_retrans > 0 && info.ca_state == 0 => first,
            Choice::Slow { since, held: before } if now - since <= held.saturating_sub(before) + info.min_rtt => {
                if held.saturating_sub(before) >= info.min_rtt * BULK { first } else { self }
            }
            // The first time; or something else has held them back meanwhile, or there were none.
            _ => Choice::Slow { since: now, held },
        }
    }
}

/// Gives `socket` BBR; true when that has to be watched. It is not where a route's congctl has given it BBR at the handshake,
/// for that runs, nor where BBR is no longer allowed: the first time the socket then keeps what it has.
fn start_bbr(socket: &Socket, is_first: bool) -> bool {
    match is_first {
        true if has_bbr(socket) => return false,
        true => {}
        // BBR that it has already would go on where it is. Every kernel has Reno and allows it to everybody.
        false => drop(socket.set_tcp_congestion(b"reno")),
    }
    socket.set_tcp_congestion(BBR.as_bytes()).is_ok()
}

/// Tries whether this process may have BBR, for all legs from now on: as root this also loads its module.
///
/// # Errors
/// ENOENT: there is no such module; EPERM: it is not in tcp_allowed_congestion_control.
pub(super) fn try_bbr() -> Result<()> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).map_err(|err| failed("socket(IPPROTO_TCP)", &err))?;
    // Where BBR is the default a new socket has it, and setting what it has is never refused.
    let _ = socket.set_tcp_congestion(b"reno");
    let tried = socket.set_tcp_congestion(BBR.as_bytes());
    MAY_HAVE_BBR.store(tried.is_ok(), Relaxed);
    tried.map_err(|err| failed("setsockopt(TCP_CONGESTION, \"bbr\")", &err))
}

/// A leg whose control we choose begins without BBR, also where that is the kernel's default: BBR paces from the first byte,
/// by a timer for each 64 KiB, and a LAN needs none of that (docs/design/data-path.md). Before the handshake, for a
/// connection that was paced once goes on being paced whatever its control (net/ipv4/tcp_bbr.c, sk_pacing_status).
///
/// Not where BBR is the default and yet not allowed, for then the leg could not have it back.
fn begin_unpaced(socket: &Socket, options: &LegOptions) {
    if options.is_auto() && MAY_HAVE_BBR.load(Relaxed) && has_bbr(socket) {
        let _ = socket.set_tcp_congestion(b"cubic").or_else(|_| socket.set_tcp_congestion(b"reno"));
    }
}

fn has_bbr(socket: &Socket) -> bool {
    sockopt::congestion(socket.as_fd()).is_ok_and(|name| name == BBR)
}

/// `err` as what `call` said.
pub(super) fn failed(call: impl Into<String>, err: &io::Error) -> SysError {
    SysError { call: call.into(), errno: err.raw_os_error().unwrap_or_default(), hint: "".into() }
}

/// The kernel closes the sockets of a process that died, and with FIN: a truncated stream that looks whole. SO_LINGER 0
/// makes it RST (socket(7)), so every leg has it from its first moment until both directions have ended well. An
/// accepted socket inherits it from its listener, as it does SO_OOBINLINE, which urgent data needs to pass
/// (`longhaul_sys::splice`).
fn keep_loud(socket: &Socket, mptcp: bool) -> Result<()> {
    socket.set_linger(Some(Duration::ZERO)).map_err(|err| failed("setsockopt(SO_LINGER, 0)", &err))?;
    // MPTCP has neither the option nor urgent data (mptcp_setsockopt: EOPNOTSUPP).
    if mptcp {
        return Ok(());
    }
    socket.set_out_of_band_inline(true).map_err(|err| failed("setsockopt(SO_OOBINLINE)", &err))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's default may be BBR; here the socket has it already, which is the same to it.
    #[test]
    fn auto_begins_without_bbr_and_a_name_is_left_alone() {
        if !may_have_bbr() {
            return;
        }
        let dressed = |asked: Option<&str>| {
            let mut options = LegOptions::default();
            asked.map_or(Ok(()), |name| options.set(Leg::Dial, "congestion", name)).unwrap();
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            socket.set_tcp_congestion(BBR.as_bytes()).unwrap();
            let socket = dress(socket.into(), &options, false).unwrap();
            sockopt::congestion(socket.as_fd()).unwrap()
        };
        assert!(["cubic", "reno"].contains(&dressed(None).as_str()), "{}", dressed(None));
        assert_eq!(dressed(Some("bbr")), "bbr");
        assert_eq!(dressed(Some("reno")), "reno");
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
        assert!(!start_bbr(&with(b"bbr"), true), "the route's");
        for (name, is_first) in [(b"reno".as_slice(), true), (b"bbr", false)] {
            let socket = with(name);
            assert!(start_bbr(&socket, is_first) && has_bbr(&socket));
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

    #[test]
    fn auto_is_due_where_the_window_holds_bulk_back() {
        let (start, wan) = (Instant::now(), Duration::from_millis(60));
        let slow = TcpInfo {
            notsent_bytes: 100_000,
            snd_cwnd: 20,
            snd_ssthresh: 20,
            bytes_acked: ENOUGH,
            min_rtt: wan,
            delivery_rate: 500_000,
            busy_time: wan,
            ..TcpInfo::default()
        };
        let after = |rtts: u32| TcpInfo { busy_time: wan * (1 + rtts), ..slow };
        let first = Choice::Due { rate: 500, again: STARTS };
        let began = Choice::Open.seeing(&slow, start);
        assert_eq!(began, Choice::Slow { since: start, held: wan });
        assert_eq!(began.seeing(&after(4), start + 4 * wan), began);
        assert_eq!(began.seeing(&after(5), start + 5 * wan), first);
        let lost = TcpInfo { bytes_retrans: 1448, ..slow };
        assert_eq!(Choice::Open.seeing(&lost, start), first, "at once where bytes were lost");
        assert_eq!(Choice::Open.seeing(&TcpInfo { ca_state: 3, ..lost }, start), began, "but not in recovery");

        let well = [
            ("the window lets all of it go", TcpInfo { notsent_bytes: 0, ..after(5) }),
            ("slow start", TcpInfo { snd_ssthresh: 21, ..after(5) }),
            ("fast", TcpInfo { delivery_rate: FAST, ..after(5) }),
            ("not known yet", TcpInfo { bytes_acked: ENOUGH - 1, ..after(5) }),
        ];
        for (what, info) in well {
            assert_eq!(began.seeing(&info, start + 5 * wan), Choice::Open, "{what}");
        }
        let anew = [
            ("nothing was to be sent for a while", after(5), 7),
            ("the peer's window", TcpInfo { rwnd_limited: 2 * wan, ..after(5) }, 5),
            ("our buffer", TcpInfo { sndbuf_limited: 2 * wan, ..after(5) }, 5),
        ];
        for (what, info, rtts) in anew {
            let now = start + rtts * wan;
            assert!(matches!(began.seeing(&info, now), Choice::Slow { since, .. } if since == now), "{what}");
        }
        let started = Choice::Started { since: start, rate: 500, again: 2 };
        let queue = TcpInfo { rtt: wan * 5 / 4, ..slow };
        assert_eq!(started.seeing(&slow, start + 9 * wan), started);
        assert_eq!(started.seeing(&slow, start + 10 * wan), Choice::Due { rate: 500, again: 1 });
        assert_eq!(started.seeing(&queue, start + 9 * wan), Choice::Made);
        let faster = TcpInfo { delivery_rate: 500_000 * u64::from(FOUND), ..slow };
        assert_eq!(started.seeing(&faster, start + 10 * wan), Choice::Made);
        assert_eq!(Choice::Started { since: start, rate: 500, again: 0 }.seeing(&slow, start + 10 * wan), Choice::Made);
        let lan = TcpInfo { min_rtt: Duration::from_micros(4999), ..slow };
        assert_eq!(Choice::Open.seeing(&lan, start), Choice::Made);
    }
}
