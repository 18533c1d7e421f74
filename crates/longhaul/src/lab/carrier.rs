//! What carries the traffic between the hosts: a table, one row a carrier.

use super::keeper::Program;
use super::problem::Problem;
use super::spec::Host;
use super::wan::Wan;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

/// One way across.
pub(super) struct Carrier {
    /// Its name.
    pub(super) name: &'static str,
    /// What it is, in a few words.
    pub(super) what: &'static str,
    /// Starts it for one port of host B; nothing to start for the routed path.
    start: fn(&Wan, u16) -> Result<Vec<Program>, Problem>,
    /// Where host A connects instead of B.
    entry: Host,
}

/// Every carrier of the demo.
pub(super) const ROWS: &[Carrier] = &[
    Carrier { name: "direct", what: "no relay", start: |_, _| Ok(Vec::new()), entry: Host::B },
    Carrier { name: "socat", what: "the recipe on two relays", start: socat, entry: Host::Near },
    Carrier { name: "longhaul", what: "on two relays", start: longhaul, entry: Host::Near },
];

/// A carrier at work until dropped.
pub(super) struct Running {
    /// Where host A connects.
    pub(super) entry: SocketAddr,
    /// The relays' programs, near first; here to be killed.
    _programs: Vec<Program>,
}

impl Carrier {
    /// Carries connections to `port` of host B.
    pub(super) fn start(&self, wan: &Wan, port: u16) -> Result<Running, Problem> {
        let programs = (self.start)(wan, port)?;
        Ok(Running { entry: SocketAddr::new(self.entry.lan(), port), _programs: programs })
    }
}

/// The recipe as published: the same line on both relays, and the kernel's own congestion control, which is CUBIC on
/// the systems it was written for.
fn socat(wan: &Wan, port: u16) -> Result<Vec<Program>, Problem> {
    relays(wan, "congctl cubic", |next| {
        let mut command = Command::new("socat");
        // -d -d: it says when it listens.
        command.args(["-d", "-d"]).arg(format!("TCP4-LISTEN:{port},fork,reuseaddr")).arg(format!("TCP4:{next}:{port}"));
        Ok(command)
    })
}

/// This program's own relay, at its defaults.
fn longhaul(wan: &Wan, port: u16) -> Result<Vec<Program>, Problem> {
    relays(wan, "", |next| {
        let mut command = Command::new(std::env::current_exe().map_err(Problem::io("finding this program"))?);
        command.args(["relay", "--listen", &port.to_string(), "--to", &format!("{next}:{port}")]);
        Ok(command)
    })
}

/// Starts on each relay the command that leads to the next, whose name is given to it; ready when both listen.
fn relays(
    wan: &Wan,
    routes: &str,
    command: impl Fn(std::net::IpAddr) -> Result<Command, Problem>,
) -> Result<Vec<Program>, Problem> {
    let mut programs = Vec::new();
    for (relay, next) in [(Host::Near, Host::Far.wan()), (Host::Far, Host::B.lan())] {
        wan.set_routes(relay, routes)?;
        let mut command = command(next)?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        programs.push(wan.spawn(relay, command)?.wait_for("listening")?);
    }
    Ok(programs)
}
