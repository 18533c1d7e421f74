//! The rows. Adding an option touches this file and no other: a row says everything that longhaul knows of it.
//!
//! Most are one int, and `Kernel::Int` is all they need; those with a call sequence of their own have it below the rows.

use super::raw::{self, Opt};
use super::{Kernel, Legs, Preset, Row, Unit, Value, When};
use crate::Result;
use std::os::fd::BorrowedFd;

/// Every option, in the order of docs/options.md.
pub static ROWS: &[Row] = &[
    Row {
        key: "congestion",
        unit: Unit::Name,
        preset: Preset::Ours("auto"),
        help: "The congestion control. `auto` switches a leg to BBR during the flow, because BBR keeps its rate through the \
               random loss of a WAN. It switches when the RTT is 5 ms or more, slow start is over, and the congestion \
               window limits the sender: at once after a retransmission, otherwise after five round trips in a row. It does \
               not switch a leg with a shorter RTT, with only short messages or with 4 Gbit/s or more, nor where the \
               kernel does not offer BBR or refuses it. Such a leg keeps the kernel's default; where that is BBR, it has \
               CUBIC, or Reno if CUBIC is not allowed. Any other word names a control for the whole flow, such as cubic, \
               bbr or reno.",
        source: "tcp(7) TCP_CONGESTION",
        sample: "reno",
        kernel: Kernel::Calls { set: set_congestion, get: |fd| raw::get_word(fd, CONGESTION).map(Value::Name) },
        agrees: |asked, got| asked == got || is_auto(asked),
        // `auto` is told by saying nothing, so it does not take back another word.
        live: |new| !is_auto(new),
        ..ROW
    },
    Row {
        key: "nodelay",
        unit: Unit::Switch,
        preset: Preset::Ours("true"),
        help: "Send small messages at once (no Nagle). Without it small messages wait a WAN round trip: scp at 63 ms \
               went from 14 to 25 MB/s with it.",
        source: "tcp(7) TCP_NODELAY",
        sample: "true",
        kernel: Kernel::Int(tcp(libc::TCP_NODELAY, "TCP_NODELAY")),
        ..ROW
    },
    Row {
        key: "mss",
        unit: Unit::Bytes,
        range: (88, 32767),
        preset: Preset::Kernel("from the route's MTU"),
        help: "The largest segment, without headers. Set it where a tunnel on the way has a smaller MTU and the ICMP \
               message that should say so is dropped: flows open and then hang at their first full segment.",
        source: "tcp(7) TCP_MAXSEG",
        sample: "1254B",
        kernel: Kernel::Int(tcp(libc::TCP_MAXSEG, "TCP_MAXSEG")),
        ..ROW
    },
    Row {
        key: "sndbuf",
        unit: Unit::Bytes,
        range: BUFFER_RANGE,
        preset: Preset::Kernel("grown as needed up to net.ipv4.tcp_wmem[2]"),
        help: "A fixed send buffer. Above net.core.wmem_max it needs CAP_NET_ADMIN. The kernel doubles what it is given, \
               for its own bookkeeping.",
        caution: "it turns off the kernel's autotuning of the send buffer; raise net.ipv4.tcp_wmem instead, unless this \
                  leg must have a fixed buffer",
        source: "socket(7) SO_SNDBUF, SO_SNDBUFFORCE",
        sample: "256KiB",
        kernel: Kernel::Calls {
            set: |fd, value| set_buffer(fd, SNDBUFFORCE, SNDBUF, value),
            get: |fd| raw::get(fd, SNDBUF).map(halved),
        },
        agrees: at_least,
        clamped: "raise net.core.wmem_max, or grant CAP_NET_ADMIN by the drop-in /usr/share/longhaul/net-admin.conf",
        ..ROW
    },
    Row {
        key: "rcvbuf",
        unit: Unit::Bytes,
        range: BUFFER_RANGE,
        preset: Preset::Kernel("grown as needed up to net.ipv4.tcp_rmem[2]"),
        help: "A fixed receive buffer. It is also the largest window that this leg offers. Above net.core.rmem_max it needs \
               CAP_NET_ADMIN. The kernel doubles what it is given, for its own bookkeeping.",
        caution: "it turns off the kernel's autotuning of the receive window; raise net.ipv4.tcp_rmem instead, unless \
                  this leg must have a fixed window",
        source: "socket(7) SO_RCVBUF, SO_RCVBUFFORCE",
        sample: "256KiB",
        kernel: Kernel::Calls {
            set: |fd, value| set_buffer(fd, RCVBUFFORCE, RCVBUF, value),
            get: |fd| raw::get(fd, RCVBUF).map(halved),
        },
        agrees: at_least,
        clamped: "raise net.core.rmem_max, or grant CAP_NET_ADMIN by the drop-in /usr/share/longhaul/net-admin.conf",
        ..ROW
    },
    Row {
        key: "window-clamp",
        unit: Unit::Bytes,
        range: (4096, 1 << 30),
        preset: Preset::Kernel("no clamp"),
        help: "The largest window offered at the start. Its lasting effect is on the window scale of the leg, which the \
               handshake fixes: a small clamp gives a small scale, and the window can then never exceed 65535 times two to \
               the power of the scale.",
        caution: "only the window scale stays: the kernel's autotuning lifts the clamp itself as a fast flow goes on (64 KiB \
                  became 1.8 MB within a second on Linux 6.18); a window that must stay small needs rcvbuf",
        source: "tcp(7) TCP_WINDOW_CLAMP",
        sample: "64KiB",
        kernel: Kernel::Int(tcp(libc::TCP_WINDOW_CLAMP, "TCP_WINDOW_CLAMP")),
        mptcp_refuses: true,
        ..ROW
    },
    Row {
        key: "notsent-lowat",
        unit: Unit::Bytes,
        range: (4096, 1 << 30),
        preset: Preset::Kernel("net.ipv4.tcp_notsent_lowat, no limit on most systems"),
        help: "How many unsent bytes may wait. With more in the send buffer the leg takes no further byte. It bounds the bytes that \
               are parked in the relay on a slow path, and with them memory and the lag of an interactive flow.",
        source: "tcp(7) TCP_NOTSENT_LOWAT",
        sample: "128KiB",
        kernel: Kernel::Int(tcp(libc::TCP_NOTSENT_LOWAT, "TCP_NOTSENT_LOWAT")),
        ..ROW
    },
    Row {
        key: "keepalive-idle",
        unit: Unit::Seconds,
        range: (1, 32767),
        words: OFF,
        preset: Preset::Ours("60s"),
        help: "Silence before the kernel asks the peer. A question is one empty segment. No answer to several of them resets \
               the flow; `off` never asks. Set it, another `keepalive-*` or `user-timeout`, and the leg keeps what is set, \
               and the presets of the others, from its start to its end. On a leg without any of them the relay changes \
               keepalive while the flow lives, from its fourth second on. A leg that carried bytes and fell silent then asks \
               after 5 s, and every 5 s until it gets an answer. An idle leg asks after 60 s. In both cases a peer that does \
               not answer is given up after 2 minutes of silence: 5 s + 23 x 5 s, 60 s + 4 x 15 s. Firewalls forget silent \
               connections after 4 minutes or more; they see a packet each minute.",
        source: "socket(7) SO_KEEPALIVE, tcp(7) TCP_KEEPIDLE",
        sample: "90s",
        kernel: Kernel::Calls { set: set_keepalive, get: keepalive },
        ..ROW
    },
    Row {
        key: "keepalive-interval",
        unit: Unit::Seconds,
        range: (1, 32767),
        preset: Preset::Ours("15s"),
        help: "Time between two such questions. It is for the second and later ones, when the first was not answered.",
        source: "tcp(7) TCP_KEEPINTVL",
        sample: "20s",
        kernel: Kernel::Int(tcp(libc::TCP_KEEPINTVL, "TCP_KEEPINTVL")),
        ..ROW
    },
    Row {
        key: "keepalive-count",
        unit: Unit::Count,
        range: (1, 127),
        preset: Preset::Ours("4"),
        help: "Unanswered questions before a reset.",
        source: "tcp(7) TCP_KEEPCNT",
        sample: "5",
        kernel: Kernel::Int(tcp(libc::TCP_KEEPCNT, "TCP_KEEPCNT")),
        ..ROW
    },
    Row {
        key: "user-timeout",
        unit: Unit::Millis,
        range: (1, 24 * 86_400_000),
        words: OFF,
        preset: Preset::Kernel("off; net.ipv4.tcp_retries2 gives up after 15 minutes or more"),
        help: "How long bytes may be unacknowledged. Then the flow is reset. Not set by default: the kernel counts \
               a full receiver as unacknowledged too, and a tape change or a paused client is no dead peer. It also takes \
               the place of `keepalive-count`, so the relay does not change the keepalive of a leg that has it.",
        caution: "it also resets a flow whose receiver, alive and answering, takes no bytes for this long",
        source: "tcp(7) TCP_USER_TIMEOUT, RFC 5482",
        sample: "5min",
        kernel: Kernel::Int(tcp(libc::TCP_USER_TIMEOUT, "TCP_USER_TIMEOUT")),
        mptcp_refuses: true,
        ..ROW
    },
    Row {
        key: "max-pacing-rate",
        unit: Unit::BitsPerSecond,
        range: (8_000, 1_000_000_000_000),
        preset: Preset::Kernel("no cap"),
        help: "The fastest that the leg may send. The bits are those of whole packets, with IP and TCP headers.",
        source: "socket(7) SO_MAX_PACING_RATE",
        sample: "500Mbit/s",
        kernel: Kernel::Calls { set: set_pacing, get: pacing },
        agrees: |asked, got| matches!((asked, got), (Value::Number(a), Value::Number(g)) if a / 8 == g / 8),
        mptcp_refuses: true,
        ..ROW
    },
    Row {
        key: "dscp",
        unit: Unit::Count,
        range: (0, 63),
        words: DSCP,
        preset: Preset::Kernel("cs0, best effort"),
        help: "The class of the leg's packets. Routers may treat them by it: a number or a name such as ef, af41, cs1.",
        source: "RFC 2474, RFC 4594; ip(7) IP_TOS, ipv6(7) IPV6_TCLASS",
        sample: "af11",
        kernel: Kernel::Calls { set: set_dscp, get: dscp },
        ..ROW
    },
    Row {
        key: "mark",
        unit: Unit::Count,
        range: (0, u32::MAX as u64),
        preset: Preset::Kernel("0"),
        help: "A firewall mark on the leg's packets. For `ip rule fwmark` and nftables; decimal or 0x hexadecimal.",
        source: "socket(7) SO_MARK",
        sample: "0x10",
        kernel: Kernel::Int(sol(libc::SO_MARK, "SO_MARK")),
        remedies: &[(
            libc::EPERM,
            "a mark needs CAP_NET_ADMIN: run as root, or give it to the unit by the drop-in /usr/share/longhaul/net-admin.conf",
        )],
        ..ROW
    },
    Row {
        key: "bind-device",
        unit: Unit::Name,
        preset: Preset::Kernel("any interface"),
        help: "An interface or VRF for the leg. It takes precedence over the routing table.",
        source: "socket(7) SO_BINDTODEVICE",
        sample: "lo",
        kernel: Kernel::Calls { set: set_device, get: |fd| raw::get_word(fd, BINDTODEVICE).map(Value::Name) },
        // Without CAP_NET_RAW a socket is bound to a device once (net/core/sock.c, sock_bindtoindex_locked: EPERM).
        live: |_| false,
        remedies: &[
            (
                libc::EPERM,
                "before Linux 5.7 this needs CAP_NET_RAW: run as root, or add it to CapabilityBoundingSet= and \
                 AmbientCapabilities= of the unit",
            ),
            (libc::ENODEV, "there is no such interface: `ip link` lists them"),
        ],
        ..ROW
    },
    Row {
        key: "defer-accept",
        unit: Unit::Seconds,
        range: (1, 3600),
        legs: Legs::Accept,
        preset: Preset::Kernel("off"),
        help: "Wait for the first byte before the dial. The kernel holds a new connection back for up to this long: port scans and \
               health checks then cost no dial. The kernel rounds it up to 1, 3, 7, 15, 31 .. seconds.",
        caution: "where the server speaks first (SMTP, FTP, MySQL) every flow starts this much later",
        source: "tcp(7) TCP_DEFER_ACCEPT",
        sample: "3s",
        kernel: Kernel::Int(tcp(libc::TCP_DEFER_ACCEPT, "TCP_DEFER_ACCEPT")),
        agrees: at_least,
        ..ROW
    },
    Row {
        key: "fastopen",
        unit: Unit::Count,
        range: (1, 65535),
        legs: Legs::Accept,
        preset: Preset::Kernel("off"),
        help: "Accept data in a client's SYN. It saves a round trip for clients that connected before. The number is how many \
               such connections may wait for their handshake to end. It needs bit 2 of net.ipv4.tcp_fastopen.",
        caution: "a SYN that is repeated by the network can deliver its data twice",
        source: "tcp(7) TCP_FASTOPEN, RFC 7413",
        sample: "64",
        kernel: Kernel::Int(tcp(libc::TCP_FASTOPEN, "TCP_FASTOPEN")),
        ..ROW
    },
    Row {
        key: "fastopen",
        unit: Unit::Switch,
        when: When::Flow,
        legs: Legs::Dial,
        preset: Preset::Kernel("false"),
        help: "Send the client's first bytes in the SYN. It saves one WAN round trip per flow to a next hop that was dialled \
               before. The dial waits up to 20 ms for the first byte. Without one, or without bit 1 of \
               net.ipv4.tcp_fastopen, the SYN carries no data.",
        caution: "a server can get the first bytes twice, and a second next hop can get them when the first one dies: use it \
                  only where a repeated request does no harm; where the server speaks first (SMTP, FTP, MySQL) every flow \
                  starts 20 ms later",
        source: "send(2) MSG_FASTOPEN, RFC 7413",
        sample: "true",
        kernel: Kernel::Nothing,
        ..ROW
    },
    Row {
        key: "mptcp",
        unit: Unit::Switch,
        when: When::Socket,
        preset: Preset::Kernel("false"),
        help: "Multipath TCP where the peer speaks it. Plain TCP otherwise. The relay then copies instead of splicing \
               where the kernel cannot splice such a socket.",
        caution: "the kernel refuses window-clamp, user-timeout, max-pacing-rate and syn-retries with it (Linux 6.18), and \
                  over long paths it is often slower than TCP: measure before use",
        source: "mptcp(7), RFC 8684",
        sample: "true",
        kernel: Kernel::Calls { set: |_, _| Ok(()), get: is_mptcp },
        ..ROW
    },
    Row {
        key: "syn-retries",
        unit: Unit::Count,
        range: (1, 127),
        preset: Preset::Kernel("net.ipv4.tcp_syn_retries, 6; accept: net.ipv4.tcp_synack_retries, 5"),
        help: "How often an unanswered SYN is resent. On the accept leg the SYN-ACK. For dials `connect_timeout` is \
               the plainer limit.",
        source: "tcp(7) TCP_SYNCNT",
        sample: "3",
        kernel: Kernel::Int(tcp(libc::TCP_SYNCNT, "TCP_SYNCNT")),
        mptcp_refuses: true,
        ..ROW
    },
    Row {
        key: "linger-half-open",
        unit: Unit::Millis,
        range: (1_000, 365 * 86_400_000),
        when: When::Flow,
        preset: Preset::Kernel("no limit"),
        help: "Silence that ends a half-open flow. One direction has ended and the other is silent for this long: reset. What counts is the value of the leg whose peer has ended; set both to bound both. The timer runs only while the flow is half open, and every byte that moves, or that the receiver acknowledges, starts it again.",
        caution: "a reply that takes longer than this to start is lost, loudly (RST)",
        source: "ARCHITECTURE.md, promise 2",
        sample: "1h",
        kernel: Kernel::Nothing,
        ..ROW
    },
];

