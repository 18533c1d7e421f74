//! Tests how connections are accepted: limits, sources, the PROXY header.

pub(crate) mod limits;
mod proxy;
mod sources;
