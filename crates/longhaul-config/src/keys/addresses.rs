//! The keys about the name and the addresses of a tunnel.

use crate::loops;
use crate::next_hop::NextHop;
use crate::options::{Leg, key};
use crate::remark::{Remark, Syntax, no_remarks};
use crate::row::{Argument, Flag, KeyDefault, KeyValue, Row, list, no_line};
use crate::tunnel::Tunnel;
use crate::value;
use ipnet::IpNet;
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

/// The name and the addresses of a tunnel, in the order of the manual.
pub(super) const ROWS: &[Row<Tunnel>] = &[
    Row {
        name: "name",
        default: KeyDefault::RequiredInFile("relay"),
        example: "\"ssh-to-b\"",
        flag: Some(Flag {
            name: "name",
            argument: Argument::Named("NAME"),
            short: "Name of the tunnel in the log",
            long: "1 to 64 characters: letters, digits, dots, dashes and underscores.",
        }),
        value: KeyValue::One(|tunnel, text| value::name(text).map(|name| tunnel.name = name)),
        // The summary has the name above the lines of its tunnel.
        show: no_line,
        check: no_remarks,
        doc: "Name of the tunnel in the log: 1 to 64 letters, digits, `.`, `_` and `-`. No two tunnels have the same name.",
    },
    Row {
        name: "listen",
        default: KeyDefault::Required,
        example: "\"10.10.10.20:6000\"",
        flag: Some(Flag {
            name: "listen",
            argument: Argument::Named("[ADDR:]PORT"),
            short: "Address and port to listen on",
            long: "A port alone listens on every address of this host, IPv4 and IPv6. 0.0.0.0:PORT listens on every IPv4 \
                   address; ADDR:PORT and [IPV6]:PORT listen on one address.",
        }),
        value: KeyValue::One(|tunnel, text| value::listen(text).map(|listen| tunnel.listen = listen)),
        show: |tunnel| Some(format!("listens on {}", tunnel.listen)),
        check: link_local_listener,
        doc: "Address and port to listen on: `\"ADDR:PORT\"` or `\"[IPV6]:PORT\"`. A port alone, such as `6000`, listens on \
              every address of the host, IPv4 and IPv6. `\"0.0.0.0:6000\"` listens on every IPv4 address. Two tunnels cannot \
              listen on the same address and port. A link-local IPv6 address needs its interface: leave `%eth0` out and \
              write `accept = { bind-device = \"eth0\" }`.",
    },
    Row {
        name: "to",
        default: KeyDefault::Required,
        example: "[\"10.20.20.20:6000\"]",
        flag: Some(Flag {
            name: "to",
            argument: Argument::Named("HOST:PORT"),
            short: "Next hop to dial; several separated by commas",
            long: "HOST:PORT, [IPV6]:PORT, or srv:NAME for an SRV name such as srv:_relay._tcp.b.example, whose answer has \
                   the hosts and ports. The answer for a name is kept for its TTL. Several next hops are separated by \
                   commas, or the flag is repeated; --policy says which one is dialled first. \"b1:6000 weight=3\" gives \
                   a next hop three times the flows of one without a weight.",
        }),
        value: KeyValue::Several {
            add: |tunnel, text| value::next_hop(text).map(|hop| tunnel.to.push(hop)),
            empty: "it is empty; write at least one next hop, such as [\"10.20.20.20:6000\"]",
        },
        show: |tunnel| Some(format!("dials {}", list(&tunnel.to.iter().map(with_weight).collect::<Vec<_>>()))),
        check: |tunnel, syntax| {
            let link_local = link_local_hops(tunnel, syntax);
            [dials_itself(tunnel), link_local, repeated_hops(tunnel), needless_weight(tunnel)].concat()
        },
        doc: "Next hop to dial, or a list of them: `\"HOST:PORT\"`, `\"[IPV6]:PORT\"`, or `\"srv:NAME\"` for an SRV name such as \
              `srv:_relay._tcp.b.example`, whose answer has the hosts and ports. `\"b1:6000 weight=3\"` has a weight from 1 to \
              256; without it the weight is 1. If a name has several addresses, they are tried in turn until one answers. \
              The answer for a name is kept for its TTL: see [Names](operations.md#names). A tunnel that would dial itself, \
              directly or through other tunnels of the file, is refused. A link-local IPv6 address needs \
              `dial = { bind-device = \"eth0\" }`.",
    },
    Row {
        name: "policy",
        default: KeyDefault::Value("\"in-order\""),
        example: "\"least-flows\"",
        flag: Some(Flag {
            name: "policy",
            argument: Argument::Named("POLICY"),
            short: "Next hop dialled first",
            long: "in-order, round-robin, least-flows, least-rtt or source-hash. If a next hop does not answer, the next one \
                   is dialled in each case.",
        }),
        value: KeyValue::One(|tunnel, text| value::policy(text).map(|policy| tunnel.policy = policy)),
        show: |tunnel| (tunnel.to.len() > 1).then(|| format!("order {}: {}", tunnel.policy.name, tunnel.policy.help)),
        check: no_remarks,
        doc: "Which next hop is dialled first; see [policies](#policies).",
    },
    Row {
        name: "source",
        default: KeyDefault::Words("kernel's choice"),
        example: "\"10.10.10.20\"",
        flag: Some(Flag {
            name: "source",
            argument: Argument::Named("ADDR"),
            short: "Address to dial from",
            long: "An address of this host, of the same family (IPv4 or IPv6) as the next hops.",
        }),
        value: KeyValue::One(|tunnel, text| value::source(text).map(|source| tunnel.source = Some(source))),
        show: |tunnel| tunnel.source.map(|source| format!("dials from {source}")),
        check: |tunnel, syntax| [other_family(tunnel), link_local_source(tunnel, syntax)].concat(),
        doc: "Address of this host to dial from, of the same family (IPv4 or IPv6) as the next hops. A link-local IPv6 address \
              needs `dial = { bind-device = \"eth0\" }`.",
    },
];

