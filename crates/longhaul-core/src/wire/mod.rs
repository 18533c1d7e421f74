//! Wire formats that relays of different versions share. Parsing is pure: bytes in, values out, no I/O.
//!
//! [`probe`] is the request of a probe, [`answer`] are the frames that the relays send back, and [`proof`] proves the shared
//! key. docs/protocol.md has the same byte tables.

pub mod answer;
pub mod probe;
pub mod proof;
