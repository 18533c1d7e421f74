//! What the command line changes of a scenario's link, and what then can still be judged.

use super::demo::{read_loss, read_rate, read_rtt};
use super::scenario::{Expect, Published, Run};
use super::spec::LinkSpec;
use clap::Args;
use longhaul_core::units::Rate;
use std::time::Duration;

/// Another link than the scenario's.
#[derive(Args, Debug, Clone, Default)]
pub(super) struct Changes {
    /// Another round trip for every run, from 1ms to 10s
    #[arg(long, value_name = "TIME", value_parser = read_rtt)]
    rtt: Option<Duration>,
    /// Another rate for every run, from 1Mbit/s to 100Gbit/s
    #[arg(long, value_parser = read_rate)]
    rate: Option<Rate>,
    /// Another share of segments lost at random, up to 50%
    #[arg(long, value_name = "SHARE", value_parser = read_loss)]
    loss: Option<f64>,
}

impl Changes {
    /// Changes the link of `run`. What is computed follows; what somebody published is of another path then, and is
    /// neither shown nor judged, which the run's note says.
    pub(super) fn apply(&self, run: &mut Run) {
        if run.setup.one_hop || !self.differ(run) {
            return;
        }
        let link = &mut run.setup.link;
        // What is written as a stage of one direction counts before the link's own value.
        let LinkSpec { out, back, .. } = link;
        let mut drop_stage = |key: &str| {
            for stages in [&mut *out, &mut *back] {
                stages.retain(|(other, _)| other != key);
            }
        };
        if self.rtt.is_some() {
            drop_stage("delay");
        }
        if self.rate.is_some() {
            drop_stage("rate");
        }
        if self.loss.is_some() {
            drop_stage("loss");
        }
        link.rtt = self.rtt.unwrap_or(link.rtt);
        link.rate = self.rate.or(link.rate);
        link.loss = self.loss.unwrap_or(link.loss);
        run.published = Published::default();
        // No law of a window or a line knows of loss.
        let within = run.expect.within.filter(|_| self.loss.is_none());
        run.expect = Expect { within, ..Expect::default() };
        let note = match (within, &run.computed) {
            (Some(_), Some(_)) => NOT_PUBLISHED,
            _ => NOT_JUDGED,
        };
        run.add_note(note);
    }

    fn differ(&self, run: &Run) -> bool {
        let link = &run.setup.link;
        self.rtt.is_some_and(|rtt| rtt != link.rtt)
            || self.rate.is_some_and(|rate| Some(rate) != link.rate)
            || self.loss.is_some_and(|loss| loss != link.loss)
    }
}

const NOT_PUBLISHED: &str =
    "this is not the scenario's path: judged by what is computed for it, and not by what is published";
const NOT_JUDGED: &str = "this is not the scenario's path: nothing but the bytes is judged";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::library;

    fn first(changes: &Changes) -> Run {
        let mut run = library::load("mitre").unwrap().unwrap().runs.remove(0);
        changes.apply(&mut run);
        run
    }

    #[test]
    fn the_same_path_changes_nothing() {
        let run = first(&Changes { rtt: Some(Duration::from_millis(63)), ..Changes::default() });
        assert!(run.published.speed.is_some() && run.note.is_none());
    }

    #[test]
    fn another_path_is_judged_by_what_is_computed_for_it() {
        let run = first(&Changes { rtt: Some(Duration::from_millis(20)), ..Changes::default() });
        assert_eq!((run.setup.link.rtt.as_millis(), run.published.speed), (20, None));
        assert_eq!((run.expect.within, run.expect.speed, run.expect.gain), (Some(0.15), None, None));
        assert_eq!(run.note.as_deref(), Some(NOT_PUBLISHED));
    }

    #[test]
    fn loss_is_known_to_no_law_of_a_window() {
        let run = first(&Changes { loss: Some(0.01), ..Changes::default() });
        assert_eq!((run.expect.within, run.note.as_deref()), (None, Some(NOT_JUDGED)));
    }
}
