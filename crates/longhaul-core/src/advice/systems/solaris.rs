//! Solaris 11: its settings.

use crate::advice::system::System;
use crate::path::laws::{LossResponse, MAX_WINDOW};
use longhaul_units::Bytes;

pub(in crate::advice) const SOLARIS: System = System {
    name: "solaris",
    title: "Solaris 11",
    default_window: Bytes(49_152),
    default_source: "send_buf (Oracle, Solaris 11.2 tunables)",
    max_window: MAX_WINDOW,
    response: LossResponse::Reno,
    congestion: "NewReno, the default",
    settings: &[],
    note: "",
};
