//! Warnings about what a good configuration will meet on this machine and with the rights of longhaul.service: addresses that the
//! host does not have, names that do not resolve, options that the kernel does not offer, capabilities that are missing. `longhaul
//! check` warns of it; it may be run on another host than the daemon, so nothing here is an error.

use super::rights::Rights;
use longhaul_config::options::{AUTO, Leg, LegOptions, Need, Setting, Value, key, not_offered, show};
use longhaul_config::{Config, Message, Protocol, Severity, Tunnel};
use longhaul_sys::limits::Capability::{NetAdmin, NetBindService};
use longhaul_sys::limits::{local_ports, sysctl};
use longhaul_sys::route::RouteSocket;
use longhaul_sys::sockopt::{allowed_congestion_controls, available_congestion_controls};
use longhaul_units::show_duration;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

/// Findings of `check` on this machine.
pub(super) struct Here {
    /// One for each thing that will not work.
    pub(super) warnings: Vec<Message>,
    /// Number of tunnels that will not start. All of them, if a key of the daemon prevents it.
    pub(super) will_not_start: usize,
    /// Whether a key of the daemon prevents that it starts.
    pub(super) stops_daemon: bool,
    /// Line of the summary about a drain without `drain_timeout`, where the unit limits it.
    pub(super) drain: Option<String>,
}

/// Something that will not work.
struct Finding {
    text: String,
    /// Whether the tunnel or the daemon does not start. If it does, it may work otherwise than asked for.
    stops_start: bool,
}

/// Returns everything of `config`, the file at `path`, that will not work here.
pub(super) fn look(config: &Config, path: &Path) -> Here {
    let rights = Rights::of_the_daemon();
    let local_ports = LocalPorts::look(&config.tunnels);
    let mut found = Vec::new();
    let mut will_not_start = 0;
    for tunnel in &config.tunnels {
        let findings = of_tunnel(tunnel, &rights, local_ports.as_ref());
        let stops = findings.iter().any(|finding| finding.stops_start) || mixes_mptcp(tunnel);
        will_not_start += usize::from(stops);
        found.extend(findings.into_iter().map(|finding| format!("tunnel {}: {}", tunnel.name, finding.text)));
    }
    let loops = longhaul_config::loops::loops_here(&config.tunnels, &|ip| has_address(ip));
    found
        .extend(loops.into_iter().map(|found| format!("tunnel {}: {}", config.tunnels[found.tunnel].name, found.text)));
    let (key, http) = (config.probe.key_file.as_deref(), config.admin.listen.map(|address| address.ip()));
    let http = http.and_then(|ip| foreign("admin.listen", ip, ", so the daemon does not start"));
    let http = http.map(|text| Finding { text, stops_start: true });
    let of_daemon: Vec<_> = key.and_then(|path| unusable_key(path, &rights)).into_iter().chain(http).collect();
    let stops_daemon = of_daemon.iter().any(|finding| finding.stops_start);
    if stops_daemon {
        will_not_start = config.tunnels.len();
    }
    found.extend(of_daemon.into_iter().map(|finding| finding.text));
    found.extend(no_bbr(config, &rights));
    found.extend(unresolved(config));
    found.extend(too_long(config, &rights));
    found.extend(few_descriptors(config, &rights));
    found.extend(rights.cannot_read(path));
    let place = "on this machine";
    let warnings =
        found.into_iter().map(|text| Message { severity: Severity::Warning, place: place.into(), text }).collect();
    Here { warnings, will_not_start, stops_daemon, drain: no_limit(config, &rights) }
}

fn of_tunnel(tunnel: &Tunnel, rights: &Rights, ports: Option<&LocalPorts>) -> Vec<Finding> {
    let stopping = [listen_elsewhere(tunnel), privileged(tunnel, rights)];
    let doubtful = [
        source_elsewhere(tunnel),
        ports.and_then(|ports| ports.has_listener_of(tunnel)),
        ports.and_then(|ports| ports.have_data_ports_of(tunnel)),
        ports.and_then(|ports| few_ports(tunnel, ports.range.clone().count())),
    ];
    let finding = |stops_start| move |text| Finding { text, stops_start };
    let mut found: Vec<Finding> = stopping.into_iter().flatten().map(finding(true)).collect();
    found.extend(doubtful.into_iter().flatten().map(finding(false)));
    for (leg, options) in [(Leg::Accept, &tunnel.accept), (Leg::Dial, &tunnel.dial)] {
        found.extend(of_leg(leg, options, rights));
    }
    found
}

