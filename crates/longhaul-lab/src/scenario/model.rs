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
    /// What it is called: the file's name without its ending.
    pub(crate) name: String,
    /// What it shows, in a sentence.
    pub(crate) about: String,
    /// Where its figures come from, in a sentence.
    pub(crate) source: String,
    /// How often every run is repeated, all carriers of it in turn; the median counts.
    pub(crate) rounds: u32,
    /// Its experiments.
    pub(crate) runs: Vec<Run>,
}

/// One experiment.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// Its name, unique in the scenario; that of a published figure where there is one.
    pub(crate) id: String,
    /// Where it stands: the file and the line, as `lab/mitre.toml:21`.
    pub(crate) at: String,
    /// What it is, in a few words.
    pub(crate) what: String,
    /// What stands between the hosts.
    pub(crate) setup: Setup,
    /// What carries the traffic, each in a lab of its own.
    pub(crate) carriers: Vec<&'static Carrier>,
    /// What is sent.
    pub(crate) traffic: Traffic,
    /// What somebody published.
    pub(crate) published: Published,
    /// What arithmetic says.
    pub(crate) computed: Option<Law>,
    /// What must come out.
    pub(crate) expect: Expect,
    /// How long it takes in the quick form of the scenario; `None` leaves it out of that.
    pub(crate) quick: Option<Duration>,
    /// Why it cannot be emulated, and what comes nearest, when it cannot.
    pub(crate) skip: Option<String>,
    /// Why the figure differs from what was published, where it does.
    pub(crate) note: Option<String>,
}

/// What somebody published, in the units of the reports.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Published {
    /// MB/s, 10^6 bytes: lowest and highest.
    pub(crate) speed: Option<RangeInclusive<f64>>,
    /// Times the direct transfer.
    pub(crate) gain: Option<RangeInclusive<f64>>,
}

/// What must come out for the verdict `pass`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Expect {
    /// The share by which the speed may differ from the computed one: 0.15.
    pub(crate) within: Option<f64>,
    /// MB/s: lowest and highest.
    pub(crate) speed: Option<RangeInclusive<f64>>,
    /// Times the direct transfer: lowest and highest.
    pub(crate) gain: Option<RangeInclusive<f64>>,
    /// Times the run of that name, with the same carrier or its only one: lowest and highest.
    pub(crate) times: Option<(String, RangeInclusive<f64>)>,
    /// The most that the relays' programs may use of one CPU, as a share: 0.1.
    pub(crate) cpu: Option<f64>,
    /// Further figures of the traffic, by name: lowest and highest.
    pub(crate) figures: Vec<(String, RangeInclusive<f64>)>,
}

impl Run {
    /// Says `note` too, after what was noted before.
    pub(crate) fn add_note(&mut self, note: &str) {
        self.note = Some(self.note.take().map_or(note.into(), |before| format!("{before}; {note}")));
    }
}
