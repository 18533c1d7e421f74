//! Parses the written values of a tunnel. The config file and the command line use the same functions, so both accept and
//! refuse the same values.
//!
//! On error, every function returns one clause: what is wrong and what to write instead. The clause does not repeat the text.

use crate::next_hop::NextHop;
use crate::options::Leg;
use crate::suggest;
use ipnet::{IpNet, Ipv4Net};
use longhaul_core::next_hop::{POLICIES, Policy};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Parses the address of a listener: `PORT` for every address of the host, `ADDR:PORT` or `[IPV6]:PORT`.
///
/// # Errors
/// The text has none of these forms, or the port is not 1 to 65535.
pub fn listen(text: &str) -> Result<SocketAddr, String> {
    const FORM: &str = "write PORT, ADDR:PORT or [IPV6]:PORT, such as \"10.0.0.1:6000\"";
    if text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() {
        return Ok(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port(text)?)));
    }
    if let Some(listen) = socat_listener(text) {
        return Err(format!("this is an address of socat; write \"{listen}\"{}", left_out(untold(text, &["bind"]))));
    }
    let (host, port) = host_and_port(text, Leg::Accept, "an address and a port", FORM)?;
    if let Ok(address) = text.parse::<SocketAddr>() {
        let mapped = match address.ip() {
            IpAddr::V6(ip) => ip.to_ipv4_mapped(),
            IpAddr::V4(_) => None,
        };
        if let Some(v4) = mapped {
            return Err(format!("it is an IPv4-mapped IPv6 address; write \"{v4}:{port}\""));
        }
        return if address.ip().is_multicast() { Err(format!("TCP has no multicast; {FORM}")) } else { Ok(address) };
    }
    match host {
        "" | "*" => Err(format!("write \"{port}\" to listen on every address")),
        _ if host.contains(':') => Err(format!("`{host}` is not an IPv6 address; {FORM}")),
        _ if looks_numeric(host) => Err(format!("`{host}` is not an IPv4 address; {FORM}")),
        _ => Err(format!("a listener needs an address of this host, not a name; {FORM}")),
    }
}

/// Parses a next hop: `HOST:PORT` or `[IPV6]:PORT`, where the host may be a name, or `srv:NAME`; and perhaps ` weight=N`
/// after it.
///
/// # Errors
/// The text has none of these forms, the port is not 1 to 65535, the weight is not 1 to 256, or the address cannot be
/// dialled.
pub(crate) fn next_hop(text: &str) -> Result<NextHop, String> {
    let (address, weight) = match text.split_once(' ') {
        Some((address, rest)) if rest.trim_start().starts_with("weight") => (address, weight(rest.trim())?),
        _ => (text, 1),
    };
    Ok(NextHop { weight, ..unweighted(address)? })
}

/// Parses the weight of a next hop, as nginx writes it: `weight=3`.
fn weight(text: &str) -> Result<u32, String> {
    const FORM: &str = "write a weight from 1 to 256, such as \"b1:6000 weight=3\"";
    match text.strip_prefix("weight=").map(str::parse) {
        Some(Ok(weight @ 1..=256)) => Ok(weight),
        Some(Ok(0)) => Err(format!("a next hop of weight 0 gets no flow; leave it out, or {FORM}")),
        _ => Err(FORM.into()),
    }
}

fn unweighted(text: &str) -> Result<NextHop, String> {
    const FORM: &str = "write HOST:PORT or [IPV6]:PORT, such as \"10.20.20.20:6000\"";
    if text.contains("://") {
        return Err(format!("it is a URL; {FORM}"));
    }
    if let Some(address) = socat_address(text) {
        let left_out = left_out(untold(text, &[]));
        return Err(format!("the prefix of socat is not needed; write \"{address}\"{left_out}"));
    }
    if text.contains(',') {
        return Err("several next hops need a list: write to = [\"a:6000\", \"b:6000\"]".into());
    }
    if let Some(name) = srv_name(text) {
        return name.map(NextHop::srv);
    }
    let (host, port) = host_and_port(text, Leg::Dial, "a host and a port", FORM)?;
    match host.parse::<IpAddr>() {
        Ok(address) if address.is_unspecified() || address.is_multicast() => {
            Err(format!("{address} cannot be dialled; write the next hop's own address"))
        }
        Ok(address) => Ok(NextHop::new(address.to_string(), port)),
        Err(_) if host.contains(':') => Err(format!("`{host}` is not an IPv6 address; {FORM}")),
        Err(_) if looks_numeric(host) => Err(format!("`{host}` is not an IPv4 address; {FORM}")),
        Err(_) if !is_host_name(host) => Err(format!("`{host}` is not a host name; {FORM}")),
        Err(_) => Ok(NextHop::new(host, port)),
    }
}