fn of_leg(leg: Leg, options: &LegOptions, rights: &Rights) -> Vec<Finding> {
    let of_need = |setting: &Setting, need: Need| {
        let shown = show(setting.row, &setting.value);
        let text = format!("{leg}.{} = {shown}: {}", setting.row.key, unmet(need, setting, rights)?);
        Some(Finding { text, stops_start: need.stops_start() })
    };
    let needs = options.asked().flat_map(|setting| setting.row.needs.iter().map(move |need| (setting, *need)));
    needs.filter_map(|(setting, need)| of_need(setting, need)).collect()
}

/// Returns the reason why `need` of `setting` is not met; `None` if it is met.
fn unmet(need: Need, setting: &Setting, rights: &Rights) -> Option<String> {
    match (need, &setting.value) {
        (Need::Capability(capability), _) => rights.lack(capability).map(|why| format!("the kernel refuses it: {why}")),
        (Need::UpTo { sysctl, exempt }, Value::Number(asked)) => {
            let max = exceeded(sysctl, *asked)?;
            let why = rights.lack(exempt)?;
            let shown = show(setting.row, &Value::Number(max));
            Some(format!("the kernel cuts it to {shown}, {}: {why}", dotted(sysctl)))
        }
        (Need::Bits { sysctl, bits }, value) if !value.is_off() => without_bits(sysctl, bits),
        (Need::Interface, Value::Name(device)) => no_device(device),
        (Need::CongestionControl, Value::Name(name)) if name != AUTO => congestion(name, rights),
        _ => None,
    }
}

/// Returns whether a leg with `mptcp` has an option that the kernel then refuses; the file's own warnings name it.
fn mixes_mptcp(tunnel: &Tunnel) -> bool {
    let refused = |leg| tunnel.mptcp(leg) && tunnel.options(leg).asked().any(|setting| setting.row.mptcp_refuses);
    Leg::ALL.into_iter().any(refused)
}

/// Returns whether the kernel delivers packets for `ip` to this host; `false` if the kernel does not answer.
fn has_address(ip: IpAddr) -> bool {
    // The route does not depend on the port.
    RouteSocket::new().and_then(|mut socket| socket.is_here(SocketAddr::new(ip, 9))).unwrap_or(false)
}

/// The ports that the kernel gives to connections.
struct LocalPorts {
    /// net.ipv4.ip_local_port_range.
    range: RangeInclusive<u16>,
    /// net.ipv4.ip_local_reserved_ports: ports that it does not choose.
    reserved: String,
    /// The command that reserves all ports of the file, because it replaces what was reserved.
    remedy: String,
}

impl LocalPorts {
    /// Returns the ports of this machine. `None` if the kernel does not tell them.
    fn look(tunnels: &[Tunnel]) -> Option<LocalPorts> {
        let range = sysctl("net/ipv4/ip_local_port_range").map(|_| local_ports())?;
        let reserved = sysctl("net/ipv4/ip_local_reserved_ports").unwrap_or_default();
        Some(LocalPorts::new(range, reserved, tunnels))
    }

