//! A finding, and those of a transfer, window by window.

use super::kind::Kind;
use longhaul_units::Rate;

/// One of the two legs of a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The leg from which the bytes come.
    Source,
    /// The leg on which they go on.
    Sink,
}

/// The limit of a direction of a flow, with its proof.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The limit.
    pub kind: Kind,
    /// The leg that has it; `None` if it is of both, or not known.
    pub leg: Option<Side>,
    /// The proof: a sentence with figures.
    pub evidence: String,
    /// Rate of payload if this limit alone were lifted; `None` if that is not known.
    pub what_if: Option<Rate>,
    /// The limit at that rate.
    pub then: Option<Kind>,
    /// A sentence that says what to change. Empty if there is nothing to change.
    pub advice: &'static str,
}

impl Finding {
    /// Returns the finding of a flow whose limit is not known, because of `evidence`.
    pub fn unknown(evidence: impl Into<String>) -> Finding {
        Finding { kind: Kind::Unknown, leg: None, evidence: evidence.into(), what_if: None, then: None, advice: "" }
    }
}

/// Each limit that a transfer has had, with its last finding and the number of windows in which it held. The latest limit is the last.
#[derive(Clone, Debug, Default)]
pub struct Findings(Vec<(Finding, u32)>);

impl Findings {
    /// Adds the finding of a window.
    pub fn add(&mut self, finding: Finding) {
        let key = |finding: &Finding| -> (Kind, Option<Side>) { (finding.kind, finding.leg) };
        let known = self.0.iter().position(|(found, _)| key(found) == key(&finding));
        let windows = known.map_or(0, |at| self.0.remove(at).1);
        self.0.push((finding, windows.saturating_add(1)));
    }

    /// Returns the finding of the last window.
    pub fn latest(&self) -> Option<&Finding> {
        self.0.last().map(|(finding, _)| finding)
    }

    /// Returns the finding that held in the most windows, the latest of those that held in as many.
    pub fn longest(self) -> Option<Finding> {
        self.0.into_iter().max_by_key(|(_, windows)| *windows).map(|(finding, _)| finding)
    }

    /// Whether no window has ended.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_limit_counts_and_of_two_the_later_one() {
        let mut found = Findings::default();
        let mut add = |kind, evidence: &str| {
            found.add(Finding { kind, ..Finding::unknown(evidence) });
            (found.latest().unwrap().kind, found.clone().longest().unwrap().evidence)
        };
        assert_eq!(add(Kind::Cap, "a"), (Kind::Cap, "a".to_string()));
        assert_eq!(add(Kind::LinkRate, "b"), (Kind::LinkRate, "b".to_string()));
        assert_eq!(add(Kind::Cap, "c"), (Kind::Cap, "c".to_string()));
        assert_eq!(add(Kind::LinkRate, "d"), (Kind::LinkRate, "d".to_string()));
        assert_eq!(add(Kind::Stalled, "e"), (Kind::Stalled, "d".to_string()));
    }
}
