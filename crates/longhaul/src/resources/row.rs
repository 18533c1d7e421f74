//! The table of resources. One row is the whole resource: its name, its unit, where its figures come from, what is too
//! little, and the remedy.

use super::sample::ResourceSample;
use super::state::ResourceState;
use longhaul_relay::{AddressLoad, TunnelLoad};

/// A resource.
#[derive(Debug)]
pub(super) struct ResourceRow {
    /// Its name, in status and log.
    pub(super) name: &'static str,
    /// Unit of its figures.
    pub(super) unit: &'static str,
    /// Returns its figures: none where the system does not show it, several if there are several of its kind.
    pub(super) read: fn(&ResourceSample) -> Vec<Reading>,
    /// Returns what to do about a warning.
    pub(super) remedy: fn(&ResourceState) -> String,
}

/// The figures of a resource.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// Follows the name of the row, such as ` to 192.0.2.1:22`. Empty for a row with one reading.
    pub(super) suffix: String,
    /// Whether the suffix is an address. The answers of DNS can bring any number of them in the daemon's life.
    pub(super) is_of_address: bool,
    /// The part in use.
    pub(super) used: Option<f64>,
    /// The limit.
    pub(super) limit: Option<f64>,
    /// More about it, in a few words.
    pub(super) detail: Option<String>,
    /// The fault of a limit that is too low, whatever is in use.
    pub(super) low: Option<String>,
}

/// Every resource, in the order in which status shows them.
pub(super) const ROWS: &[ResourceRow] = &[
    ResourceRow {
        name: "descriptors",
        unit: "descriptors",
        read: |sample| counted(sample.descriptors, sample.nofile),
        remedy: |state| {
            let more = twice(state);
            format!(
                "now: prlimit --pid PID --nofile={more}, then longhaul reload; to keep it: LimitNOFILE={more} \
                 (systemctl edit longhaul)"
            )
        },
    },
    ResourceRow {
        name: "flows",
        unit: "flows",
        read: |sample| counted(Some(sample.load.flows), Some(sample.load.max_flows)),
        remedy: |state| {
            let more = twice(state);
            format!(
                "make room for {more}: raise max_flows above the first tunnel, and LimitNOFILE= to {} or more (systemctl \
                 edit longhaul)",
                DESCRIPTORS_PER_FLOW * more + SPARE_DESCRIPTORS
            )
        },
    },
    ResourceRow {
        name: "flows of",
        unit: "flows",
        read: flows_of_tunnels,
        remedy: |state| format!("raise max_flows of this tunnel to {} or more, then longhaul reload", twice(state)),
    },
    ResourceRow {
        name: "pipes",
        unit: "pipes",
        read: |sample| {
            let detail = Some(sample.load.more_pipes.to_string());
            vec![Reading { detail, ..of(Some(sample.load.pipes), Some(sample.load.max_pipes)) }]
        },
        remedy: |state| state.detail.clone().unwrap_or_default(),
    },
    ResourceRow {
        name: "pipe pages",
        unit: "pages",
        read: |sample| counted(Some(sample.load.pipe_pages), sample.load.max_pipe_pages),
        remedy: |state| {
            let more = sysctl("fs.pipe-user-pages-soft", &twice(state).to_string());
            format!("AmbientCapabilities=CAP_SYS_RESOURCE (systemctl edit longhaul), or {more}")
        },
    },
    ResourceRow {
        name: "memory",
        unit: "bytes",
        read: |sample| {
            let limit = sample.rss.zip(sample.available).map(|(rss, available)| rss.saturating_add(available));
            counted(sample.rss, limit)
        },
        remedy: |_| "see what else uses memory (ps --sort=-rss -eo rss,args); set max_flows, or add memory".into(),
    },
    ResourceRow {
        name: "cgroup memory",
        unit: "bytes",
        read: |sample| sample.group.map_or_else(Vec::new, |group| counted(Some(group.used), Some(group.limit))),
        remedy: |state| format!("systemctl set-property longhaul MemoryMax={}", twice(state)),
    },
    ResourceRow { name: "cpu", unit: "CPUs", read: cpu, remedy: |_| MORE_CPU.into() },
    ResourceRow {
        name: "tcp_mem",
        unit: "pages",
        read: tcp_mem,
        remedy: |state| {
            let numbers = state.detail.as_deref().unwrap_or_default().split(' ');
            let doubled: Vec<String> =
                numbers.filter_map(|number| Some((2 * number.parse::<u64>().ok()?).to_string())).collect();
            sysctl("net.ipv4.tcp_mem", &doubled.join(" "))
        },
    },
    ResourceRow {
        name: TCP_RMEM,
        unit: "bytes",
        read: |sample| buffer(sample.tcp_rmem, 2),
        remedy: |state| larger_buffer("net.ipv4.tcp_rmem", state),
    },
    ResourceRow {
        name: TCP_WMEM,
        unit: "bytes",
        read: |sample| buffer(sample.tcp_wmem, 1),
        remedy: |state| larger_buffer("net.ipv4.tcp_wmem", state),
    },
    ResourceRow {
        name: "conntrack",
        unit: "connections",
        read: |sample| sample.max_conntrack.map_or_else(Vec::new, |max| counted(sample.conntrack, Some(max))),
        remedy: |state| sysctl("net.netfilter.nf_conntrack_max", &twice(state).to_string()),
    },
    ResourceRow { name: "ephemeral ports", unit: "ports", read: ports, remedy: |_| MORE_PORTS.into() },
    ResourceRow { name: "congestion controls", unit: "", read: controls, remedy: |_| BBR.into() },
];

