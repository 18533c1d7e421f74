//! Warnings about what a good configuration will meet on this machine and with the rights of longhaul.service: addresses that the
//! host does not have, options that the kernel does not offer, capabilities that are missing. `longhaul check` warns of it;
//! it may be run on another host than the daemon, so nothing here is an error.

use super::rights::Rights;
use longhaul::config::{Config, Message, Severity, Tunnel};
use longhaul::options::{LegOptions, control_instead, show};
use longhaul_sys::limits::Capability::{NetAdmin, NetBindService};
use longhaul_sys::limits::sysctl;
use longhaul_sys::sockopt::{Leg, Setting, Value, congestion_controls};
use std::io::ErrorKind;
use std::net::{IpAddr, TcpListener};
use std::path::Path;

/// One warning for each thing that will not work here.
pub(super) fn warnings(config: &Config) -> Vec<Message> {
    let rights = Rights::of_the_daemon();
    let mut found: Vec<_> = config.tunnels.iter().flat_map(|tunnel| of_tunnel(tunnel, &rights)).collect();
    found.extend(no_bbr(config, &rights));
    let place = "on this machine";
    found.into_iter().map(|text| Message { severity: Severity::Warning, place: place.into(), text }).collect()
}

fn of_tunnel(tunnel: &Tunnel, rights: &Rights) -> Vec<String> {
    let mut found = vec![foreign("listen", tunnel.listen.ip()), privileged(tunnel, rights)];
    found.extend(tunnel.source.map(|source| foreign("source", source)));
    for (leg, options) in [(Leg::Accept, &tunnel.accept), (Leg::Dial, &tunnel.dial)] {
        found.extend(of_leg(leg, options, rights));
    }
    found.into_iter().flatten().map(|text| format!("tunnel {}: {text}", tunnel.name)).collect()
}

fn of_leg(leg: Leg, options: &LegOptions, rights: &Rights) -> Vec<Option<String>> {
    let warning = |setting: &Setting| match (setting.row.key, &setting.value) {
        ("congestion", Value::Name(name)) => congestion(name, rights),
        ("bind-device", Value::Name(device)) => no_device(device),
        ("mark", _) => rights.lack(NetAdmin).map(|why| format!("the kernel refuses it: {why}")),
        ("sndbuf", Value::Number(bytes)) => beyond("wmem_max", *bytes, setting, rights),
        ("rcvbuf", Value::Number(bytes)) => beyond("rmem_max", *bytes, setting, rights),
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

fn privileged(tunnel: &Tunnel, rights: &Rights) -> Option<String> {
    let first_free: u16 = sysctl("net/ipv4/ip_unprivileged_port_start")?.parse().ok()?;
    let port = tunnel.listen.port();
    let why = rights.lack(NetBindService).filter(|_| port < first_free)?;
    Some(format!("port {port} is below {first_free}: {why}"))
}

/// socket(7) SO_SNDBUFFORCE: only CAP_NET_ADMIN goes beyond the sysctl.
fn beyond(name: &str, asked: u64, setting: &Setting, rights: &Rights) -> Option<String> {
    let max: u64 = sysctl(&format!("net/core/{name}"))?.parse().ok()?;
    let why = rights.lack(NetAdmin).filter(|_| asked > max)?;
    Some(format!("the kernel cuts it to {}, net.core.{name}: {why}", show(setting.row, &Value::Number(max))))
}

fn congestion(name: &str, rights: &Rights) -> Option<String> {
    let has = |list: &str| list.split(' ').any(|known| known == name);
    let (offered, allowed) = (congestion_controls("available")?, congestion_controls("allowed")?);
    match name {
        "auto" => None,
        _ if !has(&offered) => Some(format!("the kernel offers {offered}; {}", control_instead(name, &offered))),
        _ if has(&allowed) => None,
        _ => rights
            .lack(NetAdmin)
            .map(|why| format!("net.ipv4.tcp_allowed_congestion_control allows {allowed}, and of the others: {why}")),
    }
}

/// `auto` is the default of every leg, so this is said once.
fn no_bbr(config: &Config, rights: &Rights) -> Option<String> {
    let wanted = config.tunnels.iter().any(|tunnel| tunnel.accept.is_auto() || tunnel.dial.is_auto());
    let why = congestion("bbr", rights).filter(|_| wanted)?;
    Some(format!("congestion = auto: WAN legs will not get BBR: {why}"))
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
