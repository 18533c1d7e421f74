//! The lab of `lab up`: the lab of a run, with servers on host B and an anchor process on each host. Users enter a host through
//! its anchor process.

use crate::carrier::row::{Carrier, DATA_PORTS, PORT, Running, Tunnel};
use crate::engine;
use crate::error::LabError;
use crate::measure::disturbance::{Disturbance, Shares};
use crate::plan::place::Host;
use crate::plan::setup::Topology;
use crate::report::path::PathReport;
use crate::scenario::model::Run;
use crate::traffic::copies::make_file;
use crate::traffic::iperf3::IPERF3_PROGRAM;
use crate::traffic::row::ServedBy;
use crate::world::ftp;
use crate::world::ssh;
use crate::world::supervisor::{Program, WORKSHOP};
use crate::world::user::User;
use crate::world::wan::Wan;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The lab and everything in it. It vanishes when this value is dropped, or when the process ends for whatever reason.
pub(crate) struct Standing {
    /// The anchor processes, one per host.
    anchors: Vec<Anchor>,
    carrier: Option<(&'static Carrier, Running)>,
    /// The servers of host B.
    servers: Vec<Server>,
    topology: Topology,
    rtt: Duration,
    // Dropped last, after the programs that need it.
    wan: Wan,
}

impl Standing {
    /// Builds the lab of `run` and starts `carrier`.
    ///
    /// # Errors
    /// The lab cannot be built, or the carrier does not start. A server that is not installed is not an error.
    pub(crate) fn build(run: &Run, carrier: Option<&'static Carrier>, user: &User) -> Result<Standing, LabError> {
        let mut setup = run.setup.clone();
        if let Some(carrier) = carrier {
            (carrier.hosts)(&mut setup.host, &setup.link);
        }
        let wan = engine::build(&setup)?;
        let server = run.traffic.kind.server;
        let tunnel = Tunnel { set: &setup.set, options: &setup.options, protocol: server.protocol() };
        let carrier =
            carrier.map(|carrier| Ok::<_, LabError>((carrier, carrier.run(&wan, user, &tunnel)?))).transpose()?;
        // The carrier leads to the server of the run's traffic.
        let on_b = |port| SocketAddr::new(Host::B.lan(), port);
        let (to_ssh, to_iperf3) = match server {
            ServedBy::Sshd => (on_b(PORT), on_b(5201)),
            ServedBy::Ftpd => (on_b(2222), on_b(5201)),
            ServedBy::Own => (on_b(2222), on_b(PORT)),
        };
        let sshd = || {
            let server = ssh::Server::start(&wan, Host::B, to_ssh, user)?;
            server.configure(&wan, entry(carrier.as_ref(), to_ssh))?;
            Ok(server.program)
        };
        let mut servers = vec![
            Server::new("iperf3", to_iperf3, iperf3(&wan, to_iperf3.port()), |to| {
                vec![format!("iperf3 -c {} -p {}", to.ip(), to.port())]
            })?,
            Server::new("scp", to_ssh, sshd(), |_| {
                let config = format!("-F {WORKSHOP}/ssh_config");
                vec![format!("scp {config} {WORKSHOP}/sample b:{WORKSHOP}/copy"), format!("ssh {config} b")]
            })?,
        ];
        make_file(&wan, "sample", SAMPLE)?;
        if server == ServedBy::Ftpd {
            servers.push(Server::new("FTP", on_b(PORT), ftp::start(&wan, Host::B, on_b(PORT), &DATA_PORTS), |to| {
                vec![format!("curl -o {WORKSHOP}/copy ftp://{to}/sample")]
            })?);
        }
        let anchors = names(setup.topology).iter().map(|(host, name)| Anchor::start(&wan, *host, name));
        let anchors = anchors.collect::<Result<_, LabError>>()?;
        let rtt = setup.link.rtt;
        Ok(Standing { anchors, carrier, servers, topology: setup.topology, rtt, wan })
    }

    /// Returns the commands that enter the hosts, their addresses, and commands to try.
    pub(crate) fn manual(&self, scenario: &str, run: &Run, user: &User) -> String {
        let mut text = format!("The lab of {scenario}, run {}, stands: {}.\n", run.id, path(run));
        text += "It stands until Ctrl-C.\n\nEnter a host (programs left running there end with the lab):\n";
        for anchor in &self.anchors {
            let _ = writeln!(text, "  {:<6} {}", anchor.name, anchor.enter(user));
        }
        text += "\nAddresses:\n";
        for anchor in &self.anchors {
            let _ = writeln!(text, "  {:<6} {}", anchor.name, self.addresses(anchor.host));
        }
        match &self.carrier {
            Some((carrier, running)) if !running.programs.is_empty() => {
                let entry = running.entry;
                let end = SocketAddr::new(Host::B.lan(), PORT);
                let _ = writeln!(text, "\n{}: what A sends to {entry} arrives at {end} on B:", carrier.name);
                for line in &running.shown {
                    let _ = writeln!(text, "  {line}");
                }
            }
            Some((carrier, _)) => {
                let _ = writeln!(text, "\n{}: {}; the relay hosts route.", carrier.name, carrier.what);
            }
            None => text += "\nNo carrier: the relay hosts route.\n",
        }
        text + "\nTry, from here:\n" + &self.examples(user)
    }

