//! Describes a scenario as it was read from a file, for tests. Values have the names of their keys. `-` stands for a key that was
//! left out and has no default.

use crate::plan::host::HostSpec;
use crate::plan::place::Direction;
use crate::plan::profile::Sysctls;
use crate::plan::setup::Setup;
use crate::scenario::model::{Expect, Published, Run, Scenario, Times};
use crate::traffic::Traffic;
use longhaul_units::show_duration;
use std::fmt::{Display, Write as _};
use std::ops::RangeInclusive;

/// Returns every run with all its settings, in a few lines each.
pub(crate) fn summary(scenario: &Scenario) -> String {
    let Scenario { name: _, about, source, rounds, runs } = scenario;
    let mut text = format!("good, {} runs, {rounds} rounds\nabout {about}\nsource {source}\n", runs.len());
    for run in runs {
        // Every field is named, so that a new key cannot be forgotten here.
        let Run { id, at: _, what, setup, carriers, traffic, published, computed, expect, quick, skip, note } = run;
        let names: Vec<&str> = carriers.iter().map(|carrier| carrier.name).collect();
        let law = computed.map(|law| law.row().name);
        for line in [
            format!("\n{id}: {}; quick {}", or_dash(Some(what).filter(|what| !what.is_empty())), time(*quick)),
            format!("  carriers {}", or_dash(Some(names.join(", ")).filter(|names| !names.is_empty()))),
            format!("  traffic {}", sent(traffic)),
            path(setup),
            format!("  host {}", host(&setup.host)),
            format!("  relay {}", host(&setup.relay)),
            format!("  set {}", or_dash(Some(setup.set.join(", ")).filter(|set| !set.is_empty()))),
            format!("  published {}; computed {}", figures(published), or_dash(law)),
            format!("  expect {}", expected(expect)),
            format!("  skip {}; note {}", or_dash(skip.as_ref()), or_dash(note.as_ref())),
        ] {
            let _ = writeln!(text, "{line}");
        }
    }
    text
}

fn sent(traffic: &Traffic) -> String {
    let Traffic { kind, connections, time, size, rate, direction } = traffic;
    let direction = match direction {
        Direction::Out => "up",
        Direction::Back => "down",
    };
    format!(
        "{}, connections {connections}, time {}, size {}, rate {}, direction {direction}",
        kind.name,
        show_duration(*time),
        or_dash(*size),
        or_dash(*rate),
    )
}

fn path(setup: &Setup) -> String {
    if !setup.has_wan() {
        return "  one hop".into();
    }
    let way = |name: &str, direction| {
        let schedule = setup.link.schedule(direction);
        let schedule = if schedule.is_empty() { String::new() } else { format!("; {}", listed(schedule)) };
        format!("  {name} {}{schedule}", listed(&setup.link.settings(direction)))
    };
    format!("{}\n{}", way("out", Direction::Out), way("back", Direction::Back))
}

fn host(host: &HostSpec) -> String {
    let HostSpec { window, buffers, congestion, sack, scaling, mtu, mss, offload, sysctls } = host;
    format!(
        "window {}, buffers {}, congestion {congestion}, sack {sack}, scaling {scaling}, mtu {mtu}, mss {}, offload {offload}, \
         sysctls {}",
        or_dash(*window),
        or_dash(*buffers),
        or_dash(*mss),
        or_dash((*sysctls == Sysctls::Shipped).then_some("shipped")),
    )
}

fn figures(published: &Published) -> String {
    let Published { speed, gain } = published;
    format!("megabytes_per_s {}, gain {}", range(speed.as_ref()), range(gain.as_ref()))
}

fn expected(expect: &Expect) -> String {
    let Expect { within, speed, gain, times, cpu, figures } = expect;
    let share = |share: Option<f64>| or_dash(share.map(|share| format!("{}%", share * 100.0)));
    let times = times.as_ref().map(|Times { of, by }| format!("{} of {of}", range(Some(by))));
    let figures: Vec<String> = figures.iter().map(|(name, value)| format!("{name} {}", range(Some(value)))).collect();
    format!(
        "within {}, megabytes_per_s {}, gain {}, times {}, cpu {}, figures {}",
        share(*within),
        range(speed.as_ref()),
        range(gain.as_ref()),
        or_dash(times),
        share(*cpu),
        or_dash(Some(figures.join(" and ")).filter(|figures| !figures.is_empty())),
    )
}

fn range(range: Option<&RangeInclusive<f64>>) -> String {
    or_dash(range.map(|range| match (range.start(), range.end()) {
        (min, max) if min == max => min.to_string(),
        (min, max) if max.is_infinite() => format!("at least {min}"),
        (min, max) => format!("{min} to {max}"),
    }))
}

fn time(time: Option<std::time::Duration>) -> String {
    or_dash(time.map(show_duration))
}

fn or_dash(value: Option<impl Display>) -> String {
    value.map_or("-".into(), |value| value.to_string())
}

fn listed(items: &[impl ToString]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
