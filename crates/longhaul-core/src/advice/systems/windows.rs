//! Windows Server: its settings.

use crate::advice::system::System;
use crate::path::laws::LossResponse;
use longhaul_units::Bytes;

pub(in crate::advice) const WINDOWS: System = System {
    name: "windows",
    title: "Windows Server",
    default_window: Bytes(16_776_960),
    default_source: "autotuning level normal: a scale of 8 (Microsoft, windowsserverdocs)",
    max_window: Bytes(16_776_960),
    response: LossResponse::Cubic,
    congestion: "CUBIC since 2019 (unverified)",
    settings: &[],
    note: "",
};
