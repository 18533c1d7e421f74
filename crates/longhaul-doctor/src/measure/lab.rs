//! The lab's result for a measured path: the JSON document of `longhaul lab run`, as far as the page shows it. docs/lab.md has its fields.

use super::document::{Document, check};
use super::values::three;
use crate::path::read_json;
use longhaul_core::text::printable;
use longhaul_measure::message::Direction;
use serde::Deserialize;
use std::path::Path;

/// The report of one scenario.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Lab {
    pub(super) scenario: String,
    #[serde(default)]
    pub(super) kernel: String,
    #[serde(default)]
    pub(super) cpus: u64,
    #[serde(default)]
    pub(super) command: String,
    #[serde(default)]
    pub(super) date: String,
    pub(super) runs: Vec<LabRun>,
}

/// One run over one carrier.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct LabRun {
    #[serde(default)]
    pub(super) what: String,
    pub(super) carrier: String,
    #[serde(default)]
    pub(super) rtt_ms: f64,
    /// Its speed in MB/s; `None` for a run that was skipped.
    #[serde(default, rename = "measured_MBps")]
    pub(super) speed: Option<f64>,
    #[serde(default)]
    pub(super) gain_over_direct: Option<f64>,
    #[serde(default)]
    pub(super) verdict: String,
    #[serde(default)]
    pub(super) finding: Option<LabFinding>,
    #[serde(default)]
    pub(super) topology: Topology,
}

/// The limit of a run.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct LabFinding {
    pub(super) kind: String,
}

/// The hosts and the WAN, in phrases.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Topology {
    pub(super) hosts: Vec<String>,
    pub(super) wan: Vec<String>,
    pub(super) wan_out: Vec<String>,
    pub(super) wan_back: Vec<String>,
}

impl Lab {
    /// Returns the report in the file at `path`, or on standard input for `-`.
    ///
    /// # Errors
    /// The file cannot be read, is no report of the lab, or no run in it has a speed.
    pub(super) fn read(path: &Path) -> Result<Lab, String> {
        read_json(path, FILE, Lab::parsed)
    }

    /// # Errors
    /// The text is no report of the lab, or no run in it has a speed.
    pub(super) fn parsed(text: &[u8]) -> Result<Lab, String> {
        let lab: Lab =
            serde_json::from_slice(text).map_err(|err| format!("it is no report of the lab ({err}); {FILE}"))?;
        lab.checked()
    }

    /// Returns the report with printable texts, and only runs that have a speed.
    fn checked(mut self) -> Result<Lab, String> {
        check("measured_MBps", self.runs.iter().filter_map(|run| run.speed), MAX_SPEED)?;
        check("gain_over_direct", self.runs.iter().filter_map(|run| run.gain_over_direct), MAX_SPEED)?;
        check("rtt_ms", self.runs.iter().map(|run| run.rtt_ms), MAX_SPEED)?;
        self.runs.retain(|run| run.speed.is_some());
        if self.runs.is_empty() {
            return Err(format!("no run in it has a speed; {FILE}"));
        }
        let Lab { scenario, kernel, command, date, runs, .. } = &mut self;
        let of_runs = runs.iter_mut().flat_map(|run| {
            let LabRun { what, carrier, verdict, finding, topology, .. } = run;
            let Topology { hosts, wan, wan_out, wan_back } = topology;
            let phrases = [hosts, wan, wan_out, wan_back].into_iter().flatten();
            let kind = finding.as_mut().map(|finding| &mut finding.kind);
            [what, carrier, verdict].into_iter().chain(kind).chain(phrases)
        });
        for text in [scenario, kernel, command, date].into_iter().chain(of_runs) {
            *text = printable(text).collect();
        }
        Ok(self)
    }

    /// Returns the speeds of the first run's question in a sentence: `This path, these hosts: direct 4.10, longhaul 29.0 MB/s`.
    pub(super) fn headline(&self) -> String {
        let question = &self.runs[0].what;
        let runs = self.runs.iter().filter(|run| run.what == *question);
        let speeds: Vec<String> =
            runs.filter_map(|run| Some(format!("{} {}", run.carrier, three(run.speed?)))).collect();
        format!("This path, these hosts: {} MB/s, measured in the lab.", speeds.join(", "))
    }

