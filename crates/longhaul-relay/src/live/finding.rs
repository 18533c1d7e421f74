//! What limits a live flow, as views show it.

use serde::{Deserialize, Serialize};

/// What limits a flow in the direction that carries more, as views show it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FindingState {
    /// The limit, by its name: [`longhaul_core::path::diagnosis::Kind`].
    pub kind: String,
    /// The leg that has it: `accept` or `dial`. Null if it is of both, or not known.
    pub leg: Option<String>,
    /// The direction: `up` or `down`.
    pub direction: String,
    /// What shows it.
    pub evidence: String,
    /// Rate in Mbit/s if this limit alone were lifted. Null if that is not known.
    pub what_if_mbps: Option<f64>,
    /// The limit at that rate.
    pub then_limited_by: Option<String>,
    /// What to change. Empty if there is nothing.
    pub advice: String,
}
