//! Runs a scenario. For each run and each of its carriers, the engine builds a lab, starts the carrier, sends the traffic and
//! takes samples.

use crate::carrier::row::{Carrier, Tunnel};
use crate::error::LabError;
use crate::measure::disturbance::Ticks;
use crate::measure::done::Done;
use crate::measure::sampler::{Sample, Watch};
use crate::plan::law;
use crate::plan::setup::{Setup, Topology};
use crate::report::json::Report;
use crate::report::run::{RunReport, Verdict};
use crate::scenario::model::{Run, Scenario};
use crate::traffic::beside::Beside;
use crate::traffic::row::{Counts, Drive, Traffic, warm_up};
use crate::world::requirement::Requirement;
use crate::world::user::User;
use crate::world::wan::Wan;
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Options of a run of scenarios.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// Whether to run only the runs that have a quick form, for their shorter time.
    pub(crate) quick: bool,
    /// The carriers to run; empty means all.
    pub(crate) carriers: Vec<&'static Carrier>,
}

/// The number of a run over a carrier, from 1, and the total of such runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number {
    pub(crate) number: usize,
    pub(crate) total: usize,
}

/// Shows the progress of a scenario.
pub(crate) trait Progress {
    /// Called when a run begins. `id` is its name, and `time` the approximate duration of its traffic.
    fn begin(&mut self, number: Number, id: &str, carrier: &str, time: Duration);
    /// Called for each sample of the traffic.
    fn sample(&mut self, sample: &Sample);
    /// Called when a run has ended.
    fn end(&mut self, run: &RunReport);
    /// Called with the report so far, when a scenario begins and when a run has its final result.
    fn report(&mut self, report: &Report);
}

/// Runs `scenario` and returns its report. If a run ends with an error, its verdict says so, and the other runs continue.
pub(crate) fn run(scenario: &Scenario, options: &Options, user: &User, progress: &mut dyn Progress) -> Report {
    let runs: Vec<Run> = scenario
        .runs
        .iter()
        .filter_map(|run| if options.quick { run.quick.map(|time| hurried(run, time)) } else { Some(run.clone()) })
        .collect();
    let wanted = |carrier: &Carrier| options.carriers.is_empty() || options.carriers.contains(&carrier);
    let total = runs.iter().map(|run| run.carriers.iter().filter(|carrier| wanted(carrier)).count()).sum();
    let mut report = Report::new(scenario);
    let mut engine = Engine { rounds: scenario.rounds, user, progress, number: 0, total };
    engine.progress.report(&report);
    for run in &runs {
        if run.skip.is_some() {
            report.skip(run);
            engine.progress.report(&report);
            continue;
        }
        let carriers: Vec<&'static Carrier> = run.carriers.iter().copied().filter(|carrier| wanted(carrier)).collect();
        let first = engine.number + 1;
        let rounds = engine.run_rounds(run, &carriers);
        for (index, (carrier, done)) in carriers.into_iter().zip(rounds).enumerate() {
            engine.settle(Turn { run, carrier, number: first + index }, done, &mut report);
            engine.progress.report(&report);
        }
    }
    report
}

/// The state of a scenario that runs.
struct Engine<'a> {
    rounds: u32,
    user: &'a User,
    progress: &'a mut dyn Progress,
    /// Number of runs over a carrier so far.
    number: usize,
    /// Number of runs over a carrier in the whole scenario.
    total: usize,
}

/// One run over one carrier.
struct Turn<'a> {
    run: &'a Run,
    carrier: &'static Carrier,
    number: usize,
}

impl Engine<'_> {
    /// Runs every round of `run`. In each round the carriers take turns. Returns the rounds of each carrier.
    fn run_rounds(&mut self, run: &Run, carriers: &[&'static Carrier]) -> Vec<Vec<Result<Done, LabError>>> {
        let first = self.number + 1;
        self.number += carriers.len();
        let mut rounds: Vec<Vec<Result<Done, LabError>>> = carriers.iter().map(|_| Vec::new()).collect();
        for _ in 0..self.rounds {
            for (index, carrier) in carriers.iter().enumerate() {
                rounds[index].push(self.run_once(run, carrier, first + index));
            }
        }
        rounds
    }

    /// Adds the result of the rounds `done` to `report`. Repeats the rounds while the verdict is unclear, up to [`ATTEMPTS`]
    /// times.
    fn settle(&mut self, turn: Turn<'_>, mut done: Vec<Result<Done, LabError>>, report: &mut Report) {
        let Turn { run, carrier, number } = turn;
        for attempt in 1..=ATTEMPTS {
            let result = report.add(run, carrier, done, attempt);
            self.progress.end(result);
            if result.verdict != Verdict::Unclear || attempt == ATTEMPTS {
                return;
            }
            done = (0..self.rounds).map(|_| self.run_once(run, carrier, number)).collect();
        }
    }

    fn run_once(&mut self, run: &Run, carrier: &Carrier, number: usize) -> Result<Done, LabError> {
        self.progress.begin(Number { number, total: self.total }, &run.id, carrier.name, run.traffic.time);
        once(run, carrier, self.user, self.progress)
    }
}