    /// Returns what the lab emulated: the hosts and the WAN.
    pub(super) fn emulated(&self) -> String {
        let Topology { hosts, wan, wan_out, wan_back } = &self.runs[0].topology;
        let one_way = |way: &str, phrases: &[String]| {
            if phrases.is_empty() { String::new() } else { format!("; {way}: {}", phrases.join(", ")) }
        };
        let wan = format!("{}{}{}", wan.join(", "), one_way("up", wan_out), one_way("down", wan_back));
        format!("Hosts: {}. WAN: {wan}.", hosts.join(", "))
    }

    /// Returns where and how it was measured.
    pub(super) fn how(&self) -> String {
        let Lab { kernel, cpus, command, date, .. } = self;
        format!("The lab builds hosts, relays and WAN in one machine: Linux {kernel}, {cpus} CPUs, {date}. `{command}`")
    }

    /// Returns why the figures may be wrong: sentences about runs that failed or were disturbed, and about another round trip than that
    /// of `document`.
    pub(super) fn doubts(&self, document: &Document) -> Vec<String> {
        let runs = self.runs.iter().filter(|run| ["unclear", "fail"].contains(&run.verdict.as_str()));
        let runs = runs.map(|run| format!("The lab's verdict on {} is {}: run it again.", run.carrier, run.verdict));
        runs.chain(self.other_path(document)).chain(self.other_rate(document)).collect()
    }

    /// Compares the speed without relays with that of one connection in the direction of the first finding, which `lab init` takes.
    fn other_rate(&self, document: &Document) -> Option<String> {
        let direct = self.runs.iter().find(|run| run.carrier == "direct")?.speed?;
        let direction = document.findings.first().map_or(Direction::Up, |finding| finding.direction);
        let measured = document.first(direction)?.payload_mbps / 8.0;
        let is_near = direct <= FAR * measured && measured <= FAR * direct;
        (!is_near).then(|| {
            format!(
                "One connection carries {} MB/s in the lab without relays, and {} MB/s on this path: the figures are of another path, or the lab does not have its limit.",
                three(direct),
                three(measured)
            )
        })
    }

    fn other_path(&self, document: &Document) -> Option<String> {
        let (lab, measured) = (self.runs[0].rtt_ms, document.rtt_ms.min?);
        let is_other = (lab / measured.max(1e-3) - 1.0).abs() > NEAR;
        is_other.then(|| {
            format!(
                "The lab's round trip is {} ms, and that of this path {} ms: the figures may be of another path. `longhaul lab init --from` \
                 writes the scenario of this one.",
                three(lab),
                three(measured)
            )
        })
    }
}

/// How many times the speed without relays may be the measured one, and the other way round.
const FAR: f64 = 1.5;
/// How far the round trip of the lab may be from the measured one. The lab's own cables and hosts add some.
const NEAR: f64 = 0.1;
/// More than any speed in MB/s, gain, or round trip in ms.
const MAX_SPEED: f64 = 1e7;
const FILE: &str = "name a file with the output of `longhaul lab run SCENARIO --json`, where `longhaul lab init --from path.json` wrote \
    the scenario";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn another_file_is_refused_with_what_to_write() {
        for (text, why) in [
            ("", "it is no report of the lab"),
            ("[]", "it is no report of the lab"),
            (r#"{"scenario": "a", "runs": []}"#, "no run in it has a speed; name a file with the output"),
            (r#"{"scenario": "a", "runs": [{"carrier": "-", "measured_MBps": null}]}"#, "no run in it has a speed"),
            (r#"{"scenario": "a", "runs": [{"carrier": "direct", "measured_MBps": -1}]}"#, "measured_MBps is -1"),
        ] {
            let refused = Lab::parsed(text.as_bytes()).expect_err(text);
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC*") {
            let _ = Lab::parsed(text.as_bytes());
        }
    }
}
