//! The registry of live flows, the counters, the distributions, and the results of probes.
//!
//! Enters: numbers and states, written by the tasks of the flows as plain atomics. Leaves: copies of them, for views and logs, and
//! the order to end a flow, which a view may give.
//! May use: `verify`, `leg`, `lock`.

pub(crate) mod client;
pub(crate) mod counters;
mod cut;
pub(crate) mod data_peer;
pub(crate) mod data_problem;
pub(crate) mod diagnosis;
pub(crate) mod distributions;
pub(crate) mod failure_kind;
pub(crate) mod flow;
mod histogram;
pub(crate) mod how;
mod moment;
pub(crate) mod own_probes;
mod pulse;
pub(crate) mod registry;
pub(crate) mod saved;
pub(crate) mod stalled;
pub(crate) mod tally;
pub(crate) mod throttle;
pub(crate) mod verified;

pub use counters::{COUNTERS, Counter, CounterValues, Counters};
pub use distributions::{Distributions, LegFigures};
pub use flow::{FindingState, FlowState, FlowStateName, GainState};
pub use histogram::{Bucket, HistogramValues};
pub use how::How;
pub use saved::SavedHours;
pub use tally::{Rates, Tally};
pub use verified::VerifyView;
