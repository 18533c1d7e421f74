//! Says what limits one direction of a flow, from looks at its two legs over a few seconds.
//!
//! ```text
//! sender ── source leg ──> relay ── sink leg ──> receiver
//! ```
//! [`Watch`] gathers looks. [`Facts`] are what they show, and `rules` has the decision: one row for each finding. Where no row fits, the
//! finding is [`Kind::Unknown`]: a wrong answer sends somebody to change the wrong host.

mod facts;
mod kind;
mod rules;
mod watch;

pub use facts::{Facts, Sink, Source};
pub use kind::Kind;
pub use watch::{Looks, Watch};

use longhaul_units::Rate;

/// One of the two legs of a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The leg from which the bytes come.
    Source,
    /// The leg on which they go on.
    Sink,
}

/// What limits a direction of a flow.
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
