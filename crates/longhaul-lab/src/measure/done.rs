//! One run over one carrier, as it went, before anybody has judged it.

use crate::measure::sampler::Seen;
use crate::traffic::Measured;
use crate::world::live::LinkCounters;

/// One run over one carrier, as it went.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// Result of the traffic.
    pub(crate) measured: Measured,
    /// Samples taken while it ran.
    pub(crate) seen: Seen,
    /// StageCounters of the link's two directions; `None` without a link.
    pub(crate) link: Option<[LinkCounters; 2]>,
    /// The carrier's commands and files.
    pub(crate) shown: Vec<String>,
}
