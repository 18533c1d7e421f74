//! Every metric, and the only place where one is defined. docs/metrics.md has the same tables
//! (`UPDATE=1 cargo test -p longhaul --lib docs_metrics_md` writes them).

use super::row::{Count, Metric, MetricType};
use crate::admin::figures::HOPS;
use crate::admin::snapshot::{Health, Problem, VerifyStateName};
use crate::control::Phase;
use longhaul_core::path::limit::Limit;
use longhaul_relay::COUNTERS;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Metrics that belong together.
pub(super) struct Section {
    /// The heading of its table in docs/metrics.md.
    #[cfg_attr(not(test), expect(dead_code, reason = "only the manual has headings"))]
    pub(super) heading: &'static str,
    pub(super) rows: Vec<Metric>,
}

/// Every metric.
pub(super) static SECTIONS: LazyLock<Vec<Section>> = LazyLock::new(|| {
    let section = |heading, rows| Section { heading, rows };
    let hops: Vec<Metric> = HOPS.iter().filter_map(Metric::of_hop).collect();
    vec![
        section("## The process", PROCESS.to_vec()),
        section("## Tunnels", tunnels()),
        section("## Legs", LEG.to_vec()),
        section("## Next hops", [NEXT_HOP, &hops].concat()),
        section("## Verify", [VERIFY, &counters(&["verify_failures"]), LAST_PROBE].concat()),
        section("## Resources", RESOURCE.to_vec()),
    ]
});

/// Returns every metric.
pub(super) fn rows() -> impl Iterator<Item = &'static Metric> {
    SECTIONS.iter().flat_map(|section| &section.rows)
}

/// Returns the metrics of tunnels. Counters without a place among the others are the last, in the order of their list.
fn tunnels() -> Vec<Metric> {
    const FIRST: [&str; 2] = ["flows_now", "accepted"];
    const THEN: [&str; 2] = ["hops_lost", "stale_answers"];
    let has_place = |name| FIRST.contains(&name) || THEN.contains(&name) || name == "verify_failures";
    let others: Vec<&str> = COUNTERS.iter().map(|counter| counter.name).filter(|name| !has_place(name)).collect();
    [TUNNEL, &counters(&FIRST), TUNNEL_SUMS, &counters(&THEN), &counters(&others)].concat()
}

/// Returns the metrics of the counters with these names, in the order of the list of counters.
fn counters(names: &[&str]) -> Vec<Metric> {
    COUNTERS.iter().filter(|counter| names.contains(&counter.name)).filter_map(Metric::of_counter).collect()
}

const PROCESS: &[Metric] = &[
    Metric::gauge("longhaul_build", "Version of the program.", |scrape, out| {
        out.add(&[&scrape.snapshot.version], true);
    })
    .of_kind(MetricType::Info)
    .by(&["version"]),
    Metric::gauge("longhaul_start_time_seconds", "Time of the start, in seconds since 1970.", |scrape, out| {
        out.add(&[], scrape.snapshot.started_unix_seconds);
    })
    .in_unit("seconds"),
    Metric::gauge("longhaul_ready", "1 while the daemon wants connections, as /readyz says.", |scrape, out| {
        out.add(&[], scrape.snapshot.ready);
    }),
    Metric::gauge("longhaul_serving", "0 while the daemon drains or stops, else 1.", |scrape, out| {
        out.add(&[], scrape.snapshot.phase == Phase::Serving);
    }),
    Metric::gauge(
        "longhaul_problems",
        "Number of problems that the daemon knows of, as in /status.json.",
        |scrape, out| {
            out.add(&[], scrape.snapshot.problems.len() as u64);
        },
    ),
    Metric::gauge(
        "longhaul_problem",
        "Number of problems by tunnel and stage. Absent without one; `tunnel` is empty for a problem of the process.",
        |scrape, out| {
            let mut counts: BTreeMap<_, u64> = BTreeMap::new();
            for Problem { tunnel, stage, .. } in &scrape.snapshot.problems {
                *counts.entry([tunnel.as_deref().unwrap_or_default(), stage]).or_default() += 1;
            }
            counts.into_iter().for_each(|(labels, count)| out.add(&labels, count));
        },
    )
    .by(&["tunnel", "stage"]),
    Metric::gauge("longhaul_reload_refused", "1 if the last reload was refused, else 0.", |scrape, out| {
        out.add(&[], scrape.snapshot.reload_refused.is_some());
    }),
    Metric::gauge(
        "longhaul_process_flows",
        "Live flows, also those of tunnels that a reload removed.",
        |scrape, out| {
            out.add(&[], scrape.snapshot.counters.flows_now);
        },
    ),
    Metric::counter(
        "longhaul_process_bytes",
        "Bytes carried, also by flows of removed tunnels. They grow while a flow lives.",
        |scrape, out| {
            let counters = &scrape.snapshot.counters;
            out.each(&[], &[Count("up", counters.bytes_up), Count("down", counters.bytes_down)]);
        },
    )
    .in_unit("bytes")
    .by(&["direction"]),
    Metric::counter(
        "longhaul_process_refused",
        "Connections reset before a flow began, also those to a socket of systemd without a tunnel.",
        |scrape, out| out.add(&[], scrape.snapshot.counters.refused),
    ),
    Metric::counter("longhaul_process_cpu_seconds", "Processor time of all threads.", |scrape, out| {
        out.add(&[], scrape.process.cpu.as_secs_f64());
    })
    .in_unit("seconds"),
    Metric::gauge("longhaul_process_resident_memory_bytes", "Resident memory.", |scrape, out| {
        scrape.process.resident.into_iter().for_each(|bytes| out.add(&[], bytes));
    })
    .in_unit("bytes"),
    Metric::gauge("longhaul_process_open_fds", "Open descriptors.", |scrape, out| {
        scrape.process.descriptors.into_iter().for_each(|number| out.add(&[], number));
    }),
];