    fn new(range: RangeInclusive<u16>, reserved: String, tunnels: &[Tunnel]) -> LocalPorts {
        let mut ports = LocalPorts { range, reserved, remedy: String::new() };
        let used = tunnels.iter().flat_map(|tunnel| [Some(listen_port(tunnel)), data_ports(tunnel)]).flatten();
        // A set, because two tunnels may share a port on different addresses.
        let missing: BTreeSet<(u16, u16)> =
            used.filter(|used| ports.contains_some(used)).map(|used| used.into_inner()).collect();
        let missing = missing.into_iter().map(|(first, last)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        });
        let kept = Some(ports.reserved.clone()).filter(|reserved| !reserved.is_empty());
        let all: Vec<String> = kept.into_iter().chain(missing).collect();
        ports.remedy = format!(
            "run sysctl -w net.ipv4.ip_local_reserved_ports={} and write that setting in a file of /etc/sysctl.d",
            all.join(",")
        );
        ports
    }

    /// Whether the kernel chooses some of `ports`.
    fn contains_some(&self, ports: &RangeInclusive<u16>) -> bool {
        let is_reserved = |port: u16| {
            self.reserved.split(',').any(|part| {
                let (first, last) = part.split_once('-').unwrap_or((part, part));
                matches!((first.parse(), last.parse()), (Ok(first), Ok(last)) if (first..=last).contains(&port))
            })
        };
        ports.clone().any(|port| self.range.contains(&port) && !is_reserved(port))
    }

    /// ip(7) ip_local_port_range: a dial may have the port before the listener does.
    fn has_listener_of(&self, tunnel: &Tunnel) -> Option<String> {
        let ports = Some(listen_port(tunnel)).filter(|ports| self.contains_some(ports))?;
        let LocalPorts { range, remedy, .. } = self;
        Some(format!(
            "port {} is in net.ipv4.ip_local_port_range, {} to {}: when another connection has it, longhaul does not start \
             (EADDRINUSE); {remedy}",
            ports.start(),
            range.start(),
            range.end()
        ))
    }

    /// Ports of `ftp.ports` that the kernel may give to another connection.
    fn have_data_ports_of(&self, tunnel: &Tunnel) -> Option<String> {
        let ports = data_ports(tunnel).filter(|ports| self.contains_some(ports))?;
        let LocalPorts { range, remedy, .. } = self;
        Some(format!(
            "some ports of ftp.ports, {} to {}, are in net.ipv4.ip_local_port_range, {} to {}: other connections take them, and fewer \
             are left for FTP data; {remedy}",
            ports.start(),
            ports.end(),
            range.start(),
            range.end()
        ))
    }
}

fn listen_port(tunnel: &Tunnel) -> RangeInclusive<u16> {
    tunnel.listen.port()..=tunnel.listen.port()
}

fn data_ports(tunnel: &Tunnel) -> Option<RangeInclusive<u16>> {
    tunnel.ftp.ports.clone().filter(|_| tunnel.protocol == Protocol::Ftp)
}

/// A file of `key_file` that cannot be used now, or not by the unit.
fn unusable_key(path: &Path, rights: &Rights) -> Option<Finding> {
    let is_credential = path.starts_with(longhaul_config::key_file::CREDENTIALS);
    let of_unit = || rights.cannot_read_key(path);
    let (text, stops_start) = match longhaul_config::key_file::load(path) {
        // Without the unit there is none, and only the unit's user may read it.
        Err(why) if is_credential && (why.is_denied() || !path.exists()) => {
            (format!("{why}; systemd makes it when it starts the unit"), false)
        }
        // Whoever runs the check may have less rights than the daemon.
        Err(why) if why.is_denied() => match of_unit() {
            Some(text) => (text, true),
            None => (format!("{why}; the daemon does not start if it cannot read it, either"), false),
        },
        Err(why) => (format!("{why}; the daemon does not start"), true),
        Ok(_) if is_credential => return None,
        Ok(_) => (of_unit()?, true),
    };
    Some(Finding { text, stops_start })
}

/// An address that no interface has: bind(2) to any port of it says so and disturbs nobody. `effect` follows the finding.
fn foreign(key: &str, address: IpAddr, effect: &str) -> Option<String> {
    let err = TcpListener::bind((address, 0)).err()?;
    let here = err.kind() != ErrorKind::AddrNotAvailable;
    (!here).then(|| format!("{key} = {address}: no interface has this address{effect}; `ip address` lists them"))
}

/// A `listen` address that no interface has. Not with `freebind`, which is for such an address.
fn listen_elsewhere(tunnel: &Tunnel) -> Option<String> {
    let is_free = tunnel.accept.find(key::FREEBIND).is_some_and(|setting| !setting.value.is_off());
    let effect = "; if VRRP brings it later, write accept = { freebind = true }";
    if is_free { None } else { foreign("listen", tunnel.listen.ip(), effect) }
}

