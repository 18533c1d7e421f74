//! Says what limits one direction of a flow, from looks at its two legs over a few seconds.
//!
//! ```text
//! sender ── source leg ──> relay ── sink leg ──> receiver
//! ```
//! [`Watch`] gathers looks. [`Facts`] are what they show, and `rules` has the decision: one row for each finding. Where no row fits, the
//! finding is [`Kind::Unknown`]: a wrong answer sends somebody to change the wrong host. [`Findings`] are those of a whole transfer.

mod facts;
mod finding;
mod kind;
#[cfg(test)]
mod replay_tests;
mod rules;
#[cfg(test)]
mod rules_tests;
mod watch;

pub use facts::{Facts, Processor, Sink, Source};
pub use finding::{Finding, Findings, Side};
pub use kind::Kind;
pub(in crate::path) use rules::{BUSY, LEAST_QUEUE, THROTTLED};
pub use watch::{Looks, Watch};
