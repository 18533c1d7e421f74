//! What limits a live flow now, and what the relays are worth for it. The admin thread looks at it, so the flow's own task does nothing for it.

mod processor;

use crate::leg::sample::sample;
use crate::live::flow::{FindingState, Flow, GainState};
use crate::live::tally::Tally;
use crate::lock::lock;
use longhaul_config::options::Leg;
use longhaul_core::path::Sample;
use longhaul_core::path::diagnosis::{Finding, Findings, Looks, Side, Watch};
use longhaul_core::path::gain::{Gain, Ledger};
use longhaul_core::path::laws::LossResponse;
use longhaul_sys::sockopt;
use longhaul_sys::tcp_info::TcpInfo;
use longhaul_units::Rate;
use processor::ProcessorMeter;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// The looks at the flows that carry bytes, and what has limited each of them so far. A flow that was never bulk is not in it.
#[derive(Debug, Default)]
pub(crate) struct Diagnoses {
    /// Each with a lock of its own, because a look makes system calls.
    watched: Mutex<HashMap<u64, Arc<Mutex<Watched>>>>,
    processor: Mutex<ProcessorMeter>,
    /// Payload bytes that have arrived at each host on the watched flows.
    lines: Mutex<HashMap<IpAddr, u64>>,
}

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
    /// The last visit at which it had carried bytes, or waited.
    last_bulk: Instant,
    /// The leg from which the bytes of the watched direction come.
    source: Leg,
    /// `None` while it carries little.
    watch: Option<Box<Watch>>,
    /// The host to which the bytes go on, and those that had arrived there at the last look.
    sink: Option<(IpAddr, u64)>,
    /// Number of bytes that each leg had brought when the watch began, by [`Leg::index`].
    before: [u64; 2],
    /// Whether the latest of `found` holds now.
    is_found: bool,
    /// The findings of the watched direction.
    found: Findings,
    /// What the relays are worth for it.
    ledger: Box<Ledger>,
}

impl Diagnoses {
    /// Looks at the processor time of this process, once a second while flows carry bytes. Call it before [`look`](Diagnoses::look).
    pub(crate) fn look_at_processor(&self, now: Instant) {
        let is_idle = lock(&self.watched).is_empty();
        if !is_idle {
            lock(&self.processor).look(now);
        }
    }

    /// Looks at both legs of `flow`, unless it carries little: two system calls, and a third at the end of a window. Returns whether it has.
    /// Call it a few times a second, from no thread that carries flows.
    pub(crate) fn look(&self, flow: &Arc<Flow>, now: Instant) -> bool {
        let total = flow.tally().up + flow.tally().down;
        let has_moved = flow.has_moved(total / LEAST_MOVED);
        if describes_a_subflow(flow) {
            return false;
        }
        let waits = Leg::ALL.iter().any(|leg| flow.is_blocked(*leg));
        let known = lock(&self.watched).get(&flow.number).cloned();
        let is_known = known.is_some();
        let entry = known.unwrap_or_else(|| Arc::new(Mutex::new(Watched::of(flow, now))));
        let (has_looked, is_kept) = {
            let mut watched = lock(&entry);
            let has_moved = if is_known { total - watched.seen >= LEAST_MOVED } else { has_moved };
            watched.seen = total;
            if waits || has_moved {
                watched.last_bulk = now;
            }
            // A program that sends in bursts is silent at some visits.
            let is_bulk = waits || has_moved || watched.watch.is_some() && now - watched.last_bulk < LONGEST_SILENCE;
            if is_bulk {
                watched.look(flow, now, self);
            } else {
                watched.rest(flow, now);
            }
            (is_bulk, watched.watch.is_some() || !watched.found.is_empty())
        };
        let mut list = lock(&self.watched);
        match (is_known, is_kept) {
            (false, true) => drop(list.insert(flow.number, entry)),
            (true, false) => drop(list.remove(&flow.number)),
            // A flow that has ended meanwhile is gone.
            (true, true) | (false, false) => {}
        }
        has_looked
    }

    /// Forgets the flows that have ended, and the hosts without one.
    pub(crate) fn forget_ended(&self) {
        let mut list = lock(&self.watched);
        list.retain(|_, watched| lock(watched).flow.strong_count() > 0);
        let hosts: HashSet<IpAddr> = list.values().filter_map(|watched| Some(lock(watched).sink?.0)).collect();
        lock(&self.lines).retain(|host, _| hosts.contains(host));
    }

    /// Counts `bytes` that have arrived at `host`. Returns those of all flows to it.
    fn count(&self, host: IpAddr, bytes: u64) -> u64 {
        let mut lines = lock(&self.lines);
        let acked = lines.entry(host).or_default();
        *acked += bytes;
        *acked
    }

    /// Forgets `flow`, which has ended, and takes the time that it has saved since the last look.
    pub(crate) fn end(&self, flow: &Flow) -> FlowSummary {
        let Tally { up, down } = flow.tally();
        if up + down < LEAST_MOVED {
            return FlowSummary::default(); // of the many short flows, none takes the lock
        }
        let Some(watched) = lock(&self.watched).remove(&flow.number) else { return FlowSummary::default() };
        let mut watched = lock(&watched);
        watched.rest(flow, Instant::now());
        let (gain, saved) = (watched.ledger.of_all(), watched.ledger.saved());
        let (found, source) = (std::mem::take(&mut watched.found), watched.source);
        let limit = found.longest().map(|finding| Limited { finding, source });
        FlowSummary { limit, gain, saved }
    }

    /// Returns what limits `flow`, and what the relays are worth for it.
    pub(crate) fn of(&self, flow: &Flow) -> (FindingState, Option<GainState>) {
        let watched = lock(&self.watched).get(&flow.number).cloned();
        let watched = watched.as_ref().map(|watched| lock(watched));
        (Watched::finding(watched.as_deref(), flow), watched.as_deref().and_then(Watched::gain))
    }
}

