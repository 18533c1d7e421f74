//! Builds the lab: namespaces, cables, addresses, routes, TCP settings, and the link between the relays.

use super::keeper::{Keeper, Program, WORKSHOP};
use super::live::{Live, Traffic};
use super::problem::Problem;
use super::spec::{Direction, Host, LinkSpec, Profile};
use longhaul_core::link::{Link, Place, row};
use longhaul_sys::netns::NetNs;
use longhaul_sys::tun::Tun;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Four hosts in a row and an emulated WAN between the two in the middle, which are the relays. Without a relay running
/// they route. Everything is gone when this is dropped, or when the process ends in whatever way.
#[derive(Debug)]
pub struct Wan {
    // In this order, so that programs lose the link first and the keeper goes last.
    live: Live,
    hosts: [Arc<NetNs>; 4],
    keeper: Keeper,
    link: LinkSpec,
}

impl Wan {
    /// Builds the lab. The four profiles are those of [`Host::ALL`]. Must run as root, of the system or of a user
    /// namespace.
    ///
    /// # Errors
    /// The link's values are out of range, `ip` is missing, or the kernel refuses a namespace, a device or a setting.
    pub fn build(link: &LinkSpec, profiles: [Profile; 4]) -> Result<Wan, Problem> {
        let links = [fitted(link, Direction::Out)?, fitted(link, Direction::Back)?];
        let keeper = Keeper::start()?;
        let hosts = make_hosts(&keeper)?;
        let devices = [make_device(&keeper, &hosts, Host::Near)?, make_device(&keeper, &hosts, Host::Far)?];
        for host in Host::ALL {
            tune(&keeper, &hosts, host, profiles[host.index()].clone())?;
        }
        // The hosts first: it is they who plug in the cables to the relays.
        for host in [Host::A, Host::B, Host::Near, Host::Far] {
            plug_in(&keeper, &hosts, host, &profiles[host.index()])?;
        }
        // The link last: a device that is down takes no packet.
        let live = Live::start(devices, links, memory(link), lateness(link))?;
        Ok(Wan { live, hosts, keeper, link: link.clone() })
    }

    /// Starts `command` on `host`. It is killed when the returned [`Program`] is dropped, and with the lab at the latest.
    ///
    /// # Errors
    /// The program is not installed or cannot be run.
    pub fn spawn(&self, host: Host, command: Command) -> Result<Program, Problem> {
        self.keeper.spawn(&self.hosts[host.index()], command)
    }

    /// Runs `program` on `host` to its end and gives what it wrote to stdout.
    ///
    /// # Errors
    /// It is not installed, or did not succeed; what it wrote to stderr is in the error.
    pub fn output(&self, host: Host, program: &str, arguments: &[&str]) -> Result<String, Problem> {
        output(&self.keeper, &self.hosts[host.index()], program, arguments)
    }

    /// Runs `job` on a thread of its own that is on `host`: the sockets it makes are that host's.
    pub fn on<T: Send + 'static>(
        &self,
        host: Host,
        job: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> std::thread::JoinHandle<Result<T, Problem>> {
        let net = Arc::clone(&self.hosts[host.index()]);
        std::thread::spawn(move || net.enter().map_err(Problem::from).and_then(|()| job()))
    }

    /// What the link has done so far: from near to far, and back.
    pub fn traffic(&self) -> [Traffic; 2] {
        self.live.traffic()
    }

    /// How long the link has been running: what the times of its schedule count from.
    pub fn running(&self) -> Duration {
        self.live.running()
    }

    /// The link as it was asked for.
    pub fn link(&self) -> &LinkSpec {
        &self.link
    }

    /// Where this process finds the file `path` of the lab's programs, who have a /run of their own.
    pub fn path(&self, path: &str) -> PathBuf {
        self.keeper.path(path)
    }

    /// Gives the routes of `host` other attributes, as ip-route(8) takes them; new connections obey them.
    ///
    /// # Errors
    /// `ip` refuses them.
    pub fn set_routes(&self, host: Host, attributes: &str) -> Result<(), Problem> {
        ip(&self.keeper, &self.hosts[host.index()], &routes(host, attributes, has_ipv6()))
    }