const TUNNEL: &[Metric] = &[
    Metric::gauge("longhaul_tunnel_listening", "1 while the tunnel accepts connections.", |scrape, out| {
        out.tunnels(scrape, |tunnel| tunnel.listening);
    })
    .by(&["tunnel"]),
    Metric::gauge(
        "longhaul_tunnel_ready",
        "1 while the tunnel listens and none of its problems is fatal. Failed dials and full limits are not fatal.",
        |scrape, out| {
            out.tunnels(scrape, |tunnel| tunnel.listening && !tunnel.health.is_broken());
        },
    )
    .by(&["tunnel"]),
];

const TUNNEL_SUMS: &[Metric] = &[
    Metric::counter(
        "longhaul_tunnel_bytes",
        "Bytes carried from the clients to the next hops (up) and back (down). They grow while a flow lives.",
        |scrape, out| {
            for tunnel in &scrape.snapshot.tunnels {
                let counters = &tunnel.counters;
                out.each(&[&tunnel.name], &[Count("up", counters.bytes_up), Count("down", counters.bytes_down)]);
            }
        },
    )
    .in_unit("bytes")
    .by(&["tunnel", "direction"]),
    Metric::counter(
        "longhaul_tunnel_flow_ends",
        "Flows that ended. `finished` is FIN in both directions; every other end is a reset of both legs.",
        |scrape, out| {
            for tunnel in &scrape.snapshot.tunnels {
                let counters = &tunnel.counters;
                let ends = [
                    Count("finished", counters.finished),
                    Count("reset by peer", counters.reset_by_peer),
                    Count("timed out", counters.timed_out),
                    Count("leg failed", counters.leg_failed),
                    Count("dial failed", counters.dials_failed),
                    Count("half-open too long", counters.half_open_too_long),
                    Count("cut", counters.cut),
                    Count("probe refused", counters.refused_probe_flows),
                ];
                out.each(&[&tunnel.name], &ends);
            }
        },
    )
    .by(&["tunnel", "how"]),
    Metric::counter(
        "longhaul_tunnel_refused",
        "Connections reset before a flow began. `not allowed` includes too many flows from the tunnel's own next hop.",
        |scrape, out| {
            for tunnel in &scrape.snapshot.tunnels {
                let counters = &tunnel.counters;
                let reasons = [
                    Count("not allowed", counters.not_allowed),
                    Count("proxy header", counters.bad_proxy_headers),
                    Count("source limit", counters.over_source_limit),
                ];
                out.each(&[&tunnel.name], &reasons);
            }
        },
    )
    .by(&["tunnel", "how"]),
    Metric::gauge(
        "longhaul_tunnel_dial_seconds",
        "Time from accept to the next hop's answer, with the lookup of its name and the hops that did not answer.",
        |scrape, out| {
            for tunnel in &scrape.tunnels {
                out.add(&[&tunnel.name], tunnel.dial_times.clone());
            }
        },
    )
    .of_kind(MetricType::Histogram)
    .in_unit("seconds")
    .by(&["tunnel"]),
];

