//! Why the text of a setting or of a schedule is refused.

use longhaul_units::UnitError;
use std::fmt;

/// The reason why a value is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageError {
    /// There is no stage of that name.
    UnknownStage {
        /// The keys of all stages.
        known: &'static [&'static str],
    },
    /// A quantity in it cannot be read.
    Unit(UnitError),
    /// A share of packets must be written as `0.1%`, between 0 and 100 %.
    NoPercentage,
    /// A rate of nothing carries nothing.
    NoRate,
    /// Packets cannot arrive before they are sent.
    Jitter,
    /// No path has such an MTU.
    Length,
    /// No part of a tunnel is that long.
    Overhead {
        /// The maximum in bytes.
        max: u32,
    },
    /// A change for no time has no effect.
    NoTime,
    /// It is not written as it must be; such as this.
    Form(&'static str),
}

impl fmt::Display for StageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StageError::UnknownStage { known } => {
                write!(f, "there is no such stage; there are {}", known.join(", "))
            }
            StageError::Unit(err) => err.fmt(f),
            StageError::NoPercentage => f.write_str("a share of packets is written as 0.1%, from 0% to 100%"),
            StageError::NoRate => f.write_str("a rate of 0 would carry nothing"),
            StageError::Jitter => {
                f.write_str("the jitter is longer than the delay; write for example 31.5ms jitter 2ms")
            }
            StageError::Length => f.write_str("packets may be 68 to 65535 bytes long; write for example 1400"),
            StageError::Overhead { max } => {
                write!(f, "no part of a tunnel has more than {max} bytes; write for example fixed 50")
            }
            StageError::NoTime => f.write_str("what holds for 0s never happens"),
            StageError::Form(sample) => write!(f, "it is written otherwise; write for example {sample}"),
        }
    }
}

impl std::error::Error for StageError {}

impl From<UnitError> for StageError {
    fn from(err: UnitError) -> StageError {
        StageError::Unit(err)
    }
}
