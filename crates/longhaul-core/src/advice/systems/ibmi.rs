//! IBM i 7: its settings.

use crate::advice::system::System;
use crate::path::laws::LossResponse;
use longhaul_units::Bytes;

pub(in crate::advice) const IBMI: System = System {
    name: "ibmi",
    title: "IBM i 7",
    default_window: Bytes(65_535),
    default_source: "TCPRCVBUF and TCPSNDBUF of 7.2 (IBM, CHGTCPA)",
    max_window: Bytes(8_388_608),
    response: LossResponse::Reno,
    congestion: "Reno (unverified)",
    settings: &[],
    note: "",
};
