//! The keys of the whole daemon, which stand before the first `[[tunnel]]`.

use crate::config::{Config, Resolver};
use crate::keys::remark::{Remark, Syntax, no_remarks};
use crate::keys::row::{Argument, Flag, KeyDefault, KeyValue, Row};
use crate::value;
use longhaul_units::show_duration;
use std::time::Duration;

/// The keys of the whole daemon, in the order of the manual.
pub const DAEMON: &[Row<Config>] = &[
    Row {
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
    },
    Row {
        name: "resolver",
        default: KeyDefault::Words("by nsswitch.conf"),
        example: "\"dns\"",
        flag: Some(Flag {
            name: "resolver",
            argument: Argument::Named("RESOLVER"),
            default: None,
            short: "dns or system",
            long: "`dns` asks /etc/hosts and the nameservers of /etc/resolv.conf, and keeps each answer for its TTL. `system` \
                   asks getaddrinfo(3), which knows no TTL, and keeps each answer for 30 s. Without this flag it is `dns`, \
                   unless the line `hosts:` of /etc/nsswitch.conf names other sources.",
        }),
        value: KeyValue::One(|config, text| value::resolver(text).map(|resolver| config.resolver = Some(resolver))),
        show: |config| {
            config.resolver.map(|resolver| match resolver {
                Resolver::Dns => "names are resolved by DNS".into(),
                Resolver::System => "names are resolved by getaddrinfo(3)".into(),
            })
        },
        check: srv_without_dns,
        doc: "How host names are resolved. `\"dns\"` asks `/etc/hosts` and the nameservers of `/etc/resolv.conf`, and keeps \
              each answer for its TTL. `\"system\"` asks getaddrinfo(3), which knows no TTL, and keeps each answer for 30 s. \
              Without this key it is `\"dns\"`, unless the line `hosts:` of `/etc/nsswitch.conf` names other sources than \
              `files`, `dns`, `myhostname` and `mdns*`, or names them in an order that DNS alone cannot follow. See \
              [Names](operations.md#names).",
    },
];

/// getaddrinfo(3) has no SRV names.
fn srv_without_dns(config: &Config, _: Syntax) -> Vec<Remark> {
    if config.resolver != Some(Resolver::System) {
        return Vec::new();
    }
    let first = config.tunnels.iter().flat_map(|tunnel| &tunnel.to).find(|hop| hop.is_srv());
    let text = first.map(|hop| format!("getaddrinfo(3) cannot resolve {hop}; write \"dns\", or leave it out"));
    text.map(|text| Remark::error("resolver", text)).into_iter().collect()
}
