//! Every metric, and the only place where one is defined. docs/metrics.md has the same tables
//! (`UPDATE=1 cargo test -p longhaul --lib docs_metrics_md` writes them).

use super::row::{Metric, MetricValue, Value, distribution, real, whole};
use crate::admin::figures::HOPS;
use crate::admin::snapshot::{Health, PathOfWan, Problem, VerifyStateName};
use crate::control::Phase;
use longhaul_relay::COUNTERS;
use prometheus_client::metrics::MetricType;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Every metric: the heading of a table in docs/metrics.md, and its rows.
pub(super) static SECTIONS: LazyLock<[(&str, Vec<Metric>); 8]> = LazyLock::new(|| {
    [
        ("## The process", process().into_iter().chain(process_figures()).collect()),
        ("## Tunnels", tunnels()),
        ("## Legs", legs()),
        ("## Next hops", next_hops()),
        ("## Gain", gains()),
        ("## Paths", paths()),
        ("## Verify", verify()),
        ("## Resources", resources()),
    ]
});

/// Returns every metric.
pub(super) fn rows() -> impl Iterator<Item = &'static Metric> {
    SECTIONS.iter().flat_map(|(_, rows)| rows)
}

fn process() -> Vec<Metric> {
    vec![
        Metric::by(&["version"], "longhaul_build", "Version of the program.", |scrape, out| {
            out.add(&[&scrape.snapshot.version], whole(true));
        })
        .of_kind(MetricType::Info),
        Metric::process("longhaul_start_time_seconds", "Time of the start, in seconds since 1970.", |scrape| {
            real(scrape.snapshot.started_unix_seconds)
        }),
        Metric::process("longhaul_ready", "1 while the daemon wants connections, as /readyz says.", |scrape| {
            whole(scrape.snapshot.ready)
        }),
        Metric::process("longhaul_serving", "0 while the daemon drains or stops, else 1.", |scrape| {
            whole(scrape.snapshot.phase == Phase::Serving)
        }),
        Metric::process(
            "longhaul_problems",
            "Number of problems that the daemon knows of, as in /status.json.",
            |scrape| whole(scrape.snapshot.problems.len() as u64),
        ),
        Metric::by(
            &["tunnel", "stage"],
            "longhaul_problem",
            "Number of problems by tunnel and stage. Absent without one; `tunnel` is empty for a problem of the process.",
            |scrape, out| {
                let mut counts: BTreeMap<_, u64> = BTreeMap::new();
                for Problem { tunnel, stage, .. } in &scrape.snapshot.problems {
                    *counts.entry([tunnel.as_deref().unwrap_or_default(), stage]).or_default() += 1;
                }
                counts.into_iter().for_each(|(labels, count)| out.add(&labels, whole(count)));
            },
        ),
        Metric::process("longhaul_reload_refused", "1 if the last reload was refused, else 0.", |scrape| {
            whole(scrape.snapshot.reload_refused.is_some())
        }),
    ]
}

fn process_figures() -> Vec<Metric> {
    vec![
        Metric::process(
            "longhaul_process_flows",
            "Live flows, also those of tunnels that a reload removed.",
            |scrape| whole(scrape.snapshot.counters.flows_now),
        ),
        Metric::by(
            &["direction"],
            "longhaul_process_bytes",
            "Bytes carried, also by flows of removed tunnels. They grow while a flow lives.",
            |scrape, out| {
                out.add(&["up"], whole(scrape.snapshot.counters.bytes_up));
                out.add(&["down"], whole(scrape.snapshot.counters.bytes_down));
            },
        )
        .of_kind(MetricType::Counter),
        Metric::process(
            "longhaul_process_cap_bytes_per_second",
            "The cap of the daemon that is in force now, in each direction. Absent without one.",
            |scrape| bytes(scrape.snapshot.cap_bits_per_second),
        ),
        Metric::process(
            "longhaul_process_refused",
            "Connections reset before a flow began, also those to a socket of systemd without a tunnel.",
            |scrape| whole(scrape.snapshot.counters.refused),
        )
        .of_kind(MetricType::Counter),
        Metric::process("longhaul_process_cpu_seconds", "Processor time of all threads.", |scrape| {
            real(scrape.process.cpu.as_secs_f64())
        })
        .of_kind(MetricType::Counter),
        Metric::process("longhaul_process_resident_memory_bytes", "Resident memory.", |scrape| {
            scrape.process.resident.map(MetricValue::Whole)
        }),
        Metric::process("longhaul_process_open_fds", "Open descriptors.", |scrape| {
            scrape.process.descriptors.map(MetricValue::Whole)
        }),
    ]
}