/// What most rows have in common.
const ROW: Row = Row {
    key: "",
    unit: Unit::Count,
    range: (0, 0),
    words: &[],
    when: When::Start,
    legs: Legs::Both,
    preset: Preset::Kernel(""),
    help: "",
    caution: "",
    source: "",
    sample: "",
    kernel: Kernel::Nothing,
    agrees: |asked, got| asked == got,
    clamped: "",
    mptcp_refuses: false,
    live: |_| true,
    remedies: &[],
};

/// Sets the congestion control, or leaves it to the relay when it is `auto`.
fn set_congestion(fd: BorrowedFd<'_>, value: &Value) -> Result<()> {
    let Value::Name(name) = value else { return Err(raw::refused(CONGESTION, value, libc::EINVAL)) };
    if is_auto(value) {
        return Ok(());
    }
    raw::set_word(fd, CONGESTION, name).map_err(|err| match err.errno {
        libc::ENOENT => {
            let offered = raw::congestion_controls("available").unwrap_or_default();
            err.hint(format!("the kernel offers {offered}; for another one: modprobe tcp_{name}"))
        }
        libc::EPERM => {
            let allowed = raw::congestion_controls("allowed").unwrap_or_default();
            err.hint(format!(
                "without CAP_NET_ADMIN only {allowed} may be chosen: \
                 sysctl -w net.ipv4.tcp_allowed_congestion_control='{allowed} {name}'"
            ))
        }
        _ => err,
    })
}

