//! A scenario: hosts, the link between them, the carriers to compare, the traffic, and what to expect, as a TOML file says
//! it.
//!
//! A `[[run]]` is one experiment: one figure of somebody's, or one question. What the file says before the first run holds
//! for all of them; a run's own `link`, `host` and `relay` come on top of it.

mod faults;
mod keys;
mod summary;

use crate::carrier::Carrier;
use crate::host::HostSpec;
use crate::law::Law;
use crate::spec::{LinkSpec, Profile};
use crate::traffic::Kind;
use faults::Fault;
use longhaul_config::document::{self, Findings, Places, Shape};
use longhaul_units::Bytes;
use std::ops::{Range, RangeInclusive};
use std::path::Path;
use std::time::Duration;
use toml::de::{DeTable, DeValue};

/// A scenario that was read.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// What it is called: the file's name without its ending.
    pub(crate) name: String,
    /// What it shows, in a sentence.
    pub(crate) about: String,
    /// Where its figures come from, in a sentence.
    pub(crate) source: String,
    /// How often every run is repeated, all carriers of it in turn; the median counts.
    pub(crate) rounds: u32,
    /// Its experiments.
    pub(crate) runs: Vec<Run>,
}

/// One experiment.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// Its name, unique in the scenario; that of a published figure where there is one.
    pub(crate) id: String,
    /// Where it stands: the file and the line, as `lab/mitre.toml:21`.
    pub(crate) at: String,
    /// What it is, in a few words.
    pub(crate) what: String,
    /// What stands between the hosts.
    pub(crate) setup: Setup,
    /// What carries the traffic, each in a lab of its own.
    pub(crate) carriers: Vec<&'static Carrier>,
    /// What is sent.
    pub(crate) traffic: Traffic,
    /// What somebody published.
    pub(crate) published: Published,
    /// What arithmetic says.
    pub(crate) computed: Option<Law>,
    /// What must come out.
    pub(crate) expect: Expect,
    /// How long it takes in the quick form of the scenario; `None` leaves it out of that.
    pub(crate) quick: Option<Duration>,
    /// Why it cannot be emulated, and what comes nearest, when it cannot.
    pub(crate) skip: Option<String>,
    /// Why the figure differs from what was published, where it does.
    pub(crate) note: Option<String>,
}

/// What stands between the hosts.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// Whether one relay host joins two cables, without an emulated WAN.
    pub(crate) one_hop: bool,
    /// The emulated WAN.
    pub(crate) link: LinkSpec,
    /// Hosts A and B.
    pub(crate) host: HostSpec,
    /// The two relay hosts.
    pub(crate) relay: HostSpec,
    /// Socket options of the relays, as `longhaul relay --set` takes them.
    pub(crate) set: Vec<String>,
}

/// What is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traffic {
    /// The program or generator.
    pub(crate) kind: &'static Kind,
    /// How many connections, or copies, at once.
    pub(crate) connections: u32,
    /// How long it takes, about: a copy is as large as the expected speed makes of this.
    pub(crate) time: Duration,
    /// The size of a copy, or of a message.
    pub(crate) size: Option<Bytes>,
    /// Messages a second.
    pub(crate) rate: Option<f64>,
    /// Whether B sends and A receives.
    pub(crate) down: bool,
}

/// What somebody published, in the units of the reports.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Published {
    /// MB/s, 10^6 bytes: lowest and highest.
    pub(crate) speed: Option<RangeInclusive<f64>>,
    /// Times the direct transfer.
    pub(crate) gain: Option<RangeInclusive<f64>>,
}

/// What must come out for the verdict `pass`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Expect {
    /// The share by which the speed may differ from the computed one: 0.15.
    pub(crate) within: Option<f64>,
    /// MB/s: lowest and highest.
    pub(crate) speed: Option<RangeInclusive<f64>>,
    /// Times the direct transfer: lowest and highest.
    pub(crate) gain: Option<RangeInclusive<f64>>,
    /// Times the run of that name, with the same carrier or its only one: lowest and highest.
    pub(crate) times: Option<(String, RangeInclusive<f64>)>,
    /// The most that the relays' programs may use of one CPU, as a share: 0.1.
    pub(crate) cpu: Option<f64>,
    /// Further figures of the traffic, by name: lowest and highest.
    pub(crate) figures: Vec<(String, RangeInclusive<f64>)>,
}

/// Reads the scenario `name` from `text`; `file` stands in the messages.
///
/// # Errors
/// Every error of the file, a line each.
pub(crate) fn read(name: &str, file: &str, text: &str) -> Result<Scenario, Vec<String>> {
    let (scenario, problems) = document::read(text, |findings, root| whole(findings, root, (name, file)));
    scenario.ok_or_else(|| problems.iter().map(|problem| problem.message(file).to_string()).collect())
}

