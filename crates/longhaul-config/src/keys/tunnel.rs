//! The keys of a `[[tunnel]]`.

use crate::keys::remark::{Remark, Syntax, no_remarks};
use crate::keys::row::{Argument, Flag, KeyDefault, KeyValue, Row, list, no_line};
use crate::keys::{addresses, bandwidth, clients, ftp, leg, probes};
use crate::options::Leg;
use crate::tunnel::{Check, CheckBy, NextHop, Tunnel};
use crate::{loops, value};
use longhaul_core::wire::probe::MAX_HOPS;
use longhaul_units::show_duration;
use std::net::IpAddr;

/// The keys of a `[[tunnel]]`, in the order of the manual.
pub const TUNNEL: &[Row<Tunnel>] = &[
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
        check: addresses::link_local_listener,
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
            let link_local = addresses::link_local_hops(tunnel, syntax);
            [dials_itself(tunnel), link_local, addresses::repeated_hops(tunnel), needless_weight(tunnel)].concat()
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
        name: "check",
        default: KeyDefault::Value("\"none\""),
        example: "\"tcp\"",
        flag: Some(Flag {
            name: "check",
            argument: Argument::Named("KIND"),
            short: "Active checks of next hops",
            long: "none, tcp or verify. With tcp, longhaul connects to each next hop every 5 seconds, and resets the connection. \
                   With verify, the next hops are relays, and it sends a probe through each to the final host. A next hop \
                   that fails three checks in a row is not dialled until two checks in a row succeed.",
        }),
        value: KeyValue::One(|tunnel, text| value::word(text, CHECKS).map(|by| tunnel.check.by = by)),
        show: |tunnel| {
            let Check { by, interval, rise, fall } = tunnel.check;
            let (interval, timeout) = (show_duration(interval), show_duration(tunnel.check.timeout()));
            let (what, good) = match by? {
                CheckBy::Tcp => ("checks each next hop", "answers"),
                CheckBy::Verify => ("sends a probe through each next hop", "successes"),
            };
            Some(format!("{what} every {interval} for {timeout}: {fall} failures are down, {rise} {good} are up"))
        },
        check: |tunnel, syntax| [checks_nothing(tunnel), probes::through_no_relay(tunnel, syntax)].concat(),
        doc: "Active checks of the next hops: `\"none\"`; `\"tcp\"`, which connects to each next hop and resets the \
              connection at once; or `\"verify\"`, which sends a probe through each next hop to the final host. A next hop whose checks fail is not dialled: [active checks](next-hops.md#active-checks).",
    },
    Row {
        name: "check_interval",
        default: KeyDefault::Value("\"5s\""),
        example: "\"2s\"",
        flag: None,
        value: KeyValue::One(|tunnel, text| value::check_interval(text).map(|time| tunnel.check.interval = time)),
        show: no_line, // the line of `check` has it
        check: no_remarks,
        doc: "Time from the beginning of one check of a next hop to the next, 100 ms to 1 h. With `tcp` a check has 3 s, with `verify` the interval, but at least 5 s and at most 1 min. The next round waits for the last check.",
    },
    Row {
        name: "rise",
        default: KeyDefault::Value("2"),
        example: "3",
        flag: None,
        value: KeyValue::Number(|tunnel, text| checks(text).map(|count| tunnel.check.rise = count)),
        show: no_line,
        check: no_remarks,
        doc: "Number of good checks in a row after which a next hop is dialled again, 1 to 100.",
    },
    Row {
        name: "fall",
        default: KeyDefault::Value("3"),
        example: "2",
        flag: None,
        value: KeyValue::Number(|tunnel, text| checks(text).map(|count| tunnel.check.fall = count)),
        show: no_line,
        check: no_remarks,
        doc: "Number of failed checks in a row after which a next hop is no longer dialled, 1 to 100.",
    },
    Row {
        name: "allow",
        default: KeyDefault::Words("everybody"),
        example: "[\"10.0.0.0/8\", \"2001:db8::7\"]",
        flag: Some(Flag {
            name: "allow",
            argument: Argument::Named("CIDR"),
            short: "Who may connect",
            long: "A network such as 10.0.0.0/8, or one address. Several are separated by commas, or the flag is repeated. A \
                   connection from any other address is reset before anything is dialled. Without this flag, anyone who \
                   reaches the port may connect.",
        }),
        value: KeyValue::Several {
            add: |tunnel, text| value::network(text).map(|net| tunnel.allow.push(net)),
            // An empty list may be meant as nobody, but would allow everybody.
            empty: "it is empty; write who may connect, or leave `allow` out to let everybody in",
        },
        show: |tunnel| match tunnel.allow.is_empty() {
            true => Some("allows everybody".into()),
            false => Some(format!("allows {}", list(&tunnel.allow))),
        },
        check: |tunnel, syntax| [open_to_all(tunnel, syntax), addresses::unseen_networks(tunnel)].concat(),
        doc: "Networks and addresses that may connect. A connection from any other address is reset before anything is \
              dialled. Without this key, anyone who reaches the port may connect.",
    },
    clients::PROXY_IN,
    clients::PROXY_OUT,
    Row {
        name: "max_flows",
        default: KeyDefault::Words("no limit"),
        example: "1000",
        flag: Some(Flag {
            name: "max-flows",
            argument: Argument::Named("COUNT"),
            short: "Maximum number of flows",
            long: "A flow is an accepted connection together with the connection that is dialled for it. Further connections \
                   wait in the listen queue. Without this flag, the limit on open files decides.",
        }),
        value: KeyValue::Number(|tunnel, text| value::max_flows(text).map(|count| tunnel.max_flows = Some(count))),
        show: |tunnel| tunnel.max_flows.map(|count| format!("carries up to {count} flows at once")),
        check: no_remarks,
        doc: "Maximum number of flows. Further connections wait in the listen queue. Without this key, the limit on open files \
              decides.",
    },
    clients::MAX_FLOWS_PER_SOURCE,
    clients::NEW_FLOWS_PER_SECOND_PER_SOURCE,
    Row {
        name: "bandwidth",
        default: KeyDefault::Words("no cap"),
        example: "\"200Mbit/s\"",
        flag: Some(Flag {
            name: "bandwidth",
            argument: Argument::Named("RATE"),
            short: "Cap of all flows, or auto",
            long: "Payload that the relay sends for all flows together, in each direction, such as 200Mbit/s. The flows share it \
                   fairly, and a flow that wants less leaves the rest to the others. `auto` finds a cap for each path by itself, a \
                   little below its line's rate, so that the line's queue stays short; `auto 500Mbit/s` keeps all paths below that.",
        }),
        value: KeyValue::One(|tunnel, text| bandwidth::cap(&mut tunnel.bandwidth, text)),
        show: |tunnel| bandwidth::show(&tunnel.bandwidth).map(|cap| format!("bandwidth in each direction: {cap}")),
        check: |tunnel, syntax| {
            let mut remarks = bandwidth::unpaced(&tunnel.bandwidth, tunnel);
            remarks.extend(bandwidth::auto_of_tunnel(tunnel, syntax));
            remarks
        },
        doc: "Cap of all flows of the tunnel together, for the payload that is sent in each direction, 1 Mbit/s to 1000 Gbit/s. \
              See [Limiting the bandwidth](operations.md#limiting-the-bandwidth).",
    },
    Row {
        name: "bandwidth_schedule",
        default: KeyDefault::Words("none"),
        example: "[\"Mon-Fri 08:00-18:00 200Mbit/s\", \"Sat 22:00-06:00 none\"]",
        flag: None, // its name would not fit beside the short help
        value: KeyValue::Several {
            add: |tunnel, text| bandwidth::window(text).map(|window| tunnel.bandwidth.schedule.push(window)),
            empty: "it is empty; write a window such as \"Mon-Fri 08:00-18:00 200Mbit/s\", or leave the key out",
        },
        // `bandwidth` shows it.
        show: no_line,
        check: |tunnel, _| bandwidth::without_effect(&tunnel.bandwidth),
        doc: "Windows of the week in which another cap holds than `bandwidth`: days, times and rate, in local time. `none` \
              means no cap. Without days, the window is for every day. A window may pass midnight. The first window that holds \
              the time decides. Outside of all windows, `bandwidth` holds.",
    },
    Row {
        name: "flow_bandwidth",
        default: KeyDefault::Words("no cap"),
        example: "\"50Mbit/s\"",
        flag: Some(Flag {
            name: "flow-bandwidth",
            argument: Argument::Named("RATE"),
            short: "Cap of each flow",
            long: "Payload that the relay sends for one flow in each direction, such as 50Mbit/s.",
        }),
        value: KeyValue::One(|tunnel, text| bandwidth::rate(text).map(|rate| tunnel.flow_bandwidth = Some(rate))),
        show: |tunnel| tunnel.flow_bandwidth.map(|cap| format!("bandwidth of a flow in each direction: {cap}")),
        check: |tunnel, _| match tunnel.flow_bandwidth {
            Some(_) => bandwidth::unpaced_by(tunnel, "flow_bandwidth"),
            None => Vec::new(),
        },
        doc: "Cap of each flow, for the payload that is sent in each direction, 1 Mbit/s to 1000 Gbit/s.",
    },
    Row {
        name: "priority",
        default: KeyDefault::Value("\"normal\""),
        example: "\"background\"",
        flag: Some(Flag {
            name: "priority",
            argument: Argument::Named("PRIORITY"),
            short: "normal, or background",
            long: "`background` takes what other tunnels' flows, and other programs on the line, leave. Needs `--bandwidth auto`.",
        }),
        value: KeyValue::One(|tunnel, text| {
            value::word(text, PRIORITIES).map(|is_background| tunnel.is_background = is_background)
        }),
        show: |tunnel| tunnel.is_background.then(|| "its flows take what others leave".into()),
        check: no_remarks, // the daemon's `bandwidth` looks for it
        doc: "`\"background\"`: the tunnel's flows take what the flows of other tunnels leave, and what other programs on the line \
              leave, at least 5 % of the path's rate. Needs `bandwidth = \"auto\"` of the daemon.",
    },
    Row {
        name: "connect_timeout",
        default: KeyDefault::Value("\"10s\""),
        example: "\"5s\"",
        flag: Some(Flag {
            name: "connect-timeout",
            argument: Argument::Named("TIME"),
            short: "Time limit for one dial",
            long: "100ms to 10min. When a next hop's name has several addresses, each of them has this time to answer. \
                   Resolving the name may take the same time again. The kernel sends SYNs after 0, 1, 3 and 7 seconds, so \
                   the default allows for three lost SYNs.",
        }),
        value: KeyValue::One(|tunnel, text| value::connect_timeout(text).map(|time| tunnel.connect_timeout = time)),
        show: |tunnel| Some(format!("waits {} for an address to answer", show_duration(tunnel.connect_timeout))),
        check: no_remarks,
        doc: "Time that one address of a next hop has to answer, 100 ms to 10 min. Resolving the next hop's name may take the \
              same time again. The kernel sends SYNs after 0, 1, 3 and 7 s, so the default allows for three lost SYNs.",
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
        check: |tunnel, syntax| [other_family(tunnel), addresses::link_local_source(tunnel, syntax)].concat(),
        doc: "Address of this host to dial from, of the same family (IPv4 or IPv6) as the next hops. A link-local IPv6 address \
              needs `dial = { bind-device = \"eth0\" }`.",
    },
    Row {
        name: "splice",
        default: KeyDefault::Value("true"),
        example: "false",
        flag: Some(Flag {
            name: "no-splice",
            argument: Argument::Means("false"),
            short: "Copy bytes through user space",
            long: "Without this flag, bytes stay in the kernel, which moves them with splice(2). Copying is slower. Use this \
                   flag only where splice of the kernel or of a network driver is broken.",
        }),
        value: KeyValue::One(|tunnel, text| value::switch(text).map(|on| tunnel.splice = on)),
        show: |tunnel| (!tunnel.splice).then(|| "copies through user space".into()),
        check: no_remarks,
        doc: "`true` moves bytes inside the kernel with splice(2). `false` copies them through user space, which is slower. Use \
              `false` only where splice of the kernel or of a network driver is broken.",
    },
    probes::VERIFY,
    Row {
        name: "verify_hops",
        default: KeyDefault::Words("1"),
        example: "0",
        flag: Some(Flag {
            name: "verify-hops",
            argument: Argument::Named("COUNT"),
            short: "Relays after this one",
            long: "0 to 8, for `longhaul verify`. With 0 the next hop is the final host, and a probe is answered here. Without this flag, a probe from \
                   this host is passed on to the next hop, which must then be a relay. A probe from another host is not.",
        }),
        value: KeyValue::Number(|tunnel, text| verify_hops(text).map(|hops| tunnel.verify_hops = Some(hops))),
        show: |tunnel| match tunnel.verify_hops? {
            0 => Some("answers probes: the next hop is the final host".into()),
            1 => Some("passes probes on to 1 more relay".into()),
            hops => Some(format!("passes probes on to {hops} more relays")),
        },
        check: no_remarks,
        doc: "Number of relays after this one, 0 to 8, for [`longhaul verify`](operations.md#verifying-a-tunnel). With `0` the \
              next hop is the final host, and a probe is never passed on. Write `0` on the last relay. Without this key, the \
              relay passes on a probe that comes from its own host, and refuses to pass on one that comes from another host.",
    },
    Row {
        name: "verify_final",
        default: KeyDefault::Value("true"),
        example: "false",
        flag: Some(Flag {
            name: "no-verify-final",
            argument: Argument::Means("false"),
            short: "Answer probes without a dial",
            long: "A probe then leaves the final host's port alone. The dial waits up to 20 ms for the client's first byte, \
                   which delays protocols in which the server speaks first.",
        }),
        value: KeyValue::One(|tunnel, text| value::switch(text).map(|on| tunnel.verify_final = on)),
        show: |tunnel| (!tunnel.verify_final).then(|| "answers probes without dialling the final host".into()),
        check: no_remarks,
        doc: "`false` on the last relay answers a probe without a dial, so that the final host does not count a connection \
              without a login. To recognise a probe in time, each dial of the tunnel then waits up to 20 ms for the client's \
              first byte. Where the server speaks first, each connection takes 20 ms longer.",
    },
    ftp::PROTOCOL,
    ftp::PORTS,
    ftp::ADVERTISE,
    ftp::DATA_FROM,
    ftp::MODE,
    Row {
        name: "accept",
        default: KeyDefault::Value("{}"),
        example: "{ defer-accept = \"3s\" }",
        flag: None, // `--set accept.KEY=VALUE`
        value: KeyValue::Options { leg: Leg::Accept, of: |tunnel| &mut tunnel.accept },
        show: |tunnel| leg::show(tunnel, Leg::Accept),
        check: |tunnel, _| leg::check(tunnel, Leg::Accept),
        doc: "[Socket options](options.md) of the accept leg, which is the connection from the client.",
    },
    Row {
        name: "dial",
        default: KeyDefault::Value("{}"),
        example: "{ congestion = \"bbr\", mss = 1254 }",
        flag: None, // `--set dial.KEY=VALUE`
        value: KeyValue::Options { leg: Leg::Dial, of: |tunnel| &mut tunnel.dial },
        show: |tunnel| leg::show(tunnel, Leg::Dial),
        check: |tunnel, _| leg::check(tunnel, Leg::Dial),
        doc: "[Socket options](options.md) of the dial leg, which is the connection to the next hop.",
    },
];

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