/// Returns the metrics of tunnels. Counters without a place among the others are the last, in the order of their list.
fn tunnels() -> Vec<Metric> {
    const FIRST: [&str; 2] = ["flows_now", "accepted"];
    const THEN: [&str; 2] = ["hops_lost", "stale_answers"];
    let has_place = |name: &str| FIRST.contains(&name) || THEN.contains(&name) || name == "verify_failures";
    let mut rows = vec![
        Metric::tunnel("longhaul_tunnel_listening", "1 while the tunnel accepts connections.", |tunnel| {
            whole(tunnel.listening)
        }),
        Metric::tunnel(
            "longhaul_tunnel_ready",
            "1 while the tunnel listens and none of its problems is fatal. Failed dials and full limits are not fatal.",
            |tunnel| whole(tunnel.listening && !tunnel.health.is_broken()),
        ),
        Metric::tunnel("longhaul_tunnel_doubtful", "1 while the tunnel is doubtful or stalled.", |tunnel| {
            whole(matches!(tunnel.health, Health::Doubtful | Health::Stalled))
        }),
    ];
    rows.extend(counters(|name| FIRST.contains(&name)));
    rows.extend([
        Metric::by(
            &["tunnel", "direction"],
            "longhaul_tunnel_bytes",
            "Bytes carried from the clients to the next hops (up) and back (down). They grow while a flow lives.",
            |scrape, out| {
                for tunnel in &scrape.snapshot.tunnels {
                    out.add(&[&tunnel.name, "up"], whole(tunnel.counters.bytes_up));
                    out.add(&[&tunnel.name, "down"], whole(tunnel.counters.bytes_down));
                }
            },
        )
        .of_kind(MetricType::Counter),
        Metric::tunnel(
            "longhaul_tunnel_cap_bytes_per_second",
            "The cap of the tunnel that is in force now, in each direction. Absent without one.",
            |tunnel| bytes(tunnel.cap_bits_per_second),
        ),
        Metric::tunnel(
            "longhaul_tunnel_flow_cap_bytes_per_second",
            "The cap of each flow by `flow_bandwidth`. Absent without one.",
            |tunnel| bytes(tunnel.flow_cap_bits_per_second),
        ),
        Metric::of_counters(
            "longhaul_tunnel_flow_ends",
            "Flows that ended. `finished` is FIN in both directions; every other end is a reset of both legs.",
        ),
        Metric::of_counters("longhaul_tunnel_refused", "Connections reset before a flow began."),
        Metric::by(
            &["tunnel"],
            "longhaul_tunnel_dial_seconds",
            "Time from accept to the next hop's answer, with the lookup of its name and the hops that did not answer.",
            |scrape, out| {
                for tunnel in &scrape.tunnels {
                    out.add(&[&tunnel.name], distribution(&tunnel.dial_times));
                }
            },
        )
        .of_kind(MetricType::Histogram),
    ]);
    rows.extend(counters(|name| THEN.contains(&name)));
    rows.extend(counters(|name| !has_place(name)));
    rows
}

/// Returns the metrics of what the relays are worth.
fn gains() -> Vec<Metric> {
    vec![
        Metric::gain(
            "longhaul_gain_bytes_per_second",
            "Rate of the live flows that have a `gain` in /status.json. Absent without such a flow.",
            |gain| gain.mbps,
        ),
        Metric::gain(
            "longhaul_gain_alone_bytes_per_second",
            "The most that the same flows would carry without relays.",
            |gain| gain.alone_at_most_mbps,
        ),
        Metric::tunnel(
            "longhaul_saved_seconds",
            "Time that the flows would have taken longer without relays. Only flows whose host has a window that cannot grow.",
            |tunnel| real(tunnel.saved_hours.all * 3600.0),
        )
        .of_kind(MetricType::Counter),
    ]
}