fn counted(used: Option<u64>, limit: Option<u64>) -> Vec<Reading> {
    used.or(limit).map(|_| of(used, limit)).into_iter().collect()
}

fn of(used: Option<u64>, limit: Option<u64>) -> Reading {
    let figure = |number: Option<u64>| number.map(|number| number as f64);
    Reading { used: figure(used), limit: figure(limit), ..Reading::default() }
}

fn flows_of_tunnels(sample: &ResourceSample) -> Vec<Reading> {
    let limited = sample.load.tunnels.iter().filter(|tunnel| tunnel.max_flows.is_some());
    let suffix = |tunnel: &TunnelLoad| format!(" {}", tunnel.name);
    limited.map(|tunnel| Reading { suffix: suffix(tunnel), ..of(Some(tunnel.flows), tunnel.max_flows) }).collect()
}

fn cpu(sample: &ResourceSample) -> Vec<Reading> {
    let held = sample.throttled.filter(|held| !held.time.is_zero());
    let low = held.map(|held| {
        let (time, of) = (held.time.as_secs_f64(), held.of.as_secs_f64());
        format!("the control group has held threads back for {time:.2} s of the last {of:.0} s (cpu.max)")
    });
    let (used, limit) = (sample.cpus_used, sample.cpus);
    let reading = |_| Reading { used, limit, low, ..Reading::default() };
    used.or(limit).map(reading).into_iter().collect()
}

/// The second limit bites first: from there on the kernel makes the windows smaller (tcp(7) tcp_mem).
fn tcp_mem(sample: &ResourceSample) -> Vec<Reading> {
    let Some(limits) = sample.tcp_mem else { return Vec::new() };
    let detail = Some(limits.map(|limit| limit.to_string()).join(" "));
    vec![Reading { detail, ..of(sample.tcp_pages, Some(limits[1])) }]
}

/// `factor` is the number of bytes of a buffer that one byte in flight needs at least: 2 for receive buffers, of which half
/// is payload (tcp(7) tcp_adv_win_scale).
fn buffer(limits: Option<[u64; 3]>, factor: u64) -> Vec<Reading> {
    let Some(limits) = limits else { return Vec::new() };
    let max = limits[2];
    let rate = (max / factor) as f64 / FAR_RTT_SECONDS / 1e6;
    let low = (max < MIN_BUFFER).then(|| {
        format!(
            "the largest is {max} bytes, which allows one flow at most {rate:.0} MB/s over 100 ms; it should be \
             {SHIPPED_BUFFER}: twice 10 Gbit/s x 100 ms"
        )
    });
    let detail = Some(limits.map(|limit| limit.to_string()).join(" "));
    vec![Reading { limit: Some(max as f64), detail, low, ..Reading::default() }]
}

