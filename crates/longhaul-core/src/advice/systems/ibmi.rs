//! IBM i 7: its settings. CHGTCPA changes a value at once and for good.

use super::row::{EMPTY, short_packet, window};
use crate::advice::setting::{Effect, Elsewhere, Fit, Setting};
use crate::advice::system::System;
use crate::path::laws::LossResponse;
use longhaul_units::Bytes;

pub(super) const IBMI: System = System {
    name: "ibmi",
    title: "IBM i 7",
    interface: "192.0.2.10",
    default_window: Bytes(65_535),
    default_source: "TCPRCVBUF and TCPSNDBUF of 7.2; IBM, CHGTCPA",
    max_window: Bytes(8_388_608),
    response: LossResponse::Reno,
    congestion: "Reno (unverified)",
    settings: SETTINGS,
    note: "CHGTCPA needs `*IOSYSCFG`; CFGTCP shows the same values, option 3, and the routes, option 2. A server keeps its old \
        buffers until it is ended and started again. `*DFT` as a value is the default. Windows above 65,535 bytes are scaled \
        when the buffer is larger (unverified): look at the window of a connection, such as with `ss -ti` on a relay, and do \
        not trust the setting. Large send needs PowerVM 2.2.5 with platform large send (IBM community, 2020).",
};

/// A parameter of CHGTCPA: a row whose commands follow from its name.
macro_rules! attribute {
    ($name:literal, $($field:ident: $value:expr),+ $(,)?) => {
        Setting {
            name: $name,
            place: "whole system",
            read: "CHGTCPA, then F4",
            set_permanent: concat!("CHGTCPA ", $name, "({value})"),
            undo: concat!("CHGTCPA ", $name, "({old})"),
            $($field: $value,)+
            ..EMPTY
        }
    };
}

const SETTINGS: &[Setting] = &[
    attribute!("TCPRCVBUF",
        unit: "bytes",
        default: "65535",
        other_defaults: "8192 in V5R4",
        limits: "512 to 8388608",
        effect: Effect::ReceiveWindow,
        want: window,
        fit: Fit::AtLeast,
        caveat: BUFFERS,
        source: CHGTCPA,
    ),
    attribute!("TCPSNDBUF",
        unit: "bytes",
        default: "65535",
        other_defaults: "8192 in V5R4",
        limits: "512 to 8388608",
        effect: Effect::SendWindow,
        want: window,
        fit: Fit::AtLeast,
        caveat: BUFFERS,
        source: CHGTCPA,
    ),
    Setting {
        name: "CHGTCPRTE MTU",
        place: "route",
        unit: "bytes or *IFC",
        default: "576",
        limits: "576 to 16388",
        effect: Effect::PacketSize,
        want: |goal| short_packet(goal).or(Some("*IFC".into())),
        read: "NETSTAT *RTE",
        set_permanent: "CHGTCPRTE RTEDEST('{network}') SUBNETMASK('MASK') NEXTHOP('{gateway}') MTU({value})",
        elsewhere: Some(Elsewhere {
            place: "*DFTROUTE",
            read: "NETSTAT *RTE",
            set_now: "",
            set_permanent: "CHGTCPRTE RTEDEST(*DFTROUTE) SUBNETMASK(*NONE) NEXTHOP('{gateway}') MTU({value})",
            caveat: "",
        }),
        undo: "CHGTCPRTE RTEDEST('{network}') SUBNETMASK('MASK') NEXTHOP('{gateway}') MTU({old})",
        caveat: "Write the network's address without its prefix, its mask for MASK and its next hop for GATEWAY. The route \
            must not be in use. The smaller of the route's MTU and the line's frame counts; `*IFC` is the interface's. Releases differ in the default \
            (unverified): a route with 576 sends small packets.",
        source: "IBM, CHGTCPRTE; OS/400 tuning note; AS/400 manual",
        ..EMPTY
    },
    Setting {
        name: "CHGTCPIFC MTU",
        place: "interface",
        unit: "bytes or *LIND",
        default: "*LIND",
        effect: Effect::PacketSize,
        read: "NETSTAT *IFC",
        set_permanent: "CHGTCPIFC INTNETADR('{interface}') MTU({value})",
        undo: "CHGTCPIFC INTNETADR('{interface}') MTU({old})",
        caveat: "`*LIND` is the line's: 1500 for Ethernet version 2, 1492 for IEEE 802.3. It holds for all traffic of the \
            interface: change the route's MTU instead. The interface may have to be ended first with ENDTCPIFC (unverified).",
        source: "IBM, CHGTCPIFC; AS/400 manual",
        ..EMPTY
    },
    attribute!("IPPATHMTU",
        unit: "*YES or *NO",
        default: "*YES",
        effect: Effect::PacketSize,
        want: |_| Some("*YES".into()),
        caveat: "A path that filters ICMP loses large packets silently. The minutes behind it, 10 by default, are not changed \
            (unverified).",
        source: CHGTCPA,
    ),
    attribute!("TCPMINRTM", unit: "ms", default: "250", effect: Effect::Recovery, caveat: LEAVE, source: CHGTCPA),
    attribute!("ECN", unit: "*YES or *NO", default: "*NO", effect: Effect::Recovery, caveat: LEAVE, source: CHGTCPA),
    attribute!("NFC", unit: "*YES or *NO", default: "*YES", effect: Effect::Recovery, caveat: LEAVE, source: CHGTCPA),
];

const BUFFERS: &str = "New connections use it at once. 8,388,608 is the largest.";
const LEAVE: &str = "Leave it.";
const CHGTCPA: &str = "IBM, CHGTCPA";
