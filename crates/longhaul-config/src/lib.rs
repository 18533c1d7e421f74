//! What a daemon is told to do: the model, and [`load`], which reads it from a file.
//!
//! In the order in which a file is read: `read.rs` walks its tables, `keys.rs` says which keys they have, [`value`] reads one
//! value as a person writes it, `lint.rs` looks at a tunnel as a whole, and [`Problem`] is what there is to say about it
//! all. Nothing here looks at the machine: the same file gives the same answer everywhere.

#![forbid(unsafe_code)]

pub mod document;
mod keys;
mod lint;
pub mod options;
mod read;
pub mod suggest;
mod summary;
pub mod value;

use ipnet::IpNet;
use longhaul_core::next_hop::{POLICIES, Policy};
use options::{Leg, LegOptions, Value};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

pub use document::{Message, Problem, Severity};
pub use lint::{Remark, Told, covers_same, loops_here, remarks};
pub use read::read;
pub use summary::summary;

/// Where the daemon finds its file when it is not told.
pub const DEFAULT_PATH: &str = "/etc/longhaul/longhaul.toml";

/// A whole configuration: every tunnel of the file and what holds for the process.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The tunnels, in the order of the file; their names are unique, and so are their listen addresses.
    pub tunnels: Vec<Tunnel>,
    /// How long a drain waits for flows to end before it cuts them with RST; `None` waits without bound.
    pub drain_timeout: Option<Duration>,
}

/// A listener and where its connections go.
#[derive(Clone, Debug, PartialEq)]
pub struct Tunnel {
    /// What logs and metrics call it.
    pub name: String,
    /// Where it listens; `[::]` is every address of the host, IPv4 too.
    pub listen: SocketAddr,
    /// Its next hops, at least one.
    pub to: Vec<NextHop>,
    /// Which of the next hops is dialled first.
    pub policy: &'static Policy,
    /// Who may connect; empty means everybody.
    pub allow: Vec<IpNet>,
    /// How many flows at once; further connections wait in the listen queue. `None` is as many as descriptors allow.
    pub max_flows: Option<usize>,
    /// How long one address may take to answer a dial.
    pub connect_timeout: Duration,
    /// The address to dial from; `None` lets the kernel choose.
    pub source: Option<IpAddr>,
    /// Whether bytes go through pipes with splice(2); false copies them through user space.
    pub splice: bool,
    /// Socket options of the accept leg.
    pub accept: LegOptions,
    /// Socket options of the dial leg.
    pub dial: LegOptions,
}

/// A host, by name or by address, and a port. A name is resolved again for each dial.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NextHop {
    /// A DNS name or an IP address, without brackets.
    pub host: String,
    /// The TCP port, 1 to 65535.
    pub port: u16,
}

impl Tunnel {
    /// How long one address may take to answer a dial unless it is configured: three lost SYNs, which the kernel sends
    /// at 0, 1, 3 and 7 s, and then some (tcp(7)).
    pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

    /// A tunnel with the defaults of everything that need not be configured.
    pub fn new(name: impl Into<String>, listen: SocketAddr, to: Vec<NextHop>) -> Tunnel {
        Tunnel {
            name: name.into(),
            listen,
            to,
            policy: &POLICIES[0],
            allow: Vec::new(),
            max_flows: None,
            connect_timeout: Tunnel::CONNECT_TIMEOUT,
            source: None,
            splice: true,
            accept: LegOptions::default(),
            dial: LegOptions::default(),
        }
    }
}

impl Tunnel {
    /// Whether `leg` speaks Multipath TCP.
    pub fn mptcp(&self, leg: Leg) -> bool {
        self.options(leg).find("mptcp").is_some_and(|setting| setting.value == Value::Switch(true))
    }

    /// The options of `leg`.
    pub fn options(&self, leg: Leg) -> &LegOptions {
        match leg {
            Leg::Accept => &self.accept,
            Leg::Dial => &self.dial,
        }
    }
}

impl fmt::Display for NextHop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NextHop { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// A configuration that was read, and what is doubtful in it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// What to do.
    pub config: Config,
    /// Nothing that keeps it from being used.
    pub warnings: Vec<Message>,
}

/// Why a file was refused: each error and each warning in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Never empty.
    pub messages: Vec<Message>,
}

/// Reads the file at `path`.
///
/// # Errors
/// It cannot be read, or something in it is wrong: then every error of the file, not only the first.
pub fn load(path: &Path) -> Result<Loaded, Refused> {
    let name = path.display().to_string();
    let text = document::text(path, HINT).map_err(|why| {
        let message = Message { severity: Severity::Error, place: name.clone(), text: why };
        Refused { messages: vec![message] }
    })?;
    judge(&name, &text)
}

/// Reads a file's `text`; `name` stands in the messages.
///
/// # Errors
/// As [`load`].
pub fn judge(name: &str, text: &str) -> Result<Loaded, Refused> {
    let (config, problems) = read(text);
    let messages = problems.iter().map(|problem| problem.message(name)).collect();
    match config {
        Some(config) => Ok(Loaded { config, warnings: messages }),
        None => Err(Refused { messages }),
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.messages.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for Refused {}

const HINT: &str = "write the file, or name another with -c FILE";