fn larger_buffer(name: &str, state: &ResourceState) -> String {
    let detail = state.detail.as_deref().unwrap_or_default();
    let smaller = detail.rsplit_once(' ').map_or("", |(smaller, _)| smaller);
    let needed = (2.0 * state.used.unwrap_or(0.0)) as u64;
    let should = needed.checked_next_power_of_two().unwrap_or(SHIPPED_BUFFER).max(SHIPPED_BUFFER);
    sysctl(name, &format!("{smaller} {should}"))
}

fn ports(sample: &ResourceSample) -> Vec<Reading> {
    let Some(all) = sample.ports else { return Vec::new() };
    let mut fullest: Vec<&AddressLoad> = sample.load.dialled.iter().collect();
    fullest.sort_by_key(|dialled| std::cmp::Reverse(dialled.flows));
    fullest.truncate(MAX_ADDRESSES);
    let limit = Some(all as f64);
    let mut readings = vec![Reading { limit, ..Reading::default() }];
    readings.extend(fullest.into_iter().map(|dialled| {
        let from = dialled.source.map(|source| format!(" from {source}")).unwrap_or_default();
        let suffix = format!("{from} to {}", dialled.address);
        Reading { suffix, is_of_address: true, used: Some(dialled.flows as f64), limit, ..Reading::default() }
    }));
    readings
}

fn controls(sample: &ResourceSample) -> Vec<Reading> {
    let Some(offered) = &sample.controls else { return Vec::new() };
    let has_bbr = offered.split(' ').any(|name| name == "bbr");
    let low = (!has_bbr).then(|| format!("the kernel offers {offered}; it should offer bbr, too"));
    vec![Reading { detail: Some(offered.clone()), low, ..Reading::default() }]
}

/// Returns twice the limit of `state`, for a remedy.
fn twice(state: &ResourceState) -> u64 {
    (2.0 * state.limit.unwrap_or(0.0)) as u64
}

fn sysctl(name: &str, value: &str) -> String {
    let quoted = if value.contains(' ') { format!("'{value}'") } else { value.into() };
    format!("sysctl -w {name}={quoted}; to keep it: {name} = {value} in {SYSCTL_FILE}")
}

/// Name of the receive buffer's row.
pub(super) const TCP_RMEM: &str = "tcp_rmem";
/// Name of the send buffer's row.
pub(super) const TCP_WMEM: &str = "tcp_wmem";

/// File that keeps a sysctl. It is read after 90-longhaul.conf and does not replace it (sysctl.d(5)).
const SYSCTL_FILE: &str = "/etc/sysctl.d/99-longhaul.conf";
/// Largest buffer of a connection in packaging/90-longhaul.conf, in bytes.
const SHIPPED_BUFFER: u64 = 256 << 20;
/// Largest buffer below which a relay is warned of, in bytes: twice 1 Gbit/s x 63 ms, the smallest path of
/// docs/operations.md.
const MIN_BUFFER: u64 = 16 << 20;
/// Round-trip time of the example in the warning.
const FAR_RTT_SECONDS: f64 = 0.1;
/// Number of descriptors of a flow with its share of pipes: flows have three quarters of the descriptors, two for each.
const DESCRIPTORS_PER_FLOW: u64 = 3;
/// Number of descriptors for everything else, with room to spare.
const SPARE_DESCRIPTORS: u64 = 256;
/// Maximum number of addresses whose ports are shown, those with most flows.
const MAX_ADDRESSES: usize = 32;
const MORE_CPU: &str = "more CPUs, or a second relay beside this one (several next hops, or HAProxy in front); under a limit of \
                        systemd: systemctl set-property longhaul CPUQuota=";
const MORE_PORTS: &str = "sysctl -w net.ipv4.ip_local_port_range='10240 65535' net.ipv4.tcp_tw_reuse=1, which 90-longhaul.conf \
                          keeps; or a second tunnel with another `source`";
