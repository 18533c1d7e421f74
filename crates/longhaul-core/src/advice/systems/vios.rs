//! VIOS: the settings of its shared Ethernet adapter. It forwards frames; the windows are those of its clients.

use super::row::{EMPTY, one};
use crate::advice::setting::{Effect, Setting};
use crate::advice::system::System;
use crate::path::laws::{LossResponse, MAX_WINDOW};
use longhaul_units::Bytes;

pub(super) const VIOS: System = System {
    name: "vios",
    title: "VIOS",
    interface: "ent3",
    default_window: Bytes(262_144),
    default_source: "of its clients with AIX: virtual Ethernet",
    max_window: MAX_WINDOW,
    response: LossResponse::Reno,
    congestion: "NewReno, as AIX",
    settings: SETTINGS,
    note: "The shared Ethernet adapter forwards the frames of its clients. The windows are the clients' own: see AIX and IBM i.",
};

/// An attribute of the shared Ethernet adapter: a row whose commands follow from its name.
macro_rules! attribute {
    ($name:literal, $($field:ident: $value:expr),+ $(,)?) => {
        Setting {
            name: $name,
            place: "shared Ethernet adapter",
            read: concat!("lsdev -dev {interface} -attr | grep ", $name),
            set_permanent: concat!("chdev -dev {interface} -attr ", $name, "={value}"),
            undo: concat!("chdev -dev {interface} -attr ", $name, "={old}"),
            $($field: $value,)+
            ..EMPTY
        }
    };
}

const SETTINGS: &[Setting] = &[
    attribute!("largesend",
        unit: "0 or 1",
        default: "0",
        want: one,
        caveat: "Clients with mtu_bypass need it. That the default is 0 is unverified.",
        source: "IBM, POWER8 Platform Largesend",
    ),
    attribute!("large_receive",
        unit: "yes or no",
        default: "no",
        want: |_| Some("no".into()),
        caveat: "Keep it at no with clients that run Linux or IBM i: they drop frames above their MTU, which looks like loss. RHEL \
            7.4 and later take them. That the default is no is unverified.",
        source: "IBM forum; RETAIN H196947; access.redhat.com/articles/3169971",
    ),
    attribute!("jumbo_frames",
        unit: "yes or no",
        default: "no",
        effect: Effect::PacketSize,
        caveat: "It sets the size of frames on the wire; largesend says only who cuts them. With an MTU of 1500 here, larger \
            packets of a client are fragmented (Skytap; unverified). That the default is no is unverified.",
        source: "robmcnelly.com; Skytap",
    ),
];
