//! What limits a live flow now. The admin thread looks at it, so the flow's own task does nothing for it.

use crate::leg::sample::sample;
use crate::leg::stream::Stream;
use crate::live::flow::{FindingState, Flow};
use crate::live::tally::Tally;
use crate::lock::lock;
use longhaul_config::options::Leg;
use longhaul_core::path::Sample;
use longhaul_core::path::diagnosis::{Finding, Findings, Looks, Side, Watch};
use longhaul_core::path::laws::LossResponse;
use longhaul_sys::sockopt;
use longhaul_sys::tcp_info::TcpInfo;
use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

/// The looks at the flows that carry bytes, and what has limited each of them so far. A flow that was never bulk is not in it.
#[derive(Debug, Default)]
pub(crate) struct Diagnoses(Mutex<HashMap<u64, Watched>>);

/// What limits a flow.
#[derive(Clone, Debug)]
pub(crate) struct Limited {
    /// The finding.
    pub(crate) finding: Finding,
    /// The leg from which the bytes of its direction come.
    source: Leg,
}

/// A flow that carries bytes, or has.
#[derive(Debug)]
struct Watched {
    flow: Weak<Flow>,
    /// Number of bytes that it had carried at the last visit.
    seen: u64,
    /// The leg from which the bytes of the watched direction come.
    source: Leg,
    /// `None` while it carries little.
    watch: Option<Box<Watch>>,
    /// Number of bytes that each leg had brought when the watch began, by [`Leg::index`].
    before: [u64; 2],
    /// Whether the latest of `found` holds now.
    is_found: bool,
    /// The findings of the watched direction.
    found: Findings,
}

impl Diagnoses {
    /// Looks at both legs of `flow`, unless it carries little: two system calls. Returns whether it has. Call it a few times a second, from no
    /// thread that carries flows.
    pub(crate) fn look(&self, flow: &Arc<Flow>, now: Instant) -> bool {
        let total = flow.tally().up + flow.tally().down;
        let has_moved = flow.has_moved(total / LEAST_MOVED);
        if describes_a_subflow(flow) {
            return false;
        }
        let waits = Leg::ALL.iter().any(|leg| flow.is_blocked(*leg));
        // Taken out, because a worker that ends a flow must not wait for the system calls.
        let known = lock(&self.0).remove(&flow.number);
        let is_bulk = waits || known.as_ref().map_or(has_moved, |watched| total - watched.seen >= LEAST_MOVED);
        let mut watched = known.unwrap_or_else(|| Watched::of(flow));
        if is_bulk {
            watched.look(flow, total, now);
        } else {
            watched.rest();
        }
        if watched.watch.is_some() || !watched.found.is_empty() {
            lock(&self.0).insert(flow.number, watched);
        }
        is_bulk
    }

    /// Forgets the flows that have ended.
    pub(crate) fn forget_ended(&self) {
        lock(&self.0).retain(|_, watched| watched.flow.strong_count() > 0);
    }

    /// Forgets `flow`, which has ended. Returns what has limited it for the longest time; `None` if that was never found.
    pub(crate) fn end(&self, flow: &Flow) -> Option<Limited> {
        let Tally { up, down } = flow.tally();
        if up + down < LEAST_MOVED {
            return None; // of the many short flows, none takes the lock
        }
        let Watched { found, source, .. } = lock(&self.0).remove(&flow.number)?;
        found.longest().map(|finding| Limited { finding, source })
    }

    /// Returns what limits `flow`.
    pub(crate) fn of(&self, flow: &Flow) -> FindingState {
        let list = lock(&self.0);
        let watched = list.get(&flow.number);
        let source = watched.map_or(Leg::Accept, |watched| watched.source);
        if let Some(finding) = watched.filter(|watched| watched.is_found).and_then(|watched| watched.found.latest()) {
            return Limited { finding: finding.clone(), source }.state();
        }
        let why = match watched {
            Some(Watched { watch: Some(_), .. }) => "it has carried bytes for some seconds at most",
            _ if describes_a_subflow(flow) => "of Multipath TCP, the kernel describes one subflow alone",
            _ => "it carries little now",
        };
        Limited { finding: Finding::unknown(why), source }.state()
    }
}

impl Watched {
    fn of(flow: &Arc<Flow>) -> Watched {
        let source = if flow.carried(Leg::Dial) > flow.carried(Leg::Accept) { Leg::Dial } else { Leg::Accept };
        let (flow, before, found) = (Arc::downgrade(flow), [0; 2], Findings::default());
        Watched { flow, seen: 0, source, watch: None, before, is_found: false, found }
    }

    /// It carries little for a while.
    fn rest(&mut self) {
        (self.watch, self.is_found) = (None, false);
    }

    fn look(&mut self, flow: &Flow, total: u64, now: Instant) {
        self.seen = total;
        let brought = Leg::ALL.map(|leg| flow.carried(leg));
        if self.watch.is_none() {
            self.before = brought;
        }
        let source = self.source;
        let (Some(from), Some(to)) = (flow.stream(source), flow.stream(source.other())) else { return };
        let (Some(from), Some(sink)) = (sample_of(&from), sample_of(&to)) else { return };
        let sink = Sample { is_blocked: flow.is_blocked(source), ..sink };
        let looks = Looks { source: from, sink, carried: flow.carried(source) };
        // Without losses, before Linux 4.19, nobody knows how the congestion control takes them.
        let tells = TcpInfo::tells_retransmitted_bytes();
        let response = || LossResponse::of(&sockopt::congestion(to.as_fd()).ok().filter(|_| tells)?);
        let Some(mut facts) = self.watch.get_or_insert_default().look(now, &looks, response) else { return };
        let moved = Leg::ALL.map(|leg| brought[leg.index()] - self.before[leg.index()]);
        self.before = brought;
        // Of two that carry the same, the first one stays.
        if moved[source.other().index()] / 5 * 4 > moved[source.index()] {
            (self.source, self.watch, self.is_found) = (source.other(), None, false);
            self.found = Findings::default();
            return;
        }
        facts.is_ssh = flow.is_ssh();
        self.found.add(facts.finding());
        self.is_found = true;
    }
}

impl Limited {
    /// Returns the leg that has the limit; `None` if it is of both, or not known.
    pub(crate) fn leg(&self) -> Option<Leg> {
        Some(if self.finding.leg? == Side::Source { self.source } else { self.source.other() })
    }

    fn state(&self) -> FindingState {
        let Limited { finding, source } = self;
        FindingState {
            kind: finding.kind.to_string(),
            leg: self.leg().map(|leg| leg.name().to_string()),
            direction: if *source == Leg::Accept { "up" } else { "down" }.to_string(),
            evidence: finding.evidence.clone(),
            what_if_mbps: finding.what_if.map(|rate| (rate.0 / 1000) as f64 / 1e3),
            then_limited_by: finding.then.map(|kind| kind.to_string()),
            advice: finding.advice.to_string(),
        }
    }
}

/// Whether TCP_INFO describes one subflow of a leg, and not the leg.
fn describes_a_subflow(flow: &Flow) -> bool {
    Leg::ALL.iter().any(|leg| flow.tunnel.mptcp(*leg))
}

fn sample_of(stream: &Stream) -> Option<Sample> {
    TcpInfo::of(stream.as_fd()).ok().map(|info| sample(&info))
}

/// Number of bytes between two visits that are worth a look.
const LEAST_MOVED: u64 = 16 << 10;