/// Returns the name in `srv:NAME`, or `None` for any other text. `srv:22` is port 22 of a host with the name `srv`.
///
/// # Errors
/// The text is not the name of a service (RFC 2782), or has a port.
fn srv_name(text: &str) -> Option<Result<&str, String>> {
    const FORM: &str = "write srv:_SERVICE._tcp.DOMAIN, such as \"srv:_relay._tcp.b.example\"";
    let name = text.strip_prefix("srv:").filter(|rest| !rest.bytes().all(|byte| byte.is_ascii_digit()))?;
    Some(match name.split_once(':') {
        Some((name, _)) => Err(format!("an SRV name has its ports in the answer; write \"srv:{name}\"")),
        None if name.starts_with('_') && name.contains('.') && is_host_name(name) => Ok(name),
        None => Err(format!("`{name}` is not the name of a service; {FORM}")),
    })
}

/// Parses an entry of `allow` or of `ftp.data_from`: a network such as `10.0.0.0/8`, or one address.
///
/// # Errors
/// The text is neither, or its address has bits to the right of the prefix.
pub fn network(text: &str) -> Result<IpNet, String> {
    const FORM: &str = "write a network such as \"10.0.0.0/8\" or one address";
    if let Ok(address) = text.parse::<IpAddr>() {
        return unmapped(IpNet::from(address));
    }
    let with_zone = text.split_once('%').filter(|(address, _)| address.parse::<Ipv6Addr>().is_ok());
    if let Some((address, zone)) = with_zone {
        let prefix = zone.find('/').map_or("", |at| &zone[at..]);
        return Err(format!("addresses are compared without their zone (%interface); write \"{address}{prefix}\""));
    }
    if let Some((address, mask)) = text.split_once('/') {
        if let Some(net) = masked(address, mask) {
            return Err(format!("it has a netmask where a prefix length belongs; write \"{}\"", net.trunc()));
        }
        let (max, version) = if address.contains(':') { (128, 6) } else { (32, 4) };
        if address.parse::<IpAddr>().is_ok() && text.parse::<IpNet>().is_err() {
            return Err(format!("the prefix length of IPv{version} is 0 to {max}; {FORM}"));
        }
    }
    match text.parse::<IpNet>() {
        Ok(net) if net.trunc() != net => Err(format!(
            "the address has bits beyond its prefix length; write \"{}\", or \"{}\" for one host",
            net.trunc(),
            net.addr()
        )),
        Ok(net) => unmapped(net),
        Err(_) if matches!(text, "*" | "any" | "all") => {
            Err("write [\"0.0.0.0/0\", \"::/0\"] for every address".into())
        }
        Err(_) if is_host_name(text) && !text.starts_with(|c: char| c.is_ascii_digit()) => {
            Err(format!("a host name is not possible here; {FORM}"))
        }
        Err(_) => Err(format!("it is not an address; {FORM}")),
    }
}

/// Parses the name of a tunnel: 1 to 64 letters, digits, `.`, `_` and `-`.
///
/// # Errors
/// The text has another character or another length.
pub fn name(text: &str) -> Result<String, String> {
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
    match text.len() {
        1..=64 if plain => Ok(text.into()),
        _ => Err("write 1 to 64 letters, digits, dots, dashes and underscores, such as \"ssh-to-b\"".into()),
    }
}

