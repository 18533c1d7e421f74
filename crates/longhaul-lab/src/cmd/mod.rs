//! The subcommands of `longhaul lab`. [`changes`] is what the command line makes of a scenario, [`progress`] is shown while a
//! run is under way, [`standing`] is a lab that `up` leaves behind and [`note`] what `down` finds it by; [`signals`] end it all.

mod changes;
mod demo;
mod down;
mod init;
mod list;
mod note;
mod progress;
mod run;
mod show;
mod signals;
mod standing;
mod up;

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
    List(list::List),
    Show(show::Show),
    Init(init::Init),
    Run(Box<run::RunArgs>),
    Up(Box<up::Up>),
    Down(down::Down),
    Demo(demo::Demo),
}

impl Lab {
    /// Runs the command: 0 when it did what was asked for, 1 when it could not or an expectation was missed, 2 for wrong
    /// values.
    pub fn run(self) -> ExitCode {
        match self.command {
            Command::List(list) => list.run(),
            Command::Show(show) => show.run(),
            Command::Init(init) => init.run(),
            Command::Run(run) => run.run(),
            Command::Up(up) => up.run(),
            Command::Down(down) => down.run(),
            Command::Demo(demo) => demo.run(),
        }
    }
}
