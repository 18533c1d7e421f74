//! One run over one carrier: measurements, verdict and reason. A part of the JSON document.

use crate::carrier::row::{Carrier, Role};
use crate::measure::disturbance::Disturbance;
use crate::measure::done::Done;
use crate::measure::rounded;
use crate::measure::sampler::Sample;
use crate::measure::sockets::Sender;
use crate::plan::law;
use crate::plan::place::Direction;
use crate::plan::setup::Setup;
use crate::report::path::PathReport;
use crate::scenario::model::Run;
use crate::traffic::row::{self, Counts};
use crate::world::live::LinkCounters;
use longhaul_core::path::diagnosis::{Finding, Kind, Side};
use serde::Serialize;
use std::collections::BTreeMap;

/// One run over one carrier. The names of the fields are fixed, because programs read them.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct RunReport {
    pub(crate) id: String,
    pub(crate) what: String,
    /// `None`, written as `-`, for a run that was skipped.
    #[serde(serialize_with = "name_or_dash")]
    pub(crate) carrier: Option<&'static Carrier>,
    #[serde(serialize_with = "kind_name")]
    pub(crate) traffic: &'static row::Kind,
    /// Number of connections at once.
    pub(crate) connections: u32,
    /// The path between the hosts, and the hosts with the changes of this carrier.
    #[serde(rename = "topology")]
    pub(crate) path: PathReport,
    /// The smallest round trip that TCP measured on the WAN, or the link's round trip if TCP measured none.
    pub(crate) rtt_ms: f64,
    /// The window in force: the receiver's window (`snd_wnd`), or the congestion window if that is smaller.
    pub(crate) window_bytes: Option<u64>,
    #[serde(rename = "measured_MBps")]
    pub(crate) measured: Option<f64>,
    /// One number, or lowest and highest. JSON has a number, or a list of two.
    #[serde(rename = "published_MBps", serialize_with = "one_or_two")]
    pub(crate) published: Option<Vec<f64>>,
    #[serde(serialize_with = "one_or_two")]
    pub(crate) published_gain: Option<Vec<f64>>,
    #[serde(rename = "computed_MBps")]
    pub(crate) computed: Option<f64>,
    /// The formula of the computed speed.
    pub(crate) formula: Option<&'static str>,
    /// The computed maximum of tuned hosts without a relay.
    pub(crate) tuned: Option<Tuned>,
    pub(crate) gain_over_direct: Option<f64>,
    /// The place of the direct transfer to which the gain refers, in the list of runs.
    #[serde(skip)]
    pub(crate) direct: Option<usize>,
    pub(crate) verdict: Verdict,
    pub(crate) why: String,
    /// What limited the speed; `None` without a WAN, if no connection was seen, or if the traffic has no speed.
    pub(crate) finding: Option<FindingReport>,
    /// The processor time of other programs during the run, and the lateness of the link.
    pub(crate) disturbance: Disturbance,
    /// Number of attempts; more than one if an attempt was unclear.
    pub(crate) attempts: u32,
    /// Maximum MB/s that the line can carry; `None` if that is not one number.
    #[serde(skip)]
    pub(crate) ceiling: Option<f64>,
    /// The counters of both directions; `None`, in JSON empty, without a WAN.
    #[serde(serialize_with = "by_direction")]
    pub(crate) link: Option<[LinkCounters; 2]>,
    pub(crate) series: Vec<Sample>,
    pub(crate) relay_cpu_s: f64,
    pub(crate) bytes: u64,
    /// Number of connections that were cut off because they did not end long after their time, in all rounds.
    #[serde(skip_serializing_if = "is_none")]
    pub(crate) cut: usize,
    /// Flows whose bytes or endings were wrong, in any round.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) wrong: Vec<String>,
    /// Whether every compared byte and ending was right; `None` if the tool does not compare bytes, or if connections were cut
    /// off.
    pub(crate) bytes_ok: Option<bool>,
    /// Further figures of the traffic, such as `p99_us`.
    pub(crate) figures: BTreeMap<String, f64>,
    /// Lowest and highest value of the rounds, by the name of the figure.
    pub(crate) spread: BTreeMap<String, [f64; 2]>,
    /// The carrier's commands and files.
    pub(crate) shown: Vec<String>,
    /// TCP_INFO of the host that sends.
    pub(crate) host_sender: Option<Sender>,
    /// TCP_INFO of the sender over the WAN: the host itself, or the relay beside it.
    pub(crate) wan_sender: Option<Sender>,
}

