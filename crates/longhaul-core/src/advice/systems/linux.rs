//! Linux: its settings. A test runs every command of every row in a network namespace.

use super::row::{EMPTY, on, one, window, with_scaling, zero};
use crate::advice::goal::Goal;
use crate::advice::setting::{Effect, Fit, Setting};
use crate::advice::system::System;
use crate::path::laws::{LossResponse, MAX_WINDOW};
use longhaul_units::Bytes;

/// The row of Linux: the system of the relays, and of `longhaul tune`.
pub const LINUX: System = System {
    name: "linux",
    title: "Linux",
    interface: "eth0",
    default_window: Bytes(3_145_728),
    default_source: "half of tcp_rmem's 6 MiB before Linux 6.16; commit 572be9bf9d0d",
    max_window: MAX_WINDOW,
    response: LossResponse::Cubic,
    congestion: "CUBIC, the default",
    settings: SETTINGS,
    note: "Run the commands as root. The permanent form writes a file for each sysctl into /etc/sysctl.d. A file that is read later, \
        such as 99-sysctl.conf, wins at boot: `longhaul tune` names it.",
};

/// A sysctl: a row whose commands follow from its name.
macro_rules! sysctl {
    ($name:literal, $($field:ident: $value:expr),+ $(,)?) => {
        Setting {
            name: $name,
            place: "sysctl",
            read: concat!("sysctl -n ", $name),
            set_now: concat!("sysctl -w ", $name, "=\"{value}\""),
            set_permanent: concat!(
                "echo \"", $name, " = {value}\" >/etc/sysctl.d/91-longhaul-", $name, ".conf; ",
                "sysctl -p /etc/sysctl.d/91-longhaul-", $name, ".conf"
            ),
            undo: concat!("sysctl -w ", $name, "=\"{old}\"; rm -f /etc/sysctl.d/91-longhaul-", $name, ".conf"),
            verified: true,
            $($field: $value,)+
            ..EMPTY
        }
    };
}

/// A feature of the network card: `$short` is its name in ethtool -K.
macro_rules! offload {
    ($name:literal, $short:literal) => {
        Setting {
            name: $name,
            place: "interface",
            unit: "on or off",
            default: "on",
            want: on,
            read: concat!("ethtool -k {interface} | grep ^", $name),
            set_now: concat!("ethtool -K {interface} ", $short, " {value}"),
            undo: concat!("ethtool -K {interface} ", $short, " {old}"),
            caveat: "Without it each packet costs its own processor time. It lasts until the next boot; to keep it, use the tool \
                that sets up the interface.",
            source: "ethtool(8)",
            verified: true,
            ..EMPTY
        }
    };
}

