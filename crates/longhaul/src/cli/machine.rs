//! What a good configuration will still meet on this machine and as this user: addresses that the host does not have,
//! options that the kernel does not offer, capabilities that are missing. `longhaul check` warns of it; it may be run as
//! another user than the daemon, or on another host, so nothing here is an error.

use longhaul::config::{Config, Tunnel};
use longhaul::options::LegOptions;
use longhaul_sys::limits::Capability::{NetAdmin, NetBindService};
use longhaul_sys::limits::{has_capability, sysctl};
use longhaul_sys::sockopt::{Leg, Setting, Value, congestion_controls};
use std::io::ErrorKind;
use std::net::{IpAddr, TcpListener};
use std::path::Path;

/// One line for each thing that will not work here.
pub(super) fn warnings(config: &Config) -> Vec<String> {
    let mut found: Vec<_> = config.tunnels.iter().flat_map(of_tunnel).collect();
    found.extend(no_bbr(config));
    found
}

fn of_tunnel(tunnel: &Tunnel) -> Vec<String> {
    let mut found = vec![foreign("listen", tunnel.listen.ip()), privileged(tunnel)];
    found.extend(tunnel.source.map(|source| foreign("source", source)));
    for (leg, options) in [(Leg::Accept, &tunnel.accept), (Leg::Dial, &tunnel.dial)] {
        found.extend(of_leg(leg, options));
    }
    found
        .into_iter()
        .flatten()
        .map(|text| format!("warning: on this machine, tunnel {}: {text}", tunnel.name))
        .collect()
}

fn of_leg(leg: Leg, options: &LegOptions) -> Vec<Option<String>> {
    let warning = |setting: &Setting| match (setting.row.key, &setting.value) {
        ("congestion", Value::Name(name)) => congestion(name),
        ("bind-device", Value::Name(device)) => no_device(device),
        ("mark", _) => (!has_capability(NetAdmin)).then(|| "this user lacks CAP_NET_ADMIN".into()),
        ("fastopen", _) => no_fastopen(leg),
        _ => None,
    };
    let named = |setting: &Setting| {
        warning(setting).map(|text| format!("{}.{} = {}: {text}", leg.name(), setting.row.key, setting.value))
    };
    options.asked().map(named).collect()
}

/// An address that no interface has: bind(2) to any port of it says so and disturbs nobody.
fn foreign(key: &str, address: IpAddr) -> Option<String> {
    let err = TcpListener::bind((address, 0)).err()?;
    let here = err.kind() != ErrorKind::AddrNotAvailable;
    (!here).then(|| format!("{key} = {address}: no interface has this address; `ip address` lists them"))
}

fn privileged(tunnel: &Tunnel) -> Option<String> {
    let first_free: u16 = sysctl("net/ipv4/ip_unprivileged_port_start")?.parse().ok()?;
    let port = tunnel.listen.port();
    let forbidden = port < first_free && !has_capability(NetBindService);
    forbidden.then(|| format!("port {port} is below {first_free}, and this user lacks CAP_NET_BIND_SERVICE"))
}

fn congestion(name: &str) -> Option<String> {
    let has = |list: &str| list.split(' ').any(|known| known == name);
    let (offered, allowed) = (congestion_controls("available")?, congestion_controls("allowed")?);
    match name {
        "auto" => None,
        _ if !has(&offered) => Some(format!("the kernel offers {offered}; try modprobe tcp_{name}")),
        _ if !has(&allowed) && !has_capability(NetAdmin) => {
            Some(format!("this user may choose {allowed}; the list is net.ipv4.tcp_allowed_congestion_control"))
        }
        _ => None,
    }
}

/// `auto` is the default of every leg, so this is said once.
fn no_bbr(config: &Config) -> Option<String> {
    let wanted = config.tunnels.iter().any(|tunnel| tunnel.accept.is_auto() || tunnel.dial.is_auto());
    let why = congestion("bbr").filter(|_| wanted)?;
    Some(format!("warning: on this machine, congestion = auto: WAN legs will not get BBR: {why}"))
}

fn no_device(device: &str) -> Option<String> {
    let here = Path::new("/sys/class/net").join(device).exists();
    (!here).then(|| "there is no such interface; `ip link` lists them".into())
}

/// tcp(7) tcp_fastopen: bit 1 lets a client use it, bit 2 a server.
fn no_fastopen(leg: Leg) -> Option<String> {
    let bit: u32 = if leg == Leg::Dial { 1 } else { 2 };
    let bits: u32 = sysctl("net/ipv4/tcp_fastopen")?.parse().ok()?;
    (bits & bit == 0).then(|| format!("it is off in the kernel; sysctl -w net.ipv4.tcp_fastopen={}", bits | bit))
}
