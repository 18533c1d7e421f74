//! Counters of the process and of each tunnel. They only grow, except those whose names end in "now". The bytes of live
//! flows are counted in the registry.

use crate::live::distributions::Distributions;
use crate::live::how::How;
use crate::live::saved::SavedTime;
use crate::live::stalled::Stalled;
use crate::live::tally::Tally;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tracing::info;

/// A counter, for views.
#[derive(Debug)]
pub struct Counter {
    /// Its name in the JSON and in the log.
    pub name: &'static str,
    /// Returns its value.
    pub of: fn(&CounterValues) -> u64,
    /// The metric of each tunnel: its name, and one sentence. `None` if it has none of its own.
    pub metric: Option<[&'static str; 2]>,
    /// The metric of which it is one sample: its name, and the value of its label `how`.
    pub sample: Option<[&'static str; 2]>,
    /// Heading of its column in the tables of tunnels. `None` without one.
    pub heading: Option<&'static str>,
}

impl Counter {
    /// Whether its value may fall.
    pub fn is_gauge(&self) -> bool {
        self.name.ends_with("_now")
    }
}

/// Makes [`Counters`], [`CounterValues`] and [`COUNTERS`] from one list, so that a new counter is a line of it:
/// `name => "metric" "help", "heading";`, or `name in "metric" "how";`. Metric and heading may be left out.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident $(=> $metric:literal $help:literal)? $(in $whole:literal $how:literal)? $(, $heading:literal)?;)*) => {
        /// Every counter, in the order of the list.
        pub const COUNTERS: &[Counter] = &[$(Counter {
            name: stringify!($name),
            of: |values| values.$name,
            metric: optional!($([$metric, $help])?),
            sample: optional!($([$whole, $how])?),
            heading: optional!($($heading)?),
        },)*];

        /// Every counter, of the process or of one tunnel. The code that sees an event counts it.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: AtomicU64,)*
            /// The counters of the process, if these are of a tunnel.
            all: Option<Arc<Counters>>,
            /// Bytes of the tunnel's ended flows, by direction. 0 for the process, whose bytes the registry counts.
            ended_up: AtomicU64,
            ended_down: AtomicU64,
            /// Distributions over the flows of the tunnel.
            pub(crate) distributions: Arc<Distributions>,
            /// The next hops and clients of the tunnel that do not answer.
            pub(crate) stalled: Stalled,
            /// The time that the relays have saved the flows of the tunnel.
            pub(crate) saved: SavedTime,
        }

        /// The counters at one moment, for the log and for views.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct CounterValues {
            $($(#[$doc])* pub $name: u64,)*
            /// Bytes that the flows, live and ended, have carried from their clients to their next hops.
            pub bytes_up: u64,
            /// The same in the other direction.
            pub bytes_down: u64,
        }

        impl Counters {
            /// Returns the values. `carried` are the bytes of the flows, live and ended.
            pub(crate) fn values(&self, carried: Tally) -> CounterValues {
                CounterValues {
                    $($name: self.$name.load(Relaxed),)*
                    bytes_up: carried.up,
                    bytes_down: carried.down,
                }
            }
        }

        impl CounterValues {
            /// Writes all counters to the log.
            pub(crate) fn log(&self) {
                info!($($name = self.$name,)* bytes_up = self.bytes_up, bytes_down = self.bytes_down, "counters");
            }
        }
    };
}

macro_rules! optional {
    () => {
        None
    };
    ($value:expr) => {
        Some($value)
    };
}