/// Returns the policy with this name.
///
/// # Errors
/// No policy has this name.
pub(crate) fn policy(text: &str) -> Result<&'static Policy, String> {
    let names = || POLICIES.iter().map(|policy| policy.name);
    POLICIES.iter().find(|policy| policy.name == text).ok_or_else(|| match suggest::nearest(text, names()) {
        Some(near) => format!("there is no such policy; did you mean \"{near}\"?"),
        None => format!("there is no such policy; write one of: {}", names().collect::<Vec<_>>().join(" ")),
    })
}

/// Parses an absolute path shorter than `max` bytes; `form` says what to write.
///
/// # Errors
/// The path is relative or too long, or has a NUL.
pub(crate) fn path(text: &str, max: usize, form: &str) -> Result<PathBuf, String> {
    let is_path = text.starts_with('/') && text.len() < max && !text.contains('\0');
    if is_path { Ok(text.into()) } else { Err(form.into()) }
}

/// Parses a number in `range`; `form` says what to write.
///
/// # Errors
/// The text is not a number, or the number is not in `range`.
pub(crate) fn number<N: FromStr + PartialOrd>(text: &str, range: RangeInclusive<N>, form: &str) -> Result<N, String> {
    text.replace('_', "").parse().ok().filter(|number| range.contains(number)).ok_or_else(|| form.into())
}

/// Parses a maximum number of flows, 1 or more.
///
/// # Errors
/// The text is not a number, or it is 0.
pub(crate) fn max_flows(text: &str) -> Result<usize, String> {
    match text.replace('_', "").parse() {
        Ok(0) => Err("with 0 flows the tunnel carries nothing; write 1 or more, or leave it out for no limit".into()),
        Ok(count) => Ok(count),
        Err(_) => Err("write a number of flows, such as 1000".into()),
    }
}

/// Parses the time that one address has to answer a dial.
///
/// # Errors
/// The text is not a time from 100 ms to 10 min.
pub(crate) fn connect_timeout(text: &str) -> Result<Duration, String> {
    const FORM: &str = "write a time from 100ms to 10min, such as \"10s\"";
    time(text, Duration::from_millis(100)..=Duration::from_secs(600), FORM)
}

/// Parses a time in `range`. `form` says what to write.
///
/// # Errors
/// The text is not a time, or the time is not in `range`.
pub(crate) fn time(text: &str, range: RangeInclusive<Duration>, form: &str) -> Result<Duration, String> {
    let time = longhaul_units::duration(text).map_err(|err| format!("{err}; {form}"))?;
    if range.contains(&time) { Ok(time) } else { Err(format!("it is out of range; {form}")) }
}

/// Returns the value of `words` that has the name `text`.
///
/// # Errors
/// None has. The message lists the names.
pub(crate) fn word<T: Copy>(text: &str, words: &[(&str, T)]) -> Result<T, String> {
    let found = words.iter().find(|(name, _)| *name == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<String> = words.iter().map(|(name, _)| format!("\"{name}\"")).collect();
        let (last, before) = names.split_last().map_or(("", &[][..]), |(last, before)| (last, before));
        format!("write {} or {last}", before.join(", "))
    })
}

/// Parses the time between two checks of a next hop.
///
/// # Errors
/// The text is not a time from 100 ms to 1 h.
pub(crate) fn check_interval(text: &str) -> Result<Duration, String> {
    time(text, Duration::from_millis(100)..=Duration::from_secs(3600), "write a time from 100ms to 1h, such as \"5s\"")
}

/// Parses the time that a drain waits; `0` means that it does not wait.
///
/// # Errors
/// The text is not a time.
pub(crate) fn drain_timeout(text: &str) -> Result<Duration, String> {
    longhaul_units::duration(text).map_err(|err| format!("{err}; write a time such as \"30s\" or \"1h\""))
}

/// Parses the address to dial from.
///
/// # Errors
/// The text is not an address that a host can have.
pub(crate) fn source(text: &str) -> Result<IpAddr, String> {
    match text.parse::<IpAddr>() {
        Ok(address) if address.is_unspecified() => {
            Err("leave `source` out to let the kernel choose the address".into())
        }
        Ok(address) if address.is_multicast() => Err("TCP has no multicast; write an address of this host".into()),
        Ok(address) => Ok(address),
        Err(_) => Err(zone(text, Leg::Dial)
            .unwrap_or("write an address of this host without a port, such as \"10.10.10.20\"".into())),
    }
}

