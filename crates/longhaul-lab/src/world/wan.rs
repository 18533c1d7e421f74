//! Builds the lab: namespaces, cables, addresses, routes, TCP settings, and the link between the relays.

use crate::error::LabError;
use crate::plan::link::LinkSpec;
use crate::plan::place::{Direction, Host};
use crate::plan::profile::{Profile, Sysctls};
use crate::plan::setup::Topology;
use crate::world::cables::{self, Site, WAN_DEVICE};
use crate::world::live::{LinkCounters, Live};
use crate::world::supervisor::{Program, READY_WITHIN, Supervisor, WORKSHOP};
use crate::world::sysctls;
use longhaul_sys::netns::NetNs;
use longhaul_sys::tun::Tun;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Four hosts in a row. The two in the middle are the relay hosts, and the emulated WAN is between them. Without a relay
/// program they route. Everything vanishes when this value is dropped, or when the process ends for whatever reason.
#[derive(Debug)]
pub struct Wan {
    // In the order of their drop: programs lose the link first, and the supervisor ends last.
    live: Option<Live>,
    hosts: [Arc<NetNs>; 4],
    supervisor: Supervisor,
    profiles: [Profile; 4],
}

impl Wan {
    /// Builds the lab. The profiles are in the order of [`Host::ALL`]. The caller must be root, of the system or of a user
    /// namespace.
    ///
    /// # Errors
    /// `ip` is missing, or the kernel refuses a namespace, a device or a setting.
    pub fn build(link: &LinkSpec, profiles: [Profile; 4]) -> Result<Wan, LabError> {
        let links = Direction::BOTH.map(|direction| link.fitted(direction));
        let supervisor = Supervisor::start()?;
        let make = || Ok([NetNs::create()?, NetNs::create()?, NetNs::create()?, NetNs::create()?]);
        let hosts = supervisor.run_anywhere(make)?.map(Arc::new);
        let mut wan = Wan { live: None, hosts, supervisor, profiles };
        let device = |host| wan.inside(host, || Ok(Tun::create(WAN_DEVICE)?));
        let devices = [device(Host::Near)?, device(Host::Far)?];
        wan.furnish(&Host::ALL)?;
        // The link starts last, because a device that is down accepts no packet.
        wan.live = Some(Live::start(devices, links, memory(link), lateness(link))?);
        Ok(wan)
    }

    /// Checks that a lab can be built on this machine: that namespaces and TUN devices can be created.
    ///
    /// # Errors
    /// Something is missing; the error says what to do.
    pub(crate) fn is_possible() -> Result<(), LabError> {
        let plain = || Profile::plain();
        Wan::build(&LinkSpec::new(Duration::ZERO, None), [plain(), plain(), plain(), plain()]).map(drop)
    }

    /// Builds three hosts in a row, joined by cables, without an emulated WAN. The one relay host is both [`Host::Near`] and
    /// [`Host::Far`].
    ///
    /// # Errors
    /// As [`Wan::build`].
    pub(crate) fn build_one_hop(profiles: [Profile; 4]) -> Result<Wan, LabError> {
        let supervisor = Supervisor::start()?;
        let make = || Ok([NetNs::create()?, NetNs::create()?, NetNs::create()?]);
        let [a, relay, b] = supervisor.run_anywhere(make)?.map(Arc::new);
        let hosts = [a, Arc::clone(&relay), relay, b];
        let wan = Wan { live: None, hosts, supervisor, profiles };
        wan.furnish(&[Host::A, Host::Near, Host::B])?;
        Ok(wan)
    }

    /// Whether there is an emulated WAN. Without it, one relay host joins two cables.
    pub(crate) fn has_link(&self) -> bool {
        self.live.is_some()
    }

    /// Returns the relay hosts from near to far, each with the address to which its relay connects.
    pub fn relays(&self) -> Vec<(Host, IpAddr)> {
        match self.live {
            Some(_) => vec![(Host::Near, Host::Far.wan()), (Host::Far, Host::B.lan())],
            None => vec![(Host::Near, Host::B.lan())],
        }
    }

