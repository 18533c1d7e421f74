//! Solaris: the settings of Solaris 11, and of Solaris 10 where it has them. `max_buf` comes first, because it caps both buffers.

use super::row::{EMPTY, window};
use crate::advice::setting::{Effect, Elsewhere, Fit, Setting};
use crate::advice::system::System;
use crate::path::laws::{LossResponse, MAX_WINDOW};
use longhaul_units::Bytes;

pub(super) const SOLARIS: System = System {
    name: "solaris",
    title: "Solaris",
    interface: "net0",
    default_window: Bytes(49_152),
    default_source: "send_buf; Oracle, Solaris 11.2 tunables",
    max_window: MAX_WINDOW,
    response: LossResponse::Reno,
    congestion: "NewReno, the default",
    settings: SETTINGS,
    note: "Without -t, ipadm sets a value now and for later; -t is unverified. `ipadm reset-prop -p NAME tcp` sets the default \
        (unverified). Solaris 10 has no ipadm: there `ndd -set /dev/tcp NAME VALUE` sets tcp_max_buf, tcp_cwnd_max, \
        tcp_recv_hiwat and tcp_xmit_hiwat until the next boot (unverified).",
};

/// A property of TCP: a row whose commands follow from its names in ipadm and, of Solaris 10, in ndd.
macro_rules! property {
    ($name:literal, $ndd:literal, $($field:ident: $value:expr),+ $(,)?) => {
        Setting {
            name: $name,
            place: "whole system",
            read: concat!("ipadm show-prop -p ", $name, " tcp"),
            set_now: concat!("ipadm set-prop -t -p ", $name, "={value} tcp"),
            set_permanent: concat!("ipadm set-prop -p ", $name, "={value} tcp"),
            undo: concat!("ipadm set-prop -p ", $name, "={old} tcp"),
            elsewhere: Some(Elsewhere {
                place: "ndd",
                read: concat!("ndd -get /dev/tcp ", $ndd),
                set_now: concat!("ndd -set /dev/tcp ", $ndd, " {value}"),
                set_permanent: "",
                caveat: OF_NDD,
            }),
            $($field: $value,)+
            ..EMPTY
        }
    };
}

const SETTINGS: &[Setting] = &[
    property!("max_buf", "tcp_max_buf",
        unit: "bytes",
        default: "1048576",
        effect: Effect::Ceiling,
        want: window,
        fit: Fit::AtLeast,
        caveat: "Set it before the buffers: it caps both.",
        source: "Oracle, Solaris 11.2 tunables: max_buf",
    ),
    property!("_cwnd_max", "tcp_cwnd_max",
        unit: "bytes",
        default: "1048576",
        limits: "128 to 1073741824",
        effect: Effect::Ceiling,
        want: window,
        fit: Fit::AtLeast,
        caveat: "However large the buffers are, a connection moves at most this in each round trip.",
        source: "Oracle, Solaris 11.2 tunables: _cwnd_max",
    ),
    property!("recv_buf", "tcp_recv_hiwat",
        unit: "bytes",
        default: "128000",
        limits: "2048 to max_buf",
        effect: Effect::ReceiveWindow,
        want: window,
        fit: Fit::AtLeast,
        source: "Oracle, Solaris 11.2 tunables: recv_buf",
    ),
    property!("send_buf", "tcp_xmit_hiwat",
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
        effect: Effect::CongestionControl,
        want: |goal| goal.has_loss.then(|| "cubic".into()),
        read: "ipadm show-prop -p cong_default,cong_enabled tcp",
        set_permanent: "ipadm set-prop -p cong_enabled+={value} tcp; ipadm set-prop -p cong_default={value} tcp",
        undo: "ipadm set-prop -p cong_default={old} tcp",
        caveat: "CUBIC loses less speed to random loss than NewReno on a long path. The undo leaves it enabled, which changes nothing.",
        source: "Oracle, Solaris 11.3 guide",
        ..EMPTY
    },
];

const OF_NDD: &str = "The document below does not name ndd. A value of ndd lasts until the next boot: to keep it, put the command into a \
    script that runs at boot.";
