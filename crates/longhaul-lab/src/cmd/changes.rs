//! Changes of a scenario's link by the command line, and of the expectations that depend on it.

use crate::plan::link::{LinkSpec, read_loss, read_rate, read_rtt};
use crate::scenario::{Expect, Published, Run};
use clap::Args;
use longhaul_link::{Common, Setting};
use longhaul_units::Rate;
use std::time::Duration;

/// Another link than the scenario's.
#[derive(Args, Debug, Clone, Default)]
pub(crate) struct Changes {
    /// Another round trip for every run, from 1ms to 10s
    ///
    /// It also replaces the `delay` of either direction, jitter included. The traffic lasts at least 25 round trips.
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
    /// Changes the link of `run`. Computed figures follow. Published figures are of another path then: they are neither shown
    /// nor judged, and the run's note says so.
    pub(crate) fn apply(&self, run: &mut Run) {
        if !run.setup.has_wan() || !self.differ(&run.setup.link) {
            return;
        }
        let link = &mut run.setup.link;
        for stages in [&mut link.out, &mut link.back] {
            stages.retain(|stage| !self.replaces(stage));
        }
        link.rtt = self.rtt.unwrap_or(link.rtt);
        link.rate = self.rate.or(link.rate);
        link.loss = self.loss.unwrap_or(link.loss);
        // A longer path needs longer, here as in the quick form.
        run.traffic.time = run.traffic.time.max(self.rtt.unwrap_or_default() * 25);
        run.published = Published::default();
        // Of the laws only that of loss knows of it.
        let knows = self.loss.is_none() || run.computed.is_some_and(|law| law.row().includes_loss);
        let within = run.expect.within.filter(|_| knows && run.silent_law().is_none());
        // Where nothing need arrive, nothing need arrive over another path either.
        let may_be_nothing = run.expect.speed.as_ref().is_some_and(|speed| speed.contains(&0.0));
        let speed = may_be_nothing.then_some(0.0..=f64::INFINITY);
        run.expect = Expect { within, speed, ..Expect::default() };
        // The scenario's own note is of its path.
        run.note = Some(if within.is_some() { NOT_PUBLISHED } else { NOT_JUDGED }.into());
    }

    fn differ(&self, link: &LinkSpec) -> bool {
        link.out.iter().chain(&link.back).any(|stage| self.replaces(stage))
            || self.rtt.is_some_and(|rtt| rtt != link.rtt)
            || self.rate.is_some_and(|rate| Some(rate) != link.rate)
            || self.loss.is_some_and(|loss| loss != link.loss)
    }

    /// Whether it replaces `stage` of one direction, which would override the changed value of the link.
    fn replaces(&self, stage: &Setting) -> bool {
        match stage.row().traits.common {
            Some(Common::Rtt) => self.rtt.is_some(),
            Some(Common::Rate) => self.rate.is_some(),
            Some(Common::Loss) => self.loss.is_some(),
            None => false,
        }
    }
}

const NOT_PUBLISHED: &str =
    "this is not the scenario's path: judged by what is computed for it, and not by what is published";
const NOT_JUDGED: &str = "this is not the scenario's path: nothing but the bytes is judged";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario;
    use crate::scenario::library;

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

    /// The first run of a scenario with these lines in it.
    fn changed(lines: &str, changes: &Changes) -> Run {
        let text = format!("about = \"x\"\nsource = \"y\"\n[[run]]\nid = \"a\"\ncarriers = \"direct\"\n{lines}");
        let mut run = scenario::read("a", "a", &text).unwrap().runs.remove(0);
        changes.apply(&mut run);
        run
    }

    #[test]
    fn loss_is_known_to_no_law_but_its_own() {
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
    fn a_stage_of_one_direction_goes_though_the_link_is_as_it_was() {
        let changes = Changes { loss: Some(0.0), ..Changes::default() };
        let run = changed("link = { out = { loss = \"1%\", mtu = \"1400\" } }", &changes);
        assert_eq!((run.setup.link.out, run.note.is_some()), (vec![Setting::read("mtu", "1400").unwrap()], true));
    }

    #[test]
    fn a_longer_path_takes_longer() {
        let rtt = |millis| Changes { rtt: Some(Duration::from_millis(millis)), ..Changes::default() };
        assert_eq!(first(&rtt(1000)).traffic.time, Duration::from_secs(25));
        assert_eq!(first(&rtt(20)).traffic.time, Duration::from_secs(6));
    }

    #[test]
    fn where_nothing_need_arrive_nothing_need_arrive() {
        let mut run = library::load("vpn-blackhole").unwrap().unwrap().runs.remove(0);
        Changes { rtt: Some(Duration::from_millis(20)), ..Changes::default() }.apply(&mut run);
        assert_eq!(run.expect, Expect { speed: Some(0.0..=f64::INFINITY), ..Expect::default() });
    }
}