fn is_auto(value: &Value) -> bool {
    matches!(value, Value::Name(name) if name == "auto")
}

/// Sets a buffer beyond the sysctl's limit where we may, and within it where we may not: the kernel then takes the
/// limit instead, and reading back tells.
fn set_buffer(fd: BorrowedFd<'_>, force: Opt, plain: Opt, value: &Value) -> Result<()> {
    match raw::set(fd, force, value) {
        Err(err) if err.errno == libc::EPERM => raw::set(fd, plain, value),
        done => done,
    }
}

/// socket(7) SO_SNDBUF: "The kernel doubles this value", for its own bookkeeping: half of it is what was asked for.
fn halved(value: u32) -> Value {
    number(value / 2)
}

/// For what the kernel rounds up, or raises because it is too small: nobody minds.
fn at_least(asked: &Value, got: &Value) -> bool {
    matches!((asked, got), (Value::Number(asked), Value::Number(got)) if got >= asked)
}

/// 0 is `off`. The other keepalive rows only say how, this one whether.
fn set_keepalive(fd: BorrowedFd<'_>, value: &Value) -> Result<()> {
    let on = *value != Value::Number(0);
    raw::set(fd, KEEPALIVE, &Value::Switch(on))?;
    if on { raw::set(fd, KEEPIDLE, value) } else { Ok(()) }
}