const SETTINGS: &[Setting] = &[
    sysctl!("net.ipv4.tcp_rmem",
        unit: "bytes: least, default, most",
        default: "4096 131072 6291456",
        other_defaults: "4096 131072 33554432 since Linux 6.16",
        effect: Effect::ReceiveWindow,
        want: receive_buffer,
        fit: Fit::AtLeast,
        caveat: "The third number is how far autotuning goes. Half of it is the window with tcp_adv_win_scale=1, the default; \
            since Linux 6.6 the share is measured (unverified). A program that sets SO_RCVBUF has no autotuning.",
        source: "Linux ip-sysctl; commit 572be9bf9d0d; Linux 6.18, read",
    ),
    sysctl!("net.ipv4.tcp_wmem",
        unit: "bytes: least, default, most",
        default: "4096 16384 4194304",
        effect: Effect::SendWindow,
        want: |goal| Some(format!("4096 16384 {}", goal.window.0)),
        fit: Fit::AtLeast,
        caveat: "The third number is how far autotuning goes. A program that sets SO_SNDBUF has no autotuning.",
        source: "Linux ip-sysctl; Linux 6.18, read",
    ),
    sysctl!("net.ipv4.tcp_adv_win_scale",
        unit: "-31 to 31",
        default: "1",
        want: one,
        // As much of the buffer, or more.
        fit: Fit::Or(&["-1", "0", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "20", "21", "22", "23", "24", "25", "26", "27", "28", "29", "30", "31"]),
        caveat: "With a scale below -1 less than half of the receive buffer is window.",
        source: "Linux ip-sysctl",
    ),
    sysctl!("net.ipv4.tcp_moderate_rcvbuf",
        unit: "0 or 1",
        default: "1",
        want: one,
        caveat: "With 0 there is no autotuning: the receive buffer keeps the second number of tcp_rmem.",
        source: "Linux ip-sysctl",
    ),
    sysctl!("net.core.rmem_max",
        unit: "bytes",
        default: "212992",
        want: window,
        fit: Fit::AtLeast,
        caveat: CLAMP,
        source: "github.com/esnet/iperf, issue 356; perfSONAR configure_sysctl",
    ),
    sysctl!("net.core.wmem_max",
        unit: "bytes",
        default: "212992",
        want: window,
        fit: Fit::AtLeast,
        caveat: CLAMP,
        source: "github.com/esnet/iperf, issue 356; perfSONAR configure_sysctl",
    ),
    sysctl!("net.ipv4.tcp_window_scaling",
        unit: "0 or 1",
        default: "1",
        effect: Effect::Scaling,
        want: |goal| with_scaling(goal, "1"),
        caveat: "Without it no window is larger than 65,535 bytes.",
        source: "Linux ip-sysctl",
    ),
    sysctl!("net.ipv4.tcp_sack",
        unit: "0 or 1",
        default: "1",
        effect: Effect::Recovery,
        want: one,
        caveat: "Without it one lost packet is repaired in each round trip.",
        source: "Linux ip-sysctl",
    ),
    sysctl!("net.ipv4.tcp_timestamps",
        unit: "0, 1 or 2",
        default: "1",
        effect: Effect::Recovery,
        want: one,
        fit: Fit::Or(&["2"]),
        caveat: "Without them the round trip is measured once in each window.",
        source: "Linux ip-sysctl; RFC 7323",
    ),
    sysctl!("net.core.default_qdisc",
        unit: "word",
        default: "fq_codel",
        other_defaults: "pfifo_fast where systemd does not set it (unverified)",
        want: |_| Some("fq".into()),
        caveat: "Only interfaces that come up later have it; `tc qdisc replace dev eth0 root fq` changes one now.",
        source: "perfSONAR configure_sysctl",
    ),
    sysctl!("net.ipv4.tcp_congestion_control",
        unit: "word",
        default: "cubic",
        effect: Effect::CongestionControl,
        want: |_| Some("bbr".into()),
        caveat: "All connections of the host have it, except those that a program or a route (`congctl`) sets. `sysctl \
            net.ipv4.tcp_available_congestion_control` shows what there is; `modprobe tcp_bbr` loads it. RHEL 7 (3.10) has no \
            BBR (unverified).",
        source: "Linux ip-sysctl; ip-route(8)",
    ),
    sysctl!("net.ipv4.tcp_slow_start_after_idle",
        unit: "0 or 1",
        default: "1",
        effect: Effect::Recovery,
        want: zero,
        caveat: "With 1, a connection starts slowly again after each pause.",
        source: "tuned, profile network-throughput",
    ),
    sysctl!("net.ipv4.tcp_no_metrics_save",
        unit: "0 or 1",
        default: "0",
        effect: Effect::Recovery,
        want: one,
        caveat: "With 0, a connection starts with what the one before it to the same host found.",
        source: "perfSONAR configure_sysctl",
    ),
    sysctl!("net.ipv4.tcp_mtu_probing",
        unit: "0, 1 or 2",
        default: "0",
        effect: Effect::PacketSize,
        want: one,
        fit: Fit::AtLeast,
        caveat: "1 looks for a smaller MTU once large packets vanish, 2 always.",
        source: "Linux ip-sysctl; perfSONAR configure_sysctl",
    ),
    sysctl!("net.ipv4.tcp_notsent_lowat",
        unit: "bytes",
        default: "4294967295",
        caveat: "131072 keeps a relay's queues short. A host needs no change.",
        source: "tuned, profile network-throughput",
    ),
    Setting {
        name: "route mtu",
        place: "route",
        unit: "metrics of the route",
        default: "none",
        effect: Effect::PacketSize,
        want: |goal| goal.is_packet_short.then(|| format!("mtu lock {} advmss {}", goal.packet, goal.mss())),
        read: "ip route show {network}",
        set_now: "ip route change {route} {value} && ip route flush cache",
        undo: "ip route replace {route} && ip route flush cache",
        caveat: "ROUTE is the line that the command to read shows; to set it, leave out its own mtu and advmss. `ss -ti` shows the \
            MSS of new connections. To keep it, use the tool that sets up the route, such as NetworkManager's ipv4.routes with \
            mtu=1400 (unverified).",
        source: "ip-route(8)",
        verified: true,
        ..EMPTY
    },
    Setting {
        name: "maxseg",
        place: "router",
        unit: "bytes",
        default: "none",
        effect: Effect::PacketSize,
        want: |goal| goal.is_packet_short.then(|| goal.mss().to_string()),
        fit: Fit::AtMost,
        read: "nft list ruleset",
        set_now: "nft 'add table ip longhaul; add chain ip longhaul forward { type filter hook forward priority 0; }; add rule \
            ip longhaul forward tcp flags syn tcp option maxseg size set {value}'",
        undo: "nft delete table ip longhaul",
        caveat: "For a router between host and WAN: it clamps the MSS of connections that pass, and never raises it. With \
            iptables: `iptables -t mangle -A FORWARD -p tcp --tcp-flags SYN,RST SYN -j TCPMSS --clamp-mss-to-pmtu`. To keep it, \
            add what `nft list table ip longhaul` shows to the file of nftables.service.",
        source: "nft wiki, Mangling packet headers",
        verified: true,
        ..EMPTY
    },
    offload!("tcp-segmentation-offload", "tso"),
    offload!("generic-segmentation-offload", "gso"),
    offload!("generic-receive-offload", "gro"),
];

/// Half of the buffer is the window, with tcp_adv_win_scale=1.
fn receive_buffer(goal: &Goal) -> Option<String> {
    Some(format!("4096 131072 {}", goal.window.0.saturating_mul(2)))
}

const CLAMP: &str = "It does not cap autotuning. It silently caps the window that a program sets itself (setsockopt), and such a \
    window has no autotuning. A network namespace has none of its own.";