/// A source that no interface has. Not if the dial leg is bound to an interface: that may be a VRF, whose addresses another
/// socket cannot bind.
fn source_elsewhere(tunnel: &Tunnel) -> Option<String> {
    let source = tunnel.source.filter(|_| tunnel.dial.find(key::BIND_DEVICE).is_none())?;
    foreign("source", source, ", and every dial fails until one has it")
}

fn privileged(tunnel: &Tunnel, rights: &Rights) -> Option<String> {
    let first_free: u16 = sysctl("net/ipv4/ip_unprivileged_port_start")?.parse().ok()?;
    let port = tunnel.listen.port();
    let why = rights.lack(NetBindService).filter(|_| port < first_free)?;
    Some(format!("port {port} is below {first_free}: {why}"))
}

/// Returns the value of a sysctl, if `asked` is larger.
fn exceeded(name: &str, asked: u64) -> Option<u64> {
    let max: u64 = sysctl(name)?.parse().ok()?;
    (asked > max).then_some(max)
}

/// Returns a clause with the remedy, if bits are missing in a sysctl.
fn without_bits(name: &str, bits: u32) -> Option<String> {
    let set: u32 = sysctl(name)?.parse().ok()?;
    (set & bits != bits).then(|| format!("it is off in the kernel; run sysctl -w {}={}", dotted(name), set | bits))
}

/// Returns the name of the sysctl with this path below /proc/sys: `net.core.wmem_max` of `net/core/wmem_max`.
fn dotted(path: &str) -> String {
    path.replace('/', ".")
}

fn congestion(name: &str, rights: &Rights) -> Option<String> {
    let has = |list: &str| list.split(' ').any(|known| known == name);
    let offered = available_congestion_controls()?;
    let allowed = allowed_congestion_controls()?;
    if !has(&offered) {
        return Some(not_offered(name, &offered));
    }
    let why = rights.lack(NetAdmin).filter(|_| !has(&allowed))?;
    Some(format!("net.ipv4.tcp_allowed_congestion_control allows {allowed}; another needs CAP_NET_ADMIN: {why}"))
}

/// Returns one warning for all legs: `auto` is the default of each.
fn no_bbr(config: &Config, rights: &Rights) -> Option<String> {
    let wanted = config.tunnels.iter().any(|tunnel| tunnel.accept.is_auto() || tunnel.dial.is_auto());
    let why = congestion("bbr", rights).filter(|_| wanted)?;
    Some(format!("congestion = auto: legs over the WAN cannot use BBR: {why}"))
}

/// Returns the warning for a drain that systemd would cut short.
fn too_long(config: &Config, rights: &Rights) -> Option<String> {
    let (drain, stop) = (config.drain_timeout?, rights.stop_timeout()?);
    (drain >= stop).then(|| {
        let (drain, stop) = (show_duration(drain), show_duration(stop));
        format!(
            "drain_timeout = {drain}: after TimeoutStopSec={stop} of longhaul.service, systemd kills longhaul, which resets \
             the flows that are left; write a longer TimeoutStopSec (systemctl edit longhaul)"
        )
    })
}

/// Returns the warning for a `max_flows` that the descriptors do not allow.
fn few_descriptors(config: &Config, rights: &Rights) -> Option<String> {
    let (asked, nofile) = (config.max_flows?, rights.nofile()?);
    // docs/operations.md: three quarters of the descriptors are for flows, two for each.
    let (flows, need) = (nofile.saturating_mul(3) / 8, (asked as u64).saturating_mul(8).div_ceil(3));
    (asked as u64 > flows).then(|| {
        format!(
            "max_flows = {asked}: LimitNOFILE={nofile} of longhaul.service allows about {flows} flows; write \
             LimitNOFILE={need} (systemctl edit longhaul), or a smaller max_flows"
        )
    })
}