/// Parses `true` or `false`.
///
/// # Errors
/// The text is neither.
pub(crate) fn switch(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| "write true or false".into())
}

/// Translates socat's two addresses, if `args` has them, into flags of `longhaul relay`:
/// `TCP4-LISTEN:6000,fork TCP:b:6000` becomes `--listen 0.0.0.0:6000 --to b:6000`. Names the options left out.
pub fn socat_line<'a>(mut args: impl Iterator<Item = &'a str>) -> Option<String> {
    let (listener, listen) = args.by_ref().find_map(|arg| Some((arg, socat_listener(arg)?)))?;
    let (address, to) = args.find_map(|arg| Some((arg, socat_address(arg)?)))?;
    let mut flags = format!("--listen {listen} --to {to}");
    // Every option that is not translated must be named: a pasted line must not silently let more clients in.
    let mut kept = [vec!["bind"], vec![]];
    let max_children = option(listener, "max-children").and_then(|text| max_flows(text).ok());
    let bind = option(address, "bind").and_then(|text| source(text).ok());
    for (flag, value, side, key) in [
        ("allow", option(listener, "range").and_then(range), 0, "range"),
        ("max-flows", max_children.map(|count| count.to_string()), 0, "max-children"),
        ("source", bind.map(|address| address.to_string()), 1, "bind"),
    ] {
        if let Some(value) = value {
            flags += &format!(" --{flag} {value}");
            kept[side].push(key);
        }
    }
    flags += &left_out(untold(listener, &kept[0]).chain(untold(address, &kept[1])));
    Some(flags)
}

/// Returns the value of the option `key` in the socat address `text`.
fn option<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    options(text).find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

/// Translates the value of socat's `range=` for `--allow`: `10.0.0.0/8`, `10.0.0.0:255.0.0.0` or `[2001:db8::/32]`.
fn range(text: &str) -> Option<String> {
    let by_mask = text.split_once(':').and_then(|(address, mask)| masked(address, mask));
    if let Some(net) = by_mask {
        return Some(net.trunc().to_string());
    }
    let bare = text.strip_prefix('[').and_then(|inside| inside.strip_suffix(']')).unwrap_or(text);
    network(bare).is_ok().then(|| bare.into())
}

/// Returns the options of the socat address `text`: the words after its first comma.
fn options(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').skip(1)
}

/// Returns the options of the socat address `text` that a translation leaves out. These are the options that are neither in
/// `kept` nor always on in longhaul.
fn untold<'a>(text: &'a str, kept: &[&str]) -> impl Iterator<Item = &'a str> {
    const NEEDLESS: [&str; 5] = ["fork", "reuseaddr", "nodelay", "keepalive", "pf"];
    options(text).filter(|option| {
        let name = option.split('=').next().unwrap_or_default();
        !NEEDLESS.contains(&name) && !kept.contains(&name)
    })
}

/// Returns a clause that names the socat `options` left out of a translation; empty if there are none.
fn left_out<'a>(options: impl Iterator<Item = &'a str>) -> String {
    match options.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => none,
        some => {
            format!("; that leaves out {some}: /usr/share/doc/longhaul/docs/from-socat.md says what to write instead")
        }
    }
}

/// Translates socat's `TCP4-LISTEN:6000,bind=10.0.0.1,fork` into an address to listen on, from its family, port and address.
/// By default socat listens only on IPv4 (socat(1), -4). The result names the family, because `6000` would also listen on
/// IPv6.
fn socat_listener(text: &str) -> Option<String> {
    let (kind, rest) = text.split_once(':')?;
    let any = match (&*kind.to_ascii_uppercase(), option(text, "pf")) {
        ("TCP6-LISTEN" | "TCP6-L", _) | ("TCP-LISTEN" | "TCP-L", Some("ip6" | "inet6")) => "[::]",
        ("TCP-LISTEN" | "TCP-L" | "TCP4-LISTEN" | "TCP4-L", _) => "0.0.0.0",
        _ => return None,
    };
    let port = rest.split(',').next()?;
    let host = option(text, "bind").unwrap_or(any);
    Some(if host.parse::<Ipv6Addr>().is_ok() { format!("[{host}]:{port}") } else { format!("{host}:{port}") })
}

