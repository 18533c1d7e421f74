//! Wire formats that relays of different versions share. Parsing is pure: bytes in, values out, no I/O.
//!
//! [`probe`] is the request of a probe, [`answer`] are the frames that the relays send back, and [`proof`] proves the shared
//! key. docs/protocol.md has the same byte tables.

pub mod answer;
pub mod probe;
pub mod proof;

/// Why a preface or a frame cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is of another version.
    Version(u8),
    /// Its checksum is wrong.
    Checksum,
    /// A field of the preface is out of range.
    Range,
    /// The length of the frame does not fit its kind, or a field has no meaning.
    Form,
}
