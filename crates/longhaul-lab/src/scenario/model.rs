//! A scenario as data.

use crate::carrier::row::Carrier;
use crate::plan::law::Law;
use crate::plan::setup::Setup;
use crate::traffic::row::Traffic;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

/// A scenario.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// The file's name without its extension.
    pub(crate) name: String,
    /// A sentence about the scenario's subject.
    pub(crate) about: String,
    /// The source of its figures, in a sentence.
    pub(crate) source: String,
    /// Number of times that each run takes place, with its carriers in turn. The median counts.
    pub(crate) rounds: u32,
    /// The experiments.
    pub(crate) runs: Vec<Run>,
}

/// One experiment.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// The name, unique in the scenario. A published figure gives its name.
    pub(crate) id: String,
    /// File and line, such as `lab/mitre.toml:21`.
    pub(crate) at: String,
    /// The description, in a few words.
    pub(crate) what: String,
    /// The link, and the settings of hosts and relays.
    pub(crate) setup: Setup,
    /// The carriers to compare, each in a lab of its own.
    pub(crate) carriers: Vec<&'static Carrier>,
    /// The traffic.
    pub(crate) traffic: Traffic,
    /// Published figures.
    pub(crate) published: Published,
    /// The law of the computed speed.
    pub(crate) computed: Option<Law>,
    /// The expectations.
    pub(crate) expect: Expect,
    /// The time of the traffic with `--quick`; `None` leaves the run out with `--quick`.
    pub(crate) quick: Option<Duration>,
    /// The reason why the run cannot be emulated, and the nearest run that can; `None` for a run that can.
    pub(crate) skip: Option<String>,
    /// The reason why the figure differs from the published one, if it does.
    pub(crate) note: Option<String>,
}

/// Published figures, in the units of the reports.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Published {
    /// MB/s, 10^6 bytes: lowest and highest.
    pub(crate) speed: Option<RangeInclusive<f64>>,
    /// Lowest and highest multiple of the direct transfer.
    pub(crate) gain: Option<RangeInclusive<f64>>,
}

/// Expectations that must be met for the verdict `pass`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Expect {
    /// The share by which the speed may differ from the computed speed, such as 0.15.
    pub(crate) within: Option<f64>,
    /// MB/s: lowest and highest.
    pub(crate) speed: Option<RangeInclusive<f64>>,
    /// Lowest and highest multiple of the direct transfer.
    pub(crate) gain: Option<RangeInclusive<f64>>,
    /// Lowest and highest multiple of another run, with the same carrier or else its first one.
    pub(crate) times: Option<Times>,
    /// Maximum share of one CPU that the relays' programs may use, such as 0.1.
    pub(crate) cpu: Option<f64>,
    /// Further figures of the traffic, by name: lowest and highest.
    pub(crate) figures: BTreeMap<String, RangeInclusive<f64>>,
}

/// A ratio to another run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Times {
    /// The name of the other run.
    pub(crate) of: String,
    /// Lowest and highest ratio.
    pub(crate) by: RangeInclusive<f64>,
}

impl Run {
    /// Adds `note` after earlier notes.
    pub(crate) fn add_note(&mut self, note: &str) {
        self.note = Some(self.note.take().map_or(note.into(), |before| format!("{before}; {note}")));
    }
}
