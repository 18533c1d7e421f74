//! VIOS: its settings.

use crate::advice::system::System;
use crate::path::laws::{LossResponse, MAX_WINDOW};
use longhaul_units::Bytes;

pub(in crate::advice) const VIOS: System = System {
    name: "vios",
    title: "VIOS",
    default_window: Bytes(262_144),
    default_source: "virtual Ethernet, as AIX",
    max_window: MAX_WINDOW,
    response: LossResponse::Reno,
    congestion: "NewReno, as AIX",
    settings: &[],
    note: "",
};
