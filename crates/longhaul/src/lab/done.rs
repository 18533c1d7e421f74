//! One run over one carrier, as it went, before anybody has judged it.

use super::live::Traffic as LinkTraffic;
use super::sampler::Seen;
use super::traffic::Measured;

/// One run over one carrier, as it went.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// Result of the traffic.
    pub(super) measured: Measured,
    /// Samples taken while it ran.
    pub(super) seen: Seen,
    /// Counters of the link's two directions; `None` without a link.
    pub(super) link: Option<[LinkTraffic; 2]>,
    /// The carrier's commands and files.
    pub(super) shown: Vec<String>,
}
