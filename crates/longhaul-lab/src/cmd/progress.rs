//! Shows progress on stderr. A terminal gets a bar with time and speed, other outputs one plain line per run. A line with the
//! result follows each run.
//!
//! Nothing goes to stdout, and a closed stderr stops nothing.

use crate::engine::{ATTEMPTS, Number, Progress};
use crate::measure::sampler::Sample;
use crate::report::columns::shown;
use crate::report::json::Report;
use crate::report::run::{RunReport, Verdict};
use crate::traffic::row::Counts;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{ErrorKind, IsTerminal, Write as _};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The bar of the run in progress.
pub(crate) struct Bar {
    bar: ProgressBar,
    is_terminal: bool,
    done: Arc<Mutex<Done>>,
}

/// The runs that have ended, and the run in progress.
#[derive(Clone, Default)]
pub(crate) struct Done {
    /// The name of the run in progress; `None` before the first run of a scenario.
    pub(crate) current: Option<String>,
    /// The reports of the scenarios that have begun. The last one may be incomplete.
    pub(crate) reports: Vec<Report>,
    /// Whether the results are being shown or were shown.
    is_shown: bool,
}

/// The results so far, for the main thread and for the code that ends the process.
#[derive(Clone)]
pub(crate) struct Results(Arc<Mutex<Done>>);

impl Results {
    /// Returns the results for the first caller, which shows them, and `None` for every later caller.
    pub(crate) fn take(&self) -> Option<Done> {
        let mut done = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = !std::mem::replace(&mut done.is_shown, true);
        is_first.then(|| done.clone())
    }
}

impl Bar {
    /// Returns a bar that shows nothing before the first run begins.
    pub(crate) fn new() -> Bar {
        Bar {
            bar: ProgressBar::hidden().with_style(style()),
            is_terminal: std::io::stderr().is_terminal(),
            done: Arc::default(),
        }
    }

    /// Returns the results so far.
    pub(crate) fn results(&self) -> Results {
        Results(Arc::clone(&self.done))
    }

    /// Returns a function that removes the bar from the terminal, for the code that ends the process.
    pub(crate) fn clearing(&self) -> impl FnOnce() + Send + 'static {
        let bar = self.bar.clone();
        move || {
            bar.finish_and_clear();
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
    }
}

impl Progress for Bar {
    fn begin(&mut self, number: Number, id: &str, carrier: &str, time: Duration) {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).current = Some(id.to_string());
        let name = format!("{}/{} {id}, {carrier}", number.number, number.total);
        if !self.is_terminal {
            return say(&name);
        }
        self.bar.set_draw_target(ProgressDrawTarget::stderr());
        self.bar.reset();
        self.bar.set_length(time.as_millis() as u64);
        self.bar.set_prefix(name);
        self.bar.set_message("building");
        self.bar.tick();
    }

    fn sample(&mut self, sample: &Sample) {
        self.bar.set_position((sample.t_s * 1e3) as u64);
        self.bar.set_message(format!("{:.1} MB/s", sample.speed));
    }

    fn end(&mut self, run: &RunReport) {
        self.bar.finish_and_clear();
        // Running all scenarios takes a quarter of an hour, so each result is shown at once.
        let came = match run.measured {
            Some(_) if run.traffic.counts == Counts::Figures => {
                let figures = run.figures.iter().map(|(name, value)| format!("{name} {}", shown(*value)));
                figures.collect::<Vec<_>>().join(", ")
            }
            Some(speed) => format!("{} MB/s", shown(speed)),
            None => run.why.clone(),
        };
        let verdict = match run.verdict {
            Verdict::Unjudged => String::new(),
            verdict => format!("{}: ", verdict.word()),
        };
        let mut line = format!("{}, {}: {verdict}{came}", run.id, run.carrier_name());
        if run.verdict == Verdict::Unclear {
            line += &format!("; attempt {} of {ATTEMPTS}: {}", run.attempts, run.disturbance.words());
        }
        say(&line);
    }

    fn report(&mut self, report: &Report) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        // A report without runs is that of the next scenario.
        match report.runs.is_empty() {
            true => done.current = None,
            false => drop(done.reports.pop()),
        }
        done.reports.push(report.clone());
    }
}

fn style() -> ProgressStyle {
    let template = "{prefix:40} {wide_bar:.cyan} {elapsed:>4} {msg:>14}";
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Writes `text` to stdout. A reader that closes the pipe early, such as `head`, is not an error.
///
/// # Errors
/// The text could not be written whole, for example because the disk is full.
pub(crate) fn print(text: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(err) if err.kind() != ErrorKind::BrokenPipe => Err(format!("error: stdout: {err}")),
        _ => Ok(()),
    }
}

/// Like [`print()`], for a command that does nothing else. Returns its exit status; an error goes to stderr.
pub(crate) fn print_only(text: &str) -> ExitCode {
    match print(text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            say(&why);
            ExitCode::FAILURE
        }
    }
}

/// Writes a line to stderr. Ignores a closed stderr.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
