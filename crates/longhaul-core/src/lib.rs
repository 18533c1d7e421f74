//! The decisions of longhaul: no I/O, no clock, no async. `now` and randomness are arguments, so every decision is
//! tested in virtual time.
//!
//! In the order in which a byte passes them: [`permits`] decides whether a tunnel may have another flow, and [`sources`]
//! whether a source may. [`opening`] decides what its first bytes are, and
//! [`proxy_header`] reads and writes the client's address. [`next_hop`] decides which hop is
//! dialled first, and which may be dialled at all, and [`names`] how long the addresses of a name serve. [`pump`] decides
//! what one direction of a flow does next, and [`low_water`] how many bytes it waits for. [`budget`] bounds what it reads
//! while other pumps wait for their sinks. [`path`] decides what a leg's path needs, and finds what limited it. [`advice`] has
//! the settings of hosts that limit a path. [`caps`] divides bandwidth caps among the flows. [`silence`] decides when a silent peer is probed, [`stall`] when a flow has made
//! no progress for too long, and [`closing`] when a leg that ends is looked at. [`ftp`] rewrites the addresses in control
//! connections of FTP. [`health`] tells whether a next hop, a tunnel and the daemon are well. [`wire`] has the formats of what relays send each other, [`ration`] limits how often they answer a
//! probe, and [`places`] how many at a time. [`reload`] decides what a new configuration does with each tunnel.

#![forbid(unsafe_code)]

pub mod advice;
pub mod budget;
pub mod caps;
pub mod closing;
pub mod ftp;
pub mod health;
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
pub mod wire;
