//! The lab: a WAN on one machine.
//!
//! ```text
//!   host A ── veth ── near relay ══ TUN ═ link ═ TUN ══ far relay ── veth ── host B
//! ```
//!
//! Four network namespaces, and between the two in the middle the emulated WAN of [`longhaul_link`], live.
//!
//! Every room uses only those before it. `plan` says what to build, and `world` builds it. A `carrier` takes the `traffic`
//! across. A `scenario` is a file that names plans, carriers and traffic, and what to expect of them. The `engine` runs it:
//! `measure` looks on, and `report` holds what came of it. `cmd` is the subcommand.

#![forbid(unsafe_code)]

mod carrier;
mod cmd;
mod engine;
mod error;
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
pub use plan::profile::{Profile, Sysctl};
pub use scenario::parse;
pub use traffic::{Outcome, transfer};
pub use world::live::LinkCounters;
pub use world::supervisor::Program;
pub use world::wan::Wan;
