//! Measurements while traffic flows. [`sampler`] takes samples with [`sockets`], [`disturbance`] measures what other programs
//! took, and [`done`] is a run with all its measurements.

pub(crate) mod disturbance;
pub(crate) mod done;
pub(crate) mod sampler;
pub(crate) mod sockets;