/// Returns the metrics of the paths whose caps are found by themselves.
fn paths() -> Vec<Metric> {
    let of = |name, help, value: fn(&PathOfWan) -> Value| {
        Metric::by(&["path", "direction"], name, help, move |scrape, out| {
            for path in scrape.snapshot.paths.iter().flatten() {
                out.add(&[&path.address, &path.way], value(path));
            }
        })
    };
    vec![
        of(
            "longhaul_path_cap_bytes_per_second",
            "The cap of the path that is in force now. Absent without one.",
            |path| bytes(path.cap_bits_per_second),
        ),
        of("longhaul_path_bytes_per_second", "Payload of the last second.", |path| bytes(Some(path.bits_per_second))),
        of(
            "longhaul_path_queue_seconds",
            "Time that a packet waits in the path's queue now. Absent without a measurement in the last second.",
            |path| real(path.queue_ms.map(|queue| queue / 1e3)),
        ),
        of(
            "longhaul_path_least_rtt_seconds",
            "Round-trip time without a queue. Absent without a measurement in the last second.",
            |path| real(path.least_rtt_ms.map(|rtt| rtt / 1e3)),
        ),
        Metric::by(
            &["path", "direction", "state"],
            "longhaul_path_state",
            "1 for the state of the path. The other states are absent.",
            |scrape, out| {
                for path in scrape.snapshot.paths.iter().flatten() {
                    out.add(&[&path.address, &path.way, &path.state], whole(true));
                }
            },
        ),
        Metric::by(
            &["path", "direction"],
            "longhaul_path_state_seconds",
            "Time since the path last changed its state.",
            |scrape, out| {
                for path in scrape.snapshot.paths.iter().flatten() {
                    let age = scrape.snapshot.unix_seconds - path.since_unix_seconds;
                    out.add(&[&path.address, &path.way], real(Some(age.max(0.0))));
                }
            },
        ),
    ]
}

/// Returns a rate of bits in bytes.
fn bytes(bits_per_second: Option<u64>) -> Value {
    real(bits_per_second.map(|bits| bits as f64 / 8.0))
}