/// Says what is understood of a scenario's `text`; `file` stands in the messages.
///
/// # Errors
/// Every error of the file, a line each. There is no text for which it panics.
pub fn judge(file: &str, text: &str) -> Result<String, Vec<String>> {
    read(file, file, text).map(|scenario| summary::summary(&scenario))
}

/// Reads the scenario in the file at `path`.
///
/// # Errors
/// It cannot be read, or something in it is wrong.
pub(crate) fn load(path: &Path) -> Result<Scenario, Vec<String>> {
    let file = path.display().to_string();
    let text = document::text(path, HINT).map_err(|why| vec![format!("{file}: error: {why}")])?;
    let name = path.file_stem().map_or(file.clone(), |stem| stem.to_string_lossy().into_owned());
    read(&name, &file, &text)
}

fn whole(findings: &mut Findings<'_>, root: &DeTable<'_>, (name, file): (&str, &str)) -> Scenario {
    let mut head = keys::Head::default();
    let shape = Shape { prefix: "", keys: keys::HEAD, tables: &[("run", "[[run]]")] };
    let places = document::fields(findings, &shape, root, &mut head);
    document::required(findings, keys::HEAD, ("scenario", root, 0..0));
    let faults = head.setup.faults();
    note(findings, &faults, &places, &(0..0));
    // Whether all before a run was read: else what it lacks there may be what is wrong there.
    let (mut runs, mut all) = (Vec::new(), findings.errors() == 0);
    match root.get("run").map(|given| (given.get_ref(), given.span())) {
        Some((DeValue::Array(list), _)) if !list.is_empty() => {
            for given in list {
                let DeValue::Table(table) = given.get_ref() else {
                    findings.error(given.span(), "a run is a table; write [[run]]".into());
                    all = false;
                    continue;
                };
                let read = run(findings, table, given.span(), &head, (file, &runs, all));
                all &= read.is_some();
                runs.extend(read);
            }
            if all && runs.iter().all(|run| run.setup.one_hop) {
                note(findings, &faults::without_wan(&places), &places, &(0..0));
            }
        }
        Some((_, span)) => findings.error(span, "runs are tables; write [[run]], with two brackets".into()),
        None => findings.error(0..0, NO_RUN.into()),
    }
    let keys::Head { about, source, rounds, .. } = head;
    Scenario { name: name.into(), about, source, rounds, runs }
}

fn run(
    findings: &mut Findings<'_>,
    table: &DeTable<'_>,
    span: Range<usize>,
    head: &keys::Head,
    (file, earlier, all): (&str, &[Run], bool),
) -> Option<Run> {
    let mut run = keys::blank(head);
    run.at = format!("{file}:{}", findings.line(span.start));
    let errors = findings.errors();
    let places = document::fields(findings, &Shape { prefix: "", keys: keys::RUN, tables: &[] }, table, &mut run);
    document::required(findings, keys::RUN, ("[[run]]", table, span.clone()));
    if run.carriers.is_empty() && run.skip.is_none() && table.get("carriers").is_none() {
        findings
            .error(span.clone(), "this [[run]] has no carriers; write carriers = [\"direct\", \"longhaul\"]".into());
    }
    note(findings, &run.faults(earlier, &places), &places, &span);
    if all {
        note(findings, &run.compared(earlier), &places, &span);
    }
    // What is wrong before the first run is said there, once.
    let inherited = head.setup.faults();
    let faults: Vec<_> = run.setup.faults().into_iter().filter(|fault| !inherited.contains(fault)).collect();
    note(findings, &faults, &places, &span);
    if all && findings.errors() == errors {
        note(findings, &run.uncomputed(), &places, &span);
    }
    (findings.errors() == errors).then_some(run)
}

/// Notes what cannot be at the place of its key, or of the table that the key is in, or else at `span`.
fn note(findings: &mut Findings<'_>, faults: &[Fault], places: &Places, span: &Range<usize>) {
    for (key, why) in faults {
        let mut keys = std::iter::successors(Some(key.as_str()), |key| Some(key.rsplit_once('.')?.0));
        let at = keys.find_map(|key| places.find(key)).unwrap_or(span.clone());
        findings.error(at, format!("{key}: {why}"));
    }
}

impl Run {
    /// Says `note` too, after what was noted before.
    pub(crate) fn add_note(&mut self, note: &str) {
        self.note = Some(self.note.take().map_or(note.into(), |before| format!("{before}; {note}")));
    }
}

impl Setup {
    /// The relay hosts, whose buffers cover the path unless the scenario says otherwise.
    pub(crate) fn relay_spec(&self) -> HostSpec {
        let buffers = self.relay.buffers.or((!self.one_hop).then(|| Profile::relay_buffer(&self.link)));
        HostSpec { buffers, ..self.relay.clone() }
    }
}

const HINT: &str = "`longhaul lab list` shows the scenarios that are built in";
const NO_RUN: &str = "there is no run; write [[run]] and below it id, carriers and traffic, a line each";
