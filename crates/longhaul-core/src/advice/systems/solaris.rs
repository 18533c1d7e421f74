//! Solaris 11: its settings. `max_buf` comes first, because it caps both buffers.

use super::row::{EMPTY, window};
use crate::advice::setting::{Effect, Fit, Setting};
use crate::advice::system::System;
use crate::path::laws::{LossResponse, MAX_WINDOW};
use longhaul_units::Bytes;

pub(super) const SOLARIS: System = System {
    name: "solaris",
    other_names: &["sunos"],
    title: "Solaris 11",
    interface: "net0",
    default_window: Bytes(49_152),
    default_source: "send_buf; Oracle, Solaris 11.2 tunables",
    max_window: MAX_WINDOW,
    response: LossResponse::Reno,
    tuned_response: LossResponse::Cubic,
    congestion: "NewReno, the default",
    settings: SETTINGS,
    note: "Without -t, ipadm sets a value now and for later; -t is unverified. `ipadm reset-prop -p NAME tcp` sets the default \
        (unverified). Solaris 10 has no such properties: there `ndd -set /dev/tcp NAME VALUE` sets them under names that begin \
        with tcp_, until the next boot (unverified).",
};

/// A property of TCP: a row whose commands follow from its name.
macro_rules! property {
    ($name:literal, $($field:ident: $value:expr),+ $(,)?) => {
        Setting {
            name: $name,
            place: "whole system",
            read: concat!("ipadm show-prop -p ", $name, " tcp"),
            set_now: concat!("ipadm set-prop -t -p ", $name, "={value} tcp"),
            set_permanent: concat!("ipadm set-prop -p ", $name, "={value} tcp"),
            undo: concat!("ipadm set-prop -p ", $name, "={old} tcp"),
            $($field: $value,)+
            ..EMPTY
        }
    };
}

const SETTINGS: &[Setting] = &[
    property!("max_buf",
        unit: "bytes",
        default: "1048576",
        effect: Effect::Ceiling,
        want: window,
        fit: Fit::AtLeast,
        caveat: "Set it before the buffers: it caps both.",
        source: "Oracle, Solaris 11.2 tunables: max_buf",
    ),
    property!("_cwnd_max",
        unit: "bytes",
        default: "1048576",
        limits: "128 to 1073741824",
        effect: Effect::SendWindow,
        want: window,
        fit: Fit::AtLeast,
        caveat: "However large the buffers are, a connection moves at most this in each round trip.",
        source: "Oracle, Solaris 11.2 tunables: _cwnd_max",
    ),
    property!("recv_buf",
        unit: "bytes",
        default: "128000",
        limits: "2048 to max_buf",
        effect: Effect::ReceiveWindow,
        want: window,
        fit: Fit::AtLeast,
        source: "Oracle, Solaris 11.2 tunables: recv_buf",
    ),
    property!("send_buf",
        unit: "bytes",
        default: "49152",
        limits: "4096 to max_buf",
        effect: Effect::SendWindow,
        want: window,
        fit: Fit::AtLeast,
        source: "Oracle, Solaris 11.2 tunables: send_buf",
    ),
    Setting {
        name: "cong_default",
        place: "whole system",
        unit: "newreno, highspeed, cubic or vegas",
        default: "newreno",
        effect: Effect::Recovery,
        want: |goal| goal.has_loss.then(|| "cubic".into()),
        read: "ipadm show-prop -p cong_default,cong_enabled tcp",
        set_permanent: "ipadm set-prop -p cong_enabled+={value} tcp; ipadm set-prop -p cong_default={value} tcp",
        undo: "ipadm set-prop -p cong_default={old} tcp",
        caveat: "CUBIC loses less speed to random loss than NewReno on a long path.",
        source: "Oracle, Solaris 11.3 guide",
        ..EMPTY
    },
];
