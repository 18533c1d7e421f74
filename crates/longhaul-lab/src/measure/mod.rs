//! What is seen while traffic flows: [`sampler`] looks on with [`sockets`], [`disturbance`] is what other programs took of
//! the processor, and a run that is [`done`] has all of it.

pub(crate) mod disturbance;
pub(crate) mod done;
pub(crate) mod sampler;
pub(crate) mod sockets;