fn checks_nothing(tunnel: &Tunnel) -> Vec<Remark> {
    if tunnel.check.by.is_some() || tunnel.check == Check::NONE {
        return Vec::new();
    }
    let text = "without checks, check_interval, rise and fall have no effect; write check = \"tcp\"";
    vec![Remark::warning("check", text.into())]
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

fn open_to_all(tunnel: &Tunnel, syntax: Syntax) -> Vec<Remark> {
    if !tunnel.allow.is_empty() || tunnel.listen.ip().to_canonical().is_loopback() {
        return Vec::new();
    }
    let sample = addresses::sample_network(tunnel.listen);
    let better = match syntax {
        Syntax::File => format!("allow = [\"{sample}\"]"),
        Syntax::Flags => format!("--allow {sample}"),
    };
    let text =
        format!("anyone who reaches {} may connect; write {better}, or the networks of your clients", tunnel.listen);
    vec![Remark::warning("allow", text)]
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

fn checks(text: &str) -> Result<u32, String> {
    value::number(text, 1..=100, "write a number of checks from 1 to 100")
}

fn verify_hops(text: &str) -> Result<u8, String> {
    let form = format!("write the number of relays after this one, 0 to {MAX_HOPS}; 0 if it dials the final host");
    value::number(text, 0..=MAX_HOPS, &form)
}

const CHECKS: &[(&str, Option<CheckBy>)] =
    &[("tcp", Some(CheckBy::Tcp)), ("verify", Some(CheckBy::Verify)), ("none", None)];

/// The values of `priority`.
const PRIORITIES: &[(&str, bool)] = &[("normal", false), ("background", true)];
