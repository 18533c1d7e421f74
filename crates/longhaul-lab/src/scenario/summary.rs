//! Describes a scenario as it was read from a file, for tests.

use crate::plan::place::Direction;
use crate::plan::setup::Setup;
use crate::scenario::model::{Run, Scenario};
use std::fmt::Write as _;

/// Returns every run with all its settings, in a few lines each.
pub(crate) fn summary(scenario: &Scenario) -> String {
    let Scenario { name: _, about, source, rounds, runs } = scenario;
    let mut text = format!("good, {} runs, {rounds} rounds\nabout {about}\nsource {source}\n", runs.len());
    for run in runs {
        // Every field is named, so that a new key cannot be forgotten here.
        let Run { id, at: _, what, setup, carriers, traffic, published, computed, expect, quick, skip, note } = run;
        let Setup { topology, link, host, relay, set, options } = setup;
        let _ =
            writeln!(text, "\n{id}: {what:?}, quick {quick:?}\n  carriers {carriers:?}\n  {traffic:?}\n  {topology:?}");
        for direction in Direction::BOTH.into_iter().filter(|_| setup.has_wan()) {
            let _ = writeln!(text, "  {direction:?} {:?} {:?}", link.settings(direction), link.schedule(direction));
        }
        let _ = writeln!(
            text,
            "  host {host:?}\n  relay {relay:?}\n  set {set:?}, options {options:?}\n  {published:?}, computed {computed:?}"
        );
        let _ = writeln!(text, "  {expect:?}\n  skip {skip:?}, note {note:?}");
    }
    text
}
