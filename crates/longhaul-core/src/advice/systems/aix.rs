//! AIX 7: its settings. `sb_max` comes first, because it caps the two spaces.

use super::row::{EMPTY, on, one, short_packet, window, with_scaling};
use crate::advice::goal::Goal;
use crate::advice::setting::{Effect, Elsewhere, Fit, Setting};
use crate::advice::system::System;
use crate::path::laws::{LossResponse, MAX_WINDOW};
use longhaul_units::Bytes;

pub(super) const AIX: System = System {
    name: "aix",
    title: "AIX 7",
    interface: "en0",
    default_window: Bytes(262_144),
    default_source: "tcp_sendspace and tcp_recvspace of virtual Ethernet; IBM, POWER8 Platform Largesend",
    max_window: MAX_WINDOW,
    response: LossResponse::Reno,
    congestion: "NewReno; no page of IBM that we found names another",
    settings: SETTINGS,
    note: "A window that a program sets comes first, then the interface's values, then those of `no`. `no -p -d NAME` sets a \
        value of `no` to its default. A value of the interface that was empty is emptied again with `chdev -l en0 -a NAME=` \
        (unverified). `no -F -a | egrep -i 'cubic|cong|hstcp|newreno'` shows what congestion control the host offers.",
};

/// A tunable of `no`: a row whose commands follow from its name.
macro_rules! tunable {
    ($name:literal, $($field:ident: $value:expr),+ $(,)?) => {
        Setting {
            name: $name,
            place: "whole system",
            read: concat!("no -o ", $name),
            set_now: concat!("no -o ", $name, "={value}"),
            set_permanent: concat!("no -p -o ", $name, "={value}"),
            undo: concat!("no -p -o ", $name, "={old}"),
            $($field: $value,)+
            ..EMPTY
        }
    };
}

/// A value of the interface that ifconfig sets, too.
macro_rules! of_interface {
    ($name:literal, $($field:ident: $value:expr),+ $(,)?) => {
        Setting {
            name: $name,
            place: "interface",
            read: "ifconfig {interface}; lsattr -El {interface}",
            set_now: concat!("ifconfig {interface} ", $name, " {value}"),
            set_permanent: concat!("chdev -l {interface} -a ", $name, "={value}"),
            elsewhere: Some(Elsewhere {
                place: "whole system",
                read: concat!("no -o ", $name),
                set_now: concat!("no -o ", $name, "={value}"),
                set_permanent: concat!("no -p -o ", $name, "={value}"),
                caveat: OF_ALL,
            }),
            undo: concat!("chdev -l {interface} -a ", $name, "={old}"),
            $($field: $value,)+
            ..EMPTY
        }
    };
}