fn keepalive(fd: BorrowedFd<'_>) -> Result<Value> {
    if raw::get(fd, KEEPALIVE)? == 0 { Ok(Value::Number(0)) } else { raw::get(fd, KEEPIDLE).map(number) }
}

/// The kernel counts in bytes per second.
fn set_pacing(fd: BorrowedFd<'_>, value: &Value) -> Result<()> {
    match value {
        Value::Number(bits) => raw::set_u64(fd, MAX_PACING_RATE, bits / 8),
        other => Err(raw::refused(MAX_PACING_RATE, other, libc::EINVAL)),
    }
}

fn pacing(fd: BorrowedFd<'_>) -> Result<Value> {
    raw::get_u64(fd, MAX_PACING_RATE).map(|bytes| Value::Number(bytes.saturating_mul(8)))
}

/// RFC 2474: the DSCP is the upper six bits of the octet. The lower two are ECN's, and TCP keeps its own.
fn set_dscp(fd: BorrowedFd<'_>, value: &Value) -> Result<()> {
    let octet = match value {
        Value::Number(dscp) if *dscp < 64 => Value::Number(dscp << 2),
        other => return Err(raw::refused(TOS, other, libc::EINVAL)),
    };
    if is_ipv6(fd)? {
        raw::set(fd, TCLASS, &octet)?;
    }
    // An AF_INET6 socket may carry IPv4 (::ffff:a.b.c.d), whose header takes the class from here.
    raw::set(fd, TOS, &octet)
}