const LEG: &[Metric] = &[
    Metric::gauge(
        "longhaul_leg_rtt_seconds",
        "Smoothed round-trip times of live legs that send, by samples: every 10 s up to 1,000 flows, in turn.",
        |scrape, out| out.legs(scrape, |leg| leg.figures.rtt.clone()),
    )
    .of_kind(MetricType::Histogram)
    .in_unit("seconds")
    .by(&["tunnel", "leg"]),
    Metric::gauge(
        "longhaul_leg_delivery_bytes_per_second",
        "Delivery rates of the same samples, without those that the application limited.",
        |scrape, out| out.legs(scrape, |leg| leg.figures.delivery.clone()),
    )
    .of_kind(MetricType::Histogram)
    .in_unit("bytes_per_second")
    .by(&["tunnel", "leg"]),
    Metric::counter("longhaul_leg_samples", "The same samples, by what limited the leg.", |scrape, out| {
        for tunnel in &scrape.tunnels {
            tunnel.legs.iter().for_each(|leg| out.each(&[&tunnel.name, leg.leg], &by_limit(leg.figures.limits)));
        }
    })
    .by(&["tunnel", "leg", "limit"]),
    Metric::gauge("longhaul_legs", "Live legs at the time of the scrape, by what limits them at this moment.", |scrape, out| {
        for tunnel in &scrape.tunnels {
            tunnel.legs.iter().for_each(|leg| out.each(&[&tunnel.name, leg.leg], &by_limit(leg.now)));
        }
    })
    .by(&["tunnel", "leg", "limit"]),
    Metric::counter(
        "longhaul_leg_retransmitted_bytes",
        "Payload bytes that the relay retransmitted, on ended legs and so far on live ones. A leg that is just ending is \
         added with the next scrape.",
        |scrape, out| out.legs(scrape, |leg| leg.retransmitted),
    )
    .in_unit("bytes")
    .by(&["tunnel", "leg"]),
];

fn by_limit(counts: [u64; Limit::ALL.len()]) -> Vec<Count> {
    Limit::ALL.into_iter().zip(counts).map(|(limit, count)| Count(limit.name(), count)).collect()
}

const NEXT_HOP: &[Metric] = &[Metric::gauge(
    "longhaul_next_hop_up",
    "0 while the hop is ejected or down, its last dials failed, or its name has no address; else 1.",
    |scrape, out| {
        out.hops(scrape, |hop| Some(hop.health < Health::Doubtful));
    },
)
.by(&["tunnel", "next_hop"])];

const VERIFY: &[Metric] = &[
    Metric::gauge(
        "longhaul_verify_whole",
        "1 if the last probe found the tunnel whole, 0 if it found a broken stage. Absent before the first result.",
        |scrape, out| {
            out.verified(scrape, |verify| match verify.state {
                VerifyStateName::Pending => None,
                state => Some(state == VerifyStateName::Whole),
            });
        },
    )
    .by(&["tunnel"]),
    Metric::gauge(
        "longhaul_verify_broken",
        "1 for the broken stage of a tunnel, also while newer probes have no result. Absent while it is whole. While another host \
         has the address, and until the first result after its return, it stays until the result is 2 minutes old.",
        |scrape, out| {
            for tunnel in &scrape.snapshot.tunnels {
                let Some(verify) = &tunnel.verify else { continue };
                if let Some(stage) = verify.stage.as_ref().filter(|_| verify.health >= Health::Doubtful) {
                    out.add(&[&tunnel.name, stage, verify.cause.as_deref().unwrap_or_default()], true);
                }
            }
        },
    )
    .by(&["tunnel", "stage", "cause"]),
    Metric::gauge(
        "longhaul_verify_last_time_seconds",
        "Time of the last result, or of the return of the address if that was later, in seconds since 1970. Absent before both, and while another \
         host has the address.",
        |scrape, out| {
            out.verified(scrape, |verify| verify.waited_since_unix_seconds.filter(|_| !verify.elsewhere));
        },
    )
    .in_unit("seconds")
    .by(&["tunnel"]),
    Metric::gauge(
        "longhaul_verify_elsewhere_seconds",
        "Time for which the tunnel's address has not been on this host, as on a backup relay. 0 while it is here. Absent after a \
         drain has closed the listener.",
        |scrape, out| {
            let now = scrape.snapshot.unix_seconds();
            for tunnel in scrape.snapshot.tunnels.iter().filter(|tunnel| tunnel.listening) {
                let Some(verify) = &tunnel.verify else { continue };
                let elsewhere = verify.elsewhere_since_unix_seconds.map_or(0.0, |since| (now - since).max(0.0));
                out.add(&[&tunnel.name], elsewhere);
            }
        },
    )
    .in_unit("seconds")
    .by(&["tunnel"]),
];

