//! The lab: a WAN on one machine.
//!
//! ```text
//!   host A ── veth ── near relay ══ TUN ═ link ═ TUN ══ far relay ── veth ── host B
//! ```
//!
//! Four network namespaces, and between the two in the middle the emulated WAN of [`longhaul_core::link`], live. In the
//! order in which a packet meets them: `wan` builds the whole from a `spec`, `keeper` makes what must vanish with
//! us and starts programs in it, `live` runs the link with the buffers of `pool`; `raw` and `scp` are traffic,
//! `carrier` is what takes it across, `demo` compares them and prints the table.

mod carrier;
mod demo;
mod keeper;
mod live;
mod pool;
mod problem;
mod raw;
mod report;
mod scp;
mod sockets;
mod spec;
mod wan;

pub use demo::Demo;
pub use keeper::Program;
pub use live::Traffic;
pub use problem::Problem;
pub use raw::{Outcome, transfer};
pub use spec::{Direction, Host, LinkSpec, Profile};
pub use wan::Wan;

use clap::{Args, Subcommand};
use std::process::ExitCode;

/// An emulated WAN on this machine, to see what a relay gives before anybody touches production
#[derive(Args, Debug)]
pub struct Lab {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Demo(Demo),
}

impl Lab {
    /// Runs the command: 0 when it did what was asked for, 1 when it could not, 2 for wrong values.
    pub fn run(self) -> ExitCode {
        match self.command {
            Command::Demo(demo) => demo.run(),
        }
    }
}
