//! The lab: a WAN on one machine.
//!
//! ```text
//!   host A ── veth ── near relay ══ TUN ═ link ═ TUN ══ far relay ── veth ── host B
//! ```
//!
//! Four network namespaces in a row. The emulated WAN of [`longhaul_link`] runs between the two in the middle.
//!
//! Each folder uses only those below it:
//!
//! ```text
//! cmd        the subcommand
//! engine     runs a scenario
//! report     makes the verdicts, the table, the JSON document and the page
//! measure    samples a run and measures its disturbance
//! scenario   a file that names plans, carriers, traffic and expectations
//! traffic    the kinds of traffic
//! carrier    the ways across the WAN
//! world      builds a lab
//! plan       the lab to build, as data
//! error      why a lab cannot be built or run
//! ```

#![forbid(unsafe_code)]

mod carrier;
mod cmd;
mod engine;
mod error;
#[cfg(test)]
#[path = "../../../interface/check.rs"]
mod interface;
mod measure;
mod plan;
mod report;
mod scenario;
mod traffic;
mod world;

pub use cmd::Lab;
pub use error::LabError;
pub use plan::link::LinkSpec;
pub use plan::place::{Direction, Host};
pub use plan::profile::{Profile, Sysctl, Sysctls};
pub use scenario::read::parse;
pub use traffic::raw::transfer;
pub use world::live::LinkCounters;
pub use world::supervisor::Program;
pub use world::wan::Wan;
