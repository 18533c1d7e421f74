//! `longhaul lab run`: runs scenarios and prints the results.

use crate::carrier::row::Carrier;
use crate::carrier::table as carriers;
use crate::cmd::changes::Changes;
use crate::cmd::progress::{Bar, Done, print, say};
use crate::cmd::signals;
use crate::engine::{self, Options};
use crate::report::json::Report;
use crate::report::table::Figures;
use crate::report::{page, repeat};
use crate::scenario::library;
use crate::scenario::model::Scenario;
use crate::world::user::User;
use crate::world::wan::Wan;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;

/// Run a scenario and judge the results
///
/// For each run and carrier of the scenario, builds the hosts, the relays and the WAN inside this machine, sends the traffic,
/// and compares the result with the expectation. Checks every byte if the traffic's program permits it. Prints a table with
/// published, computed and measured figures, and the reason for each result.
///
/// Runs as root, or as any user where the system allows user namespaces. Leaves nothing behind, however it ends.
///
/// If other programs disturbed a run that missed its expectation, its verdict is unclear. It is repeated up to twice.
///
/// Exit status: 0 every expectation was met; 1 an expectation was missed, or nothing could be run; 2 a file or value is wrong;
/// 3 no run failed, but some stayed unclear; 128 plus the signal's number after a signal.
#[derive(Args, Debug, Clone)]
pub(crate) struct RunArgs {
    /// A scenario of `longhaul lab list`, a file, or `all`
    #[arg(value_name = "NAME|FILE|all", required = true)]
    names: Vec<String>,
    #[command(flatten)]
    choices: Choices,
}

/// The runs of the scenarios that are asked for, and the form of their results.
#[derive(Args, Debug, Clone)]
pub(crate) struct Choices {
    /// Run only this carrier; may be given more than once
    #[arg(long, value_name = "NAME", value_parser = carriers::find)]
    carrier: Vec<&'static Carrier>,
    #[command(flatten)]
    changes: Changes,
    /// Skip every run before this one, to continue
    ///
    /// An interrupted `lab run` shows the runs that have ended, and prints the command that continues it. The continued command
    /// shows only the remaining runs. Comparisons with skipped runs are not judged. SCENARIO:RUN names a run of one of several
    /// scenarios.
    #[arg(long, value_name = "RUN")]
    start_at: Option<String>,
    /// Run only the most important runs, in less time
    #[arg(long)]
    quick: bool,
    /// Print one JSON document and nothing else on stdout
    #[arg(long)]
    json: bool,
    /// Also write an HTML page to this file
    ///
    /// The page shows the verdict in words, the hosts and the link, a bar for each carrier, throughput and round trip over time,
    /// and all figures. It is a single file for any browser, and it can be printed. It loads nothing from elsewhere.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl RunArgs {
    /// Runs the scenarios. Returns the exit status that the help describes.
    pub(crate) fn run(self) -> ExitCode {
        self.choices.run(&self.names)
    }
}