fn dscp(fd: BorrowedFd<'_>) -> Result<Value> {
    let octet = raw::get(fd, if is_ipv6(fd)? { TCLASS } else { TOS })?;
    Ok(Value::Number(u64::from(octet) >> 2 & 63))
}

fn is_ipv6(fd: BorrowedFd<'_>) -> Result<bool> {
    raw::get(fd, DOMAIN).map(|domain| domain == libc::AF_INET6 as u32)
}

fn set_device(fd: BorrowedFd<'_>, value: &Value) -> Result<()> {
    match value {
        Value::Name(device) => raw::set_word(fd, BINDTODEVICE, device),
        other => Err(raw::refused(BINDTODEVICE, other, libc::EINVAL)),
    }
}

fn is_mptcp(fd: BorrowedFd<'_>) -> Result<Value> {
    raw::get(fd, PROTOCOL).map(|protocol| Value::Switch(protocol == libc::IPPROTO_MPTCP as u32))
}

fn number(value: u32) -> Value {
    Value::Number(value.into())
}

const fn sol(number: libc::c_int, name: &'static str) -> Opt {
    Opt { level: libc::SOL_SOCKET, number, name }
}

const fn tcp(number: libc::c_int, name: &'static str) -> Opt {
    Opt { level: libc::IPPROTO_TCP, number, name }
}