/// Limit of the speed of a run, in the fields that `status --json` has.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct FindingReport {
    kind: &'static str,
    /// The leg of the relay that sends over the WAN. Null without a relay, if the limit is of both legs, or if it is not known.
    leg: Option<&'static str>,
    direction: &'static str,
    evidence: String,
    what_if_mbps: Option<f64>,
    then_limited_by: Option<&'static str>,
    advice: &'static str,
}

/// The computed maximum of tuned hosts.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Tuned {
    #[serde(rename = "computed_MBps")]
    pub(crate) computed: f64,
    /// The formula of the law that limits these hosts.
    pub(crate) formula: &'static str,
}

/// The verdict on a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// Every expectation was met.
    Pass,
    /// Nothing was expected, and every byte that arrived was right.
    #[serde(rename = "pass")]
    Unjudged,
    /// An expectation was missed, or an error occurred.
    Fail,
    /// Undecided, because other programs disturbed the run.
    Unclear,
    /// The run did not take place, because something is not installed or cannot be emulated.
    #[default]
    Skip,
}

impl Verdict {
    /// Returns the word for it in the table.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Unjudged => "-",
            Verdict::Fail => "FAIL",
            Verdict::Unclear => "unclear",
            Verdict::Skip => "skip",
        }
    }
}

impl RunReport {
    /// Returns the name of the carrier; `-` for a skipped run.
    pub(crate) fn carrier_name(&self) -> &'static str {
        self.carrier.map_or("-", |carrier| carrier.name)
    }

    /// Whether the carrier of the run has this role.
    pub(crate) fn has_role(&self, role: Role) -> bool {
        self.carrier.is_some_and(|carrier| carrier.role == role)
    }

    /// Whether the hosts sent without a relay, with the scenario's settings.
    pub(crate) fn is_direct(&self) -> bool {
        self.has_role(Role::Direct)
    }

    /// Fills in the measurements of a run. The caller has set `cut` and `wrong` already, because they cover all rounds.
    pub(crate) fn fill(&mut self, run: &Run, done: &Done) {
        let Done { measured, seen, link, shown } = done;
        let rtt = if seen.wan.rtt.is_zero() { run.setup.link.rtt } else { seen.wan.rtt };
        self.rtt_ms = rounded(rtt.as_secs_f64() * 1e3);
        let window = seen.host.window.0.min(seen.host.allowed.0);
        self.window_bytes = (window > 0).then_some(window);
        self.measured = Some(rounded(measured.speed / 1e6));
        self.bytes = measured.bytes;
        self.bytes_ok = match self.wrong.is_empty() {
            true => (measured.checked && measured.bytes > 0 && self.cut == 0).then_some(true),
            false => Some(false),
        };
        self.figures = measured.figures.iter().map(|(name, value)| ((*name).to_string(), rounded(*value))).collect();
        self.relay_cpu_s = seen.relay_cpu.as_secs_f64();
        self.series = seen.series.clone();
        self.shown = shown.clone();
        self.disturbance = Disturbance::of(rtt, link.as_ref(), seen.shares);
        let counts_speed = run.traffic.kind.counts != Counts::Figures;
        self.ceiling = law::ceiling(&run.setup, run.traffic.direction).map(|max| max / 1e6).filter(|_| counts_speed);
        let is_explained = counts_speed && run.setup.has_wan();
        let finding = seen.finding.as_ref().filter(|_| is_explained);
        let has_relay = self.carrier.is_some_and(|carrier| !carrier.is_routed());
        self.finding = finding.map(|finding| FindingReport::of(finding, run.traffic.direction, has_relay));
        // Without a window, no connection was sampled.
        let sampled = |sender: &Sender| Some(sender.clone()).filter(|sender| sender.window.0 > 0);
        self.host_sender = sampled(&seen.host);
        self.wan_sender = sampled(&seen.wan);
        self.link = link.clone();
    }
}

