//! Describes a scenario as it was read from a file, for tests.

use crate::plan::host::HostSpec;
use crate::plan::place::Direction;
use crate::plan::setup::Setup;
use crate::scenario::model::{Run, Scenario};
use std::fmt::Write as _;

/// Returns every run with all its settings, in a few lines each.
pub(crate) fn summary(scenario: &Scenario) -> String {
    let Scenario { about, source, rounds, runs, .. } = scenario;
    let mut text = format!("good, {} runs, {rounds} rounds\nabout {about}\nsource {source}\n", runs.len());
    for run in runs {
        let Run { id, at: _, what, setup, carriers, traffic, published, computed, expect, quick, skip, note } = run;
        let _ = writeln!(text, "\n{id} {what:?}{}", quick.map(|time| format!(", quick {time:?}")).unwrap_or_default());
        let _ = writeln!(text, "  carriers {carriers:?}");
        let _ = writeln!(text, "  traffic {traffic:?}");
        text += &path(setup);
        let _ = writeln!(text, "  host {}", host(&setup.host));
        let _ = writeln!(text, "  relay {}", host(&setup.relay));
        let _ = writeln!(text, "  published {published:?}, computed {computed:?}");
        let _ = writeln!(text, "  {expect:?}");
        if skip.is_some() || note.is_some() {
            let _ = writeln!(text, "  skip {skip:?}, note {note:?}");
        }
    }
    text
}

fn path(setup: &Setup) -> String {
    if !setup.has_wan() {
        return "  one hop\n".into();
    }
    let mut text = String::new();
    for (name, direction) in [("out", Direction::Out), ("back", Direction::Back)] {
        let _ = write!(text, "  {name} {}", listed(&setup.link.settings(direction)));
        let schedule = setup.link.schedule(direction);
        let _ = if schedule.is_empty() { writeln!(text) } else { writeln!(text, "; {}", listed(schedule)) };
    }
    text
}

fn listed(items: &[impl ToString]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn host(host: &HostSpec) -> String {
    format!("{host:?}").trim_start_matches("HostSpec ").to_string()
}