/// Returns an error if `listen` is link-local and the accept leg has no interface.
fn link_local_listener(tunnel: &Tunnel, syntax: Syntax) -> Vec<Remark> {
    link_local(tunnel, Leg::Accept, "listen", tunnel.listen.ip(), syntax).into_iter().collect()
}

/// Returns a remark about next hops with link-local addresses, if the dial leg has no interface. It is an error if no other
/// next hop is left, and a warning otherwise.
fn link_local_hops(tunnel: &Tunnel, syntax: Syntax) -> Vec<Remark> {
    let remark = |hop: &NextHop| link_local(tunnel, Leg::Dial, "to", hop.host.parse().ok()?, syntax);
    let wrong: Vec<_> = tunnel.to.iter().filter_map(|hop| Some((hop, remark(hop)?))).collect();
    let count = wrong.len();
    let remark = wrong.into_iter().next().map(|(first, remark)| match count < tunnel.to.len() {
        true => {
            let text = format!(
                "{} cannot be dialled, because link-local addresses need an interface; give them a tunnel of their own with \
                 dial.{}",
                and_more(first, count),
                key::BIND_DEVICE
            );
            Remark::warning("to", text)
        }
        false => remark,
    });
    remark.into_iter().collect()
}

/// Returns a warning if `to` has a next hop twice. Letters of a name have no case (RFC 4343), and an IPv4-mapped address is
/// dialled by IPv4.
fn repeated_hops(tunnel: &Tunnel) -> Vec<Remark> {
    let host = |hop: &NextHop| match hop.host.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().to_string(),
        Err(_) => hop.host.to_ascii_lowercase(),
    };
    let mut known = HashSet::new();
    let repeated: Vec<&NextHop> = tunnel.to.iter().filter(|hop| !known.insert((host(hop), hop.port))).collect();
    let Some(first) = repeated.first() else { return Vec::new() };
    let text = format!(
        "{} is in the list already, and is dialled again after it has failed; write it once",
        and_more(first, repeated.len())
    );
    vec![Remark::warning("to", text)]
}

/// Returns an error if `source` is link-local and the dial leg has no interface.
fn link_local_source(tunnel: &Tunnel, syntax: Syntax) -> Vec<Remark> {
    let found = tunnel.source.and_then(|source| link_local(tunnel, Leg::Dial, "source", source, syntax));
    found.into_iter().collect()
}