impl FindingReport {
    pub(crate) fn of(finding: &Finding, direction: Direction, has_relay: bool) -> FindingReport {
        // The near relay sends out on the leg that it has dialled, the far relay back on the one that it has accepted.
        let (direction, source, sink) = match direction {
            Direction::Out => ("up", "accept", "dial"),
            Direction::Back => ("down", "dial", "accept"),
        };
        let leg = finding.leg.filter(|_| has_relay).map(|leg| if leg == Side::Source { source } else { sink });
        FindingReport {
            kind: finding.kind.name(),
            leg,
            direction,
            evidence: finding.evidence.clone(),
            what_if_mbps: finding.what_if.map(|rate| rounded(rate.0 as f64 / 1e6)),
            then_limited_by: finding.then.map(Kind::name),
            advice: finding.advice,
        }
    }
}

/// Returns the report of a run before it runs.
pub(crate) fn blank(run: &Run, carrier: Option<&'static Carrier>) -> RunReport {
    let both = |range: &std::ops::RangeInclusive<f64>| match range.start() == range.end() || range.end().is_infinite() {
        true => vec![*range.start()],
        false => vec![*range.start(), *range.end()],
    };
    let mut setup = run.setup.clone();
    if let Some(carrier) = carrier {
        (carrier.hosts)(&mut setup.host, &setup.link);
    }
    let computed = run.computed.and_then(|law| law.speed(&setup, run.traffic.load()));
    RunReport {
        id: run.id.clone(),
        what: run.what.clone(),
        carrier,
        traffic: run.traffic.kind,
        connections: run.traffic.connections,
        path: PathReport::of(&setup),
        tuned: tuned(run),
        rtt_ms: rounded(run.setup.link.rtt.as_secs_f64() * 1e3),
        published: run.published.speed.as_ref().map(both),
        published_gain: run.published.gain.as_ref().map(both),
        computed: computed.map(|speed| rounded(speed / 1e6)),
        formula: run.computed.map(|law| law.formula),
        ..RunReport::default()
    }
}

/// Returns the computed maximum of the tuned hosts of `run` without a relay; `None` without a closed form.
fn tuned(run: &Run) -> Option<Tuned> {
    let host = run.setup.host.tuned(&run.setup.link);
    let setup = Setup { host, ..run.setup.clone() };
    let (speed, formula) = law::tightest(&setup, run.traffic.load(), run.traffic.kind.laws)?;
    (setup.has_wan() && setup.link.is_plain()).then(|| Tuned { computed: rounded(speed / 1e6), formula })
}

/// Writes the counters of each direction by name, such as `rate_bytes_in`.
fn by_direction<S: serde::Serializer>(link: &Option<[LinkCounters; 2]>, serializer: S) -> Result<S::Ok, S::Error> {
    let of = |way: &LinkCounters| {
        let mut all = way.others();
        for (stage, counters) in &way.stages {
            all.insert(format!("{stage}_segments_in"), counters.segments_in);
            all.insert(format!("{stage}_segments_out"), counters.segments_out);
            all.insert(format!("{stage}_bytes_in"), counters.bytes_in);
            all.insert(format!("{stage}_bytes_out"), counters.bytes_out);
        }
        all
    };
    let ways = link.iter().flat_map(|ways| Direction::BOTH.into_iter().zip(ways.iter().map(of)));
    serializer.collect_map(ways)
}

fn is_none(count: &usize) -> bool {
    *count == 0
}

fn name_or_dash<S: serde::Serializer>(carrier: &Option<&'static Carrier>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(carrier.map_or("-", |carrier| carrier.name))
}

fn kind_name<S: serde::Serializer>(kind: &&'static row::Kind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.name)
}

/// Writes one number as a number, more as a list.
fn one_or_two<S: serde::Serializer>(numbers: &Option<Vec<f64>>, serializer: S) -> Result<S::Ok, S::Error> {
    match numbers.as_deref() {
        Some([one]) => serializer.serialize_f64(*one),
        other => other.serialize(serializer),
    }
}