    /// Packets that the two TUN devices dropped because the link did not read them in time.
    ///
    /// # Errors
    /// `ip` fails.
    pub fn device_drops(&self) -> Result<u64, Problem> {
        let mut drops = 0;
        for host in [Host::Near, Host::Far] {
            let text = self.on(host, || {
                std::fs::read_to_string("/proc/thread-self/net/dev").map_err(Problem::io("reading /proc/net/dev"))
            });
            let text = text.join().unwrap_or_else(|_| Ok(String::new()))?;
            drops += text.lines().filter_map(transmit_drops).sum::<u64>();
        }
        Ok(drops)
    }
}

/// One direction of the link.
fn fitted(spec: &LinkSpec, direction: Direction) -> Result<Link, Problem> {
    let (settings, schedule) = (spec.settings(direction), spec.schedule(direction));
    let pairs: Vec<(&str, &str)> = settings.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let lines: Vec<&str> = schedule.iter().map(String::as_str).collect();
    let seed = match direction {
        Direction::Out => spec.seed,
        Direction::Back => spec.seed ^ 0x5eed,
    };
    Link::scheduled(&pairs, &lines, seed).map_err(|(place, err)| match place {
        Place::Setting(index) => {
            let (key, value) = pairs[index];
            Problem::Link { what: format!("{key} = {value:?}"), err, sample: row(key).map(|row| row.sample) }
        }
        Place::Line(index) => {
            let what = format!("line {} of the schedule, {:?}", index + 1, lines[index]);
            Problem::Link { what, err, sample: Some("at 30s loss 1% for 5s") }
        }
    })
}

fn make_hosts(keeper: &Keeper) -> Result<[Arc<NetNs>; 4], Problem> {
    let make = || Ok([NetNs::create()?, NetNs::create()?, NetNs::create()?, NetNs::create()?]);
    Ok(keeper.run_anywhere(make)?.map(Arc::new))
}

fn make_device(keeper: &Keeper, hosts: &[Arc<NetNs>; 4], host: Host) -> Result<Tun, Problem> {
    keeper.run(&hosts[host.index()], || Ok(Tun::create(WAN_DEVICE)?))
}

/// Sets `host`'s kernel, before it has a device.
fn tune(keeper: &Keeper, hosts: &[Arc<NetNs>; 4], host: Host, profile: Profile) -> Result<(), Problem> {
    keeper.run(&hosts[host.index()], move || {
        // What one run learns of a path must not help the next.
        set_ipv4("tcp_no_metrics_save", "1")?;
        profile.sysctls.iter().try_for_each(|(name, value)| set_ipv4(name, value))?;
        let is_relay = matches!(host, Host::Near | Host::Far);
        if is_relay {
            set("/proc/sys/net/ipv4/ip_forward", "1")?;
        }
        if has_ipv6() {
            // Nobody else is on these cables, and looking for them takes two seconds.
            set("/proc/sys/net/ipv6/conf/default/accept_dad", "0")?;
            set("/proc/sys/net/ipv6/conf/all/forwarding", if is_relay { "1" } else { "0" })?;
        }
        Ok(())
    })
}

/// Gives `host` its cable, addresses and routes.
fn plug_in(keeper: &Keeper, hosts: &[Arc<NetNs>; 4], host: Host, profile: &Profile) -> Result<(), Problem> {
    let mut commands = cables(host, hosts);
    if has_ipv6() {
        commands += &addresses(host, host.lan6(), host.wan6(), 64);
    }
    commands += &addresses(host, host.lan(), host.wan(), 24);
    commands += &routes(host, &profile.route, has_ipv6());
    ip(keeper, &hosts[host.index()], &commands)
}

/// Runs commands of ip(8), one a line, inside `net`.
fn ip(keeper: &Keeper, net: &Arc<NetNs>, commands: &str) -> Result<(), Problem> {
    let name = format!("{WORKSHOP}/ip");
    std::fs::write(keeper.path(&name), commands).map_err(Problem::io(format!("writing {name}")))?;
    output(keeper, net, "ip", &["-batch", &name]).map(drop)
}

fn output(keeper: &Keeper, net: &Arc<NetNs>, program: &str, arguments: &[&str]) -> Result<String, Problem> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    keeper.spawn(net, command)?.output()
}