/// What was known of a flow at its end.
#[derive(Debug, Default)]
pub(crate) struct FlowSummary {
    /// What limited it for the longest time; `None` if that was never found.
    pub(crate) limit: Option<Limited>,
    /// What the relays were worth for it, over the whole time in which that was known.
    pub(crate) gain: Option<Gain>,
    /// The time that it saved.
    pub(crate) saved: Duration,
}

impl Watched {
    fn of(flow: &Arc<Flow>, now: Instant) -> Watched {
        let source = if flow.carried(Leg::Dial) > flow.carried(Leg::Accept) { Leg::Dial } else { Leg::Accept };
        let (flow, before, found) = (Arc::downgrade(flow), [0; 2], Findings::default());
        Watched {
            flow,
            seen: 0,
            last_bulk: now,
            source,
            watch: None,
            sink: None,
            before,
            is_found: false,
            found,
            ledger: Box::default(),
        }
    }

    /// Returns what limits `flow`, whose entry is `watched`.
    fn finding(watched: Option<&Watched>, flow: &Flow) -> FindingState {
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

    /// Returns what the relays are worth for it now.
    fn gain(&self) -> Option<GainState> {
        let gain = self.ledger.now()?;
        Some(GainState {
            mbps: mbps(gain.rate),
            alone_at_most_mbps: mbps(gain.alone),
            times: gain.times().map(|times| (times * 100.0).round() / 100.0),
            direction: direction(self.source).to_string(),
            evidence: gain.evidence(),
            says: gain.to_string(),
        })
    }

    /// It carries little for a while.
    fn rest(&mut self, flow: &Flow, now: Instant) {
        (self.watch, self.sink, self.is_found) = (None, None, false);
        flow.counters.saved.add(self.ledger.rest(now, flow.carried(self.source)));
    }

    /// Counts what has arrived at `host`, that of the sink, since the last look. Returns the bytes of all flows to it.
    fn count(&mut self, host: IpAddr, info: &TcpInfo, all: &Diagnoses) -> u64 {
        // A lost segment holds up the acknowledgement of those behind it.
        let arrived = info.bytes_acked + u64::from(info.sacked_segments) * u64::from(info.snd_mss);
        let before = self.sink.filter(|(known, _)| *known == host).map_or(arrived, |(_, before)| before);
        self.sink = Some((host, arrived.max(before)));
        all.count(host, arrived.saturating_sub(before))
    }

    fn look(&mut self, flow: &Flow, now: Instant, all: &Diagnoses) {
        let brought = Leg::ALL.map(|leg| flow.carried(leg));
        if self.watch.is_none() {
            self.before = brought;
        }
        let source = self.source;
        let (Some(from), Some(to)) = (flow.stream(source), flow.stream(source.other())) else { return };
        let (Ok(from), Ok(info)) = (TcpInfo::of(from.as_fd()), TcpInfo::of(to.as_fd())) else { return };
        let (from, sink) = (sample(&from), Sample { is_blocked: flow.is_blocked(source), ..sample(&info) });
        let host =
            if source == Leg::Dial { Some(flow.source()) } else { flow.next_hop().map(|(_, address)| address.ip()) };
        let line_acked = host.map_or(sink.acked_bytes, |host| self.count(host, &info, all));
        let looks = Looks { source: from, sink, carried: flow.carried(source), line_acked };
        self.ledger.look(now, looks.carried, &sink);
        // Without losses, before Linux 4.19, nobody knows how the congestion control takes them.
        let tells = TcpInfo::tells_retransmitted_bytes();
        let response = || LossResponse::of(&sockopt::congestion(to.as_fd()).ok().filter(|_| tells)?);
        let Some(mut facts) = self.watch.get_or_insert_default().look(now, &looks, response) else { return };
        let moved = Leg::ALL.map(|leg| brought[leg.index()] - self.before[leg.index()]);
        self.before = brought;
        // Of two that carry the same, the first one stays.
        if moved[source.other().index()] / 5 * 4 > moved[source.index()] {
            // Still watched: otherwise the next visit would begin with the direction that has carried more in all.
            (self.source, self.watch, self.sink, self.is_found) = (source.other(), Some(Box::default()), None, false);
            self.ledger.turn(now, flow.carried(self.source));
            self.found = Findings::default();
            return;
        }
        flow.counters.saved.add(self.ledger.account(now, looks.carried, &facts));
        (facts.is_ssh, facts.processor) = (flow.is_ssh(), lock(&all.processor).shares());
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
            direction: direction(*source).to_string(),
            evidence: finding.evidence.clone(),
            what_if_mbps: finding.what_if.map(mbps),
            then_limited_by: finding.then.map(|kind| kind.to_string()),
            advice: finding.advice.to_string(),
        }
    }
}

/// Returns the name of the direction out of `source`.
fn direction(source: Leg) -> &'static str {
    if source == Leg::Accept { "up" } else { "down" }
}

/// Returns a rate in Mbit/s, with three decimals.
pub(crate) fn mbps(rate: Rate) -> f64 {
    (rate.0 / 1000) as f64 / 1e3
}

/// Whether TCP_INFO describes one subflow of a leg, and not the leg.
fn describes_a_subflow(flow: &Flow) -> bool {
    Leg::ALL.iter().any(|leg| flow.tunnel.mptcp(*leg))
}

/// Number of bytes between two visits that are worth a look.
const LEAST_MOVED: u64 = 16 << 10;
/// Time without that many bytes after which a flow carries little.
const LONGEST_SILENCE: Duration = Duration::from_secs(1);