/// Returns the warning for a `max_flows` that `ports` local ports towards each next hop do not allow.
fn few_ports(tunnel: &Tunnel, ports: usize) -> Option<String> {
    let hops = tunnel.to.len();
    // A name may have several addresses.
    let is_sure = tunnel.to.iter().all(|hop| hop.host.parse::<IpAddr>().is_ok());
    let asked = tunnel.max_flows.filter(|asked| is_sure && *asked > ports.saturating_mul(hops))?;
    Some(format!(
        "max_flows = {asked}: net.ipv4.ip_local_port_range has {ports} ports for flows to each of {hops} next hops; run sysctl -w \
         net.ipv4.ip_local_port_range='10240 65535' and write that setting in a file of /etc/sysctl.d, or add a tunnel with \
         another source"
    ))
}

/// Returns the line about the end of a drain that the file does not limit and systemd does. The default is no mistake, so this is
/// no warning.
fn no_limit(config: &Config, rights: &Rights) -> Option<String> {
    let stop = rights.stop_timeout().filter(|_| config.drain_timeout.is_none())?;
    let stop = show_duration(stop);
    Some(format!(
        "under longhaul.service, systemd kills longhaul {stop} after SIGTERM (TimeoutStopSec), which resets the flows that are left"
    ))
}

/// Returns a warning for each next hop whose name cannot be resolved now, in the daemon's way, in the order of the file.
fn unresolved(config: &Config) -> Vec<String> {
    let next_hops = config.tunnels.iter().flat_map(|tunnel| &tunnel.to);
    // Without a runtime nothing is known about names.
    let found = longhaul_relay::unresolved(next_hops, config.resolver, RESOLVER_PATIENCE).unwrap_or_default();
    let failed = found.into_iter().map(|found| (found.name, found.why)).collect();
    config.tunnels.iter().flat_map(|tunnel| unresolved_of(tunnel, &failed)).collect()
}

/// Returns the warnings for the next hops of `tunnel` that are among the names in `failed`, which are in lower case.
fn unresolved_of(tunnel: &Tunnel, failed: &BTreeMap<String, String>) -> Vec<String> {
    let name = &tunnel.name;
    let why = |host: &str| failed.get(&host.to_ascii_lowercase());
    let hosts = || tunnel.to.iter().map(|hop| if hop.is_srv() { hop.to_string() } else { hop.host.clone() });
    let effect = match hosts().all(|host| why(&host).is_some()) {
        true => format!("flows of {name} fail until it resolves"),
        false => format!("flows of {name} cannot use it until it resolves"),
    };
    let mut told = BTreeSet::new();
    let say = |host: String| {
        let why = why(&host)?;
        Some(format!(
            "tunnel {name}: to = {host}: cannot be resolved now: {why}; {effect}; see /etc/hosts and /etc/resolv.conf"
        ))
    };
    hosts().filter(|host| told.insert(host.clone())).filter_map(say).collect()
}

fn no_device(device: &str) -> Option<String> {
    let here = Path::new("/sys/class/net").join(device).exists();
    (!here).then(|| "there is no such interface; `ip link` lists them".into())
}

