//! Counters of the process. They only grow, except those whose names end in "now". The bytes are counted in the registry.

use super::how::How;
use super::tally::Tally;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tracing::info;

/// Makes [`Counters`] and [`CounterValues`] from one list, so that a new counter is a line of it.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Every counter. The code that sees an event counts it.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: AtomicU64,)*
        }

        /// The counters at one moment, for the log and for views.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct CounterValues {
            $($(#[$doc])* pub $name: u64,)*
            /// Bytes that all flows, live and ended, have carried from their clients to their next hops.
            pub bytes_up: u64,
            /// The same in the other direction.
            pub bytes_down: u64,
        }

        impl Counters {
            /// Returns all counters. `carried` are the bytes of all flows, live and ended.
            pub(super) fn values(&self, carried: Tally) -> CounterValues {
                CounterValues {
                    $($name: self.$name.load(Relaxed),)*
                    bytes_up: carried.up,
                    bytes_down: carried.down,
                }
            }
        }

        impl CounterValues {
            /// Writes all counters to the log.
            pub(super) fn log(&self) {
                info!($($name = self.$name,)* bytes_up = self.bytes_up, bytes_down = self.bytes_down, "counters");
            }
        }
    };
}

counters! {
    /// Flows open now.
    flows_now,
    /// Connections accepted and allowed.
    accepted,
    /// Connections that were reset before a flow began: the allow-list does not contain their peer, too many flows come
    /// from the tunnel's own next hop, or they came to a socket from systemd that has no tunnel. The next two counters
    /// give further reasons, which are counted here too.
    refused,
    /// Connections that were reset because `proxy_in` found no valid header in time.
    bad_proxy_headers,
    /// Connections that were reset because of a limit of their source.
    over_source_limit,
    /// Number of times that accept failed: EMFILE, ENFILE, ENOBUFS, ENOMEM, ENOSPC.
    accept_errors,
    /// Number of times that connections of a tunnel had to wait because no permit was free.
    without_permit,
    /// Number of times that a next hop was ejected or went down.
    hops_lost,
    /// Dials and active checks that used an expired answer for a name, because no resolver had answered in time.
    stale_answers,
    /// Flows that ended well in both directions.
    finished,
    /// Flows that ended with RST. The next six counters give the reason.
    reset,
    /// Flows whose dial no address answered.
    dials_failed,
    /// Flows in which a peer sent RST.
    reset_by_peer,
    /// Flows in which a peer stopped answering.
    timed_out,
    /// Flows in which a leg failed with another errno.
    leg_failed,
    /// Flows that `linger-half-open` ended.
    half_open_too_long,
    /// Flows that longhaul cut: drain timeout, second signal, or command.
    cut,
    /// Number of times that bulk was copied through user space because no pipe was free or the socket refused splice.
    copied,
    /// Probes that were answered or passed on.
    probes,
    /// Probes that were refused: a preface that cannot be used, too many probes, or one that may not be passed on.
    probes_refused,
    /// Probes among these whose prober did not prove the key of `[probe] key_file`.
    probes_unproven,
    /// Probes of tunnels with `verify` that found their tunnel broken.
    verify_broken,
}

impl Counters {
    /// Counts a flow that has ended.
    pub(super) fn ended(&self, how: How) {
        let why = match how {
            How::Finished => None,
            How::Reset(_) => Some(&self.reset_by_peer),
            How::TimedOut(_) => Some(&self.timed_out),
            How::Failed(..) => Some(&self.leg_failed),
            How::DialFailed => Some(&self.dials_failed),
            How::HalfOpenTooLong => Some(&self.half_open_too_long),
            How::Cut | How::Killed => Some(&self.cut),
        };
        match why {
            None => self.finished.fetch_add(1, Relaxed),
            Some(why) => why.fetch_add(1, Relaxed) + self.reset.fetch_add(1, Relaxed),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_config::options::Leg;

    #[test]
    fn each_reset_has_one_reason() {
        let counters = Counters::default();
        let resets = [
            How::Reset(Leg::Accept),
            How::TimedOut(Leg::Dial),
            How::Failed(Leg::Dial, libc::EHOSTUNREACH),
            How::DialFailed,
            How::HalfOpenTooLong,
            How::Cut,
            How::Killed,
        ];
        [How::Finished].into_iter().chain(resets).for_each(|how| counters.ended(how));
        let reasons = [
            &counters.reset_by_peer,
            &counters.timed_out,
            &counters.leg_failed,
            &counters.dials_failed,
            &counters.half_open_too_long,
            &counters.cut,
        ];
        assert_eq!(reasons.map(|reason| reason.load(Relaxed)), [1, 1, 1, 1, 1, 2]);
        assert_eq!((counters.finished.load(Relaxed), counters.reset.load(Relaxed)), (1, 7));
    }
}
