//! `longhaul advise`: from the round trip and the rate of a path to the exact change, and what it will give.
//!
//! [`Advise`] has the flags; [`advice`] computes everything once; `text`, `json` and `page` show it.

mod advice;
mod json;
#[cfg(test)]
mod measured;
mod page;
mod profile;
#[cfg(test)]
mod published;
mod relays;
#[cfg(test)]
mod tests;
mod text;

use crate::path::{PathFlags, help, read_rtt, read_system, unknown};
use crate::say;
use advice::{Advice, Question};
use clap::Args;
use longhaul_core::advice::{APPLICATIONS, Application, LINUX, SYSTEMS, System};
use longhaul_core::path::laws::MAX_WINDOW;
use longhaul_units::Bytes;
use profile::{PROFILES, Profile};
use relays::Addresses;
pub(crate) use relays::relay_goal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// The flags of `longhaul advise`.
#[derive(Args, Debug)]
pub struct Advise {
    #[command(flatten)]
    path: PathFlags,
    #[arg(long, value_name = "SYSTEM", value_delimiter = ',', value_parser = read_system, help = OS, long_help = os())]
    os: Vec<&'static System>,
    #[arg(long, value_name = "NAME", value_parser = read_application, help = APP, long_help = app())]
    app: Option<&'static Application>,
    /// TCP window of the hosts as they are
    ///
    /// By default that of --os.
    #[arg(long, value_name = "SIZE", value_parser = read_window)]
    window: Option<Bytes>,
    /// Bytes to move, such as 2TB
    ///
    /// The table then has the time for them.
    #[arg(long, value_name = "SIZE", value_parser = read_bytes)]
    bytes: Option<Bytes>,
    /// Connections at once, without a relay
    ///
    /// For the last row of the table. By default as many as the line needs.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    connections: Option<u32>,
    /// Round trip between a host and its relay
    ///
    /// By default the LAN is no limit.
    #[arg(long, value_name = "TIME", value_parser = read_rtt)]
    lan_rtt: Option<Duration>,
    #[arg(long, value_name = "NAME", value_parser = read_profile, help = PROFILE, long_help = profile())]
    profile: Option<&'static Profile>,
    #[command(flatten)]
    addresses: Addresses,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Also write an HTML page to this file
    ///
    /// The page shows the table, the rate against the round trip and slow start as charts, the commands, and the files of the
    /// relays. It is a single file for any browser, and it can be printed. It loads nothing from elsewhere.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Advise {
    /// Prints the advice, and writes the page. Returns 0, or 2 if the flags give no path or no hosts, or the page cannot be
    /// written.
    pub fn run(self) -> ExitCode {
        let advice = match self.advice() {
            Ok(advice) => advice,
            Err(why) => return say::wrong(&why),
        };
        if let Some(Err(why)) = self.html.map(|file| crate::page::write(&file, &page::page(&advice))) {
            return say::wrong(&format!("--html: {why}"));
        }
        say::print(&if self.json { json::text(&advice) } else { text::text(&advice) })
    }

    /// Returns what the flags ask for.
    ///
    /// # Errors
    /// A flag is missing, or the addresses cannot be used: a sentence that says what to write.
    fn advice(&self) -> Result<Advice, String> {
        let has_no_hosts = self.os.is_empty() && self.window.is_none() && self.profile.is_none();
        // The hosts that measured have longhaul, and it runs on Linux.
        let is_linux =
            self.window.is_none() && self.profile.is_none() && matches!(self.os[..], [os] if os.name == LINUX.name);
        let is_unknown = has_no_hosts && !self.path.has_from();
        let (path, limited) = match self.path.read(self.profile.map(|profile| profile.path())) {
            Ok(_) if is_unknown => return Err(unknown_hosts()),
            Err(why) if is_unknown => return Err(format!("{}; {why}", unknown_hosts())),
            path => path?,
        };
        let os = match self.profile {
            Some(profile) if self.os.is_empty() => profile.systems(),
            None if self.os.is_empty() && self.window.is_none() && limited.is_some() => vec![&LINUX],
            _ => self.os.clone(),
        };
        Advice::new(Question {
            path,
            limited,
            has_measured_hosts: has_no_hosts || is_linux && self.path.has_from(),
            os,
            application: self.app.or(self.profile.and_then(|profile| profile.application())),
            window: self.window.or(self.profile.map(|profile| profile.window)),
            bytes: self.bytes,
            connections: self.connections,
            lan_rtt: self.lan_rtt,
            addresses: self.addresses.clone(),
            profile: self.profile,
        })
    }
}

fn unknown_hosts() -> String {
    let systems: Vec<&str> = SYSTEMS.iter().filter(|system| system.has_window()).map(|system| system.name).collect();
    format!("the hosts are unknown: add --os {}, or --window 256KiB", systems.join(" or "))
}

fn os() -> String {
    let more =
        "Several with commas. For each, the output says what to type. Of several, the smallest default window counts.";
    help(OS, SYSTEMS.iter().map(|system| system.name), more)
}

fn app() -> String {
    help(APP, APPLICATIONS.iter().map(|row| row.name), "Its own window limits the rate, whatever TCP's is.")
}

fn profile() -> String {
    let more = "Shows the settings as they are published, what is wrong with them, and the advice for that path. Flags replace \
        its values.";
    help(PROFILE, PROFILES.iter().map(|profile| profile.name), more)
}

fn read_application(text: &str) -> Result<&'static Application, String> {
    Application::named(text).ok_or_else(|| unknown(text, APPLICATIONS.iter().map(|application| application.name)))
}

fn read_profile(text: &str) -> Result<&'static Profile, String> {
    let found = PROFILES.iter().find(|profile| profile.name == text);
    found.ok_or_else(|| unknown(text, PROFILES.iter().map(|profile| profile.name)))
}

fn read_window(text: &str) -> Result<Bytes, String> {
    let window: Bytes = text.parse().map_err(|err| format!("{err}; write for example 256KiB"))?;
    match window {
        Bytes(0..512) => Err("a window is 512 bytes or more; write for example 256KiB".into()),
        // One GiB is meant as the largest window, which is 16 KiB less.
        window if window <= Bytes(1 << 30) => Ok(window.min(MAX_WINDOW)),
        _ => Err("TCP has no window above 1GiB; write for example 256KiB".into()),
    }
}

fn read_bytes(text: &str) -> Result<Bytes, String> {
    let bytes: Bytes = text.parse().map_err(|err| format!("{err}; write for example 2TB"))?;
    if bytes.0 == 0 { Err("0 bytes take no time; write for example 2TB".into()) } else { Ok(bytes) }
}

const OS: &str = "Systems of the hosts";
const APP: &str = "Application";
const PROFILE: &str = "Published settings to start from";