/// Time for resolving all names.
const RESOLVER_PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_config::NextHop;

    #[test]
    fn the_end_of_a_drain_is_the_file_s_or_the_unit_s() {
        let drain =
            |seconds: Option<u64>| Config { drain_timeout: seconds.map(Duration::from_secs), ..Config::default() };
        let unit = |stop: &str| Rights::of_text(&format!("LoadState=loaded\nTimeoutStopUSec={stop}\n"));
        let said = |seconds, stop: &str| {
            let (config, rights) = (drain(seconds), unit(stop));
            (too_long(&config, &rights).is_some(), no_limit(&config, &rights))
        };
        assert!(said(None, "2min").1.is_some_and(|line| line.contains(" 2min after SIGTERM ")));
        assert_eq!(said(None, "infinity"), (false, None));
        assert_eq!(said(Some(0), "2min"), (false, None));
        assert_eq!(said(Some(119), "2min"), (false, None));
        assert_eq!(said(Some(120), "2min"), (true, None));
    }

    #[test]
    fn a_max_flows_that_the_limits_do_not_allow_is_told() {
        let rights = Rights::of_text("LoadState=loaded\nLimitNOFILE=1000");
        let said = |max| few_descriptors(&Config { max_flows: max, ..Config::default() }, &rights);
        assert_eq!((said(None), said(Some(375))), (None, None));
        let want = "max_flows = 376: LimitNOFILE=1000 of longhaul.service allows about 375 flows; write LimitNOFILE=1003 \
                    (systemctl edit longhaul), or a smaller max_flows";
        assert_eq!(said(Some(376)).as_deref(), Some(want));
        let said = |hosts: &[&str], max| {
            let to = hosts.iter().map(|host| NextHop::new(*host, 22)).collect();
            let listen = SocketAddr::from(([127, 0, 0, 1], 6000));
            few_ports(&Tunnel { max_flows: max, ..Tunnel::new("a", listen, to) }, 100)
        };
        assert_eq!((said(&["192.0.2.1"], None), said(&["192.0.2.1"], Some(100))), (None, None));
        assert_eq!((said(&["192.0.2.1", "192.0.2.2"], Some(200)), said(&["b", "192.0.2.2"], Some(201))), (None, None));
        assert!(
            said(&["192.0.2.1"], Some(101)).is_some_and(|text| text.contains(" has 100 ports for flows to each of 1 "))
        );
    }

    #[test]
    fn one_command_reserves_the_ports_of_all_tunnels() {
        let tunnel = |port: u16, data: RangeInclusive<u16>| {
            let mut tunnel = Tunnel::new("a", SocketAddr::from(([127, 0, 0, 1], port)), Vec::new());
            (tunnel.protocol, tunnel.ftp.ports) = (Protocol::Ftp, Some(data));
            tunnel
        };
        // The first tunnel's listener and the last one's data ports are outside of the range.
        let tunnels = [tunnel(2121, 50_000..=50_009), tunnel(40_021, 50_010..=50_019), tunnel(40_021, 61_000..=61_009)];
        let remedy =
            |reserved: &str, tunnels: &[Tunnel]| LocalPorts::new(40_000..=60_999, reserved.into(), tunnels).remedy;
        let command = |ports: &str| {
            format!(
                "run sysctl -w net.ipv4.ip_local_reserved_ports={ports} and write that setting in a file of /etc/sysctl.d"
            )
        };
        assert_eq!(remedy("", &tunnels), command("40021,50000-50009,50010-50019"));
        assert_eq!(remedy("8080,50000-50009", &tunnels), command("8080,50000-50009,40021,50010-50019"));
        let ports = LocalPorts::new(40_000..=60_999, "40021,50000-50019".into(), &tunnels);
        for tunnel in &tunnels {
            assert_eq!((ports.has_listener_of(tunnel), ports.have_data_ports_of(tunnel)), (None, None));
        }
        let ports = LocalPorts::new(40_000..=60_999, String::new(), &tunnels);
        let found = of_tunnel(&tunnels[0], &Rights::of_text(""), Some(&ports));
        let warning = "some ports of ftp.ports, 50000 to 50009, are in net.ipv4.ip_local_port_range, 40000 to 60999: ";
        let remedy = command("40021,50000-50009,50010-50019");
        assert!(found.iter().any(|finding| finding.text.starts_with(warning) && finding.text.ends_with(&remedy)));
    }

    #[test]
    fn a_name_without_an_address_is_told_for_each_tunnel_with_the_effect() {
        let tunnel = |name: &str, hosts: &[&str]| {
            let hop = |host: &&str| NextHop::new(*host, 22);
            Tunnel::new(name, SocketAddr::from(([127, 0, 0, 1], 6000)), hosts.iter().map(hop).collect())
        };
        let failed = BTreeMap::from([("no.invalid".to_string(), "why".to_string())]);
        let said = |hosts: &[&str]| unresolved_of(&tunnel("b", hosts), &failed);
        let of_b = "tunnel b: to = no.invalid: cannot be resolved now: why; flows of b";
        let see = "until it resolves; see /etc/hosts and /etc/resolv.conf";
        assert_eq!(said(&["no.invalid", "no.invalid"]), [format!("{of_b} fail {see}")]);
        assert_eq!(said(&["no.invalid", "b"]), [format!("{of_b} cannot use it {see}")]);
        assert!(said(&["b", "192.0.2.1"]).is_empty());
    }
}
