//! A row of the table: a carrier, how its programs are started, and what they are while they run.

use crate::error::LabError;
use crate::plan::host::HostSpec;
use crate::plan::law::Law;
use crate::plan::link::LinkSpec;
use crate::plan::place::Host;
use crate::world::requirement::Requirement;
use crate::world::supervisor::{Program, READY_WITHIN};
use crate::world::user::User;
use crate::world::wan::Wan;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// One way across.
pub(crate) struct Carrier {
    /// Its name in scenarios and results.
    pub(crate) name: &'static str,
    /// Its description, in a few words.
    pub(crate) what: &'static str,
    /// Its part when results are compared.
    pub(crate) role: Role,
    /// The programs and files without which it cannot run.
    pub(crate) needs: &'static [Requirement],
    /// The law that its own programs set a transfer, if they do.
    pub(crate) law: Option<Law>,
    /// Changes the hosts before the lab is built.
    pub(crate) hosts: fn(&mut HostSpec, &LinkSpec),
    /// The congestion control that it chooses by itself on a WAN; nothing where it is the relay hosts'.
    pub(crate) congestion: Option<&'static str>,
    /// Starts it for whoever runs the lab, with socket options as `longhaul relay --set` takes them where it knows such;
    /// nothing to start for a routed path.
    pub(crate) start: fn(&Wan, &User, &[String]) -> Result<Started, LabError>,
}

/// The part of a carrier when results are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The hosts alone, as the scenario describes them: gains are relative to it.
    Direct,
    /// The hosts alone, tuned as their owner could if they could be changed.
    Tuned,
    /// Programs on the relay hosts.
    Relay,
    /// longhaul's own relays, which take the socket options of the scenario.
    Longhaul,
}

/// The programs that a carrier started.
pub(crate) struct Started {
    /// Which host A connects to, at [`PORT`]; B where nothing stands between.
    pub(crate) entry: Host,
    /// The relays' programs, near first.
    pub(crate) programs: Vec<Program>,
    /// The commands and files of it, as one would type them, for the report.
    pub(crate) shown: Vec<String>,
}

/// A carrier at work until dropped.
pub(crate) struct Running {
    /// The address to which host A connects.
    pub(crate) entry: SocketAddr,
    /// The relays' programs, near first.
    pub(crate) programs: Vec<Program>,
    /// The commands and files of it, as one would type them.
    pub(crate) shown: Vec<String>,
}

impl Carrier {
    /// The base of rows without a relay.
    pub(crate) const ROUTED: Carrier = Carrier {
        name: "",
        what: "",
        role: Role::Direct,
        needs: &[],
        law: None,
        hosts: |_, _| {},
        congestion: None,
        start: |_, _, _| Ok(Started::nothing()),
    };

    /// The base of rows with programs on the relay hosts.
    pub(crate) const RELAYED: Carrier = Carrier { role: Role::Relay, ..Carrier::ROUTED };

    /// Whether the hosts send by themselves, without a program on the relays.
    pub(crate) fn is_routed(&self) -> bool {
        matches!(self.role, Role::Direct | Role::Tuned)
    }

    /// Whether it is the transfer that gains are relative to.
    pub(crate) fn is_direct(&self) -> bool {
        self.role == Role::Direct
    }

    /// Carries connections to [`PORT`] of host B.
    pub(crate) fn run(&self, wan: &Wan, user: &User, set: &[String]) -> Result<Running, LabError> {
        self.needs.iter().try_for_each(|needed| needed.find().map(drop))?;
        let Started { entry, programs, shown } = (self.start)(wan, user, set)?;
        Ok(Running { entry: SocketAddr::new(entry.lan(), PORT), programs, shown })
    }
}

impl Started {
    /// Nothing: the relay hosts route.
    pub(crate) fn nothing() -> Started {
        Started { entry: Host::B, programs: Vec::new(), shown: Vec::new() }
    }

    /// On each relay the program that `command` gives for the relay and the address it leads to, at [`PORT`], from
    /// [`PORT`], with the file that configures it or nothing; ready when each has said `ready` on stderr.
    pub(crate) fn on_relays(
        wan: &Wan,
        ready: &'static str,
        command: impl Fn(Host, IpAddr) -> Result<(Command, String), LabError>,
    ) -> Result<Started, LabError> {
        Started::each(wan, command, |_, program| program.wait_for(ready))
    }

    /// As [`Started::on_relays`], for programs that do not say when they are ready.
    pub(crate) fn when_they_listen(
        wan: &Wan,
        command: impl Fn(Host, IpAddr) -> Result<(Command, String), LabError>,
    ) -> Result<Started, LabError> {
        Started::each(wan, command, |relay, mut program| {
            // Whatever it says: nobody waits for a line of it.
            drop(program.overhear(""));
            let listening = format!("sport = {PORT}");
            let start = Instant::now();
            while wan.output(relay, "ss", &["-tlnH", &listening])?.is_empty() {
                if program.ended().is_some() {
                    return Err(program.failure());
                }
                if start.elapsed() > READY_WITHIN {
                    return Err(program.not_ready());
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            Ok(program)
        })
    }

    fn each(
        wan: &Wan,
        command: impl Fn(Host, IpAddr) -> Result<(Command, String), LabError>,
        ready: impl Fn(Host, Program) -> Result<Program, LabError>,
    ) -> Result<Started, LabError> {
        let mut started = Started { entry: Host::Near, ..Started::nothing() };
        for (relay, next) in wan.relays() {
            let (mut command, config) = command(relay, next)?;
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
            let program = wan.spawn(relay, command)?;
            started.shown.push(format!("{}: {}\n{config}", relay.name(), program.name()).trim_end().to_string());
            started.programs.push(ready(relay, program)?);
        }
        Ok(started)
    }
}

impl PartialEq for Carrier {
    fn eq(&self, other: &Carrier) -> bool {
        self.name == other.name
    }
}

impl fmt::Debug for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The port that a carrier leads to, and where it listens.
pub(crate) const PORT: u16 = 6000;
