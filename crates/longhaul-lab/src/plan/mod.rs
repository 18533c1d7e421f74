//! The lab to build, as data. [`place`] names the hosts and directions, [`link`] is the emulated WAN, [`host`] a host as a
//! scenario describes it, [`profile`] the same as the kernel takes it, and [`setup`] all of that for one run. [`law`] is the
//! speed that follows from it.

pub(crate) mod conflict;
pub(crate) mod host;
pub(crate) mod law;
pub(crate) mod link;
pub(crate) mod place;
pub(crate) mod profile;
pub(crate) mod setup;
