//! Measurements while traffic flows: [`sampler`] takes samples with [`sockets`], [`disturbance`] is the time that other
//! programs took of the processor, and a run that is [`done`] has all of it.

pub(crate) mod disturbance;
pub(crate) mod done;
pub(crate) mod sampler;
pub(crate) mod sockets;
