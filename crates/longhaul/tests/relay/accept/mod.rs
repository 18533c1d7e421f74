//! What a client meets first: limits, sources, the PROXY header.

pub(crate) mod limits;
mod proxy;
mod sources;
