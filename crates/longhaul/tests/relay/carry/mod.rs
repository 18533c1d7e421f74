//! Tests the two pumps: bytes, endings, half-closes, urgent data.

pub(crate) mod endings;
pub(crate) mod many;
mod outage;
mod states;
pub(crate) mod wan;
