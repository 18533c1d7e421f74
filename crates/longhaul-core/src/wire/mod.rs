//! Wire formats that relays of different versions share. Parsing is pure: bytes in, values out, no I/O.
//!
//! [`probe`] is the request of a probe, [`answer`] are the frames that the relays send back, and [`proof`] proves the shared
//! key. [`measure`] begins a measuring session. docs/protocol.md has the same byte tables.

pub mod answer;
pub mod measure;
pub mod probe;
pub mod proof;

use std::fmt;

/// Why a preface of any kind cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefaceFault {
    /// It is of another version.
    Version(u8),
    /// Its checksum is wrong.
    Checksum,
    /// A field is out of range.
    Range,
}

impl fmt::Display for PrefaceFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PrefaceFault::Version(version) => write!(f, "the unknown version {version}"),
            PrefaceFault::Checksum => f.write_str("a wrong checksum"),
            PrefaceFault::Range => f.write_str("a field out of range"),
        }
    }
}