    /// Starts `command` on `host`. The program is killed when the returned [`Program`] is dropped, at the latest with the lab.
    ///
    /// # Errors
    /// The program is not installed or cannot be run.
    pub fn spawn(&self, host: Host, command: Command) -> Result<Program, LabError> {
        self.supervisor.spawn(&self.hosts[host.index()], command)
    }

    /// Runs `program` on `host` until it ends and returns its stdout.
    ///
    /// # Errors
    /// The program is not installed, or failed. The error contains its stderr.
    pub fn output(&self, host: Host, program: &str, arguments: &[&str]) -> Result<String, LabError> {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.spawn(host, command)?.output()
    }

    /// Waits until `program` on `host` listens on `port`. A thread reads its output from now on.
    ///
    /// # Errors
    /// The program ended, or 20 seconds have passed.
    pub(crate) fn until_it_listens(&self, host: Host, mut program: Program, port: u16) -> Result<Program, LabError> {
        // The thread must read the output, but no line of it is awaited.
        drop(program.overhear(""));
        let listening = format!("sport = {port}");
        let start = Instant::now();
        while self.output(host, "ss", &["-tlnH", &listening])?.is_empty() {
            if program.ended().is_some() {
                return Err(program.failure());
            }
            if start.elapsed() > READY_WITHIN {
                return Err(program.not_ready());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(program)
    }

    /// Runs `job` on a new thread in the network namespace of `host`. Sockets that the job creates belong to that host.
    pub fn on<T: Send + 'static>(
        &self,
        host: Host,
        job: impl FnOnce() -> Result<T, LabError> + Send + 'static,
    ) -> std::thread::JoinHandle<Result<T, LabError>> {
        let net = Arc::clone(&self.hosts[host.index()]);
        std::thread::spawn(move || net.enter().map_err(LabError::from).and_then(|()| job()))
    }

    /// Returns the link's counters so far: from near to far, and back.
    pub fn counters(&self) -> [LinkCounters; 2] {
        self.live.as_ref().map(Live::counters).unwrap_or_default()
    }

    /// Holds back the link's schedule until [`Wan::begin`].
    pub(crate) fn hold(&self) {
        self.live.iter().for_each(Live::hold);
    }

    /// Starts the clock of the link's schedule now, instead of at the start of the link.
    pub fn begin(&self) {
        self.live.iter().for_each(Live::begin);
    }

    /// Returns the path at which this process sees the file `path` of the lab's programs. The programs have their own /run.
    pub fn path(&self, path: &str) -> PathBuf {
        self.supervisor.path(path)
    }

    /// Writes the file `name` for the lab's programs. Returns its path as the programs see it.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<String, LabError> {
        let path = format!("{WORKSHOP}/{name}");
        std::fs::write(self.path(&path), text).map_err(LabError::io(format!("writing the lab's {name}")))?;
        Ok(path)
    }

    /// Sets kernel parameters of `hosts`, then creates their cables, addresses and routes.
    fn furnish(&self, hosts: &[Host]) -> Result<(), LabError> {
        for host in hosts {
            self.tune(*host)?;
        }
        // Hosts A and B come first, because they create the cables to the relays.
        let is_relay = |host: &&Host| matches!(host, Host::Near | Host::Far);
        for host in hosts.iter().filter(|host| !is_relay(host)).chain(hosts.iter().filter(is_relay)) {
            let nets = [Host::Near, Host::Far].map(|relay| self.hosts[relay.index()].path());
            let mut profile = self.profiles[host.index()].clone();
            if let Some(refused) = self.set_congestion(*host, &profile)? {
                profile.add_route(&format!("congctl {refused}"));
            }
            let commands = cables::furnish(*host, &profile, &nets, self.site());
            let commands = self.write("ip", &commands)?;
            self.output(*host, "ip", &["-batch", &commands])?;
            if let Some(max) = profile.window_field {
                let rules = cables::window_rules(max);
                self.output(*host, "nft", &[&rules])?;
            }
        }
        Ok(())
    }