    /// Returns what the link has carried and dropped since the lab stands, and whether the link was late. Empty without a WAN.
    pub(crate) fn seen(&self) -> String {
        if self.topology == Topology::OneHop {
            return String::new();
        }
        let counters = self.wan.counters();
        let mut text = String::from("The link carried, since the lab stood:\n");
        for (way, counters) in ["out", "back"].iter().zip(&counters) {
            let entered = counters.stages.first().map_or(0, |(_, stage)| stage.segments_in);
            let _ = write!(text, "  {way:<6} {entered} segments");
            for (stage, counters) in &counters.stages {
                let what = longhaul_link::row(stage).map_or(*stage, |row| row.traits.dropped_by);
                if counters.segments_lost() > 0 {
                    let _ = write!(text, "; {what} dropped {} of {}", counters.segments_lost(), counters.segments_in);
                }
            }
            text.push('\n');
        }
        // The users' programs are no children of the lab, so nobody's processor time tells whether others disturbed it.
        let disturbance = Disturbance::of(self.rtt, Some(&counters), Shares::default());
        let late = disturbance.late_max_ms.unwrap_or_default();
        let verdict =
            if disturbance.disturbed { "the machine was too busy for the figures to count" } else { "on time" };
        let _ = writeln!(text, "Packets left it up to {late:.1} ms late: {verdict}.");
        text
    }

    fn examples(&self, user: &User) -> String {
        let Some(anchor) = self.anchors.first() else { return String::new() };
        let on_a = anchor.enter(user);
        let mut text = format!("  {on_a} ping -c 5 {}\n", Host::B.lan());
        for Server { what, at, started, examples } in &self.servers {
            match started {
                Ok(_) => {
                    for command in examples(entry(self.carrier.as_ref(), *at)) {
                        let _ = writeln!(text, "  {on_a} {command}{}", self.way(*at));
                    }
                }
                Err(why) => {
                    let _ = writeln!(text, "  (no {what}: {why})");
                }
            }
        }
        text
    }

    /// Returns a shell comment that says whether a command reaches the server at `at` through the carrier. Empty without a
    /// carrier on relays.
    fn way(&self, at: SocketAddr) -> String {
        match &self.carrier {
            Some((carrier, running)) if !running.programs.is_empty() => match at.port() {
                PORT => format!("    # through {}", carrier.name),
                _ => format!("    # direct, not through {}", carrier.name),
            },
            _ => String::new(),
        }
    }

    fn addresses(&self, host: Host) -> String {
        let lan = format!("{} {}", host.lan(), host.lan6());
        match (host, self.topology) {
            (Host::Near | Host::Far, Topology::OneHop) => {
                format!("{lan}; to B {} {}", Host::Far.lan(), Host::Far.lan6())
            }
            (Host::Near | Host::Far, Topology::Wan) => format!("{lan}; on the WAN {} {}", host.wan(), host.wan6()),
            (Host::A | Host::B, _) => lan,
        }
    }
}

/// Returns the address to which A connects to reach the server at `at`: the carrier's entry if it leads there.
fn entry(carrier: Option<&(&'static Carrier, Running)>, at: SocketAddr) -> SocketAddr {
    let carried = carrier.filter(|_| at.port() == PORT);
    carried.map_or(at, |(_, running)| running.entry)
}

/// A server on host B.
struct Server {
    /// Its purpose, in one word.
    what: &'static str,
    /// Its address.
    at: SocketAddr,
    /// The process, or the reason why it is missing.
    started: Result<Program, LabError>,
    /// Returns commands to try on host A, which connects to the given address.
    examples: fn(SocketAddr) -> Vec<String>,
}

impl Server {
    /// Returns the server that was started. A server that is not installed is a result, because the lab does without it.
    fn new(
        what: &'static str,
        at: SocketAddr,
        started: Result<Program, LabError>,
        examples: fn(SocketAddr) -> Vec<String>,
    ) -> Result<Server, LabError> {
        match started {
            Err(why) if !matches!(why, LabError::Missing { .. } | LabError::Lacking(_)) => Err(why),
            started => Ok(Server { what, at, started, examples }),
        }
    }
}

/// Returns the hosts and their names.
fn names(topology: Topology) -> &'static [(Host, &'static str)] {
    match topology {
        Topology::OneHop => &[(Host::A, "A"), (Host::Near, "relay"), (Host::B, "B")],
        Topology::Wan => &[(Host::A, "A"), (Host::Near, "near"), (Host::Far, "far"), (Host::B, "B")],
    }
}

/// A process on a host that only sleeps. Users enter the host through it.
struct Anchor {
    host: Host,
    name: &'static str,
    process: Program,
}

impl Anchor {
    /// Starts the process. Sets the host's name, if that is permitted.
    fn start(wan: &Wan, host: Host, name: &'static str) -> Result<Anchor, LabError> {
        let script = format!("hostname {name} 2>/dev/null; echo here >&2; exec sleep infinity");
        let mut command = Command::new("unshare");
        command.args(["--uts", "sh", "-c", &script]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let process = wan.spawn(host, command)?.wait_for("here")?;
        Ok(Anchor { host, name, process })
    }

    /// Returns the command that enters the host: its network, its name, and the lab's files and processes.
    fn enter(&self, user: &User) -> String {
        // An ordinary user is root only in the lab's user namespace, and cannot drop groups there.
        let as_root = if user.mapped.is_some() { " -U --preserve-credentials" } else { "" };
        format!("nsenter -t {}{as_root} -m -u -n -p", self.process.id())
    }
}

fn iperf3(wan: &Wan, port: u16) -> Result<Program, LabError> {
    IPERF3_PROGRAM.find()?;
    let mut command = Command::new("iperf3");
    command.args(["-s", "-p", &port.to_string(), "--forceflush"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    wan.spawn(Host::B, command)?.wait_for("Server listening")
}

/// Returns the path in a few words.
fn path(run: &Run) -> String {
    match run.setup.has_wan() {
        true => PathReport::of(&run.setup).wan.join(", "),
        false => "one relay host between two cables".into(),
    }
}

/// Bytes of the file to copy: it takes some seconds through a small window.
const SAMPLE: u64 = 20_000_000;