const BBR: &str = "modprobe tcp_bbr; to keep it: tcp_bbr in /etc/modules-load.d/longhaul.conf";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::sample::Throttled;
    use longhaul_relay::Load;
    use std::time::Duration;

    fn row(name: &str) -> &'static ResourceRow {
        ROWS.iter().find(|row| row.name == name).unwrap()
    }

    #[test]
    fn the_manual_has_each_resource() {
        const MANUAL: &str = include_str!("../../../../docs/operations.md");
        let (_, section) = MANUAL.split_once("\n### Resources\n").unwrap();
        let missing = ROWS.iter().filter(|row| !section.contains(&format!("`{}", row.name)));
        assert_eq!(missing.map(|row| row.name).collect::<Vec<_>>(), [""; 0], "docs/operations.md");
    }

    #[test]
    fn what_is_not_shown_has_no_reading() {
        let shown: Vec<&str> =
            ROWS.iter().filter(|row| !(row.read)(&ResourceSample::default()).is_empty()).map(|row| row.name).collect();
        assert_eq!(shown, ["flows", "pipes", "pipe pages"], "these are the relay's own");
        let half =
            ResourceSample { conntrack: Some(3), tcp_pages: Some(4), available: Some(5), ..ResourceSample::default() };
        assert!((row("conntrack").read)(&half).is_empty() && (row("tcp_mem").read)(&half).is_empty());
        assert!((row("memory").read)(&half).is_empty());
    }

    #[test]
    fn each_hop_has_its_ports_and_each_limited_tunnel_its_flows() {
        let to = |source: Option<&str>, flows| AddressLoad {
            source: source.map(|source| source.parse().unwrap()),
            address: "192.0.2.1:22".parse().unwrap(),
            flows,
        };
        let tunnel = |name: &str, max_flows| TunnelLoad { name: name.into(), flows: 3, max_flows };
        let load = Load {
            dialled: vec![to(None, 5), to(Some("10.0.0.1"), 9)],
            tunnels: vec![tunnel("a", Some(4)), tunnel("b", None)],
            ..Load::default()
        };
        let sample = ResourceSample { ports: Some(10), load, ..ResourceSample::default() };
        let shown = |row: &ResourceRow| -> Vec<_> {
            (row.read)(&sample).into_iter().map(|reading| (reading.suffix, reading.used, reading.limit)).collect()
        };
        let all = Some(10.0);
        let want = [
            (String::new(), None, all),
            (" from 10.0.0.1 to 192.0.2.1:22".into(), Some(9.0), all),
            (" to 192.0.2.1:22".into(), Some(5.0), all),
        ];
        assert_eq!(shown(row("ephemeral ports")), want);
        assert_eq!(shown(row("flows of")), [(" a".into(), Some(3.0), Some(4.0))]);
    }

    #[test]
    fn a_low_limit_says_what_it_should_be_and_the_command() {
        let said = |name: &str, sample: &ResourceSample| {
            let state = (row(name).read)(sample).swap_remove(0).state(row(name), None);
            (state.warning.clone(), (row(name).remedy)(&state))
        };
        let small = ResourceSample {
            tcp_wmem: Some([4096, 16384, 4_194_304]),
            controls: Some("reno cubic".into()),
            ..ResourceSample::default()
        };
        let (low, remedy) = said(TCP_WMEM, &small);
        let want = "the largest is 4194304 bytes, which allows one flow at most 42 MB/s over 100 ms; it should be 268435456: \
                    twice 10 Gbit/s x 100 ms";
        assert_eq!(low.as_deref(), Some(want));
        let want = "sysctl -w net.ipv4.tcp_wmem='4096 16384 268435456'; to keep it: net.ipv4.tcp_wmem = 4096 16384 268435456 \
                    in /etc/sysctl.d/99-longhaul.conf";
        assert_eq!(remedy, want);
        assert!(said("congestion controls", &small).0.unwrap().ends_with("it should offer bbr, too"));
        let large = ResourceSample {
            tcp_rmem: Some([4096, 131_072, MIN_BUFFER]),
            controls: Some("reno bbr".into()),
            ..ResourceSample::default()
        };
        assert_eq!((said(TCP_RMEM, &large).0, said("congestion controls", &large).0), (None, None));
        let held = Throttled { time: Duration::from_millis(1250), of: Duration::from_secs(5) };
        let held = ResourceSample { cpus: Some(1.0), throttled: Some(held), ..ResourceSample::default() };
        assert!(said("cpu", &held).0.unwrap().contains(" 1.25 s of the last 5 s"));
        let pages = ResourceSample { tcp_mem: Some([1, 2, 3]), tcp_pages: Some(1), ..ResourceSample::default() };
        assert!(said("tcp_mem", &pages).1.starts_with("sysctl -w net.ipv4.tcp_mem='2 4 6'; "));
    }
}
