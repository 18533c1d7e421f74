//! Shows on stderr what is under way: a bar on a terminal, elsewhere one plain line for each run.

use super::engine::Progress;
use super::report::verdict;
use super::result::RunReport;
use super::sampler::Sample;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// The bar of the run that is under way.
pub(super) struct Bar {
    bar: ProgressBar,
    is_terminal: bool,
}

impl Bar {
    pub(super) fn new() -> Bar {
        Bar { bar: ProgressBar::hidden(), is_terminal: std::io::stderr().is_terminal() }
    }
}

impl Progress for Bar {
    fn begin(&mut self, (number, total): (usize, usize), id: &str, carrier: &str, time: Duration) {
        let name = format!("{number}/{total} {id}, {carrier}");
        if !self.is_terminal {
            eprintln!("{name}");
            return;
        }
        let template = "{prefix:40} {wide_bar:.cyan} {elapsed:>4} {msg:>22}";
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        self.bar = ProgressBar::new(time.as_millis() as u64).with_style(style).with_prefix(name);
        self.bar.tick();
    }

    fn sample(&mut self, sample: &Sample) {
        self.bar.set_position(sample.at.as_millis() as u64);
        self.bar.set_message(format!("{:.1} MB/s", sample.speed));
    }

    fn end(&mut self, run: &RunReport) {
        self.bar.finish_and_clear();
        if run.measured.is_none() {
            eprintln!("{}, {}: {}: {}", run.id, run.carrier, verdict(run.verdict), run.why);
        }
    }
}
