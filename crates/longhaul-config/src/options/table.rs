//! The rows. Adding an option touches this file and no other: a row says everything that longhaul knows of it.
//!
//! Most are one int, and `Kind::Int` is all they need. One with a call sequence of its own has its functions in
//! `longhaul_sys::sockopt`; one that the relay obeys is `Kind::Relay`.

use super::control::{self, AUTO};
use super::need::Need;
use super::row::{Kind, Leg, Preset, Remedy, Row, Unit, Value};
use super::since::{Since, lacks, lacks_mptcp};
use longhaul_sys::Result;
use longhaul_sys::limits::Capability;
use longhaul_sys::sockopt::{self, Opt};
use std::ops::RangeInclusive;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Every option, in the order of docs/options.md.
pub static ROWS: &[Row] = &[
    Row {
        key: key::CONGESTION,
        unit: Unit::Name,
        preset: Preset::Ours(AUTO),
        short: "Congestion control",
        help: "`auto` switches a leg to BBR during the flow, because BBR keeps its rate through the random loss of \
               a WAN. The switch needs three things: an RTT of 5 ms or more, the end of slow start, and a \
               congestion window that limits the sender. The switch comes at once after a retransmission, otherwise \
               after five round trips in a row in which the congestion window was the limit. `auto` does not switch \
               a leg that carries only short messages, or one that carries 4 Gbit/s or more. It does not switch \
               where the kernel does not offer BBR or refuses it. A leg that is not switched has the kernel's \
               default, but not BBR. Where that default is BBR, the leg has CUBIC, or Reno if CUBIC is not allowed. \
               Any other word names a congestion control for the whole flow, such as cubic, bbr or reno.",
        needs: &[Need::CongestionControl],
        source: "tcp(7) TCP_CONGESTION",
        sample: "reno",
        kind: Kind::Word { set: set_congestion, get: sockopt::congestion },
        agrees: |asked, got| asked == got || is_auto(asked),
        // `auto` sets nothing in the kernel, so it does not replace another control.
        live: |new| !is_auto(new),
        remedies: &[
            Remedy { errno: libc::ENOENT, text: |control| control::unknown(control).into() },
            Remedy { errno: libc::EPERM, text: |control| control::forbidden(control).into() },
        ],
        ..ROW
    },
    Row {
        key: "nodelay",
        unit: Unit::Switch,
        preset: Preset::Ours("true"),
        short: "Send small messages at once (no Nagle)",
        help: "Without it, small messages wait for a round trip of the WAN. scp and short requests are then slower.",
        warning: |value| value.is_off().then(|| "small messages will wait for a round trip; leave it out".into()),
        source: "tcp(7) TCP_NODELAY",
        sample: "true",
        kind: Kind::Int(Opt::tcp(libc::TCP_NODELAY, "TCP_NODELAY")),
        ..ROW
    },
    Row {
        key: key::MSS,
        unit: Unit::Bytes,
        range: 88..=32767,
        preset: Preset::Kernel("from the route's MTU"),
        short: "Maximum segment size, without headers",
        help: "Set it where a VPN on the way has a smaller MTU and the ICMP message about it is dropped. Without \
               it, flows open there and then hang at their first full segment.",
        warning: too_long_for_jumbo_frames,
        source: "tcp(7) TCP_MAXSEG",
        sample: "1254B",
        kind: Kind::Int(Opt::tcp(libc::TCP_MAXSEG, "TCP_MAXSEG")),
        // Older kernels (4.18, not 5.10.262) say 536 of each socket that is not connected, and use what was set.
        agrees: |asked, got| asked == got || *got == Value::Number(536),
        ..ROW
    },
    Row {
        key: key::SNDBUF,
        unit: Unit::Bytes,
        range: BUFFER_RANGE,
        preset: Preset::Kernel("grown as needed up to net.ipv4.tcp_wmem[2]"),
        short: "Fixed send buffer",
        help: "A value above net.core.wmem_max needs CAP_NET_ADMIN. The kernel doubles the value for its own \
               bookkeeping.",
        caution: "it turns off the kernel's autotuning of the send buffer; raise net.ipv4.tcp_wmem instead, unless this \
                  leg must have a fixed buffer",
        needs: &[Need::UpTo { sysctl: "net/core/wmem_max", exempt: Capability::NetAdmin }],
        source: "socket(7) SO_SNDBUF, SO_SNDBUFFORCE",
        sample: "256KiB",
        kind: Kind::Number { set: sockopt::set_send_buffer, get: sockopt::send_buffer },
        agrees: at_least,
        clamped: "raise net.core.wmem_max, or grant CAP_NET_ADMIN by the drop-in /usr/share/longhaul/net-admin.conf",
        ..ROW
    },
    Row {
        key: "rcvbuf",
        unit: Unit::Bytes,
        range: BUFFER_RANGE,
        preset: Preset::Kernel("grown as needed up to net.ipv4.tcp_rmem[2]"),
        short: "Fixed receive buffer",
        help: "It is also the largest window that this leg offers. A value above net.core.rmem_max needs \
               CAP_NET_ADMIN. The kernel doubles the value for its own bookkeeping.",
        caution: "it turns off the kernel's autotuning of the receive window; raise net.ipv4.tcp_rmem instead, unless \
                  this leg must have a fixed window",
        needs: &[Need::UpTo { sysctl: "net/core/rmem_max", exempt: Capability::NetAdmin }],
        source: "socket(7) SO_RCVBUF, SO_RCVBUFFORCE",
        sample: "256KiB",
        kind: Kind::Number { set: sockopt::set_receive_buffer, get: sockopt::receive_buffer },
        agrees: at_least,
        clamped: "raise net.core.rmem_max, or grant CAP_NET_ADMIN by the drop-in /usr/share/longhaul/net-admin.conf",
        ..ROW
    },
    Row {
        key: "window-clamp",
        unit: Unit::Bytes,
        range: 4096..=1 << 30,
        preset: Preset::Kernel("no clamp"),
        short: "Maximum window offered at the start",
        help: "Its lasting effect is on the window scale of the leg, which the handshake fixes. A small clamp gives \
               a small scale. With the scale s, the window can never exceed 65535 x 2^s bytes.",
        caution: "the clamp itself does not last: the kernel's autotuning raises it during a fast flow (64 KiB \
                  became 1.8 MB within a second on Linux 6.18); a window that must stay small needs rcvbuf",
        source: "tcp(7) TCP_WINDOW_CLAMP",
        sample: "64KiB",
        kind: Kind::Int(Opt::tcp(libc::TCP_WINDOW_CLAMP, "TCP_WINDOW_CLAMP")),
        mptcp_refuses: true,
        ..ROW
    },
    Row {
        key: "notsent-lowat",
        unit: Unit::Bytes,
        range: 4096..=1 << 30,
        preset: Preset::Kernel("net.ipv4.tcp_notsent_lowat, no limit on most systems"),
        short: "Maximum bytes that wait unsent",
        help: "While more bytes wait in the send buffer, the leg takes no further bytes. So fewer bytes wait in the \
               relay on a slow path, which saves memory and shortens the delay of an interactive flow.",
        since: Some(Since {
            linux: "3.12",
            without: REFUSED,
            is_missing: || lacks(|socket| Opt::tcp(libc::TCP_NOTSENT_LOWAT, "").get(socket)),
        }),
        source: "tcp(7) TCP_NOTSENT_LOWAT",
        sample: "128KiB",
        kind: Kind::Int(Opt::tcp(libc::TCP_NOTSENT_LOWAT, "TCP_NOTSENT_LOWAT")),
        ..ROW
    },
    Row {
        key: key::KEEPALIVE_IDLE,
        unit: Unit::Seconds,
        range: 1..=32767,
        words: OFF,
        preset: Preset::Ours("60s"),
        short: "Silence before a keepalive probe",
        help: "A probe is one empty segment, which the peer answers. After several probes without an answer, the \
               flow is reset. `off` sends no probes. If you set this option, another `keepalive-*` or \
               `user-timeout`, the leg keeps your values from its start to its end. The options that you did not \
               set have their defaults. If you set none of them, longhaul changes the times during the flow, from \
               its fourth second on. A leg that carried bytes and fell silent then sends a probe after 5 s, and \
               every 5 s until there is an answer. Without one, its peer is given up after 15 minutes of silence, or \
               after 2 minutes (5 s + 23 x 5 s) where `rto-max` has no effect. An idle leg sends a probe after 60 s, \
               and its peer is given up after 2 minutes: 60 s + 4 x 15 s. \
               Firewalls forget silent connections after 4 minutes or more. They see a packet each minute.",
        source: "socket(7) SO_KEEPALIVE, tcp(7) TCP_KEEPIDLE",
        sample: "90s",
        // 0 is `off`. The other keepalive rows only say how, this one whether.
        kind: Kind::Number {
            set: |fd, idle| sockopt::set_keepalive(fd, (idle > 0).then(|| Duration::from_secs(idle))),
            get: |fd| sockopt::keepalive(fd).map(|idle| idle.map_or(0, |idle| idle.as_secs())),
        },
        ..ROW
    },
    Row {
        key: key::KEEPALIVE_INTERVAL,
        unit: Unit::Seconds,
        range: 1..=32767,
        preset: Preset::Ours("15s"),
        short: "Time between keepalive probes",
        help: "After a probe without an answer, the next probe follows after this time.",
        source: "tcp(7) TCP_KEEPINTVL",
        sample: "20s",
        kind: Kind::Int(Opt::tcp(libc::TCP_KEEPINTVL, "TCP_KEEPINTVL")),
        ..ROW
    },
    Row {
        key: key::KEEPALIVE_COUNT,
        unit: Unit::Count,
        range: 1..=127,
        preset: Preset::Ours("4"),
        short: "Unanswered probes before a reset",
        source: "tcp(7) TCP_KEEPCNT",
        sample: "5",
        kind: Kind::Int(Opt::tcp(libc::TCP_KEEPCNT, "TCP_KEEPCNT")),
        ..ROW
    },
    Row {
        key: key::USER_TIMEOUT,
        unit: Unit::Millis,
        range: 1..=24 * 86_400_000,
        words: OFF,
        preset: Preset::Kernel("off; net.ipv4.tcp_retries2 gives up after 15 minutes or more"),
        short: "Time that bytes may be unacknowledged",
        help: "After this time the flow is reset. It is off by default, because the kernel also counts the time in \
               which a full receiver takes no bytes. A tape change or a paused client is not a dead peer. The \
               option also replaces `keepalive-count`. So longhaul changes neither the keepalive times nor \
               `rto-max` of a leg that has it.",
        caution: "it also resets a flow whose receiver is alive and answers, but takes no bytes for this long",
        source: "tcp(7) TCP_USER_TIMEOUT, RFC 5482",
        sample: "5min",
        kind: Kind::Int(Opt::tcp(libc::TCP_USER_TIMEOUT, "TCP_USER_TIMEOUT")),
        mptcp_refuses: true,
        ..ROW
    },
    Row {
        key: key::RTO_MAX,
        unit: Unit::Millis,
        range: 1_000..=120_000,
        words: &[("auto", 0)],
        preset: Preset::Ours("auto"),
        short: "Longest time between two retransmissions",
        help: "The kernel doubles the time between retransmissions up to 2 minutes. So after an outage of 40 s, bytes \
               move again up to 40 s later. `auto` is 1 s, or more on a long path: 3 x (RTT + 4 x its deviation). \
               longhaul sets it on a flow that is 3 s old and carries bytes, together with a user-timeout that gives \
               its peer up after 15 minutes without an answer. So a flow that carries bytes when an outage begins \
               lives for 15 minutes, even on a leg that only receives. A time instead of `auto` replaces the 1 s. `120s` leaves both options to the kernel. So \
               does a leg with `mptcp`, `user-timeout` or `keepalive-*` of yours, and every leg while its peer takes \
               no bytes. Before Linux 6.15 this option changes nothing.",
        since: Some(Since {
            linux: "6.15",
            without: "the option changes nothing: a flow may wait after an outage for as long as the outage lasted",
            is_missing: || lacks(sockopt::rto_max),
        }),
        source: "linux/tcp.h TCP_RTO_MAX_MS, RFC 6298 2.4",
        sample: "5s",
        kind: Kind::Relay,
        ..ROW
    },
    Row {
        key: key::MAX_PACING_RATE,
        unit: Unit::BitsPerSecond,
        range: 8_000..=1_000_000_000_000,
        preset: Preset::Kernel("no cap"),
        short: "Maximum sending rate",
        help: "It counts the bits of whole packets, with IP and TCP headers.",
        since: Some(Since { linux: "3.13", without: REFUSED, is_missing: || lacks(sockopt::pacing) }),
        source: "socket(7) SO_MAX_PACING_RATE",
        sample: "500Mbit/s",
        // The kernel counts in bytes per second.
        kind: Kind::Number {
            set: |fd, bits| sockopt::set_pacing(fd, bits / 8),
            get: |fd| sockopt::pacing(fd).map(|bytes| bytes.saturating_mul(8)),
        },
        agrees: |asked, got| matches!((asked, got), (Value::Number(a), Value::Number(g)) if a / 8 == g / 8),
        mptcp_refuses: true,
        ..ROW
    },
    Row {
        key: "dscp",
        unit: Unit::Count,
        range: 0..=63,
        words: DSCP,
        preset: Preset::Kernel("cs0, best effort"),
        short: "Traffic class of the leg's packets",
        help: "Routers may use it to prefer or delay packets. Write a number, or a name such as ef, af41 or cs1.",
        source: "RFC 2474, RFC 4594; ip(7) IP_TOS, ipv6(7) IPV6_TCLASS",
        sample: "af11",
        kind: Kind::Number { set: sockopt::set_dscp, get: sockopt::dscp },
        ..ROW
    },
    Row {
        key: "mark",
        unit: Unit::Count,
        range: 0..=u32::MAX as u64,
        preset: Preset::Kernel("0"),
        short: "Firewall mark on the leg's packets",
        help: "It is for `ip rule fwmark` and nftables. Write it in decimal, or in hexadecimal with 0x.",
        needs: &[Need::Capability(Capability::NetAdmin)],
        source: "socket(7) SO_MARK",
        sample: "0x10",
        kind: Kind::Int(Opt::socket(libc::SO_MARK, "SO_MARK")),
        remedies: &[Remedy {
            errno: libc::EPERM,
            text: |_| {
                "a mark needs CAP_NET_ADMIN: run as root, or give it to the unit by the drop-in \
                 /usr/share/longhaul/net-admin.conf"
                    .into()
            },
        }],
        ..ROW
    },
    Row {
        key: key::BIND_DEVICE,
        unit: Unit::Name,
        preset: Preset::Kernel("any interface"),
        short: "Interface or VRF of the leg",
        help: "It takes precedence over the routing table.",
        needs: &[Need::Interface],
        source: "socket(7) SO_BINDTODEVICE",
        sample: "lo",
        kind: Kind::Word { set: sockopt::set_device, get: sockopt::device },
        // Without CAP_NET_RAW a socket is bound to a device once (net/core/sock.c, sock_bindtoindex_locked: EPERM).
        live: |_| false,
        remedies: &[
            Remedy {
                errno: libc::EPERM,
                text: |_| {
                    "before Linux 5.7 this needs CAP_NET_RAW: run as root, or add it to CapabilityBoundingSet= and \
                     AmbientCapabilities= of the unit"
                        .into()
                },
            },
            Remedy { errno: libc::ENODEV, text: |_| "there is no such interface: `ip link` lists them".into() },
        ],
        ..ROW
    },
    Row {
        key: key::FREEBIND,
        unit: Unit::Switch,
        legs: &[Leg::Accept],
        preset: Preset::Kernel("false"),
        short: "Listen before the address is here",
        help: "The listener may have an address that this host does not have yet. A relay that waits for a virtual address can listen on it before keepalived (VRRP) brings it. It holds \
               for IPv4 and IPv6. Without it, and without net.ipv4.ip_nonlocal_bind or net.ipv6.ip_nonlocal_bind, \
               longhaul does not start before the host has the address.",
        source: "ip(7) IP_FREEBIND",
        sample: "true",
        // On a socket of IPv6, too: inet6_bind looks at the same flag (net/ipv6/af_inet6.c, ipv6_can_nonlocal_bind).
        kind: Kind::Int(Opt { level: libc::IPPROTO_IP, number: libc::IP_FREEBIND, name: "IP_FREEBIND" }),
        ..ROW
    },
    Row {
        key: key::DEFER_ACCEPT,
        unit: Unit::Seconds,
        range: 1..=3600,
        legs: &[Leg::Accept],
        preset: Preset::Kernel("off"),
        short: "Dial after the client's first byte",
        help: "The kernel holds a new connection back until its first byte, for up to this long. Port scans and \
               health checks then cause no dial. The kernel rounds the time up to 1, 3, 7, 15, 31 .. seconds.",
        caution: "where the server speaks first (SMTP, FTP, MySQL) every flow starts this much later",
        source: "tcp(7) TCP_DEFER_ACCEPT",
        sample: "3s",
        kind: Kind::Int(Opt::tcp(libc::TCP_DEFER_ACCEPT, "TCP_DEFER_ACCEPT")),
        agrees: at_least,
        ..ROW
    },
    Row {
        key: key::FASTOPEN,
        unit: Unit::Count,
        range: 1..=65535,
        legs: &[Leg::Accept],
        preset: Preset::Kernel("off"),
        short: "Accept data in a client's SYN",
        help: "It saves a round trip for clients that connected before. The number is the maximum of such \
               connections whose handshake has not ended. It needs bit 0x2 of net.ipv4.tcp_fastopen.",
        caution: "when the network duplicates a SYN, its data can arrive twice",
        // tcp(7) tcp_fastopen: bit 1 lets a client use it, bit 2 a server.
        needs: &[Need::Bits { sysctl: "net/ipv4/tcp_fastopen", bits: 2 }],
        source: "tcp(7) TCP_FASTOPEN, RFC 7413",
        sample: "64",
        kind: Kind::Int(Opt::tcp(libc::TCP_FASTOPEN, "TCP_FASTOPEN")),
        ..ROW
    },
    Row {
        key: key::FASTOPEN,
        unit: Unit::Switch,
        legs: &[Leg::Dial],
        preset: Preset::Kernel("false"),
        short: "Send the first bytes in the SYN",
        help: "The client's first bytes then travel with the SYN. This saves one WAN round trip per flow to a next \
               hop that was dialled before. The dial waits up to 20 ms for the first byte. If none comes, or \
               without bit 0x1 of net.ipv4.tcp_fastopen, the SYN carries no data.",
        caution: "a server can get the first bytes twice, and a second next hop can get them when the first one \
                  dies; use it only where a repeated request does no harm; where the server speaks first (SMTP, \
                  FTP, MySQL), every flow starts 20 ms later",
        needs: &[Need::Bits { sysctl: "net/ipv4/tcp_fastopen", bits: 1 }],
        source: "send(2) MSG_FASTOPEN, RFC 7413",
        sample: "true",
        kind: Kind::Relay,
        ..ROW
    },
    Row {
        key: key::MPTCP,
        unit: Unit::Switch,
        preset: Preset::Kernel("false"),
        short: "Multipath TCP where the peer speaks it",
        help: "With other peers it is plain TCP. Where the kernel cannot splice such a socket, longhaul copies the \
               bytes.",
        caution: "the kernel refuses window-clamp, user-timeout and max-pacing-rate with it (Linux 6.18); over long paths it is often slower than TCP, so measure before use",
        since: Some(Since { linux: "5.6", without: REFUSED, is_missing: lacks_mptcp }),
        source: "mptcp(7), RFC 8684",
        sample: "true",
        kind: Kind::Protocol { get: sockopt::is_mptcp },
        ..ROW
    },
    Row {
        key: key::LINGER_HALF_OPEN,
        unit: Unit::Millis,
        range: 1_000..=365 * 86_400_000,
        preset: Preset::Kernel("no limit"),
        short: "Silence that ends a half-open flow",
        help: "A flow is half open when one direction has ended. If the other direction is then silent for this \
               long, the flow is reset. The value of the leg whose peer has ended is used, so set it on both legs \
               to limit both cases. Every byte that moves, or that the receiver acknowledges, starts the time \
               again.",
        caution: "a reply that takes longer than this to start is lost, and the flow is reset",
        source: "ARCHITECTURE.md, promise 2",
        sample: "1h",
        kind: Kind::Relay,
        ..ROW
    },
];

