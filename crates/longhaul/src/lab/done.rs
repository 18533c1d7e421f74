//! One run over one carrier, as it went, before anybody has judged it.

use super::live::Traffic as LinkTraffic;
use super::sampler::Seen;
use super::traffic::Measured;

/// One run over one carrier, as it went.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// What the traffic says.
    pub(super) measured: Measured,
    /// What was seen meanwhile.
    pub(super) seen: Seen,
    /// What the link did in both directions; nothing where there is none.
    pub(super) link: Option<[LinkTraffic; 2]>,
    /// The carrier's commands and files.
    pub(super) shown: Vec<String>,
}
