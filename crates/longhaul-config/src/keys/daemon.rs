//! The keys of the whole daemon, which stand before the first `[[tunnel]]`.

use crate::config::{Config, Resolver};
use crate::keys::{bandwidth, clients};
use crate::remark::{Remark, Syntax, no_remarks};
use crate::row::{Argument, Flag, KeyDefault, KeyValue, Row, no_line};
use crate::value;
use longhaul_units::show_duration;
use std::time::Duration;

/// The keys of the whole daemon, in the order of the manual.
pub const DAEMON: &[Row<Config>] = &[TIMEOUT, GRACE, clients::MAX_FLOWS, BANDWIDTH, SCHEDULE, RESOLVER];

const TIMEOUT: Row<Config> = Row {
    name: "drain_timeout",
    default: KeyDefault::Words("no limit"),
    example: "\"60s\"",
    flag: Some(Flag {
        name: "drain-timeout",
        argument: Argument::Named("TIME"),
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
        short: "Listen time of `longhaul drain`",
        long: "`longhaul drain` makes /readyz say 503 at once. The tunnel listens for this time more, so that a load balancer \
               can send new connections elsewhere before any is refused.",
    }),
    value: KeyValue::One(|config, text| drain_grace(text).map(|time| config.drain_grace = time)),
    show: |config| {
        let grace = Some(config.drain_grace).filter(|grace| *grace != Config::DRAIN_GRACE);
        grace.map(|grace| format!("a drain by command listens for {} more", show_duration(grace)))
    },
    check: no_remarks,
    doc: "Time for which `longhaul drain` lets the tunnels listen. `/readyz` says 503 at once, so that a load balancer can send \
          new connections elsewhere before any is refused. SIGTERM does not wait for it.",
};

const BANDWIDTH: Row<Config> = Row {
    name: "bandwidth",
    default: KeyDefault::Words("no cap"),
    example: "\"auto\"",
    flag: None, // a process with one tunnel has the tunnel's
    value: KeyValue::One(|config, text| bandwidth::cap(&mut config.bandwidth, text)),
    show: |config| {
        bandwidth::show(&config.bandwidth).map(|cap| format!("bandwidth of all tunnels in each direction: {cap}"))
    },
    check: |config, _| config.tunnels.iter().flat_map(|tunnel| bandwidth::unpaced(&config.bandwidth, tunnel)).collect(),
    doc: "Cap of all flows of all tunnels together, for the payload that is sent in each direction, 1 Mbit/s to 1000 Gbit/s. \
          See [Limiting the bandwidth](operations.md#limiting-the-bandwidth). `\"auto\"` finds a cap for each path by itself, a \
          little below its line's rate, so that the line's queue stays short; `\"auto 500Mbit/s\"` keeps all paths together below \
          that. See [A full line that stays quick](operations.md#a-full-line-that-stays-quick). `auto` needs Linux 4.19. \
          `longhaul relay` has it as `--bandwidth auto`.",
};

const SCHEDULE: Row<Config> = Row {
    name: "bandwidth_schedule",
    default: KeyDefault::Words("none"),
    example: "[\"Mon-Fri 08:00-18:00 200Mbit/s\", \"Sat 22:00-06:00 none\"]",
    flag: None,
    value: KeyValue::Several {
        add: |config, text| bandwidth::window(text).map(|window| config.bandwidth.schedule.push(window)),
        empty: "it is empty; write a window such as \"Mon-Fri 08:00-18:00 200Mbit/s\", or leave the key out",
    },
    show: no_line, // `bandwidth` shows it
    check: |config, _| bandwidth::without_effect(&config.bandwidth),
    doc: "Windows of the week in which another cap holds than `bandwidth`, as for a tunnel. Here a window may say `auto`, too: \
          `\"Mon-Fri 08:00-18:00 auto 200Mbit/s\"`.",
};

const RESOLVER: Row<Config> = Row {
    name: "resolver",
    default: KeyDefault::Words("by nsswitch.conf"),
    example: "\"dns\"",
    flag: Some(Flag {
        name: "resolver",
        argument: Argument::Named("RESOLVER"),
        short: "dns or system",
        long: "`dns` asks /etc/hosts and the nameservers of /etc/resolv.conf, and keeps each answer for its TTL. `system` \
               asks getaddrinfo(3), which knows no TTL, and keeps each answer for 30 s. Without this flag it is `dns`, \
               unless the line `hosts:` of /etc/nsswitch.conf names other sources.",
    }),
    value: KeyValue::One(|config, text| value::word(text, RESOLVERS).map(|resolver| config.resolver = Some(resolver))),
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
};

/// getaddrinfo(3) has no SRV names.
fn srv_without_dns(config: &Config, _: Syntax) -> Vec<Remark> {
    if config.resolver != Some(Resolver::System) {
        return Vec::new();
    }
    let first = config.tunnels.iter().flat_map(|tunnel| &tunnel.to).find(|hop| hop.is_srv());
    let text = first.map(|hop| format!("getaddrinfo(3) cannot resolve {hop}; write \"dns\", or leave it out"));
    text.map(|text| Remark::error("resolver", text)).into_iter().collect()
}

/// Parses the time for which a drain by command listens; `0` means that it does not.
///
/// # Errors
/// The text is not a time, or the time is longer than an hour.
fn drain_grace(text: &str) -> Result<Duration, String> {
    value::time(text, Duration::ZERO..=Duration::from_secs(3600), "write a time of up to an hour such as \"5s\"")
}

const RESOLVERS: &[(&str, Resolver)] = &[("dns", Resolver::Dns), ("system", Resolver::System)];