/// Keys of the rows that code names. All code outside the table uses these constants.
pub mod key {
    /// Congestion control; `auto` or a name.
    pub const CONGESTION: &str = "congestion";
    /// Maximum segment size in bytes.
    pub const MSS: &str = "mss";
    /// Fixed send buffer in bytes.
    pub const SNDBUF: &str = "sndbuf";
    /// Silence before a keepalive probe, in seconds.
    pub const KEEPALIVE_IDLE: &str = "keepalive-idle";
    /// Time between keepalive probes, in seconds.
    pub const KEEPALIVE_INTERVAL: &str = "keepalive-interval";
    /// Number of unanswered probes before a reset.
    pub const KEEPALIVE_COUNT: &str = "keepalive-count";
    /// Interface of the leg.
    pub const BIND_DEVICE: &str = "bind-device";
    /// Whether the listener may have an address that the host lacks, a switch.
    pub const FREEBIND: &str = "freebind";
    /// Time that bytes may be unacknowledged, in milliseconds.
    pub const USER_TIMEOUT: &str = "user-timeout";
    /// Longest time between two retransmissions, in milliseconds; 0 is `auto`.
    pub const RTO_MAX: &str = "rto-max";
    /// Time for which a connection without data is not accepted, in seconds.
    pub const DEFER_ACCEPT: &str = "defer-accept";
    /// Fast Open: a queue length on the accept leg, a switch on the dial leg.
    pub const FASTOPEN: &str = "fastopen";
    /// Maximum rate of a leg's packets, in bits per second.
    pub const MAX_PACING_RATE: &str = "max-pacing-rate";
    /// Multipath TCP, a switch.
    pub const MPTCP: &str = "mptcp";
    /// Silence that ends a half-open flow, in milliseconds.
    pub const LINGER_HALF_OPEN: &str = "linger-half-open";
}

