//! From a tunnel to a connection with one of its next hops.
//!
//! Enters: a tunnel, and bytes that may travel in the SYN. Leaves: a connected dial leg with the PROXY header sent, or the reason
//! why no next hop answered. The active checks of next hops dial here, too.
//! May use: `state` and what is below it.

pub(crate) mod checks;
pub(crate) mod connect;
pub(crate) mod dial;
pub(crate) mod fast_open;
pub(crate) mod host_answer;
pub(crate) mod proxy_out;