/// Runs `run` once over `carrier`, in a lab of its own that is removed afterwards.
fn once(run: &Run, carrier: &Carrier, user: &User, progress: &mut dyn Progress) -> Result<Done, LabError> {
    run.traffic.kind.needs.iter().try_for_each(|needed| needed.find().map(drop))?;
    let mut setup = run.setup.clone();
    (carrier.hosts)(&mut setup.host, &setup.link);
    let wan = build(&setup)?;
    wan.hold();
    let protocol = run.traffic.kind.server.protocol();
    let tunnel = Tunnel { set: &setup.set, options: &setup.options, protocol };
    let running = carrier.run(&wan, user, &tunnel)?;
    let (began, beginning) = mpsc::channel();
    let beside = &Arc::<Beside>::default();
    let (ended, ending) = mpsc::channel::<()>();
    let (measured, seen) = std::thread::scope(|scope| {
        let wan = &wan;
        let running = &running;
        let setup = &setup;
        let traffic = scope.spawn(move || {
            // Dropped when the traffic is over. The drop ends the sampling.
            let _ended = ended;
            let tell = move || {
                // Read here, because the sampler's thread may begin much later on a busy machine.
                let ticks = Ticks::now();
                wan.begin();
                let _ = began.send(ticks);
            };
            let relays = carrier.congestion.unwrap_or(&setup.relay.congestion);
            let congestion = if running.programs.is_empty() { &setup.host.congestion } else { relays };
            let drive = Drive { wan, running, traffic: run.traffic, setup, congestion, user, beside, began: &tell };
            (run.traffic.kind.run)(&drive)
        });
        let direction = run.traffic.direction;
        let is_ssh = carrier.law.iter().chain(run.traffic.kind.laws).any(|law| *law == law::OPENSSH);
        let warm_up = warm_up(setup, run.traffic.time);
        let (began, ended) = (&beginning, &ending);
        let watch = Watch { wan, setup, running, direction, protocol, is_ssh, warm_up, beside, began, ended };
        let seen = watch.sample(|sample| progress.sample(sample));
        (traffic.join().unwrap_or(Err(LabError::Panicked("the traffic's thread"))), seen)
    });
    let link = setup.has_wan().then(|| wan.counters());
    let measured = match &link {
        Some(ways) if run.traffic.kind.counts != Counts::Figures => {
            measured?.at_most(&ways[run.traffic.direction.index()].ledger)
        }
        _ => measured?,
    };
    Ok(Done { measured, seen: seen?, link, shown: running.shown })
}

/// Returns the approximate time that `scenario` takes on an idle machine.
pub(crate) fn duration(scenario: &Scenario) -> Duration {
    let of_run = |run: &Run| match run.skip {
        Some(_) => Duration::ZERO,
        None => (run.traffic.time + BUILDING) * run.carriers.len() as u32,
    };
    scenario.runs.iter().map(of_run).sum::<Duration>() * scenario.rounds
}

/// Returns the programs that the runs of `scenario` need. A program may be in the list more than once.
pub(crate) fn needs(scenario: &Scenario) -> impl Iterator<Item = &'static Requirement> {
    let runs = scenario.runs.iter().filter(|run| run.skip.is_none());
    runs.flat_map(|run| run.carriers.iter().flat_map(|carrier| carrier.needs).chain(run.traffic.kind.needs))
}

/// Builds the hosts and the path between them.
pub(crate) fn build(setup: &Setup) -> Result<Wan, LabError> {
    let host = setup.host.profile();
    let relay = setup.relay_spec().profile();
    let profiles = [host.clone(), relay.clone(), relay, host];
    match setup.topology {
        Topology::Wan => Wan::build(&setup.link, profiles),
        Topology::OneHop => Wan::build_one_hop(profiles),
    }
}

/// Time that a run takes besides its traffic: to build its lab, start its programs, log in, and end.
const BUILDING: Duration = Duration::from_secs(2);

/// Maximum number of attempts at a run. A run is attempted again when its verdict is unclear because other programs disturbed it.
pub(crate) const ATTEMPTS: u32 = 3;

/// Returns `run` in its quick form, with traffic of about `time`.
fn hurried(run: &Run, time: Duration) -> Run {
    let link = &run.setup.link;
    // A long path needs more time: about fifteen round trips after the start. A link with a schedule needs the full time.
    let time = if link.is_scheduled() { run.traffic.time } else { run.traffic.time.min(time.max(link.rtt * 25)) };
    let traffic = Traffic { time, ..run.traffic };
    Run { traffic, ..run.clone() }
}
