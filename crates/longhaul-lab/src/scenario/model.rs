//! A scenario as data.

use crate::carrier::Carrier;
use crate::plan::law::Law;
use crate::plan::setup::Setup;
use crate::traffic::Traffic;
use std::ops::RangeInclusive;
use std::time::Duration;

/// A scenario that was read.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// Its name: the file's name without its ending.
    pub(crate) name: String,
    /// A sentence about its subject.
    pub(crate) about: String,
    /// The source of its figures, in a sentence.
    pub(crate) source: String,
    /// Number of times that every run is repeated, all carriers of it in turn; the median counts.
    pub(crate) rounds: u32,
    /// Its experiments.
    pub(crate) runs: Vec<Run>,
}

/// One experiment.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// Its name, unique in the scenario; that of a published figure where there is one.
    pub(crate) id: String,
    /// Its file and line, as `lab/mitre.toml:21`.
    pub(crate) at: String,
    /// Its description, in a few words.
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
    /// The time of its traffic with `--quick`; `None` leaves it out of that.
    pub(crate) quick: Option<Duration>,
    /// Why it cannot be emulated, and what comes nearest, when it cannot.
    pub(crate) skip: Option<String>,
    /// Why the figure differs from what was published, where it does.
    pub(crate) note: Option<String>,
}

/// Published figures, in the units of the reports.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Published {
    /// MB/s, 10^6 bytes: lowest and highest.
    pub(crate) speed: Option<RangeInclusive<f64>>,
    /// Times the direct transfer.
    pub(crate) gain: Option<RangeInclusive<f64>>,
}

/// Expectations that must be met for the verdict `pass`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Expect {
    /// The share by which the speed may differ from the computed one: 0.15.
    pub(crate) within: Option<f64>,
    /// MB/s: lowest and highest.
    pub(crate) speed: Option<RangeInclusive<f64>>,
    /// Times the direct transfer: lowest and highest.
    pub(crate) gain: Option<RangeInclusive<f64>>,
    /// Times the run of that name, with the same carrier or its only one: lowest and highest.
    pub(crate) times: Option<Times>,
    /// The most that the relays' programs may use of one CPU, as a share: 0.1.
    pub(crate) cpu: Option<f64>,
    /// Further figures of the traffic, by name: lowest and highest.
    pub(crate) figures: Vec<(String, RangeInclusive<f64>)>,
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
    /// Says `note` too, after what was noted before.
    pub(crate) fn add_note(&mut self, note: &str) {
        self.note = Some(self.note.take().map_or(note.into(), |before| format!("{before}; {note}")));
    }
}
