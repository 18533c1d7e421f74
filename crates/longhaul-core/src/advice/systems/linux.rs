//! Linux: its settings.

use crate::advice::system::System;
use crate::path::laws::{LossResponse, MAX_WINDOW};
use longhaul_units::Bytes;

pub(in crate::advice) const LINUX: System = System {
    name: "linux",
    title: "Linux",
    default_window: Bytes(3_145_728),
    default_source: "half of tcp_rmem's 6 MiB before Linux 6.16 (commit 572be9bf9d0d)",
    max_window: MAX_WINDOW,
    response: LossResponse::Cubic,
    congestion: "CUBIC, the default",
    settings: &[],
    note: "",
};
