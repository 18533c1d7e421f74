//! AIX 7: its settings.

use crate::advice::system::System;
use crate::path::laws::{LossResponse, MAX_WINDOW};
use longhaul_units::Bytes;

pub(in crate::advice) const AIX: System = System {
    name: "aix",
    title: "AIX 7",
    default_window: Bytes(262_144),
    default_source: "virtual Ethernet: tcp_sendspace and tcp_recvspace of the interface (IBM, POWER8 Platform Largesend)",
    max_window: MAX_WINDOW,
    response: LossResponse::Reno,
    congestion: "NewReno, the only one",
    settings: &[],
    note: "",
};
