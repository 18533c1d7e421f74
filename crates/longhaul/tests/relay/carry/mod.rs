//! Tests the two pumps: bytes, endings, half-closes, urgent data.

pub(crate) mod endings;
pub(crate) mod many;
mod states;
pub(crate) mod wan;
