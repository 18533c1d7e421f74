//! The subcommands of `longhaul lab`, a file each, and their parts:
//!
//! - [`changes`] applies the command line to a scenario;
//! - [`progress`] shows the run that is in progress;
//! - [`standing`] is the lab of `up`;
//! - [`signals`] ends the process on a signal.

mod changes;
mod init;
mod list;
mod progress;
mod run;
mod show;
mod signals;
mod standing;
mod up;

use clap::{Args, Subcommand};
use std::process::ExitCode;

/// Emulate a WAN on this machine, to measure the effect of a relay before a change in production
#[derive(Args, Debug)]
pub struct Lab {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    List(list::List),
    Show(show::Show),
    Init(init::Init),
    Run(Box<run::RunArgs>),
    Up(Box<up::Up>),
    /// Compare no relay, socat, HAProxy and longhaul on an emulated WAN
    ///
    /// The same as `longhaul lab run demo`. Builds two hosts with small windows, a relay host beside each, and a WAN between the
    /// relays, all inside this machine. Sends scp, raw TCP, raw TCP at 0.1% loss, and requests of 10 kB with answers of 10 kB from
    /// host to host: without a relay, through socat, through HAProxy and through longhaul. Checks every byte, and prints a table
    /// with the reason for each figure. Takes about three minutes.
    Demo(Box<run::Choices>),
}

impl Lab {
    /// Runs the command. Returns 0 for success, 1 if it failed or an expectation was missed, 2 for wrong values, and 3 if runs of
    /// `lab run` stayed unclear.
    pub fn run(self) -> ExitCode {
        match self.command {
            Command::List(list) => list.run(),
            Command::Show(show) => show.run(),
            Command::Init(init) => init.run(),
            Command::Run(run) => run.run(),
            Command::Up(up) => up.run(),
            Command::Demo(choices) => choices.run(&["demo".into()]),
        }
    }
}