/// Returns the metrics of the counters whose names `are_wanted`.
fn counters(are_wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = Metric> {
    COUNTERS.iter().filter(move |counter| are_wanted(counter.name)).filter_map(Metric::of_counter)
}

fn legs() -> Vec<Metric> {
    vec![
        Metric::leg(
            "longhaul_leg_rtt_seconds",
            "Smoothed round-trip times of live legs that send, by samples: every 10 s up to 1,000 flows, in turn.",
            |leg| distribution(&leg.figures.rtt),
        )
        .of_kind(MetricType::Histogram),
        Metric::leg(
            "longhaul_leg_delivery_bytes_per_second",
            "Delivery rates of the same samples, without those that the application limited.",
            |leg| distribution(&leg.figures.delivery),
        )
        .of_kind(MetricType::Histogram),
        Metric::limits("longhaul_leg_samples", "The same samples, by what limited the leg.", |leg| leg.figures.limits)
            .of_kind(MetricType::Counter),
        Metric::limits(
            "longhaul_legs",
            "Live legs at the time of the scrape, by what limits them at this moment.",
            |leg| leg.now,
        ),
        Metric::by(
            &["tunnel", "kind"],
            "longhaul_flows_limited",
            "Live flows by what limits them, as `finding` in /status.json. Absent for a kind without a flow.",
            |scrape, out| {
                let mut counts: BTreeMap<_, u64> = BTreeMap::new();
                for flow in &scrape.snapshot.flows {
                    let Some(finding) = &flow.finding else { continue };
                    *counts.entry([flow.tunnel.as_str(), finding.kind.as_str()]).or_default() += 1;
                }
                counts.into_iter().for_each(|(labels, count)| out.add(&labels, whole(count)));
            },
        ),
        Metric::leg(
            "longhaul_leg_retransmitted_bytes",
            "Payload bytes that the relay retransmitted, on ended legs and so far on live ones. A leg that is just ending is \
             added with the next scrape.",
            |leg| whole(leg.retransmitted),
        )
        .of_kind(MetricType::Counter),
    ]
}

fn next_hops() -> Vec<Metric> {
    let up =
        Metric::hop("longhaul_next_hop_up", "0 while the health of the hop is doubtful or broken, else 1.", |hop| {
            whole(hop.health < Health::Doubtful)
        });
    std::iter::once(up).chain(HOPS.iter().filter_map(Metric::of_hop)).collect()
}

fn verify() -> Vec<Metric> {
    let mut rows = vec![
        Metric::verify(
            "longhaul_verify_whole",
            "1 if the last probe found the tunnel whole, 0 if it found a broken stage. Absent before the first result.",
            |verify| match verify.state {
                VerifyStateName::Pending => None,
                state => whole(state == VerifyStateName::Whole),
            },
        ),
        Metric::by(
            &["tunnel", "stage", "cause"],
            "longhaul_verify_broken",
            "1 for the broken stage of a tunnel, also while newer probes have no result. Absent while it is whole. While another host \
             has the address, and until the first result after its return, it stays until the result is 2 minutes old.",
            |scrape, out| {
                for tunnel in &scrape.snapshot.tunnels {
                    let Some(verify) = &tunnel.verify else { continue };
                    if let Some(stage) = verify.stage.as_ref().filter(|_| verify.health >= Health::Doubtful) {
                        out.add(&[&tunnel.name, stage, verify.cause.as_deref().unwrap_or_default()], whole(true));
                    }
                }
            },
        ),
        Metric::verify(
            "longhaul_verify_last_time_seconds",
            "Time of the last result, or of the return of the address if that was later, in seconds since 1970. Absent before both, and while another \
             host has the address.",
            |verify| real(verify.waited_since_unix_seconds.filter(|_| !verify.elsewhere)),
        ),
        Metric::by(
            &["tunnel"],
            "longhaul_verify_elsewhere_seconds",
            "Time for which the tunnel's address has not been on this host, as on a backup relay. 0 while it is here. Absent after a \
             drain has closed the listener.",
            |scrape, out| {
                let now = scrape.snapshot.unix_seconds;
                for tunnel in scrape.snapshot.tunnels.iter().filter(|tunnel| tunnel.listening) {
                    let Some(verify) = &tunnel.verify else { continue };
                    let elsewhere = verify.elsewhere_since_unix_seconds.map_or(0.0, |since| (now - since).max(0.0));
                    out.add(&[&tunnel.name], real(elsewhere));
                }
            },
        ),
    ];
    rows.extend(counters(|name| name == "verify_failures"));
    rows.extend(last_probe());
    rows
}

fn last_probe() -> [Metric; 4] {
    [
        Metric::verify("longhaul_verify_interval_seconds", "Time between two probes.", |verify| {
            real(verify.interval_seconds)
        }),
        Metric::verify("longhaul_verify_duration_seconds", "Time that the last probe took.", |verify| {
            real(verify.history.last()?.seconds)
        }),
        Metric::verify(
            "longhaul_verify_rtt_seconds",
            "Round-trip time of a small message over the whole path, by the last probe.",
            |verify| real(verify.history.last()?.rtt_ms? / 1e3),
        ),
        Metric::verify(
            "longhaul_verify_goodput_bytes_per_second",
            "Payload of the last probe in each direction. A probe is too short to fill a path.",
            |verify| real(verify.history.last()?.goodput_bits_per_second? as f64 / 8.0),
        ),
    ]
}

fn resources() -> Vec<Metric> {
    vec![
        Metric::resource(
            "longhaul_resource_used",
            "The part of a resource that is in use. `ephemeral ports`: that of the address with most flows.",
            |resource| real(resource.used),
        ),
        Metric::resource("longhaul_resource_limit", "The limit of a resource. Absent if it has none.", |resource| {
            real(resource.limit)
        }),
        Metric::resource(
            "longhaul_resource_near_limit",
            "1 from 80 % of the limit on, until less than 70 % is in use, else 0.",
            |resource| whole(resource.near_since_unix_seconds.is_some()),
        ),
        Metric::resource(
            "longhaul_resource_warning",
            "1 if a resource needs attention, else 0. The reason and the remedy: `longhaul status`.",
            |resource| whole(resource.warning.is_some()),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The labels that may be used. Each has as many values as the configuration or the program gives it, and there are at most 1,024
    /// paths a direction.
    const LABELS: &[&str] = &[
        "tunnel", "next_hop", "direction", "leg", "how", "limit", "stage", "cause", "resource", "version", "path",
        "state", "kind",
    ];

    #[test]
    fn names_labels_and_units_follow_the_conventions() {
        let mut names: Vec<&str> = rows().map(|row| row.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), rows().count(), "each name is there once");
        for row in rows() {
            assert!(row.name.starts_with("longhaul_"), "{}", row.name);
            assert!(row.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{}", row.name);
            // OpenMetrics 1.0, "MetricFamily": the suffixes are those of samples.
            assert!(!row.name.ends_with("_total") && !row.name.ends_with("_info"), "{}", row.name);
            assert!(row.labels.iter().all(|label| LABELS.contains(label)), "{}", row.name);
            assert!(row.help.ends_with('.') && !row.help.contains('\n'), "{}: {}", row.name, row.help);
        }
    }
}