/// How many bytes of packets a direction may hold: its queue and what is under way, with room for buffers that are not
/// full; what TCP's largest windows hold without a rate, or when rate or delay are not one number.
fn memory(link: &LinkSpec) -> usize {
    match link.rate {
        Some(_) if !link.varies() => {
            (link.queue().0 + link.bandwidth_delay().0).saturating_mul(4).max(64 << 20) as usize
        }
        _ => 2 << 30,
    }
}

/// How late the busy link may be: a three-hundredth of the way, too little to be seen, and no more than saves wake-ups.
fn lateness(link: &LinkSpec) -> Duration {
    (link.rtt / 600).min(Duration::from_micros(100))
}

/// Devices: each host's cable to its relay, each relay's device to the link.
fn cables(host: Host, hosts: &[Arc<NetNs>; 4]) -> String {
    let relay = match host {
        Host::A => Some(Host::Near),
        Host::B => Some(Host::Far),
        Host::Near | Host::Far => None,
    };
    let own = match relay {
        Some(relay) => {
            let net = hosts[relay.index()].path();
            format!("link add {LAN_DEVICE} type veth peer name {LAN_DEVICE} netns {net}\n")
        }
        // The link's thread shares its core with senders: the device must hold what they send until it runs again.
        None => format!("link set {WAN_DEVICE} txqueuelen {DEVICE_QUEUE}\nlink set {WAN_DEVICE} up\n"),
    };
    format!("link set lo up\n{own}link set {LAN_DEVICE} up\n")
}

fn addresses(host: Host, lan: IpAddr, wan: IpAddr, prefix: u8) -> String {
    let nodad = if lan.is_ipv6() { " nodad" } else { "" };
    let mut text = format!("addr add {lan}/{prefix} dev {LAN_DEVICE} noprefixroute{nodad}\n");
    if matches!(host, Host::Near | Host::Far) {
        let _ = writeln!(text, "addr add {wan}/{prefix} dev {WAN_DEVICE} noprefixroute{nodad}");
    }
    text
}

/// The routes of `host` with `attributes`: to its LAN, and to everything else over its relay or the other relay.
fn routes(host: Host, attributes: &str, ipv6: bool) -> String {
    let mut text = String::new();
    let ipv4 = (["10.10.10.0/24", "10.20.20.0/24", "10.99.0.0/24"], Host::lan as Address, Host::wan as Address);
    let v6 = (["fd00:10::/64", "fd00:20::/64", "fd00:99::/64"], Host::lan6 as Address, Host::wan6 as Address);
    for ([site_a, site_b, wan_net], lan, wan) in [ipv4, v6].into_iter().take(if ipv6 { 2 } else { 1 }) {
        let (own, next, device) = match host {
            Host::A => (site_a, lan(Host::Near), LAN_DEVICE),
            Host::B => (site_b, lan(Host::Far), LAN_DEVICE),
            Host::Near => (site_a, wan(Host::Far), WAN_DEVICE),
            Host::Far => (site_b, wan(Host::Near), WAN_DEVICE),
        };
        let _ = writeln!(text, "route replace {own} dev {LAN_DEVICE} {attributes}");
        if device == WAN_DEVICE {
            let _ = writeln!(text, "route replace {wan_net} dev {WAN_DEVICE} {attributes}");
        }
        let _ = writeln!(text, "route replace default via {next} dev {device} {attributes}");
    }
    text
}

fn set_ipv4(name: &str, value: &str) -> Result<(), Problem> {
    set(&format!("/proc/sys/net/ipv4/{name}"), value)
}

fn set(path: &str, value: &str) -> Result<(), Problem> {
    std::fs::write(path, value).map_err(Problem::io(format!("setting {path} to {value:?}")))
}

fn has_ipv6() -> bool {
    Path::new("/proc/sys/net/ipv6/conf/all/forwarding").exists()
}

/// From a line of /proc/net/dev (proc_pid_net(5)): the packets that the WAN device dropped when sending.
fn transmit_drops(line: &str) -> Option<u64> {
    let fields = line.trim().strip_prefix(WAN_DEVICE)?.strip_prefix(':')?;
    fields.split_whitespace().nth(11)?.parse().ok()
}

/// One of the addresses of a host.
type Address = fn(Host) -> IpAddr;

const LAN_DEVICE: &str = "lan0";
const WAN_DEVICE: &str = "wan0";
const DEVICE_QUEUE: u32 = 20_000;
