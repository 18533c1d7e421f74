//! A row of the table: a carrier, the start of its programs, and the programs while they run.

use crate::error::LabError;
use crate::plan::host::HostSpec;
use crate::plan::law::Law;
use crate::plan::link::LinkSpec;
use crate::plan::place::Host;
use crate::world::requirement::Requirement;
use crate::world::supervisor::Program;
use crate::world::user::User;
use crate::world::wan::Wan;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::process::{Command, Stdio};

/// One way to carry traffic between the hosts.
pub(crate) struct Carrier {
    /// Its name in scenarios and results.
    pub(crate) name: &'static str,
    /// Its description, in a few words.
    pub(crate) what: &'static str,
    /// Its part in comparisons of results.
    pub(crate) role: Role,
    /// The programs and files without which it cannot run.
    pub(crate) needs: &'static [Requirement],
    /// The law by which its own programs limit a transfer; `None` if they set no limit.
    pub(crate) law: Option<Law>,
    /// Changes the hosts before the lab is built.
    pub(crate) hosts: fn(&mut HostSpec, &LinkSpec),
    /// The congestion control that it chooses itself on a WAN; `None` if it uses the relay hosts' default.
    pub(crate) congestion: Option<&'static str>,
    /// Starts the carrier for the user who runs the lab. A routed path has nothing to start.
    pub(crate) start: fn(&Wan, &User, &Tunnel<'_>) -> Result<Running, LabError>,
}

/// Settings of a carrier on relays. Only longhaul heeds them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tunnel<'a> {
    /// Socket options in the syntax of `longhaul relay --set`.
    pub(crate) set: &'a [String],
    /// Further options of `longhaul relay`.
    pub(crate) options: &'a [String],
    /// The protocol of the connections.
    pub(crate) protocol: Protocol,
}

/// The protocol of the connections that a carrier carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Connections to [`PORT`] alone.
    Tcp,
    /// Control connections of FTP to [`PORT`], and data connections to [`DATA_PORTS`].
    Ftp,
}

/// The part of a carrier in comparisons of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The hosts alone, with the scenario's settings. Gains are relative to it.
    Direct,
    /// The hosts alone, tuned as their owner could tune them if they could be changed.
    Tuned,
    /// Programs on the relay hosts.
    Relay,
    /// longhaul's own relays, which take the socket options of the scenario.
    Longhaul,
}

/// A running carrier. The drop ends it.
pub(crate) struct Running {
    /// The address to which host A connects.
    pub(crate) entry: SocketAddr,
    /// The relays' programs, near first.
    pub(crate) programs: Vec<Program>,
    /// The commands and files of the carrier, as typed in a shell.
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
        start: |_, _, _| Ok(Running::at(Host::B)),
    };

    /// The base of rows with programs on the relay hosts.
    pub(crate) const RELAYED: Carrier = Carrier { role: Role::Relay, ..Carrier::ROUTED };

    /// Whether no program runs on the relays.
    pub(crate) fn is_routed(&self) -> bool {
        matches!(self.role, Role::Direct | Role::Tuned)
    }

    /// Whether gains are relative to this carrier.
    pub(crate) fn is_direct(&self) -> bool {
        self.role == Role::Direct
    }

    /// Whether it carries connections of `protocol`.
    pub(crate) fn carries(&self, protocol: Protocol) -> bool {
        protocol == Protocol::Tcp || self.role != Role::Relay
    }

    /// Starts carrying connections to [`PORT`] of host B.
    pub(crate) fn run(&self, wan: &Wan, user: &User, tunnel: &Tunnel<'_>) -> Result<Running, LabError> {
        self.needs.iter().try_for_each(|needed| needed.find().map(drop))?;
        (self.start)(wan, user, tunnel)
    }
}

impl Running {
    /// Returns a carrier without programs, to which host A connects at `entry`. With B, the relay hosts route.
    pub(crate) fn at(entry: Host) -> Running {
        Running { entry: SocketAddr::new(entry.lan(), PORT), programs: Vec::new(), shown: Vec::new() }
    }

    /// Starts a program on each relay and waits until each has written `ready` to stderr. `command` gets the relay and the
    /// address to connect to, and returns the command with the text of its configuration file, or an empty text. The programs
    /// listen on [`PORT`] and connect to [`PORT`].
    pub(crate) fn on_relays(
        wan: &Wan,
        ready: &'static str,
        command: impl Fn(Host, IpAddr) -> Result<(Command, String), LabError>,
    ) -> Result<Running, LabError> {
        Running::each(wan, command, |_, program| program.wait_for(ready))
    }

    /// As [`Running::on_relays`], for programs that do not report when they are ready. Waits until they listen.
    pub(crate) fn when_they_listen(
        wan: &Wan,
        command: impl Fn(Host, IpAddr) -> Result<(Command, String), LabError>,
    ) -> Result<Running, LabError> {
        Running::each(wan, command, |relay, program| wan.until_it_listens(relay, program, PORT))
    }

    fn each(
        wan: &Wan,
        command: impl Fn(Host, IpAddr) -> Result<(Command, String), LabError>,
        ready: impl Fn(Host, Program) -> Result<Program, LabError>,
    ) -> Result<Running, LabError> {
        let mut running = Running::at(Host::Near);
        for (relay, next) in wan.relays() {
            let (mut command, config) = command(relay, next)?;
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
            let program = wan.spawn(relay, command)?;
            running.shown.push(format!("{}: {}\n{config}", relay.name(), program.name()).trim_end().to_string());
            running.programs.push(ready(relay, program)?);
        }
        Ok(running)
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

/// The port at which a carrier listens and to which it leads.
pub(crate) const PORT: u16 = 6000;
/// The port of the sshd that serves a port forward.
pub(crate) const SSH_PORT: u16 = 22;
/// The ports of data connections of FTP, at host B and at each relay. They follow [`PORT`], and no kernel takes one of them by itself.
pub(crate) const DATA_PORTS: RangeInclusive<u16> = PORT + 1..=PORT + 999;