/// Returns a warning if `allow` lets nobody in: no entry has the IP version of the listener's clients. A list for both versions
/// may serve several tunnels, so an entry that no client has is no mistake by itself.
pub(super) fn unseen_networks(tunnel: &Tunnel) -> Vec<Remark> {
    let Some(only) = only_version(tunnel.listen) else { return Vec::new() };
    let version = |net: &IpNet| if matches!(net, IpNet::V4(_)) { 4 } else { 6 };
    if tunnel.allow.is_empty() || tunnel.allow.iter().any(|net| version(net) == only) {
        return Vec::new();
    }
    let text =
        format!("it lets nobody in: only IPv{only} clients reach {}; write their IPv{only} networks", tunnel.listen);
    vec![Remark::warning("allow", text)]
}

/// Returns a network of the version that clients of `listen` have, as an example for `allow`.
pub(super) fn sample_network(listen: SocketAddr) -> &'static str {
    if only_version(listen) == Some(6) { "2001:db8::/32" } else { "10.0.0.0/8" }
}

/// Returns the only IP version that clients of `listen` have; `None` if they have both, as on `[::]`.
fn only_version(listen: SocketAddr) -> Option<u8> {
    match listen.ip() {
        IpAddr::V4(_) => Some(4),
        IpAddr::V6(any) if any.is_unspecified() => None,
        IpAddr::V6(_) => Some(6),
    }
}

/// Returns the error about `address`, the value of `key`. bind(2) and connect(2) answer EINVAL for a link-local IPv6 address,
/// unless the socket is bound to an interface (ipv6(7), sin6_scope_id).
fn link_local(tunnel: &Tunnel, leg: Leg, key: &str, address: IpAddr, syntax: Syntax) -> Option<Remark> {
    let IpAddr::V6(address) = address else { return None };
    let works = !address.is_unicast_link_local() || tunnel.options(leg).find(key::BIND_DEVICE).is_some();
    let device = key::BIND_DEVICE;
    let option = match syntax {
        Syntax::File => format!("{device} = \"eth0\" to {leg}"),
        Syntax::Flags => format!("--set {leg}.{device}=eth0"),
    };
    (!works).then(|| {
        let text = format!("{address} is link-local and needs an interface: add {option}, with the name of yours");
        Remark::error(key, text)
    })
}

/// Returns `first`, and how many more there are of `count` in all.
fn and_more(first: &NextHop, count: usize) -> String {
    if count > 1 { format!("{first} (and {} more)", count - 1) } else { first.to_string() }
}

fn with_weight(hop: &NextHop) -> String {
    if hop.weight == 1 { hop.to_string() } else { format!("{hop} weight={}", hop.weight) }
}

fn needless_weight(tunnel: &Tunnel) -> Vec<Remark> {
    let policy = tunnel.policy;
    if policy.uses_weights || tunnel.to.iter().all(|hop| hop.weight == 1) {
        return Vec::new();
    }
    let text = format!("policy {} does not use weights; write another policy, such as \"round-robin\"", policy.name);
    vec![Remark::warning("to", text)]
}

fn dials_itself(tunnel: &Tunnel) -> Vec<Remark> {
    // A few are enough: a remark for each of thousands of next hops says no more.
    let own = tunnel.to.iter().filter(|hop| loops::leads_back(tunnel.listen, hop, &|ip| ip.is_loopback())).take(4);
    own.map(|hop| {
        let text = format!(
            "{hop} is this tunnel's own listener ({}): every flow would dial itself; write the next hop's address",
            tunnel.listen
        );
        Remark::error("to", text)
    })
    .collect()
}

fn other_family(tunnel: &Tunnel) -> Vec<Remark> {
    let Some(source) = tunnel.source else { return Vec::new() };
    let differs = |host: IpAddr| host.is_ipv4() != source.is_ipv4();
    let hop = tunnel.to.iter().find(|hop| hop.host.parse().is_ok_and(differs));
    let text = hop.map(|hop| {
        format!("{hop} cannot be dialled from {source}: one is IPv4, the other IPv6; write a source of its family")
    });
    text.map(|text| Remark::error("source", text)).into_iter().collect()
}
