//! A resource as the Snapshot has it.

use serde::{Deserialize, Serialize};

/// A resource and its limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceState {
    /// Its name, such as `descriptors` or `ephemeral ports to 192.0.2.1:22`.
    pub name: String,
    /// The name without an address, such as `ephemeral ports`. The metrics of all resources of one kind are one series.
    pub kind: String,
    /// The part in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<f64>,
    /// The limit. Absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
    /// Unit of both, such as `bytes` or `pages`.
    pub unit: String,
    /// More about it, such as the names of the congestion controls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Why it needs attention. Absent if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// The remedy, with its command. Absent without a warning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Time since which it is nearly used up: it had 80 % of its limit, and has not had less than 70 % since then. Absent if
    /// it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub near_since_unix_seconds: Option<f64>,
}