impl Choices {
    /// Runs the scenarios `names`. Returns the exit status that the help of [`RunArgs`] describes.
    pub(crate) fn run(self, names: &[String]) -> ExitCode {
        let scenarios = match self.scenarios(names) {
            Ok(scenarios) => scenarios,
            Err(lines) => {
                lines.iter().for_each(|line| say(line));
                return ExitCode::from(2);
            }
        };
        // Checked first, because an unwritable page must not show only after a long run.
        if let Some(why) = self.html.as_deref().and_then(|path| longhaul_doctor::page::writable(path).err()) {
            say(&format!("error: --html: {why}"));
            return ExitCode::from(2);
        }
        let user = match User::become_root().and_then(|user| Wan::is_possible().map(|()| user)) {
            Ok(user) => user,
            Err(problem) => {
                say(&format!("longhaul: the lab cannot be built: {problem}"));
                return ExitCode::FAILURE;
            }
        };
        let mut bar = Bar::new();
        if let Err(problem) = signals::end_with(self.interrupted(&bar)) {
            say(&format!("longhaul: {problem}"));
            return ExitCode::FAILURE;
        }
        // A connection takes two descriptors here, and a shell's usual limit is 1,024. If the limit cannot be raised, traffic
        // that needs more reports an error.
        let _ = longhaul_sys::limits::raise_nofile();
        let options = Options { quick: self.quick, carriers: self.carrier.clone() };
        let reports: Vec<Report> =
            scenarios.iter().map(|scenario| engine::run(scenario, &options, &user, &mut bar)).collect();
        if bar.results().take().is_none() {
            wait_for_the_end();
        }
        match self.show(&reports) {
            Ok(()) if reports.iter().any(Report::is_bad) => ExitCode::FAILURE,
            Ok(()) if reports.iter().any(Report::is_unclear) => ExitCode::from(UNCLEAR),
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                say(&format!("longhaul: {why}"));
                ExitCode::FAILURE
            }
        }
    }

    /// Returns a function for the end by a signal. It clears the bar, shows the results of the runs that have ended, and
    /// prints the command to continue. While the main thread shows the results, it waits for the end.
    fn interrupted(&self, bar: &Bar) -> impl FnOnce() + Send + 'static {
        let clear = bar.clearing();
        let results = bar.results();
        let arguments = repeat::arguments();
        let this = self.clone();
        move || {
            let Some(Done { current, mut reports, .. }) = results.take() else { wait_for_the_end() };
            clear();
            let scenario = reports.last().map(|report| report.scenario.clone()).unwrap_or_default();
            let is_first = reports.len() < 2;
            reports.retain(|report| !report.runs.is_empty());
            if !reports.is_empty() {
                this.show(&reports).unwrap_or_else(|why| say(&format!("longhaul: {why}")));
            }
            if let Some(id) = current {
                // Other scenarios may have a run of this name.
                let id = if is_first { id } else { format!("{scenario}:{id}") };
                say(&format!("interrupted; to continue: {}", repeat::continued(&arguments, &id)));
            }
        }
    }

    /// Prints the results, and writes the page.
    ///
    /// # Errors
    /// stdout or the page cannot be written.
    fn show(&self, reports: &[Report]) -> Result<(), String> {
        let text = match (self.json, reports) {
            (false, _) => Figures(reports).to_string(),
            (true, [one]) => serde_json::to_string_pretty(one).map_err(|err| err.to_string())? + "\n",
            (true, several) => serde_json::to_string_pretty(several).map_err(|err| err.to_string())? + "\n",
        };
        let printed = print(&text);
        let write = |path: &PathBuf| {
            let written = std::fs::write(path, page::page(reports));
            written.map_err(|err| format!("writing the page {}: {err}", path.display()))
        };
        // Each of the two is tried, so that the figures are not lost if the other cannot be written.
        let written = self.html.as_ref().map_or(Ok(()), write);
        printed.and(written)
    }

    /// Returns the named scenarios, with the changes of the command line.
    fn scenarios(&self, names: &[String]) -> Result<Vec<Scenario>, Vec<String>> {
        let mut scenarios = Vec::new();
        let mut wrong = Vec::new();
        let mut without = Vec::new();
        for name in names {
            let is_all = name == "all";
            let names =
                if is_all { library::FILES.iter().map(|(name, _)| *name).collect() } else { vec![name.as_str()] };
            for name in names {
                match library::find(name).map(|found| self.changed(found)) {
                    Ok(Ok(scenario)) => scenarios.push(scenario),
                    // With `all`, scenarios without the carrier are left out.
                    Ok(Err(why)) if is_all => without.push(why),
                    Ok(Err(why)) => wrong.push(why),
                    Err(lines) => wrong.extend(lines),
                }
            }
        }
        if scenarios.is_empty() {
            wrong.extend(without);
        }
        if let (Some(id), true) = (&self.start_at, wrong.is_empty()) {
            wrong.extend(start_at(&mut scenarios, id).err());
        }
        if wrong.is_empty() { Ok(scenarios) } else { Err(wrong) }
    }

    /// Returns the scenario with the changes of the command line.
    fn changed(&self, mut scenario: Scenario) -> Result<Scenario, String> {
        for run in &mut scenario.runs {
            self.changes.apply(run);
        }
        if self.quick && scenario.runs.iter().all(|run| run.quick.is_none()) {
            return Err(format!(
                "error: --quick: no run of {} has a quick form; write quick = true in one",
                scenario.name
            ));
        }
        if self.carrier.is_empty() {
            return Ok(scenario);
        }
        let mut all: Vec<&str> = scenario.runs.iter().flat_map(|run| &run.carriers).map(|known| known.name).collect();
        all.sort_unstable();
        all.dedup();
        scenario.runs.iter_mut().for_each(|run| run.carriers.retain(|known| self.carrier.contains(known)));
        scenario.runs.retain(|run| run.skip.is_some() || !run.carriers.is_empty());
        let asked: Vec<&str> = self.carrier.iter().map(|carrier| carrier.name).collect();
        let asked = asked.join(" or ");
        let name = &scenario.name;
        if scenario.runs.iter().all(|run| run.carriers.is_empty()) {
            let all = all.join(", ");
            return Err(format!("error: no run of {name} has the carrier {asked}; they have {all}"));
        }
        if self.quick && scenario.runs.iter().all(|run| run.quick.is_none() || run.carriers.is_empty()) {
            return Err(format!("error: --quick: no quick run of {name} has the carrier {asked}"));
        }
        drop_comparisons(&mut scenario);
        Ok(scenario)
    }
}

/// Waits while another thread shows the results and ends the process.
fn wait_for_the_end() -> ! {
    loop {
        std::thread::park();
    }
}

/// Removes every run before the run `id`.
fn start_at(scenarios: &mut Vec<Scenario>, id: &str) -> Result<(), String> {
    let place = |scenario: &Scenario| {
        let id = id.strip_prefix(&format!("{}:", scenario.name)).unwrap_or(id);
        scenario.runs.iter().position(|run| run.id == id)
    };
    let Some(first) = scenarios.iter().position(|scenario| place(scenario).is_some()) else {
        let names = scenarios.iter().flat_map(|scenario| &scenario.runs).map(|run| run.id.as_str());
        let near = longhaul_config::suggest::nearest(id, names);
        let near = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        return Err(format!("error: --start-at: there is no run {id:?}{near}"));
    };
    scenarios.drain(..first);
    if let Some(scenario) = scenarios.first_mut() {
        let left_out = place(scenario).unwrap_or_default();
        scenario.runs.drain(..left_out);
        drop_comparisons(scenario);
    }
    Ok(())
}

/// Removes the comparisons with removed runs.
fn drop_comparisons(scenario: &mut Scenario) {
    for index in 0..scenario.runs.len() {
        let (earlier, rest) = scenario.runs.split_at_mut(index);
        rest.iter_mut().take(1).for_each(|run| run.drop_comparisons(earlier));
    }
}

/// Exit status if runs stayed unclear.
pub(crate) const UNCLEAR: u8 = 3;
