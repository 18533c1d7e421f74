//! `longhaul top`.

use super::control::{Target, failed};
use super::{complain, print, systemd};
use clap::Args;
use longhaul::top;
use std::env;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

/// The flags of `longhaul top`.
#[derive(Args)]
pub(super) struct TopFlags {
    #[command(flatten)]
    target: Target,
    /// Time between two pictures
    ///
    /// 100ms to 1h.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// Print one picture as text, and exit
    ///
    /// It needs no terminal. It takes one interval, because a rate is the difference of two pictures. Programs should read
    /// `longhaul status --json` instead.
    #[arg(long)]
    once: bool,
}

/// Shows the state of the daemon until the operator quits.
pub(super) fn top(flags: &TopFlags) -> ExitCode {
    let has_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    if !flags.once && !has_terminal {
        let why = "error: `longhaul top` needs a terminal. Without one: longhaul status --json, or longhaul top --once";
        return complain(&[why]);
    }
    let socket = match flags.target.socket() {
        Ok(socket) => socket,
        Err(err) => return failed(&format!("error: {err}")),
    };
    let options = top::Options {
        socket,
        interval: flags.interval,
        // https://no-color.org: any value but the empty one.
        colour: env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        systemd: flags.target.is_the_service().then_some(systemd::state_of_the_unit),
    };
    let shown = match flags.once {
        true => top::once(&options),
        false => top::run(&options).map(|()| String::new()),
    };
    match shown {
        Ok(text) => print(&text),
        Err(err) => failed(&format!("error: {err}")),
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    let time = longhaul_units::duration(text).map_err(|err| format!("{err}; write a time such as 1s"))?;
    let range = Duration::from_millis(100)..=Duration::from_secs(3600);
    if range.contains(&time) { Ok(time) } else { Err("write 100ms to 1h".into()) }
}
