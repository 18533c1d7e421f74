//! The keys of the whole daemon, which stand before the first `[[tunnel]]`.

use crate::config::Config;
use crate::keys::clients;
use crate::keys::remark::no_remarks;
use crate::keys::row::{Argument, Flag, KeyDefault, KeyValue, Row};
use crate::value;
use longhaul_units::show_duration;
use std::time::Duration;

/// The keys of the whole daemon, in the order of the manual.
pub const DAEMON: &[Row<Config>] = &[TIMEOUT, GRACE, clients::MAX_FLOWS];

const TIMEOUT: Row<Config> = Row {
    name: "drain_timeout",
    default: KeyDefault::Words("no limit"),
    example: "\"60s\"",
    flag: Some(Flag {
        name: "drain-timeout",
        argument: Argument::Named("TIME"),
        default: None,
        short: "Drain time after SIGTERM",
        long: "After SIGTERM longhaul no longer listens, and it waits for flows to end. After this time it resets the flows \
               that are left. `0` resets all flows at once. Without this flag, longhaul waits until the last flow has \
               ended. A second SIGTERM resets the flows that are left.",
    }),
    value: KeyValue::One(|config, text| value::drain_timeout(text).map(|time| config.drain_timeout = Some(time))),
    show: |config| {
        Some(match config.drain_timeout {
            None => "SIGTERM waits for every flow to end".into(),
            Some(Duration::ZERO) => "SIGTERM resets every flow at once".into(),
            Some(time) => format!("SIGTERM waits {} for flows to end", show_duration(time)),
        })
    },
    check: no_remarks,
    doc: "Time that flows have to end by themselves after SIGTERM. Then the flows that are left are reset. `0` resets all \
          flows at once. Under systemd it must be shorter than the unit's `TimeoutStopSec=90s`, which also ends a drain without \
          this key.",
};

const GRACE: Row<Config> = Row {
    name: "drain_grace",
    default: KeyDefault::Value("\"5s\""),
    example: "\"10s\"",
    flag: Some(Flag {
        name: "drain-grace",
        argument: Argument::Named("TIME"),
        default: None,
        short: "Listen time of `longhaul drain`",
        long: "`longhaul drain` makes /readyz say 503 at once. The tunnel listens for this time more, so that a load balancer \
               can send new connections elsewhere before any is refused.",
    }),
    value: KeyValue::One(|config, text| value::drain_grace(text).map(|time| config.drain_grace = time)),
    show: |config| {
        let grace = Some(config.drain_grace).filter(|grace| *grace != Config::DRAIN_GRACE);
        grace.map(|grace| format!("a drain by command listens for {} more", show_duration(grace)))
    },
    check: no_remarks,
    doc: "Time for which `longhaul drain` lets the tunnels listen. `/readyz` says 503 at once, so that a load balancer can send \
          new connections elsewhere before any is refused. SIGTERM does not wait for it.",
};
