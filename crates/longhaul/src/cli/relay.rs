//! `longhaul relay`: one tunnel from flags. It reads its values with the functions that read the config file.

use clap::Args;
use ipnet::IpNet;
use longhaul_config::options;
use longhaul_config::{Config, Loaded, Message, NextHop, Severity, Told, Tunnel, value};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

#[derive(Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Flags {
    /// Where to listen
    ///
    /// A bare port listens on every address of this host, IPv4 and IPv6; otherwise ADDR:PORT or [IPV6]:PORT.
    #[arg(long, value_name = "[ADDR:]PORT", value_parser = value::listen)]
    listen: SocketAddr,
    /// The next hop; several by comma
    ///
    /// A host name is resolved again for each dial. Several next hops, separated by commas or by repeating the flag, are
    /// tried in the order written until one answers.
    #[arg(long, value_name = "HOST:PORT", required = true, value_delimiter = ',', value_parser = value::next_hop)]
    to: Vec<NextHop>,
    /// Who may connect [default: everybody]
    ///
    /// A network such as 10.0.0.0/8, or one address; several by comma or by repeating the flag. Everybody else is reset
    /// before anything is dialled. Without it, whoever reaches the port may connect.
    #[arg(long, value_name = "CIDR", value_delimiter = ',', value_parser = value::network)]
    allow: Vec<IpNet>,
    /// A leg's socket option; see `longhaul options`
    ///
    /// `accept.` is the leg toward whoever connected to us, `dial.` the leg toward the next hop. May be repeated. A value
    /// that the kernel changes is a warning in the log, with asked and got.
    #[arg(long, value_name = "LEG.KEY=VALUE")]
    set: Vec<String>,
    /// The tunnel's name in logs
    ///
    /// Letters, digits, dots, dashes and underscores.
    #[arg(long, value_name = "NAME", default_value = "relay", value_parser = value::name)]
    name: String,
    /// How many flows at once [default: no limit]
    ///
    /// Further connections wait in the listen queue. Without it, as many as descriptors allow.
    #[arg(long, value_name = "COUNT", value_parser = value::max_flows)]
    max_flows: Option<usize>,
    /// How long a dial may take
    ///
    /// For each address: a name may have several. Resolving the name has the same time for itself. 100ms to 10min. The
    /// kernel sends SYNs at 0, 1, 3 and 7 seconds: the default outlives three lost ones.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = value::connect_timeout)]
    connect_timeout: Duration,
    /// Address to dial from [default: the kernel's]
    #[arg(long, value_name = "ADDR", value_parser = value::source)]
    source: Option<IpAddr>,
    /// Copy bytes through user space
    ///
    /// Instead of moving them through pipes with splice(2). Slower; for a kernel or a driver whose splice is broken.
    #[arg(long)]
    no_splice: bool,
    /// How long SIGTERM waits [default: no limit]
    ///
    /// After SIGTERM, flows have this long to end by themselves; then they are reset. `0` resets them at once. Without it
    /// the last flow ends in its own time. A second SIGTERM cuts the wait.
    #[arg(long, value_name = "TIME", value_parser = value::drain_timeout)]
    drain_timeout: Option<Duration>,
}

impl Flags {
    /// The configuration of this one tunnel, and what is doubtful in it.
    ///
    /// # Errors
    /// What is wrong and what to write instead.
    pub(super) fn load(self) -> Result<Loaded, String> {
        let mut tunnel = Tunnel::new(self.name, self.listen, self.to);
        for text in &self.set {
            options::set(&mut tunnel.accept, &mut tunnel.dial, text)
                .map_err(|why| format!("invalid value '{text}' for '--set <LEG.KEY=VALUE>': {why}"))?;
        }
        tunnel.allow = self.allow;
        tunnel.max_flows = self.max_flows;
        tunnel.connect_timeout = self.connect_timeout;
        tunnel.source = self.source;
        tunnel.splice = !self.no_splice;
        let (errors, warnings): (Vec<_>, Vec<_>) = longhaul_config::remarks(&tunnel, Told::ByFlags)
            .into_iter()
            .partition(|remark| remark.severity == Severity::Error);
        if let Some(error) = errors.first() {
            return Err(format!("--{}: {}", error.key, error.text));
        }
        let config = Config { tunnels: vec![tunnel], drain_timeout: self.drain_timeout };
        let message = |remark: longhaul_config::Remark| Message {
            severity: remark.severity,
            place: remark.key,
            text: remark.text,
        };
        let warnings = warnings.into_iter().map(message).collect();
        Ok(Loaded { config, warnings })
    }
}

const EXAMPLES: &str = "\
Examples:
  In place of socat TCP4-LISTEN:6000,fork,range=10.10.10.0/24 TCP4:b:6000
    longhaul relay --listen 0.0.0.0:6000 --to b:6000 --allow 10.10.10.0/24
  A next hop behind a tunnel with a small MTU, and a second one if that is down:
    longhaul relay --listen 6000 --to b1:6000,b2:6000 --set dial.mss=1254B";
