//! The lab: a WAN on one machine.
//!
//! ```text
//!   host A ── veth ── near relay ══ TUN ═ link ═ TUN ══ far relay ── veth ── host B
//! ```
//!
//! Four network namespaces, and between the two in the middle the emulated WAN of [`longhaul_link`], live. In the
//! order in which a packet meets them: `wan` builds the whole from a `spec` with the `cables`, `keeper` makes what must
//! vanish with us and starts programs in it, `live` runs the link with the buffers of `pool`.
//!
//! A `scenario` says what to build and to send; `engine` runs it: a `carrier` takes the `traffic` across, `sampler` looks
//! on with `sockets`, and a run that is `done` has both. `disturbance` says what other programs took of the processor, `law`
//! computes, `verdict` judges, and `reason` explains. All of that is in a `run_report`, and `result` holds one for each run:
//! `report` prints it, `page` makes a page of it, and `topology` and `repeat` say in it what was built and how to do it again.
//! `progress` is shown meanwhile. `library` holds the scenarios that are built in, and `changes` what the command line makes
//! of them. `stand` is a lab that `up` leaves standing and `down` takes down; `standing` is the note of it. `signals` end it
//! all.

#![forbid(unsafe_code)]

mod cables;
mod carrier;
mod changes;
mod demo;
mod disturbance;
mod done;
mod down;
mod engine;
mod host;
mod keeper;
mod law;
mod library;
mod list;
mod live;
mod page;
mod pool;
mod problem;
mod processes;
mod progress;
mod reason;
mod repeat;
mod report;
mod result;
mod run;
mod run_report;
mod sampler;
mod scenario;
mod signals;
mod sockets;
mod spec;
mod ssh;
mod stand;
mod standing;
mod sysctls;
mod topology;
mod traffic;
mod up;
mod user;
mod verdict;
mod wan;

pub use demo::Demo;
pub use down::Down;
pub use keeper::Program;
pub use list::List;
pub use live::Traffic;
pub use problem::Problem;
pub use run::Run;
pub use scenario::judge;
pub use spec::{Direction, Host, LinkSpec, Profile};
pub use traffic::{Outcome, transfer};
pub use up::Up;
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
    List(List),
    Run(Box<Run>),
    Up(Box<Up>),
    Down(Down),
    Demo(Demo),
}

impl Lab {
    /// Runs the command: 0 when it did what was asked for, 1 when it could not or an expectation was missed, 2 for wrong
    /// values.
    pub fn run(self) -> ExitCode {
        match self.command {
            Command::List(list) => list.run(),
            Command::Run(run) => run.run(),
            Command::Up(up) => up.run(),
            Command::Down(down) => down.run(),
            Command::Demo(demo) => demo.run(),
        }
    }
}
