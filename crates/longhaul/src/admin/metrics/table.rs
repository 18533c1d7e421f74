//! Every metric, and the only place where one is defined. docs/metrics.md has the same tables
//! (`UPDATE=1 cargo test -p longhaul --lib docs_metrics_md` writes them).

use super::row::{Count, Kind, Row};
use crate::admin::snapshot::{Health, Problem, VerifyStateName};
use crate::control::Phase;
use longhaul_core::path::limit::Limit;
use std::collections::BTreeMap;

/// Metrics that belong together.
pub(super) struct Section {
    /// The heading of its table in docs/metrics.md.
    #[cfg_attr(not(test), expect(dead_code, reason = "only the manual has headings"))]
    pub(super) heading: &'static str,
    pub(super) rows: &'static [Row],
}

/// Every metric.
pub(super) const SECTIONS: &[Section] = &[
    Section { heading: "## The process", rows: PROCESS },
    Section { heading: "## Tunnels", rows: TUNNEL },
    Section { heading: "## Legs", rows: LEG },
    Section { heading: "## Next hops", rows: NEXT_HOP },
    Section { heading: "## Verify", rows: VERIFY },
    Section { heading: "## Resources", rows: RESOURCE },
    Section { heading: "## The admin part", rows: ADMIN },
];

/// Returns every metric.
pub(super) fn rows() -> impl Iterator<Item = &'static Row> {
    SECTIONS.iter().flat_map(|section| section.rows)
}

const PROCESS: &[Row] = &[
    Row::gauge("longhaul_build", "Version of the program.", |figures, out| {
        out.add(&[&figures.snapshot.version], true);
    })
    .of_kind(Kind::Info)
    .by(&["version"]),
    Row::gauge("longhaul_start_time_seconds", "Time of the start, in seconds since 1970.", |figures, out| {
        out.add(&[], figures.snapshot.started_unix_seconds);
    })
    .in_unit("seconds"),
    Row::gauge("longhaul_ready", "1 while the daemon wants connections, as /readyz says.", |figures, out| {
        out.add(&[], figures.snapshot.ready);
    }),
    Row::gauge("longhaul_serving", "0 while the daemon drains or stops, else 1.", |figures, out| {
        out.add(&[], figures.snapshot.phase == Phase::Serving);
    }),
    Row::gauge(
        "longhaul_problems",
        "Number of problems that the daemon knows of, as in /status.json.",
        |figures, out| {
            out.add(&[], figures.snapshot.problems.len() as u64);
        },
    ),
    Row::gauge(
        "longhaul_problem",
        "Number of problems by tunnel and stage. Absent without one; `tunnel` is empty for a problem of the process.",
        |figures, out| {
            let mut counts: BTreeMap<_, u64> = BTreeMap::new();
            for Problem { tunnel, stage, .. } in &figures.snapshot.problems {
                *counts.entry([tunnel.as_deref().unwrap_or_default(), stage]).or_default() += 1;
            }
            counts.into_iter().for_each(|(labels, count)| out.add(&labels, count));
        },
    )
    .by(&["tunnel", "stage"]),
    Row::gauge("longhaul_reload_refused", "1 if the last reload was refused, else 0.", |figures, out| {
        out.add(&[], figures.snapshot.reload_refused.is_some());
    }),
    Row::gauge("longhaul_process_flows", "Live flows, also those of tunnels that a reload removed.", |figures, out| {
        out.add(&[], figures.snapshot.counters.flows_now);
    }),
    Row::counter(
        "longhaul_process_bytes",
        "Bytes carried, also by flows of removed tunnels. They grow while a flow lives.",
        |figures, out| {
            let counters = &figures.snapshot.counters;
            out.each(&[], &[Count("up", counters.bytes_up), Count("down", counters.bytes_down)]);
        },
    )
    .in_unit("bytes")
    .by(&["direction"]),
    Row::counter(
        "longhaul_process_refused",
        "Connections reset before a flow began, also those to a socket of systemd without a tunnel.",
        |figures, out| out.add(&[], figures.snapshot.counters.refused),
    ),
    Row::counter("longhaul_process_cpu_seconds", "Processor time of all threads.", |figures, out| {
        out.add(&[], figures.process.cpu.as_secs_f64());
    })
    .in_unit("seconds"),
    Row::gauge("longhaul_process_resident_memory_bytes", "Resident memory.", |figures, out| {
        figures.process.resident.into_iter().for_each(|bytes| out.add(&[], bytes));
    })
    .in_unit("bytes"),
    Row::gauge("longhaul_process_open_fds", "Open descriptors.", |figures, out| {
        figures.process.descriptors.into_iter().for_each(|number| out.add(&[], number));
    }),
];