counters! {
    /// Flows open now.
    flows_now => "longhaul_tunnel_flows"
        "Live flows.";
    /// Connections accepted and allowed.
    accepted => "longhaul_tunnel_flows_accepted"
        "Connections accepted and allowed: flows that began.";
    /// Connections that were reset before a flow began. Each has its reason in `longhaul_tunnel_refused`, except those to a socket
    /// from systemd that has no tunnel.
    refused, "refused";
    /// Connections that were reset because of `allow`, because they were not the announced probe, or because they came to an FTP data
    /// listener from a host outside of `ftp.data_from`.
    not_allowed in "longhaul_tunnel_refused" "not allowed";
    /// Connections that were reset because too many flows come from the tunnel's own next hop, or go round in a loop.
    looped in "longhaul_tunnel_refused" "loop";
    /// Connections that were reset because `proxy_in` found no valid header in time.
    bad_proxy_headers in "longhaul_tunnel_refused" "proxy header";
    /// Connections that were reset because of a limit of their source.
    over_source_limit in "longhaul_tunnel_refused" "source limit";
    /// Connections to a tunnel with `proxy_in` that ended without a byte, or right behind a header that names no client.
    health_checks => "longhaul_tunnel_health_checks"
        "Connections to a tunnel with `proxy_in` that were health checks: they ended without payload.";
    /// Number of times that accept failed: EMFILE, ENFILE, ENOBUFS, ENOMEM, ENOSPC.
    accept_errors => "longhaul_tunnel_accept_errors"
        "Times that accept failed for lack of descriptors or memory.";
    /// Number of times that connections of a tunnel had to wait because no permit was free.
    without_permit => "longhaul_tunnel_permit_waits"
        "Times that connections had to wait because no descriptors were left for another flow.";
    /// Number of times that a next hop was ejected or went down.
    hops_lost => "longhaul_tunnel_next_hops_lost"
        "Times that a next hop was ejected or went down.";
    /// Dials and active checks that used an expired answer for a name, because no resolver had answered in time.
    stale_answers => "longhaul_tunnel_stale_answers"
        "Dials and checks that used an expired answer for a name.";
    /// Flows that ended well in both directions.
    finished in "longhaul_tunnel_flow_ends" "finished";
    /// Flows that ended with RST. Each has its reason in `longhaul_tunnel_flow_ends`.
    reset;
    /// Flows whose dial no address answered.
    dials_failed in "longhaul_tunnel_flow_ends" "dial failed";
    /// Flows in which a peer sent RST.
    reset_by_peer in "longhaul_tunnel_flow_ends" "reset by peer";
    /// Flows that their client reset within a second, without a byte: health checks.
    checked in "longhaul_tunnel_flow_ends" "health check";
    /// Flows in which a peer stopped answering.
    timed_out in "longhaul_tunnel_flow_ends" "timed out";
    /// Flows in which a leg failed with another errno.
    leg_failed in "longhaul_tunnel_flow_ends" "leg failed";
    /// Flows that `linger-half-open` ended.
    half_open_too_long in "longhaul_tunnel_flow_ends" "half-open too long";
    /// Flows that longhaul cut: drain timeout, second signal, or command.
    cut in "longhaul_tunnel_flow_ends" "cut";
    /// Flows that ended because longhaul refused their probe. After a failed dial, such a flow is one of `dials_failed`.
    refused_probe_flows in "longhaul_tunnel_flow_ends" "probe refused";
    /// Number of times that bulk was copied through user space because no pipe was free or the socket refused splice.
    copied => "longhaul_tunnel_bulk_copied"
        "Times that bulk was copied through user space because no pipe was free or the socket refused splice.";
    /// FTP data listeners that wait for their connection now.
    ftp_listeners_now => "longhaul_tunnel_ftp_listeners"
        "FTP data listeners that wait for their connection.";
    /// FTP data listeners to which no connection came in time, and those of passive mode to which none came before the control
    /// connection ended or the client asked for another one. Data ports of the other side that could not be dialled, unless the
    /// server refused the transfer as well.
    ftp_unused => "longhaul_tunnel_ftp_unused"
        "FTP data listeners to which no connection came, and data ports that could not be dialled.";
    /// Commands and replies of FTP that were refused, because they name an address or a port that is not allowed, or because no
    /// data listener could be opened.
    ftp_refused => "longhaul_tunnel_ftp_refused"
        "Commands and replies of FTP that were refused. The log has the reason.";
    /// Probes that were answered or passed on.
    probes => "longhaul_tunnel_probes"
        "Probes of `longhaul verify` that were answered or passed on.";
    /// Probes that were refused: a preface that cannot be used, too many probes, or one that may not be passed on.
    probes_refused => "longhaul_tunnel_probes_refused"
        "Probes that were refused.";
    /// Refused probes whose prober did not prove the key of `[probe] key_file`.
    probes_unproven => "longhaul_tunnel_probes_unproven"
        "Probes among the refused ones whose senders did not prove the key.";
    /// Probes of tunnels with `verify` that found their tunnel broken.
    verify_failures => "longhaul_verify_failures"
        "Probes of a tunnel with `verify` that found it broken.";
}

