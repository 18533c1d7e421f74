//! Builds the lab: four network namespaces, the cables between them, and the emulated WAN, live.
//!
//! - [`wan`] builds the lab from a plan, with the [`cables`];
//! - [`supervisor`] creates everything that must vanish with this process, and starts programs in it;
//! - [`live`] runs the link, with the buffers of [`frames`];
//! - [`sysctls`] sets kernel parameters of the hosts;
//! - [`ssh`] and [`ftp`] run a server on a host;
//! - [`user`] is the user who runs the lab;
//! - [`processes`] measures CPU time and memory of programs;
//! - [`requirement`] finds the programs that the lab needs.

pub(crate) mod cables;
mod frames;
pub(crate) mod ftp;
pub(crate) mod live;
pub(crate) mod processes;
pub(crate) mod requirement;
pub(crate) mod ssh;
pub(crate) mod supervisor;
mod sysctls;
pub(crate) mod user;
pub(crate) mod wan;