const LAST_PROBE: &[Metric] = &[
    Metric::gauge("longhaul_verify_interval_seconds", "Time between two probes.", |scrape, out| {
        out.verified(scrape, |verify| Some(verify.interval_seconds));
    })
    .in_unit("seconds")
    .by(&["tunnel"]),
    Metric::gauge("longhaul_verify_duration_seconds", "Time that the last probe took.", |scrape, out| {
        out.verified(scrape, |verify| Some(verify.history.last()?.seconds));
    })
    .in_unit("seconds")
    .by(&["tunnel"]),
    Metric::gauge(
        "longhaul_verify_rtt_seconds",
        "Round-trip time of a small message over the whole path, by the last probe.",
        |scrape, out| out.verified(scrape, |verify| Some(verify.history.last()?.rtt_ms? / 1e3)),
    )
    .in_unit("seconds")
    .by(&["tunnel"]),
    Metric::gauge(
        "longhaul_verify_goodput_bytes_per_second",
        "Payload of the last probe in each direction. A probe is too short to fill a path.",
        |scrape, out| {
            out.verified(scrape, |verify| Some(verify.history.last()?.goodput_bits_per_second? as f64 / 8.0));
        },
    )
    .in_unit("bytes_per_second")
    .by(&["tunnel"]),
];

const RESOURCE: &[Metric] = &[
    Metric::gauge(
        "longhaul_resource_used",
        "The part of a resource that is in use. `ephemeral ports`: that of the address with most flows.",
        |scrape, out| {
            out.resources(scrape, |resource| resource.used);
        },
    )
    .by(&["resource"]),
    Metric::gauge("longhaul_resource_limit", "The limit of a resource. Absent if it has none.", |scrape, out| {
        out.resources(scrape, |resource| resource.limit);
    })
    .by(&["resource"]),
    Metric::gauge(
        "longhaul_resource_near_limit",
        "1 from 80 % of the limit on, until less than 70 % is in use, else 0.",
        |scrape, out| out.resources(scrape, |resource| Some(resource.near_since_unix_seconds.is_some())),
    )
    .by(&["resource"]),
    Metric::gauge(
        "longhaul_resource_warning",
        "1 if a resource needs attention, else 0. The reason and the remedy: `longhaul status`.",
        |scrape, out| out.resources(scrape, |resource| Some(resource.warning.is_some())),
    )
    .by(&["resource"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The labels that may be used. Each has as many values as the configuration or the program gives it.
    const LABELS: &[&str] =
        &["tunnel", "next_hop", "direction", "leg", "how", "limit", "stage", "cause", "resource", "version"];

    #[test]
    fn names_labels_and_units_follow_the_conventions() {
        let mut names: Vec<&str> = rows().map(|row| row.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), rows().count(), "each name is there once");
        for row in rows() {
            assert!(row.name.starts_with("longhaul_"), "{}", row.name);
            assert!(row.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{}", row.name);
            // OpenMetrics 1.0, "MetricFamily": the name ends with the unit. The suffixes are those of samples.
            row.unit.into_iter().for_each(|unit| assert!(row.name.ends_with(&format!("_{unit}")), "{}", row.name));
            assert!(!row.name.ends_with("_total") && !row.name.ends_with("_info"), "{}", row.name);
            assert!(row.labels.iter().all(|label| LABELS.contains(label)), "{}", row.name);
            assert!(row.help.ends_with('.') && !row.help.contains('\n'), "{}: {}", row.name, row.help);
        }
    }
}
