//! Counters of the process. They only grow, except those whose names end in "now". The bytes are counted in the registry.

use super::how::How;
use super::tally::Tally;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tracing::info;

/// Every counter. The code that sees an event counts it.
#[derive(Debug, Default)]
pub struct Counters {
    /// Flows open now.
    pub flows_now: AtomicU64,
    /// Connections accepted and allowed.
    pub accepted: AtomicU64,
    /// Connections that were reset before a flow began: the allow-list does not contain their peer, too many flows come
    /// from the tunnel's own next hop, or they came to a socket from systemd that has no tunnel. The next two counters
    /// give further reasons, which are counted here too.
    pub refused: AtomicU64,
    /// Connections that were reset because `proxy_in` found no valid header in time.
    pub bad_proxy_headers: AtomicU64,
    /// Connections that were reset because of a limit of their source.
    pub over_source_limit: AtomicU64,
    /// Number of times that accept failed: EMFILE, ENFILE, ENOBUFS, ENOMEM, ENOSPC.
    pub accept_errors: AtomicU64,
    /// Number of times that connections of a tunnel had to wait because no permit was free.
    pub without_permit: AtomicU64,
    /// Number of times that a next hop was ejected or went down.
    pub hops_lost: AtomicU64,
    /// Dials and active checks that used an expired answer for a name, because no resolver had answered in time.
    pub stale_answers: AtomicU64,
    /// Flows that ended well in both directions.
    pub finished: AtomicU64,
    /// Flows that ended with RST. The next six counters give the reason.
    pub reset: AtomicU64,
    /// Flows whose dial no address answered.
    pub dials_failed: AtomicU64,
    /// Flows in which a peer sent RST.
    pub reset_by_peer: AtomicU64,
    /// Flows in which a peer stopped answering.
    pub timed_out: AtomicU64,
    /// Flows in which a leg failed with another errno.
    pub leg_failed: AtomicU64,
    /// Flows that `linger-half-open` ended.
    pub half_open_too_long: AtomicU64,
    /// Flows that longhaul cut: drain timeout, second signal, or command.
    pub cut: AtomicU64,
    /// Number of times that bulk was copied through user space because no pipe was free or the socket refused splice.
    pub copied: AtomicU64,
    /// Probes that were answered or passed on.
    pub probes: AtomicU64,
    /// Probes that were refused: a preface that cannot be used, too many probes, or one that may not be passed on.
    pub probes_refused: AtomicU64,
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

    /// Writes all counters to the log. `carried` are the bytes of all flows, live and ended.
    pub(super) fn log(&self, carried: Tally) {
        let now = |counter: &AtomicU64| counter.load(Relaxed);
        info!(
            flows_now = now(&self.flows_now),
            accepted = now(&self.accepted),
            refused = now(&self.refused),
            bad_proxy_headers = now(&self.bad_proxy_headers),
            over_source_limit = now(&self.over_source_limit),
            accept_errors = now(&self.accept_errors),
            without_permit = now(&self.without_permit),
            stale_answers = now(&self.stale_answers),
            finished = now(&self.finished),
            reset = now(&self.reset),
            dials_failed = now(&self.dials_failed),
            hops_lost = now(&self.hops_lost),
            reset_by_peer = now(&self.reset_by_peer),
            timed_out = now(&self.timed_out),
            leg_failed = now(&self.leg_failed),
            half_open_too_long = now(&self.half_open_too_long),
            cut = now(&self.cut),
            bytes_up = carried.up,
            bytes_down = carried.down,
            copied = now(&self.copied),
            probes = now(&self.probes),
            probes_refused = now(&self.probes_refused),
            "counters"
        );
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
