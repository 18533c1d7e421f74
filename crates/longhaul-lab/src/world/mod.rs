//! Builds the lab: four network namespaces, the cables between them, and the emulated WAN, live.
//!
//! In the order in which a packet meets them: [`wan`] builds the whole from a plan with the [`cables`], [`supervisor`] makes what
//! must vanish with us and starts programs in it, [`live`] runs the link with the buffers of [`frames`]. [`sysctls`] sets the
//! hosts, [`ssh`] is a server on one of them, [`user`] is who runs the lab, and [`processes`] counts what programs use.

pub(crate) mod cables;
mod frames;
pub(crate) mod live;
pub(crate) mod processes;
pub(crate) mod requirement;
pub(crate) mod ssh;
pub(crate) mod supervisor;
mod sysctls;
pub(crate) mod user;
pub(crate) mod wan;