/// Returns the host and port of socat's `TCP4:b:6000,nodelay`.
fn socat_address(text: &str) -> Option<&str> {
    let (kind, rest) = text.split_once(':')?;
    let plain = ["TCP", "TCP4", "TCP6", "TCP-CONNECT", "TCP4-CONNECT", "TCP6-CONNECT"];
    let is_socat = plain.iter().any(|known| known.eq_ignore_ascii_case(kind)) && rest.contains(':');
    is_socat.then(|| rest.split(',').next()).flatten()
}

/// Parses the host, without brackets, and the port of `text`, which should be `what`, as `form` says. The host is for `leg`.
///
/// # Errors
/// It has another form, or the host has a zone.
fn host_and_port<'a>(text: &'a str, leg: Leg, what: &str, form: &str) -> Result<(&'a str, u16), String> {
    let (host, port_text) = split(text).ok_or_else(|| bare_v6(text).unwrap_or(format!("it is not {what}; {form}")))?;
    let port = port(port_text)?;
    match zone(host, leg) {
        Some(why) => Err(why),
        None => Ok((host, port)),
    }
}

/// Splits `text` into the host, without brackets, and the port. Returns `None` unless there is exactly one colon outside of
/// brackets.
fn split(text: &str) -> Option<(&str, &str)> {
    let (host, port) = text.rsplit_once(':')?;
    match host.strip_prefix('[') {
        Some(inside) => inside.strip_suffix(']').map(|host| (host, port)),
        None if host.contains(':') => None,
        None => Some((host, port)),
    }
}

/// Returns a clause about an IPv6 address without brackets or without a port; `None` for any other text.
fn bare_v6(text: &str) -> Option<String> {
    if text.parse::<Ipv6Addr>().is_ok() {
        // `::1:6000` is a valid address, but may be meant as address and port.
        let (host, port) = text.rsplit_once(':')?;
        let meant = host.parse::<Ipv6Addr>().is_ok() && port.parse::<u16>().is_ok();
        let with = if meant { format!("\"[{host}]:{port}\"") } else { format!("\"[{text}]:6000\"") };
        return Some(format!("an IPv6 address needs brackets and a port; write {with}"));
    }
    let (host, port) = text.rsplit_once(':')?;
    (host.parse::<Ipv6Addr>().is_ok() && port.parse::<u16>().is_ok())
        .then(|| format!("an IPv6 address needs brackets; write \"[{host}]:{port}\""))
}

/// Returns a clause about an address with a zone such as `fe80::1%eth0` (RFC 4007). The leg's option `bind-device` has the
/// same effect.
fn zone(host: &str, leg: Leg) -> Option<String> {
    let (address, device) = host.split_once('%')?;
    let address: Ipv6Addr = address.parse().ok()?;
    Some(format!(
        "zones are not supported; write {address} without %{device}, and the option {leg}.bind-device = \"{device}\""
    ))
}

fn port(text: &str) -> Result<u16, String> {
    match text.parse::<u16>() {
        Ok(0) => Err("port 0 means any free port, which no client could know; write a port from 1 to 65535".into()),
        Ok(port) if text.bytes().all(|byte| byte.is_ascii_digit()) => Ok(port),
        _ => Err(format!("`{text}` is not a port; write a number from 1 to 65535")),
    }
}

/// Refuses an IPv4-mapped IPv6 network. The relay compares clients by their IPv4 address on every listener, so such a network
/// would never match.
fn unmapped(net: IpNet) -> Result<IpNet, String> {
    let IpNet::V6(v6) = net else { return Ok(net) };
    match v6.addr().to_ipv4_mapped() {
        Some(v4) if v6.prefix_len() >= 96 => {
            Err(format!("IPv4 clients are compared by their IPv4 address; write \"{v4}/{}\"", v6.prefix_len() - 96))
        }
        _ => Ok(net),
    }
}