const TUNNEL: &[Row] = &[
    Row::gauge("longhaul_tunnel_listening", "1 while the tunnel accepts connections.", |figures, out| {
        out.tunnels(figures, |tunnel| tunnel.listening);
    })
    .by(&["tunnel"]),
    Row::gauge(
        "longhaul_tunnel_ready",
        "1 while the tunnel listens and none of its problems is fatal. Failed dials and full limits are not fatal.",
        |figures, out| {
            out.tunnels(figures, |tunnel| tunnel.listening && !tunnel.health.is_broken());
        },
    )
    .by(&["tunnel"]),
    Row::gauge("longhaul_tunnel_flows", "Live flows.", |figures, out| {
        out.tunnels(figures, |tunnel| tunnel.counters.flows_now);
    })
    .by(&["tunnel"]),
    Row::counter(
        "longhaul_tunnel_flows_accepted",
        "Connections accepted and allowed: flows that began.",
        |figures, out| {
            out.tunnels(figures, |tunnel| tunnel.counters.accepted);
        },
    )
    .by(&["tunnel"]),
    Row::counter(
        "longhaul_tunnel_bytes",
        "Bytes carried from the clients to the next hops (up) and back (down). They grow while a flow lives.",
        |figures, out| {
            for tunnel in &figures.snapshot.tunnels {
                let counters = &tunnel.counters;
                out.each(&[&tunnel.name], &[Count("up", counters.bytes_up), Count("down", counters.bytes_down)]);
            }
        },
    )
    .in_unit("bytes")
    .by(&["tunnel", "direction"]),
    Row::counter(
        "longhaul_tunnel_flow_ends",
        "Flows that ended. `finished` is FIN in both directions; every other end is a reset of both legs.",
        |figures, out| {
            for tunnel in &figures.snapshot.tunnels {
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
    Row::counter(
        "longhaul_tunnel_refused",
        "Connections reset before a flow began. `not allowed` includes too many flows from the tunnel's own next hop.",
        |figures, out| {
            for tunnel in &figures.snapshot.tunnels {
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
    Row::gauge(
        "longhaul_tunnel_dial_seconds",
        "Time from accept to the next hop's answer, with the lookup of its name and the hops that did not answer.",
        |figures, out| {
            for tunnel in &figures.tunnels {
                out.add(&[&tunnel.name], tunnel.dial_times.clone());
            }
        },
    )
    .of_kind(Kind::Histogram)
    .in_unit("seconds")
    .by(&["tunnel"]),
    Row::counter(
        "longhaul_tunnel_next_hops_lost",
        "Times that a next hop was ejected or went down.",
        |figures, out| {
            out.tunnels(figures, |tunnel| tunnel.counters.hops_lost);
        },
    )
    .by(&["tunnel"]),
    Row::counter(
        "longhaul_tunnel_stale_answers",
        "Dials and checks that used an expired answer for a name.",
        |figures, out| {
            out.tunnels(figures, |tunnel| tunnel.counters.stale_answers);
        },
    )
    .by(&["tunnel"]),
    Row::counter(
        "longhaul_tunnel_accept_errors",
        "Times that accept failed for lack of descriptors or memory.",
        |figures, out| out.tunnels(figures, |tunnel| tunnel.counters.accept_errors),
    )
    .by(&["tunnel"]),
    Row::counter(
        "longhaul_tunnel_permit_waits",
        "Times that connections had to wait because no descriptors were left for another flow.",
        |figures, out| out.tunnels(figures, |tunnel| tunnel.counters.without_permit),
    )
    .by(&["tunnel"]),
    Row::counter(
        "longhaul_tunnel_bulk_copied",
        "Times that bulk was copied through user space because no pipe was free or the socket refused splice.",
        |figures, out| out.tunnels(figures, |tunnel| tunnel.counters.copied),
    )
    .by(&["tunnel"]),
    Row::gauge(
        "longhaul_tunnel_ftp_listeners",
        "FTP data listeners that wait for their connection.",
        |figures, out| out.tunnels(figures, |tunnel| tunnel.counters.ftp_listeners_now),
    )
    .by(&["tunnel"]),
    Row::counter(
        "longhaul_tunnel_ftp_unused",
        "FTP data listeners to which no connection came, and data ports that could not be dialled.",
        |figures, out| out.tunnels(figures, |tunnel| tunnel.counters.ftp_unused),
    )
    .by(&["tunnel"]),
    Row::counter(
        "longhaul_tunnel_ftp_refused",
        "Commands and replies of FTP that were refused. The log has the reason.",
        |figures, out| out.tunnels(figures, |tunnel| tunnel.counters.ftp_refused),
    )
    .by(&["tunnel"]),
    Row::counter(
        "longhaul_tunnel_probes",
        "Probes of `longhaul verify` that were answered or passed on.",
        |figures, out| {
            out.tunnels(figures, |tunnel| tunnel.counters.probes);
        },
    )
    .by(&["tunnel"]),
    Row::counter("longhaul_tunnel_probes_refused", "Probes that were refused.", |figures, out| {
        out.tunnels(figures, |tunnel| tunnel.counters.probes_refused);
    })
    .by(&["tunnel"]),
    Row::counter(
        "longhaul_tunnel_probes_unproven",
        "Probes among the refused ones whose senders did not prove the key.",
        |figures, out| {
            out.tunnels(figures, |tunnel| tunnel.counters.probes_unproven);
        },
    )
    .by(&["tunnel"]),
];

const LEG: &[Row] = &[
    Row::gauge(
        "longhaul_leg_rtt_seconds",
        "Smoothed round-trip times of live legs that send, by samples: every 10 s up to 1,000 flows, in turn.",
        |figures, out| out.legs(figures, |leg| leg.figures.rtt.clone()),
    )
    .of_kind(Kind::Histogram)
    .in_unit("seconds")
    .by(&["tunnel", "leg"]),
    Row::gauge(
        "longhaul_leg_delivery_bytes_per_second",
        "Delivery rates of the same samples, without those that the application limited.",
        |figures, out| out.legs(figures, |leg| leg.figures.delivery.clone()),
    )
    .of_kind(Kind::Histogram)
    .in_unit("bytes_per_second")
    .by(&["tunnel", "leg"]),
    Row::counter("longhaul_leg_samples", "The same samples, by what limited the leg.", |figures, out| {
        for tunnel in &figures.tunnels {
            tunnel.legs.iter().for_each(|leg| out.each(&[&tunnel.name, leg.leg], &by_limit(leg.figures.limits)));
        }
    })
    .by(&["tunnel", "leg", "limit"]),
    Row::gauge("longhaul_legs", "Live legs at the time of the scrape, by what limits them at this moment.", |figures, out| {
        for tunnel in &figures.tunnels {
            tunnel.legs.iter().for_each(|leg| out.each(&[&tunnel.name, leg.leg], &by_limit(leg.now)));
        }
    })
    .by(&["tunnel", "leg", "limit"]),
    Row::counter(
        "longhaul_leg_retransmitted_bytes",
        "Payload bytes that the relay retransmitted, on ended legs and so far on live ones. A leg that is just ending is \
         added with the next scrape.",
        |figures, out| out.legs(figures, |leg| leg.retransmitted),
    )
    .in_unit("bytes")
    .by(&["tunnel", "leg"]),
];

fn by_limit(counts: [u64; Limit::ALL.len()]) -> Vec<Count> {
    Limit::ALL.into_iter().zip(counts).map(|(limit, count)| Count(limit.name(), count)).collect()
}

const NEXT_HOP: &[Row] = &[
    Row::gauge(
        "longhaul_next_hop_up",
        "0 while the hop is ejected or down, its last dials failed, or its name has no address; else 1.",
        |figures, out| {
            out.hops(figures, |hop| Some(hop.health < Health::Doubtful));
        },
    )
    .by(&["tunnel", "next_hop"]),
    Row::gauge("longhaul_next_hop_state_seconds", "Time since the hop last changed its state.", |figures, out| {
        out.hops(figures, |hop| Some(hop.state_seconds));
    })
    .in_unit("seconds")
    .by(&["tunnel", "next_hop"]),
    Row::gauge("longhaul_next_hop_flows", "Flows to the hop, with those that are being dialled.", |figures, out| {
        out.hops(figures, |hop| Some(hop.flows_now));
    })
    .by(&["tunnel", "next_hop"]),
    Row::gauge("longhaul_next_hop_rtt_seconds", "Smoothed time of the hop's handshakes.", |figures, out| {
        out.hops(figures, |hop| hop.rtt_ms.map(|ms| ms / 1e3));
    })
    .in_unit("seconds")
    .by(&["tunnel", "next_hop"]),
    Row::gauge(
        "longhaul_next_hop_failed_dials",
        "Failed dials since the hop last answered, or passed its checks.",
        |figures, out| {
            out.hops(figures, |hop| Some(hop.failed_dials));
        },
    )
    .by(&["tunnel", "next_hop"]),
];

const VERIFY: &[Row] = &[
    Row::gauge(
        "longhaul_verify_whole",
        "1 if the last probe found the tunnel whole, 0 if it found a broken stage. Absent before the first result.",
        |figures, out| {
            out.verified(figures, |verify| match verify.state {
                VerifyStateName::Pending => None,
                state => Some(state == VerifyStateName::Whole),
            });
        },
    )
    .by(&["tunnel"]),
    Row::gauge(
        "longhaul_verify_broken",
        "1 for the broken stage of a tunnel, also while newer probes have no result. Absent while it is whole. While another host \
         has the address, and until the first result after its return, it stays until the result is 2 minutes old.",
        |figures, out| {
            for tunnel in &figures.snapshot.tunnels {
                let Some(verify) = &tunnel.verify else { continue };
                if let Some(stage) = verify.stage.as_ref().filter(|_| verify.health >= Health::Doubtful) {
                    out.add(&[&tunnel.name, stage, verify.cause.as_deref().unwrap_or_default()], true);
                }
            }
        },
    )
    .by(&["tunnel", "stage", "cause"]),
    Row::gauge(
        "longhaul_verify_last_time_seconds",
        "Time of the last result, or of the return of the address if that was later, in seconds since 1970. Absent before both, and while another \
         host has the address.",
        |figures, out| {
            out.verified(figures, |verify| verify.waited_since_unix_seconds.filter(|_| !verify.elsewhere));
        },
    )
    .in_unit("seconds")
    .by(&["tunnel"]),
    Row::gauge(
        "longhaul_verify_elsewhere_seconds",
        "Time for which the tunnel's address has not been on this host, as on a backup relay. 0 while it is here. Absent after a \
         drain has closed the listener.",
        |figures, out| {
            let now = figures.snapshot.unix_seconds();
            for tunnel in figures.snapshot.tunnels.iter().filter(|tunnel| tunnel.listening) {
                let Some(verify) = &tunnel.verify else { continue };
                let elsewhere = verify.elsewhere_since_unix_seconds.map_or(0.0, |since| (now - since).max(0.0));
                out.add(&[&tunnel.name], elsewhere);
            }
        },
    )
    .in_unit("seconds")
    .by(&["tunnel"]),
    Row::counter(
        "longhaul_verify_failures",
        "Probes of a tunnel with `verify` that found it broken.",
        |figures, out| {
            out.tunnels(figures, |tunnel| tunnel.counters.verify_failures);
        },
    )
    .by(&["tunnel"]),
    Row::gauge("longhaul_verify_interval_seconds", "Time between two probes.", |figures, out| {
        out.verified(figures, |verify| Some(verify.interval_seconds));
    })
    .in_unit("seconds")
    .by(&["tunnel"]),
    Row::gauge("longhaul_verify_duration_seconds", "Time that the last probe took.", |figures, out| {
        out.verified(figures, |verify| Some(verify.history.last()?.seconds));
    })
    .in_unit("seconds")
    .by(&["tunnel"]),
    Row::gauge(
        "longhaul_verify_rtt_seconds",
        "Round-trip time of a small message over the whole path, by the last probe.",
        |figures, out| out.verified(figures, |verify| Some(verify.history.last()?.rtt_ms? / 1e3)),
    )
    .in_unit("seconds")
    .by(&["tunnel"]),
    Row::gauge(
        "longhaul_verify_goodput_bytes_per_second",
        "Payload of the last probe in each direction. A probe is too short to fill a path.",
        |figures, out| {
            out.verified(figures, |verify| Some(verify.history.last()?.goodput_bits_per_second? as f64 / 8.0));
        },
    )
    .in_unit("bytes_per_second")
    .by(&["tunnel"]),
];

const RESOURCE: &[Row] = &[
    Row::gauge(
        "longhaul_resource_used",
        "The part of a resource that is in use. `ephemeral ports`: that of the address with most flows.",
        |figures, out| {
            out.resources(figures, |resource| resource.used);
        },
    )
    .by(&["resource"]),
    Row::gauge("longhaul_resource_limit", "The limit of a resource. Absent if it has none.", |figures, out| {
        out.resources(figures, |resource| resource.limit);
    })
    .by(&["resource"]),
    Row::gauge(
        "longhaul_resource_near_limit",
        "1 from 80 % of the limit on, until less than 70 % is in use, else 0.",
        |figures, out| out.resources(figures, |resource| Some(resource.near_since_unix_seconds.is_some())),
    )
    .by(&["resource"]),
    Row::gauge(
        "longhaul_resource_warning",
        "1 if a resource needs attention, else 0. The reason and the remedy: `longhaul status`.",
        |figures, out| out.resources(figures, |resource| Some(resource.warning.is_some())),
    )
    .by(&["resource"]),
];

const ADMIN: &[Row] = &[
    Row::counter("longhaul_admin_requests", "Requests answered, also with an error.", |figures, out| {
        out.add(&[], figures.snapshot.admin.requests);
    }),
    Row::counter("longhaul_admin_refused", "Connections of other users to the control socket.", |figures, out| {
        out.add(&[], figures.snapshot.admin.refused);
    }),
    Row::counter("longhaul_admin_malformed", "Connections that sent no valid request in time.", |figures, out| {
        out.add(&[], figures.snapshot.admin.malformed);
    }),
    Row::counter(
        "longhaul_admin_displaced",
        "Connections closed because a newer one needed their place.",
        |figures, out| {
            out.add(&[], figures.snapshot.admin.displaced);
        },
    ),
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