const SETTINGS: &[Setting] = &[
    tunable!("sb_max",
        unit: "bytes",
        default: "1048576",
        effect: Effect::Ceiling,
        want: twice_the_window,
        fit: Fit::AtLeast,
        caveat: "Set it before the spaces: it caps both. It counts buffers, not their bytes, so it has to be 2 to 4 times a space.",
        source: "IBM, AIX: sb_max tunable; IBM support, node/6410510",
    ),
    tunable!("use_isno",
        unit: "0 or 1",
        default: "1",
        want: one,
        caveat: "With 0 the interface's values do not count, and those of `no` do.",
        source: ISNO,
    ),
    of_interface!("tcp_sendspace",
        unit: "bytes",
        default: "262144",
        other_defaults: OTHER_SPACES,
        limits: "at most sb_max",
        effect: Effect::SendWindow,
        want: window,
        fit: Fit::AtLeast,
        caveat: NEEDS_ISNO,
        source: SPACES,
    ),
    of_interface!("tcp_recvspace",
        unit: "bytes",
        default: "262144",
        other_defaults: "131072 with an MTU of 9000 and 65536 with 1500 on Gigabit Ethernet; 16384 in `no`",
        limits: "at most sb_max",
        effect: Effect::ReceiveWindow,
        want: window,
        fit: Fit::AtLeast,
        caveat: NEEDS_ISNO,
        source: SPACES,
    ),
    of_interface!("rfc1323",
        unit: "0 or 1",
        default: "1",
        other_defaults: "0 in `no`",
        effect: Effect::Scaling,
        want: |goal| with_scaling(goal, "1"),
        caveat: "Without it no window is larger than 65,535 bytes. `no -p -o rfc1323=1` sets it for interfaces without a value of \
            their own. Old releases have two errors with it: a first retransmission after 64 s (APARs IV18483, IV14524), and \
            keepalive with a small window (IV34763).",
        source: SPACES,
    ),
    tunable!("sack",
        unit: "0 or 1",
        default: "0",
        effect: Effect::Recovery,
        want: one,
        caveat: "Without it one lost packet is repaired in each round trip. AIX 4.3.3 hung with sack=1 and tcp_newreno=0.",
        source: FULL_LIST_AND_BUGS,
    ),
    tunable!("tcp_newreno",
        unit: "0 or 1",
        default: "1",
        effect: Effect::Recovery,
        want: one,
        caveat: "Leave it at 1. In AIX 4.3.3, tcp_newreno=1 without SACK lost fast retransmissions.",
        source: FULL_LIST_AND_BUGS,
    ),
    tunable!("hstcp",
        unit: "0 or 1",
        default: "0",
        effect: Effect::Recovery,
        caveat: "HighSpeed TCP, RFC 3649: a faster growth of large windows (unverified). Test it first.",
        source: FULL_LIST,
    ),
    tunable!("limited_ss",
        unit: "0 or 1",
        default: "0",
        effect: Effect::Recovery,
        caveat: "Limited slow start, RFC 3742 (unverified). Test it first.",
        source: FULL_LIST,
    ),
    tunable!("tcp_init_window", unit: "segments", default: "0", effect: Effect::Recovery, caveat: LEAVE, source: FULL_LIST),
    tunable!("rfc2414", unit: "0 or 1", default: "1", effect: Effect::Recovery, caveat: LEAVE, source: FULL_LIST),
    tunable!("tcp_cwnd_modified", unit: "0 or 1", default: "0", effect: Effect::Recovery, caveat: LEAVE, source: FULL_LIST),
    tunable!("tcp_ecn", unit: "0 or 1", default: "0", effect: Effect::Recovery, caveat: LEAVE, source: FULL_LIST),
    tunable!("tcp_nodelayack", unit: "0 or 1", default: "0", caveat: DELAYED_ACK, source: FULL_LIST),
    tunable!("delayack", unit: "number", default: "0", caveat: DELAYED_ACK, source: FULL_LIST),
    tunable!("fasttimo", unit: "ms", default: "200", caveat: DELAYED_ACK, source: FULL_LIST),
    tunable!("tcp_pmtu_discover",
        unit: "0 or 1",
        default: "1",
        effect: Effect::PacketSize,
        want: one,
        caveat: "A path that filters ICMP loses large packets silently. `pmtu display` shows what was found, and `pmtu delete \
            -dst ADDRESS` forgets it. A route with an MTU makes an entry: `route add -net NETWORK -mtu 1400 ROUTER` (the \
            syntax is unverified).",
        source: "IBM, AIX: TCP path MTU discovery; pmtu command",
    ),
    tunable!("pmtu_expire",
        unit: "min",
        default: "10",
        effect: Effect::PacketSize,
        caveat: "An entry that nothing uses is forgotten after this time.",
        source: "IBM, AIX: TCP path MTU discovery; pmtu command",
    ),
    Setting {
        name: "mtu",
        place: "interface",
        unit: "bytes",
        default: "1500",
        effect: Effect::PacketSize,
        want: short_packet,
        fit: Fit::AtMost,
        read: "lsattr -El {interface} -a mtu -a remmtu",
        set_now: "ifconfig {interface} mtu {value}",
        set_permanent: "chdev -l {interface} -a mtu={value}",
        undo: "chdev -l {interface} -a mtu={old}",
        caveat: "It holds for all traffic of the interface, LAN included. chdev needs an interface that is not in use. A relay \
            or a router that clamps the MSS makes it unnecessary.",
        source: "IBM, AIX: TCP path MTU discovery; chdev command",
        ..EMPTY
    },
    Setting {
        name: "remmtu",
        place: "interface",
        unit: "bytes",
        default: "576",
        effect: Effect::PacketSize,
        want: short_packet,
        fit: Fit::AtMost,
        read: "lsattr -El {interface} -a mtu -a remmtu",
        set_permanent: "chdev -l {interface} -a remmtu={value}",
        undo: "chdev -l {interface} -a remmtu={old}",
        caveat: "It counts only without path MTU discovery, for networks that are not local (subnetsarelocal). chdev needs an \
            interface that is not in use.",
        source: "stix.id.au, AIX MTU",
        ..EMPTY
    },
    Setting {
        name: "mtu_bypass",
        place: "interface",
        unit: "off, on or plso",
        default: "off",
        want: on,
        fit: Fit::Or(&["plso"]),
        read: "ifconfig {interface} | grep LARGESEND; netstat -p tcp | grep -i large",
        set_permanent: "chdev -l {interface} -a mtu_bypass={value}",
        undo: "chdev -l {interface} -a mtu_bypass={old}",
        caveat: "Large send: it saves processor time and raises the speed of a LAN, not the window's limit. It needs \
            chksum_offload, and largesend=1 of the VIOS's shared adapter.",
        source: "IBM, AIX: TCP large send offload",
        ..EMPTY
    },
];

/// The rule is 2 to 4 times a space; the default serves up to half of it.
fn twice_the_window(goal: &Goal) -> Option<String> {
    Some(goal.window.0.saturating_mul(2).max(1_048_576).to_string())
}

const OTHER_SPACES: &str = "262144 with an MTU of 9000 and 131072 with 1500 on Gigabit Ethernet; 16384 in `no`";
const OF_ALL: &str = "A value of `no` holds for interfaces without a value of their own, and with use_isno=0 for all.";
const NEEDS_ISNO: &str = "The value of an interface counts with use_isno=1, the default. ifconfig sets it until the next boot, chdev for now and later.";
const DELAYED_ACK: &str = "An acknowledgement waits for up to 200 ms, which delays programs that send small messages and wait. \
    tcp_nodelayack=1 ends that, and costs more acknowledgements.";
const LEAVE: &str = "Leave it, unless you have tested it.";
const ISNO: &str = "IBM, AIX 7.3: Interface-specific network options";
const SPACES: &str = "IBM, AIX 7.3: Interface-specific network options; IBM, POWER8 Platform Largesend";
const FULL_LIST: &str =
    "a full `no -a` of a host (github.com/pedz/Snapper, spec/no_a_spec.rb); IBM, AIX 7.3: no command";
const FULL_LIST_AND_BUGS: &str =
    "a full `no -a` of a host (github.com/pedz/Snapper, spec/no_a_spec.rb); ORNL, netperf/aixbug.txt";
