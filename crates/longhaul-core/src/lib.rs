//! The decisions of longhaul: no I/O, no clock, no async. `now` and randomness are arguments, so every decision is
//! tested in virtual time.
//!
//! In the order in which a byte passes them:
//!
//! ```text
//! permits       whether a tunnel may have another flow
//! sources       whether a source may have another flow
//! opening       what the first bytes are
//! proxy_header  reads and writes the client's address
//! next_hop      which hop is dialled first, and which may be dialled at all
//! loops         whether a tunnel's flows come back to it
//! names         how long the addresses of a name serve
//! pump          what one direction of a flow does next
//! low_water     how many bytes it waits for
//! budget        how much it reads while other pumps wait for their sinks
//! path          what a leg's path needs, and what limited it
//! advice        the settings of hosts that limit a path
//! caps          divides bandwidth caps among the flows
//! silence       when a silent peer is probed
//! stall         when a flow has made no progress for too long
//! closing       when a leg that ends is looked at
//! ftp           rewrites the addresses in control connections of FTP
//! health        whether a next hop, a tunnel and the daemon are well
//! curve         the figures of a tunnel over the last day
//! wire          the formats of what relays send each other
//! text          which characters of somebody else's text are shown
//! ration        how often relays answer a probe
//! places        how many probes they answer at a time
//! reload        what a new configuration does with each tunnel
//! ```

#![forbid(unsafe_code)]

pub mod advice;
pub mod budget;
pub mod caps;
pub mod closing;
pub mod curve;
pub mod ftp;
pub mod health;
pub mod loops;
pub mod low_water;
pub mod names;
pub mod next_hop;
pub mod opening;
pub mod path;
pub mod permits;
pub mod places;
pub mod proxy_header;
pub mod pump;
pub mod ration;
pub mod reload;
pub mod silence;
pub mod sources;
pub mod stall;
pub mod text;
pub mod wire;
