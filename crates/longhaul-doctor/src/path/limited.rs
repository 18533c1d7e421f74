//! The limit of one connection on a measured path.

use longhaul_core::advice::{End, Remedy};
use longhaul_core::path::diagnosis::Kind;
use longhaul_core::text::printable;
use longhaul_units::{Bytes, Rate};
use serde::Deserialize;
use std::fmt;

/// Limit of one connection, as it was measured.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Limited {
    /// Name of the limit, such as `receiver-window`.
    pub kind: String,
    /// The direction that has it: `up` or `down`.
    pub direction: String,
    /// The proof.
    pub evidence: String,
    /// The rate without it in 10^6 bit/s.
    pub what_if_mbps: Option<f64>,
    /// What to do.
    pub advice: String,
    /// The bytes of one connection that are in flight at most, if a window or a buffer is the limit.
    #[serde(skip)]
    pub window: Option<Bytes>,
    /// Rate of payload that one connection had; `None` if the file does not tell.
    #[serde(skip)]
    pub rate: Option<Rate>,
    /// Address of the far host; empty if the file does not tell.
    #[serde(skip)]
    pub far: String,
}

impl Limited {
    /// Returns what lifts the limit; `None` for one that this longhaul does not know.
    pub fn remedy(&self) -> Option<&'static Remedy> {
        Remedy::of(Kind::named(&self.kind)?)
    }

    /// Whether the host with the limit is the far one. Otherwise it is the one that measured.
    pub(crate) fn is_of_far(&self, remedy: &Remedy) -> bool {
        (remedy.end == End::Receiver) == (self.direction == "up")
    }

    /// Returns the words for the host that has the limit.
    pub(crate) fn host(&self, remedy: &Remedy) -> String {
        match (self.is_of_far(remedy), self.far.is_empty()) {
            (true, true) => "the far host".into(),
            (true, false) => format!("the far host, {}", self.shown_far()),
            (false, true) => "the host that measured".into(),
            (false, false) => format!("the host that measured the path to {}", self.shown_far()),
        }
    }

    /// Returns the address of the far host.
    pub(crate) fn shown_far(&self) -> String {
        printable(&self.far).collect()
    }
}

impl fmt::Display for Limited {
    /// Writes sentences: the limit, its evidence, and the rate without it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The file is of another program's hand.
        let shown = |text: &str| printable(text).collect::<String>();
        write!(
            f,
            "Measured: one connection {} is limited by {}: {}.",
            shown(&self.direction),
            shown(&self.kind),
            shown(&self.evidence)
        )?;
        if let Some(mbps) = self.what_if_mbps {
            write!(f, " Without that limit it would carry {mbps} Mbit/s.")?;
        }
        // A limit that this longhaul knows has its own advice.
        if self.remedy().is_none() && !self.advice.is_empty() {
            write!(f, " {}", shown(&self.advice))?;
        }
        Ok(())
    }
}
