//! The measurements of one run over one carrier, before the verdict.

use crate::measure::sampler::Seen;
use crate::traffic::row::Measured;
use crate::world::live::LinkCounters;

/// The measurements of one run over one carrier.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// The result of the traffic.
    pub(crate) measured: Measured,
    /// Samples taken while it ran.
    pub(crate) seen: Seen,
    /// The counters of the link's two directions; `None` without a link.
    pub(crate) link: Option<[LinkCounters; 2]>,
    /// The carrier's commands and files.
    pub(crate) shown: Vec<String>,
}