    /// Runs `job` on the supervisor's thread in the network namespace of `host`, and waits for it.
    fn inside<T: Send + 'static>(
        &self,
        host: Host,
        job: impl FnOnce() -> Result<T, LabError> + Send + 'static,
    ) -> Result<T, LabError> {
        self.supervisor.run(&self.hosts[host.index()], job)
    }

    /// Sets kernel parameters of `host`, before it has a device.
    fn tune(&self, host: Host) -> Result<(), LabError> {
        let profile = self.profiles[host.index()].clone();
        self.inside(host, move || {
            // Metrics that one connection caches must not help the next one.
            set_ipv4("tcp_no_metrics_save", "1")?;
            profile.sysctls.iter().try_for_each(|sysctl| set_ipv4(sysctl.name, &sysctl.value))?;
            if profile.further == Sysctls::Shipped {
                sysctls::set_shipped()?;
            }
            let is_relay = matches!(host, Host::Near | Host::Far);
            if is_relay {
                set("/proc/sys/net/ipv4/ip_forward", "1")?;
            }
            if has_ipv6() {
                // No other host is on these cables, so duplicate address detection finds nothing. It takes two seconds.
                set("/proc/sys/net/ipv6/conf/default/accept_dad", "0")?;
                set("/proc/sys/net/ipv6/conf/all/forwarding", if is_relay { "1" } else { "0" })?;
            }
            Ok(())
        })
    }

    /// Sets the default congestion control of `host` by sysctl, as an administrator does. Returns the name if the kernel permits
    /// it only in its first network namespace (tcp(7), tcp_allowed_congestion_control). A route may still set it then.
    fn set_congestion(&self, host: Host, profile: &Profile) -> Result<Option<String>, LabError> {
        let Some(wanted) = profile.congestion.clone() else { return Ok(None) };
        self.inside(host, move || {
            let path = "/proc/sys/net/ipv4/tcp_congestion_control";
            match std::fs::write(path, &wanted) {
                Err(err) if err.kind() == std::io::ErrorKind::PermissionDenied => Ok(Some(wanted)),
                written => written.map(|()| None).map_err(LabError::io(format!("setting {path} to {wanted:?}"))),
            }
        })
    }

    fn site(&self) -> Site {
        let is_one = Arc::ptr_eq(&self.hosts[Host::Near.index()], &self.hosts[Host::Far.index()]);
        let topology = if is_one { Topology::OneHop } else { Topology::Wan };
        // RFC 8200 5: IPv6 needs 1280 bytes. The kernel disables it on a device with a smaller MTU.
        let room = self.profiles.iter().all(|profile| profile.mtu >= 1280);
        Site { topology, ipv6: has_ipv6() && room }
    }
}

/// Returns the bytes of packets that a direction may hold: four times its queue and the packets under way, because buffers are
/// not full. Without a rate, or if rate or delay vary, this is the size of TCP's largest windows.
fn memory(link: &LinkSpec) -> usize {
    match link.rate {
        Some(_) if !link.varies() => {
            (link.queue().0 + link.bandwidth_delay().0).saturating_mul(4).max(64 << 20) as usize
        }
        _ => 2 << 30,
    }
}

/// Returns the lateness that a busy link may have: a three-hundredth of the one-way delay, at most 100 microseconds. That is
/// too little to be visible, and enough to save wake-ups.
fn lateness(link: &LinkSpec) -> Duration {
    (link.rtt / 600).min(Duration::from_micros(100))
}

fn set_ipv4(name: &str, value: &str) -> Result<(), LabError> {
    set(&format!("/proc/sys/net/ipv4/{name}"), value)
}

fn set(path: &str, value: &str) -> Result<(), LabError> {
    std::fs::write(path, value).map_err(LabError::io(format!("setting {path} to {value:?}")))
}

fn has_ipv6() -> bool {
    Path::new("/proc/sys/net/ipv6/conf/all/forwarding").exists()
}