/// Returns the row of `key` on `leg`, or `None` when that leg has no such option.
pub fn row(leg: Leg, key: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.key == key && row.legs.contains(&leg))
}

/// What happens to an option that the kernel does not know.
const REFUSED: &str = "a tunnel that sets it does not start";

/// The columns that most rows have in common. A row without a `kind` of its own fails the test that sets its sample.
const ROW: Row = Row {
    key: "",
    unit: Unit::Count,
    range: 0..=0,
    words: &[],
    legs: &Leg::ALL,
    preset: Preset::Kernel(""),
    short: "",
    help: "",
    caution: "",
    warning: |_| None,
    needs: &[],
    since: None,
    source: "",
    sample: "",
    kind: Kind::Int(Opt::tcp(0, "")),
    agrees: |asked, got| asked == got,
    clamped: "",
    mptcp_refuses: false,
    live: |_| true,
    remedies: &[],
};

/// Sets the congestion control, or leaves it to the relay when it is `auto`.
fn set_congestion(fd: BorrowedFd<'_>, name: &str) -> Result<()> {
    if name == AUTO { Ok(()) } else { sockopt::set_congestion(fd, name) }
}

fn is_auto(value: &Value) -> bool {
    matches!(value, Value::Name(name) if name == AUTO)
}

fn too_long_for_jumbo_frames(mss: &Value) -> Option<String> {
    let is_too_long = matches!(mss, Value::Number(mss) if *mss > JUMBO_MSS);
    is_too_long.then(|| format!("no path carries segments this long; jumbo frames hold at most {JUMBO_MSS}B"))
}

/// Whether the kernel has the value that was asked for or a larger one: it rounds some up, and raises those that are too small.
fn at_least(asked: &Value, got: &Value) -> bool {
    matches!((asked, got), (Value::Number(asked), Value::Number(got)) if got >= asked)
}

/// Payload bytes of a segment at an MTU of 9,000, without IPv4 and TCP headers.
const JUMBO_MSS: u64 = 8960;

/// The kernel raises less than 4,608 bytes, and doubles what it takes: 1 GiB is also the largest window (RFC 7323 2.3).
const BUFFER_RANGE: RangeInclusive<u64> = 4096..=512 << 20;

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