const CONGESTION: Opt = tcp(libc::TCP_CONGESTION, "TCP_CONGESTION");
const KEEPIDLE: Opt = tcp(libc::TCP_KEEPIDLE, "TCP_KEEPIDLE");
const KEEPALIVE: Opt = sol(libc::SO_KEEPALIVE, "SO_KEEPALIVE");
const SNDBUF: Opt = sol(libc::SO_SNDBUF, "SO_SNDBUF");
const RCVBUF: Opt = sol(libc::SO_RCVBUF, "SO_RCVBUF");
const SNDBUFFORCE: Opt = sol(libc::SO_SNDBUFFORCE, "SO_SNDBUFFORCE");
const RCVBUFFORCE: Opt = sol(libc::SO_RCVBUFFORCE, "SO_RCVBUFFORCE");
const MAX_PACING_RATE: Opt = sol(libc::SO_MAX_PACING_RATE, "SO_MAX_PACING_RATE");
const BINDTODEVICE: Opt = sol(libc::SO_BINDTODEVICE, "SO_BINDTODEVICE");
const DOMAIN: Opt = sol(libc::SO_DOMAIN, "SO_DOMAIN");
const PROTOCOL: Opt = sol(libc::SO_PROTOCOL, "SO_PROTOCOL");
const TOS: Opt = Opt { level: libc::IPPROTO_IP, number: libc::IP_TOS, name: "IP_TOS" };
const TCLASS: Opt = Opt { level: libc::IPPROTO_IPV6, number: libc::IPV6_TCLASS, name: "IPV6_TCLASS" };

/// The kernel raises less than 4,608 bytes, and doubles what it takes: 1 GiB is also the largest window (RFC 7323 2.3).
const BUFFER_RANGE: (u64, u64) = (4096, 512 << 20);

const OFF: &[(&str, u64)] = &[("off", 0)];

/// RFC 2474 (cs), RFC 2597 (af), RFC 3246 (ef), RFC 5865 (va), RFC 8622 (le).
const DSCP: &[(&str, u64)] = &[
    ("cs0", 0),
    ("le", 1),
    ("cs1", 8),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("cs2", 16),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("cs3", 24),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("cs4", 32),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("cs5", 40),
    ("va", 44),
    ("ef", 46),
    ("cs6", 48),
    ("cs7", 56),
];
