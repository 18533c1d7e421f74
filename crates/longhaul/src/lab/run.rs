//! `longhaul lab run`: runs scenarios and says what came out.

use super::carrier::{self, Carrier};
use super::demo::{read_loss, read_rate, read_rtt};
use super::engine::{self, Options};
use super::library;
use super::page;
use super::progress::Bar;
use super::report::Figures;
use super::result::Report;
use super::scenario::{self, Scenario};
use super::user::User;
use clap::Args;
use longhaul_core::units::Rate;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Run a scenario and judge what came out
///
/// Builds the hosts, the relays and the WAN of the scenario inside this machine, and for each run and carrier sends the
/// traffic, checks every byte where the tool allows it, and judges what came out. Prints a table and the reason for each
/// number. Runs as root, or as anybody where the system allows user namespaces; nothing is left behind, however it ends.
///
/// Exits with 0 when everything that was expected came out, with 1 when something did not, with 2 for a wrong file or
/// value.
#[derive(Args, Debug, Clone)]
pub struct Run {
    /// A scenario of `longhaul lab list`, a file, or `all`
    #[arg(value_name = "NAME|FILE|all", required = true)]
    names: Vec<String>,
    /// Only this carrier; may be given more than once
    #[arg(long, value_name = "NAME", value_parser = carrier::find)]
    carrier: Vec<&'static Carrier>,
    /// Another round trip for every run, from 1ms to 10s
    #[arg(long, value_name = "TIME", value_parser = read_rtt)]
    rtt: Option<Duration>,
    /// Another rate for every run, from 1Mbit/s to 100Gbit/s
    #[arg(long, value_parser = read_rate)]
    rate: Option<Rate>,
    /// Another share of segments lost at random, up to 50%
    #[arg(long, value_name = "SHARE", value_parser = read_loss)]
    loss: Option<f64>,
    /// The quick form: the runs that matter most, and those shorter
    #[arg(long)]
    quick: bool,
    /// Print one JSON document and nothing else on stdout
    #[arg(long)]
    json: bool,
    /// Also write a page to this file
    ///
    /// It shows the verdict in words, what was built, a bar for each carrier, throughput and round trip over time, and every
    /// figure. It is one file that any browser shows and prints, and that loads nothing from elsewhere.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Run {
    /// Runs them.
    pub fn run(self) -> ExitCode {
        let scenarios = match self.scenarios() {
            Ok(scenarios) => scenarios,
            Err(lines) => {
                lines.iter().for_each(|line| eprintln!("{line}"));
                return ExitCode::from(2);
            }
        };
        // A long run must not end with a page that cannot be written.
        if let Some(why) = self.html.as_deref().and_then(|path| writable(path).err()) {
            eprintln!("error: --html: {why}");
            return ExitCode::from(2);
        }
        let user = match User::become_root() {
            Ok(user) => user,
            Err(problem) => {
                eprintln!("longhaul: the lab cannot be built: {problem}");
                return ExitCode::FAILURE;
            }
        };
        let options = Options { quick: self.quick, carriers: self.carrier.clone() };
        let reports: Vec<Report> =
            scenarios.iter().map(|scenario| engine::run(scenario, &options, &user, &mut Bar::new())).collect();
        match self.show(&reports) {
            Ok(()) if reports.iter().all(Report::is_good) => ExitCode::SUCCESS,
            Ok(()) => ExitCode::FAILURE,
            Err(why) => {
                eprintln!("longhaul: {why}");
                ExitCode::FAILURE
            }
        }
    }

    fn show(&self, reports: &[Report]) -> Result<(), String> {
        let text = match (self.json, reports) {
            (false, _) => Figures(reports).to_string(),
            (true, [one]) => serde_json::to_string_pretty(one).map_err(|err| err.to_string())? + "\n",
            (true, several) => serde_json::to_string_pretty(several).map_err(|err| err.to_string())? + "\n",
        };
        // A reader who has seen enough, such as `head`, is no failure.
        let _ = std::io::stdout().lock().write_all(text.as_bytes());
        // Last: the figures must not be lost with a page that could not be written.
        let Some(path) = &self.html else { return Ok(()) };
        std::fs::write(path, page::page(reports)).map_err(|err| format!("writing the page {}: {err}", path.display()))
    }

    /// The scenarios asked for, with what the command line changes of them.
    fn scenarios(&self) -> Result<Vec<Scenario>, Vec<String>> {
        let mut scenarios = Vec::new();
        let mut wrong = Vec::new();
        for name in &self.names {
            let names = if name == "all" {
                library::FILES.iter().map(|(name, _)| *name).collect()
            } else {
                vec![name.as_str()]
            };
            for name in names {
                match find(name) {
                    Ok(scenario) => scenarios.push(self.changed(scenario)),
                    Err(lines) => wrong.extend(lines),
                }
            }
        }
        if wrong.is_empty() { Ok(scenarios) } else { Err(wrong) }
    }

    fn changed(&self, mut scenario: Scenario) -> Scenario {
        for link in scenario.runs.iter_mut().map(|run| &mut run.setup.link) {
            link.rtt = self.rtt.unwrap_or(link.rtt);
            link.rate = self.rate.or(link.rate);
            link.loss = self.loss.unwrap_or(link.loss);
        }
        scenario
    }
}

/// Whether a file can be written at `path`. One that was not there is not there afterwards either: a run that is interrupted
/// leaves no empty page.
fn writable(path: &Path) -> Result<(), String> {
    let existed = path.exists();
    let opened = std::fs::File::options().write(true).create(true).truncate(false).open(path);
    opened.map_err(|err| {
        format!(
            "{} cannot be written: {err}; name a file in a folder that exists and that you may write to",
            path.display()
        )
    })?;
    if existed { Ok(()) } else { std::fs::remove_file(path).map_err(|err| format!("{}: {err}", path.display())) }
}

/// A scenario that is built in, or that of a file.
fn find(name: &str) -> Result<Scenario, Vec<String>> {
    if let Some(scenario) = library::load(name) {
        return scenario;
    }
    let looks_like_a_file = name.contains(['/', '.']);
    if looks_like_a_file {
        return scenario::load(Path::new(name));
    }
    let near = crate::suggest::nearest(name, library::FILES.iter().map(|(name, _)| *name));
    let meant =
        near.map_or_else(|| "`longhaul lab list` shows them".to_string(), |near| format!("did you mean {near}?"));
    Err(vec![format!("error: there is no scenario {name:?}; {meant}")])
}
