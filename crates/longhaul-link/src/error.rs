//! The reasons to refuse the text of a setting or of a schedule.

use longhaul_units::UnitError;
use std::fmt;

/// Reason to refuse a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StageError {
    /// No stage has that name.
    UnknownStage {
        /// Keys of all stages.
        known: &'static [&'static str],
    },
    /// A quantity in the value cannot be read.
    Unit(UnitError),
    /// The rate is 0; such a line would carry nothing.
    NoRate,
    /// The jitter exceeds the delay; packets cannot arrive before they are sent.
    Jitter,
    /// The packet length is outside 68 to 65535 bytes.
    Length,
    /// A part of the encapsulation is too long.
    Overhead {
        /// The maximum in bytes.
        max: u32,
    },
    /// The change lasts 0 s and has no effect.
    NoTime,
    /// The value does not have the form of this sample.
    Form(&'static str),
}

impl fmt::Display for StageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StageError::UnknownStage { known } => {
                write!(f, "no such stage; the stages are {}", known.join(", "))
            }
            StageError::Unit(err) => err.fmt(f),
            StageError::NoRate => f.write_str("a rate of 0 would carry nothing"),
            StageError::Jitter => {
                f.write_str("the jitter is longer than the delay; write for example 31.5ms jitter 2ms")
            }
            StageError::Length => f.write_str("packets may be 68 to 65535 bytes long; write for example 1400"),
            StageError::Overhead { max } => {
                write!(f, "a part of a tunnel may have at most {max} bytes; write for example fixed 50")
            }
            StageError::NoTime => f.write_str("a change for 0s has no effect"),
            StageError::Form(sample) => write!(f, "wrong form; write for example {sample}"),
        }
    }
}

impl std::error::Error for StageError {}

impl From<UnitError> for StageError {
    fn from(err: UnitError) -> StageError {
        StageError::Unit(err)
    }
}
