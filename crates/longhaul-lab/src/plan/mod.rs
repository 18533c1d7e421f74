//! The lab to build, as data:
//!
//! - [`place`]: the hosts and directions;
//! - [`link`]: the emulated WAN;
//! - [`host`]: a host as a scenario describes it;
//! - [`profile`]: a host as kernel settings;
//! - [`outside`]: another program's flows beside the traffic;
//! - [`setup`]: hosts, relays and link of one run;
//! - [`law`]: computes the speed of a transfer from a set-up, by the laws of longhaul-core;
//! - [`conflict`]: values that do not go together.

pub(crate) mod conflict;
pub(crate) mod host;
pub(crate) mod law;
pub(crate) mod link;
pub(crate) mod outside;
pub(crate) mod place;
pub(crate) mod profile;
pub(crate) mod setup;
