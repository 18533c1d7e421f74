//! The lab of `lab up`: the lab of a run, with servers on host B and an anchor process on each host. Users enter a host through
//! its anchor process.

use crate::carrier::{Carrier, DATA_PORTS, PORT, Running, Tunnel};
use crate::error::LabError;
use crate::plan::place::Host;
use crate::plan::setup::Topology;
use crate::scenario::Run;
use crate::traffic::{IPERF3_PROGRAM, ServedBy};
use crate::world::ftp;
use crate::world::ssh::Server;
use crate::world::supervisor::{Program, WORKSHOP};
use crate::world::user::User;
use crate::world::wan::Wan;
use crate::{engine, traffic};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

/// The lab and everything in it. It vanishes when this value is dropped, or when the process ends for whatever reason.
pub(crate) struct Standing {
    /// The anchor processes, one per host.
    anchors: Vec<Anchor>,
    carrier: Option<(&'static Carrier, Running)>,
    /// The servers of host B with their addresses, or the reason why one is missing.
    ssh: Result<(Server, SocketAddr), LabError>,
    iperf3: Result<(Program, SocketAddr), LabError>,
    /// `None` if the run's traffic is not FTP.
    ftp: Option<Result<(Program, SocketAddr), LabError>>,
    topology: Topology,
    // Dropped last, after the programs that need it.
    _wan: Wan,
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
        let tunnel = Tunnel { set: &setup.set, protocol: server.protocol() };
        let carrier =
            carrier.map(|carrier| Ok::<_, LabError>((carrier, carrier.run(&wan, user, &tunnel)?))).transpose()?;
        // The carrier leads to the server of the run's traffic.
        let (to_ssh, to_iperf3) = match server {
            ServedBy::Sshd => (PORT, 5201),
            ServedBy::Ftpd => (2222, 5201),
            ServedBy::Own => (2222, PORT),
        };
        let on_b = |port| SocketAddr::new(Host::B.lan(), port);
        let ssh = installed(Server::start(&wan, Host::B, on_b(to_ssh), user).map(|server| (server, on_b(to_ssh))))?;
        let iperf3 = installed(iperf3(&wan, to_iperf3).map(|program| (program, on_b(to_iperf3))))?;
        if let Ok((server, _)) = &ssh {
            let carried = carrier.as_ref().filter(|_| to_ssh == PORT);
            server.configure(&wan, carried.map_or(on_b(to_ssh), |(_, running)| running.entry))?;
        }
        traffic::make_file(&wan, "sample", SAMPLE)?;
        let ftp = match server {
            ServedBy::Ftpd => {
                let server = ftp::start(&wan, Host::B, on_b(PORT), &DATA_PORTS);
                Some(installed(server.map(|program| (program, on_b(PORT))))?)
            }
            ServedBy::Sshd | ServedBy::Own => None,
        };
        let anchors = names(setup.topology).iter().map(|(host, name)| Anchor::start(&wan, *host, name));
        let anchors = anchors.collect::<Result<_, LabError>>()?;
        Ok(Standing { anchors, carrier, ssh, iperf3, ftp, topology: setup.topology, _wan: wan })
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

    fn examples(&self, user: &User) -> String {
        let Some(anchor) = self.anchors.first() else { return String::new() };
        let on_a = anchor.enter(user);
        let mut text = String::new();
        let _ = writeln!(text, "  {on_a} ping -c 5 {}", Host::B.lan());
        match &self.iperf3 {
            Ok((_, at)) => {
                let to = self.entry(*at);
                let _ = writeln!(text, "  {on_a} iperf3 -c {} -p {}{}", to.ip(), to.port(), self.way(*at));
            }
            Err(why) => {
                let _ = writeln!(text, "  (no iperf3: {why})");
            }
        }
        match &self.ssh {
            Ok((_, at)) => {
                let way = self.way(*at);
                let _ =
                    writeln!(text, "  {on_a} scp -F {WORKSHOP}/ssh_config {WORKSHOP}/sample b:{WORKSHOP}/copy{way}");
                let _ = writeln!(text, "  {on_a} ssh -F {WORKSHOP}/ssh_config b{way}");
            }
            Err(why) => {
                let _ = writeln!(text, "  (no scp: {why})");
            }
        }
        match &self.ftp {
            Some(Ok((_, at))) => {
                let (to, way) = (self.entry(*at), self.way(*at));
                let _ = writeln!(text, "  {on_a} curl -o {WORKSHOP}/copy ftp://{to}/sample{way}");
            }
            Some(Err(why)) => {
                let _ = writeln!(text, "  (no FTP: {why})");
            }
            None => {}
        }
        text
    }

    /// Returns a shell comment that says whether a command reaches the server at `at` through the carrier. Empty without a
    /// carrier on relays.
    fn way(&self, at: SocketAddr) -> String {
        match &self.carrier {
            Some((carrier, running)) if !running.programs.is_empty() => match self.entry(at) == at {
                true => format!("    # direct, not through {}", carrier.name),
                false => format!("    # through {}", carrier.name),
            },
            _ => String::new(),
        }
    }

    /// Returns the address to which A connects to reach the server at `at`: the carrier's entry if it leads there.
    fn entry(&self, at: SocketAddr) -> SocketAddr {
        let carried = self.carrier.as_ref().filter(|_| at.port() == PORT);
        carried.map_or(at, |(_, running)| running.entry)
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

/// Turns the error of a program that is not installed into a result, because the lab does without it.
fn installed<T>(started: Result<T, LabError>) -> Result<Result<T, LabError>, LabError> {
    match started {
        Err(why @ (LabError::Missing { .. } | LabError::Lacking(_))) => Ok(Err(why)),
        other => other.map(Ok),
    }
}

/// Returns the path in a few words.
fn path(run: &Run) -> String {
    let link = &run.setup.link;
    if !run.setup.has_wan() {
        return "one relay host between two cables".into();
    }
    let mut text = format!("{} ms round trip", link.rtt.as_secs_f64() * 1e3);
    if let Some(rate) = link.rate {
        let _ = write!(text, ", {rate}");
    }
    if link.loss > 0.0 {
        let _ = write!(text, ", {} % loss", link.loss * 100.0);
    }
    text
}

/// Bytes of the file to copy: it takes some seconds through a small window.
const SAMPLE: u64 = 20_000_000;
