//! Changes of a scenario's link by the command line, with the expectations that depend on it.

use crate::plan::link::{LinkSpec, read_loss, read_rate, read_rtt};
use crate::scenario::model::{Expect, Published, Run};
use clap::Args;
use longhaul_link::{Common, Setting};
use longhaul_units::Rate;
use std::time::Duration;

/// Replacements for values of the scenario's link.
#[derive(Args, Debug, Clone, Default)]
pub(crate) struct Changes {
    /// Override the round trip, from 1ms to 10s
    ///
    /// Also replaces the `delay` of either direction, jitter included. The traffic lasts at least 25 round trips.
    #[arg(long, value_name = "TIME", value_parser = read_rtt)]
    rtt: Option<Duration>,
    /// Override the rate, from 1Mbit/s to 100Gbit/s
    #[arg(long, value_parser = read_rate)]
    rate: Option<Rate>,
    /// Override the share of random loss, up to 50%
    #[arg(long, value_name = "SHARE", value_parser = read_loss)]
    loss: Option<f64>,
}

impl Changes {
    /// Changes the link of `run`. Computed figures change with it. Published figures belong to the scenario's own path, so they
    /// are neither shown nor judged, and the run's note says so.
    pub(crate) fn apply(&self, run: &mut Run) {
        if !run.setup.has_wan() || !self.differ(&run.setup.link) {
            return;
        }
        let link = &mut run.setup.link;
        for stages in &mut link.stages {
            stages.retain(|stage| !self.replaces(stage));
        }
        link.rtt = self.rtt.unwrap_or(link.rtt);
        link.rate = self.rate.or(link.rate);
        link.loss = self.loss.unwrap_or(link.loss);
        // A longer path needs more time, as in the quick form.
        run.traffic.time = run.traffic.time.max(self.rtt.unwrap_or_default() * 25);
        run.published = Published::default();
        // Only the law of loss includes a changed loss.
        let knows = self.loss.is_none() || run.computed.is_some_and(|law| law.includes_loss);
        let within = run.expect.within.filter(|_| knows && run.silent_law().is_none());
        // If the scenario permits a speed of 0, a changed path may carry nothing too.
        let may_be_nothing = run.expect.speed.as_ref().is_some_and(|speed| speed.contains(&0.0));
        let speed = may_be_nothing.then_some(0.0..=f64::INFINITY);
        run.expect = Expect { within, speed, ..Expect::default() };
        // The scenario's own note is about its own path.
        run.note = Some(if within.is_some() { NOT_PUBLISHED } else { NOT_JUDGED }.into());
    }

    fn differ(&self, link: &LinkSpec) -> bool {
        link.stages.iter().flatten().any(|stage| self.replaces(stage))
            || self.rtt.is_some_and(|rtt| rtt != link.rtt)
            || self.rate.is_some_and(|rate| Some(rate) != link.rate)
            || self.loss.is_some_and(|loss| loss != link.loss)
    }

    /// Whether the changes remove `stage` from a direction. It would otherwise override the changed value of the link.
    fn replaces(&self, stage: &Setting) -> bool {
        match stage.row().traits.common {
            Some(Common::Rtt) => self.rtt.is_some(),
            Some(Common::Rate) => self.rate.is_some(),
            Some(Common::Loss) => self.loss.is_some(),
            None => false,
        }
    }
}

const NOT_PUBLISHED: &str = "the path is not the scenario's: judged by the computed speed, not by published figures";
const NOT_JUDGED: &str = "the path is not the scenario's: only data integrity is judged";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::library;
    use crate::scenario::read::read;

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
    fn another_path_is_judged_by_its_computed_speed() {
        let run = first(&Changes { rtt: Some(Duration::from_millis(20)), ..Changes::default() });
        assert_eq!((run.setup.link.rtt.as_millis(), run.published.speed), (20, None));
        assert_eq!((run.expect.within, run.expect.speed, run.expect.gain), (Some(0.15), None, None));
        assert_eq!(run.note.as_deref(), Some(NOT_PUBLISHED));
    }

    /// Returns the first run of a scenario with these lines.
    fn changed(lines: &str, changes: &Changes) -> Run {
        let text = format!("about = \"x\"\nsource = \"y\"\n[[run]]\nid = \"a\"\ncarriers = \"direct\"\n{lines}");
        let mut run = read("a", "a", &text).unwrap().runs.remove(0);
        changes.apply(&mut run);
        run
    }

    #[test]
    fn only_the_law_of_loss_includes_loss() {
        let loss = |loss| Changes { loss: Some(loss), ..Changes::default() };
        let run = first(&loss(0.01));
        assert_eq!((run.expect.within, run.note.as_deref()), (None, Some(NOT_JUDGED)));
        let lossy =
            "link = { loss = \"0.1%\" }\ncomputed = \"loss\"\nexpect = { within = \"15%\" }\nnote = \"of its path\"";
        let run = changed(lossy, &loss(0.01));
        assert_eq!((run.expect.within, run.note.as_deref()), (Some(0.15), Some(NOT_PUBLISHED)));
        assert_eq!(changed(lossy, &loss(0.0)).expect.within, None);
    }

    #[test]
    fn a_stage_of_one_direction_is_replaced_by_an_equal_value_of_the_link() {
        let changes = Changes { loss: Some(0.0), ..Changes::default() };
        let run = changed("link = { out = { loss = \"1%\", mtu = \"1400\" } }", &changes);
        assert_eq!(
            (&run.setup.link.stages[0], run.note.is_some()),
            (&vec![Setting::read("mtu", "1400").unwrap()], true)
        );
    }

    #[test]
    fn a_longer_path_takes_longer() {
        let rtt = |millis| Changes { rtt: Some(Duration::from_millis(millis)), ..Changes::default() };
        assert_eq!(first(&rtt(1000)).traffic.time, Duration::from_secs(25));
        assert_eq!(first(&rtt(20)).traffic.time, Duration::from_secs(6));
    }

    #[test]
    fn a_permitted_speed_of_0_stays_permitted() {
        let mut run = library::load("vpn-blackhole").unwrap().unwrap().runs.remove(0);
        Changes { rtt: Some(Duration::from_millis(20)), ..Changes::default() }.apply(&mut run);
        assert_eq!(run.expect, Expect { speed: Some(0.0..=f64::INFINITY), ..Expect::default() });
    }
}