fn masked(address: &str, mask: &str) -> Option<Ipv4Net> {
    let (address, mask): (Ipv4Addr, Ipv4Addr) = (address.parse().ok()?, mask.parse().ok()?);
    Ipv4Net::with_netmask(address, mask).ok()
}

/// Returns whether `host` has only digits and dots, and is thus meant as an IPv4 address.
fn looks_numeric(host: &str) -> bool {
    !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// Returns whether `host` is a host name by RFC 1123 2.1. Underscores are also allowed, because some sites use them.
pub fn is_host_name(host: &str) -> bool {
    let label = |label: &str| {
        let plain = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        (1..=63).contains(&label.len()) && plain && !label.starts_with('-')
    };
    host.len() <= 253 && host.strip_suffix('.').unwrap_or(host).split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn listen_addresses() {
        assert_eq!(listen("6000"), Ok("[::]:6000".parse().unwrap()));
        assert_eq!(listen("10.0.0.1:6000"), Ok("10.0.0.1:6000".parse().unwrap()));
        assert_eq!(listen("[::1]:6000"), Ok("[::1]:6000".parse().unwrap()));
        for bad in ["", ":", ":6000", "[::1]"] {
            assert!(listen(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn next_hops() {
        let hop = |host: &str, port| Ok(NextHop::new(host, port));
        assert_eq!(next_hop("b.example.com:22"), hop("b.example.com", 22));
        assert_eq!(next_hop("[2001:db8::0:1]:22"), hop("2001:db8::1", 22));
        assert_eq!(next_hop("10.20.20.20:22"), hop("10.20.20.20", 22));
        assert_eq!(next_hop("b:22 weight=256"), Ok(NextHop { weight: 256, ..NextHop::new("b", 22) }));
        for bad in ["b:22 weight=257", "b:22 weight", "b:22 weight=3 x", "weight=3", "b:+22", ":22"] {
            assert!(next_hop(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn srv_names() {
        let name = "_relay._tcp.b.example";
        assert_eq!(next_hop(&format!("srv:{name}")), Ok(NextHop::srv(name)));
        assert_eq!(next_hop(&format!("srv:{name} weight=3")), Ok(NextHop { weight: 3, ..NextHop::srv(name) }));
        assert_eq!(next_hop("srv:22"), Ok(NextHop::new("srv", 22)));
        for bad in ["srv:_relay", "srv:_relay..b", "srv:_relay._tcp.b example"] {
            assert!(next_hop(bad).is_err(), "{bad}");
        }
        for text in ["b:22", "[2001:db8::1]:22", "10.0.0.1:22", "srv:_relay._tcp.b.example"] {
            let hop = next_hop(text).unwrap();
            assert_eq!((hop.to_string().as_str(), hop.is_srv()), (text, text.starts_with("srv")));
        }
    }

    #[test]
    fn socat_s_addresses_are_translated() {
        for (text, meant) in [
            ("TCP4-LISTEN:6000,fork,reuseaddr", "\"0.0.0.0:6000\""),
            ("tcp4-l:6000", "\"0.0.0.0:6000\""),
            ("tcp-listen:6000", "\"0.0.0.0:6000\""),
            ("TCP-LISTEN:6000,pf=ip6", "\"[::]:6000\""),
            ("TCP-LISTEN:6000,pf=ip4,fork", "\"0.0.0.0:6000\""),
            ("TCP6-LISTEN:6000,fork", "\"[::]:6000\""),
            ("TCP-L:6000,fork,bind=10.10.10.20,range=10.0.0.0/8", "\"10.10.10.20:6000\""),
            ("TCP6-LISTEN:6000,bind=[::1]", "\"[::1]:6000\""),
            ("TCP6-LISTEN:6000,bind=::1", "\"[::1]:6000\""),
        ] {
            assert!(
                listen(text).unwrap_err().starts_with(&format!("this is an address of socat; write {meant}")),
                "{text}"
            );
        }
        for (text, meant) in [("TCP4:b:6000", "\"b:6000\""), ("tcp:b:6000,nodelay", "\"b:6000\"")] {
            assert!(next_hop(text).unwrap_err().ends_with(&format!("write {meant}")), "{text}");
        }
        let unsafe_without = listen("TCP-L:6000,fork,range=10.0.0.0/8,su=nobody").unwrap_err();
        assert!(unsafe_without.contains("leaves out range=10.0.0.0/8, su=nobody: "), "{unsafe_without}");
        assert_eq!(next_hop("tcp:22").unwrap().host, "tcp", "`tcp` can be the name of a host");
    }

    #[test]
    fn a_whole_line_of_socat_is_translated() {
        let line = |text: &'static str| socat_line(text.split(' '));
        assert_eq!(
            line("relay TCP-LISTEN:6001,fork TCP4:b:6000").as_deref(),
            Some("--listen 0.0.0.0:6001 --to b:6000")
        );
        assert_eq!(
            line("-d TCP-LISTEN:1,bind=10.0.0.1,range=10.0.0.0/8,fork,max-children=9 TCP:b:2,bind=10.0.0.2").as_deref(),
            Some("--listen 10.0.0.1:1 --to b:2 --allow 10.0.0.0/8 --max-flows 9 --source 10.0.0.2")
        );
        let with_more = line("TCP-L:1,fork,su=nobody,range=10.0.0.0/8 TCP:b:2,retry=5,nodelay").unwrap();
        assert!(
            with_more
                .starts_with("--listen 0.0.0.0:1 --to b:2 --allow 10.0.0.0/8; that leaves out su=nobody, retry=5: "),
            "{with_more}"
        );
        assert_eq!(line("relay TCP4-LISTEN:6001,fork"), None);
        assert_eq!(line("relay b:6000"), None);
    }

    #[test]
    fn a_socat_range_is_translated_or_named_as_left_out() {
        for (range, allow) in [
            ("10.0.0.0:255.255.255.0", "10.0.0.0/24"),
            ("10.0.0.5:255.255.255.0", "10.0.0.0/24"),
            ("10.0.0.5", "10.0.0.5"),
            ("[2001:db8::/32]", "2001:db8::/32"),
        ] {
            let line = format!("TCP-L:1,fork,range={range} TCP:b:2");
            let flags = format!("--listen 0.0.0.0:1 --to b:2 --allow {allow}");
            assert_eq!(socat_line(line.split(' ')), Some(flags), "{range}");
        }
        for refused in ["10.0.0.5/24", "10.0.0.0:255.0.255.0", "lan.example/24", ""] {
            let line = format!("TCP-L:1,range={refused},max-children=0 TCP:b:2,bind=10.0.0.2:5000");
            let flags = socat_line(line.split(' ')).unwrap();
            let named = format!(
                "--listen 0.0.0.0:1 --to b:2; that leaves out range={refused}, max-children=0, bind=10.0.0.2:5000: "
            );
            assert!(flags.starts_with(&named), "{flags}");
        }
    }

    #[test]
    fn networks() {
        assert_eq!(network("10.0.0.0/8"), Ok("10.0.0.0/8".parse().unwrap()));
        assert_eq!(network("10.1.2.3"), Ok("10.1.2.3/32".parse().unwrap()));
        assert_eq!(network("2001:db8::/32"), Ok("2001:db8::/32".parse().unwrap()));
        assert!(network("fe80::%eth0/10").unwrap_err().contains("write \"fe80::/10\""));
        for bad in ["", "/", "10.0.0.0/", "::/129", "10.0.0.0/8/8", "10.0.0.300"] {
            assert!(network(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC*") {
            let _ = (listen(&text), next_hop(&text), network(&text), name(&text), policy(&text), max_flows(&text));
            let _ = (connect_timeout(&text), drain_timeout(&text), source(&text), switch(&text));
        }

        #[test]
        fn accepted_networks_have_no_host_bits(text in "[0-9a-f:./]{1,20}") {
            if let Ok(net) = network(&text) {
                prop_assert_eq!(net.trunc(), net);
            }
        }
    }
}
