//! Tests how connections are accepted: limits, loops, sources, the PROXY header.

pub(crate) mod limits;
mod loops;
mod proxy;
mod sources;