impl Counters {
    /// Returns the counters of a new tunnel. Their events count in `all` too, the counters of the process.
    pub(crate) fn of_tunnel(all: &Arc<Counters>) -> Arc<Counters> {
        Arc::new(Counters { all: Some(all.clone()), ..Counters::default() })
    }

    /// Counts an event here and, if these are the counters of a tunnel, in those of the process.
    pub(crate) fn count(&self, counter: impl Fn(&Counters) -> &AtomicU64) {
        counter(self).fetch_add(1, Relaxed);
        if let Some(all) = &self.all {
            counter(all).fetch_add(1, Relaxed);
        }
    }

    /// Takes back an event of a counter whose name ends in "now".
    pub(crate) fn uncount(&self, counter: impl Fn(&Counters) -> &AtomicU64) {
        counter(self).fetch_sub(1, Relaxed);
        if let Some(all) = &self.all {
            counter(all).fetch_sub(1, Relaxed);
        }
    }

    /// Returns the bytes of the tunnel's ended flows.
    pub(super) fn ended_tally(&self) -> Tally {
        Tally { up: self.ended_up.load(Relaxed), down: self.ended_down.load(Relaxed) }
    }

    /// Adds the bytes of a flow of the tunnel that has ended.
    pub(super) fn add_ended(&self, tally: Tally) {
        self.ended_up.fetch_add(tally.up, Relaxed);
        self.ended_down.fetch_add(tally.down, Relaxed);
    }

    /// Counts a flow that has ended.
    pub(crate) fn ended(&self, how: How) {
        self.count(|counters| match how {
            How::Finished => &counters.finished,
            How::Reset(_) => &counters.reset_by_peer,
            How::Checked => &counters.checked,
            How::TimedOut(_) => &counters.timed_out,
            How::Failed(..) => &counters.leg_failed,
            How::DialFailed => &counters.dials_failed,
            How::HalfOpenTooLong => &counters.half_open_too_long,
            How::Cut | How::Killed => &counters.cut,
            How::ProbeRefused => &counters.refused_probe_flows,
        });
        if how != How::Finished {
            self.count(|counters| &counters.reset);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_config::options::Leg;

    #[test]
    fn the_manual_has_each_counter() {
        const MANUAL: &str = include_str!("../../../../docs/log.md");
        let values = serde_json::to_value(CounterValues::default()).unwrap();
        let missing: Vec<&String> =
            values.as_object().unwrap().keys().filter(|name| !MANUAL.contains(&format!("`{name}`"))).collect();
        assert!(missing.is_empty(), "docs/log.md lacks {missing:?}");
    }

    #[test]
    fn each_reset_has_one_reason() {
        let all = Arc::default();
        let (counters, other) = (Counters::of_tunnel(&all), Counters::of_tunnel(&all));
        other.ended(How::Finished);
        let resets = [
            How::Reset(Leg::Accept),
            How::Checked,
            How::TimedOut(Leg::Dial),
            How::Failed(Leg::Dial, libc::EHOSTUNREACH),
            How::DialFailed,
            How::HalfOpenTooLong,
            How::Cut,
            How::Killed,
            How::ProbeRefused,
        ];
        [How::Finished].into_iter().chain(resets).for_each(|how| counters.ended(how));
        let reasons = [
            &counters.reset_by_peer, &counters.checked, &counters.timed_out, &counters.leg_failed,
            &counters.dials_failed, &counters.half_open_too_long, &counters.cut, &counters.refused_probe_flows,
        ];
        assert_eq!(reasons.map(|reason| reason.load(Relaxed)), [1, 1, 1, 1, 1, 1, 2, 1]);
        assert_eq!((counters.finished.load(Relaxed), counters.reset.load(Relaxed)), (1, 9));
        assert_eq!((all.finished.load(Relaxed), all.reset.load(Relaxed)), (2, 9), "both tunnels");
    }
}
