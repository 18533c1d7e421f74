//! The keys about the clients of a tunnel: who may connect, how they are told from the proxy before them, and how many there may be.

use crate::config::Config;
use crate::keys::addresses;
use crate::remark::{Remark, Syntax, no_remarks};
use crate::row::{Argument, Flag, KeyDefault, KeyValue, Row, list};
use crate::tunnel::Tunnel;
use crate::value;
use longhaul_core::proxy_header::{Accepts, Version};
use longhaul_core::sources::MAX_RATE;

/// The keys of a tunnel about its clients and their number, in the order of the manual.
pub(super) const ROWS: &[Row<Tunnel>] = &[
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
    PROXY_IN,
    PROXY_OUT,
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
    MAX_FLOWS_PER_SOURCE,
    NEW_FLOWS_PER_SECOND_PER_SOURCE,
];

/// `proxy_in` of a tunnel.
const PROXY_IN: Row<Tunnel> = Row {
    name: "proxy_in",
    default: KeyDefault::Words("none"),
    example: "\"v2\"",
    flag: Some(Flag {
        name: "proxy-in",
        argument: Argument::Named("VERSION"),
        short: "PROXY header to read first",
        long: "v1, v2 or any. Each connection must begin with a header of the PROXY protocol, which names the client. \
               --allow is required beside it, and names the relays and load balancers that send the header. A connection \
               without a valid header within 15 seconds (longer on a slow path) is reset. One that ends without a byte is \
               a health check.",
    }),
    value: KeyValue::One(|tunnel, text| value::word(text, ACCEPTS).map(|accepts| tunnel.proxy_in = Some(accepts))),
    show: |tunnel| Some(format!("takes the client from a PROXY header ({})", tunnel.proxy_in?.name())),
    check: without_allow,
    doc: "Version of the PROXY header with which each connection must begin: `\"v1\"`, `\"v2\"` or `\"any\"`. The header \
          names the client. `allow` is required beside it, and names the relays and load balancers that send the header; \
          see [the client's address](#the-clients-address).",
};

/// `proxy_out` of a tunnel.
const PROXY_OUT: Row<Tunnel> = Row {
    name: "proxy_out",
    default: KeyDefault::Words("none"),
    example: "\"v2\"",
    flag: Some(Flag {
        name: "proxy-out",
        argument: Argument::Named("VERSION"),
        short: "PROXY header to send first",
        long: "v1 or v2. Each connection to the next hop begins with a header of the PROXY protocol, which has the \
               client's address and the address that the client connected to. The next hop must expect it.",
    }),
    value: KeyValue::One(|tunnel, text| value::word(text, VERSIONS).map(|version| tunnel.proxy_out = Some(version))),
    show: |tunnel| Some(format!("sends a PROXY header first ({})", tunnel.proxy_out?.name())),
    check: no_remarks,
    doc: "Version of the PROXY header with which each connection to the next hop begins: `\"v1\"` or `\"v2\"`. The next \
          hop must expect it; see [the client's address](#the-clients-address).",
};

/// `max_flows_per_source` of a tunnel.
const MAX_FLOWS_PER_SOURCE: Row<Tunnel> = Row {
    name: "max_flows_per_source",
    default: KeyDefault::Words("no limit"),
    example: "100",
    flag: Some(Flag {
        name: "source-flows",
        argument: Argument::Named("COUNT"),
        short: "Maximum flows of one source",
        long: "A source is an IPv4 address, or the /64 of an IPv6 address. Further connections of that source are reset \
               before anything is dialled.",
    }),
    value: KeyValue::Number(|tunnel, text| {
        value::max_flows(text).map(|count| tunnel.max_flows_per_source = Some(count))
    }),
    show: |tunnel| Some(format!("carries up to {} flows of one source at once", tunnel.max_flows_per_source?)),
    check: no_remarks,
    doc: "Maximum number of flows of one source. Further connections of that source are reset before anything is dialled; \
          see [limits of a source](#limits-of-a-source).",
};

/// `new_flows_per_second_per_source` of a tunnel.
const NEW_FLOWS_PER_SECOND_PER_SOURCE: Row<Tunnel> = Row {
    name: "new_flows_per_second_per_source",
    default: KeyDefault::Words("no limit"),
    example: "10",
    flag: Some(Flag {
        name: "source-rate",
        argument: Argument::Named("COUNT"),
        short: "Max new flows/s of a source",
        long: "1 to 10000. A source is an IPv4 address, or the /64 of an IPv6 address. A source that was quiet for a \
               second may begin this many flows at once. Further connections of that source are reset before anything \
               is dialled.",
    }),
    value: KeyValue::Number(|tunnel, text| {
        new_flows(text).map(|rate| tunnel.new_flows_per_second_per_source = Some(rate))
    }),
    show: |tunnel| {
        Some(format!("begins up to {} flows of one source a second", tunnel.new_flows_per_second_per_source?))
    },
    check: no_remarks,
    doc: "Maximum number of new flows a second of one source, 1 to 10000. Further connections of that source are reset \
          before anything is dialled; see [limits of a source](#limits-of-a-source).",
};

/// `max_flows` of the daemon.
pub(super) const MAX_FLOWS: Row<Config> = Row {
    name: "max_flows",
    default: KeyDefault::Words("no limit"),
    example: "5000",
    flag: None, // `--max-flows` is the tunnel's, and there is only one.
    value: KeyValue::Number(|config, text| value::max_flows(text).map(|count| config.max_flows = Some(count))),
    show: |config| Some(format!("carries up to {} flows of all tunnels at once", config.max_flows?)),
    check: no_remarks,
    doc: "Maximum number of flows of all tunnels together. Further connections wait in the listen queue. Without this key, \
          the limit on open files decides.",
};

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

/// Returns an error for `proxy_in` without `allow`: whoever reaches the port could claim any address.
fn without_allow(tunnel: &Tunnel, syntax: Syntax) -> Vec<Remark> {
    if tunnel.proxy_in.is_none() || !tunnel.allow.is_empty() {
        return Vec::new();
    }
    let (key, allow) = match syntax {
        Syntax::File => ("proxy_in", "allow = [\"192.0.2.20\"]"),
        Syntax::Flags => ("proxy-in", "--allow 192.0.2.20"),
    };
    let text = format!(
        "whoever reaches the port could claim any client's address; write {allow} with the addresses of the relays and load \
         balancers that send the header"
    );
    vec![Remark::error(key, text)]
}

fn new_flows(text: &str) -> Result<u32, String> {
    let form = format!("write a number of flows from 1 to {MAX_RATE}, or leave it out for no limit");
    value::number(text, 1..=MAX_RATE, &form)
}

const VERSIONS: &[(&str, Version)] = &[("v1", Version::V1), ("v2", Version::V2)];
const ACCEPTS: &[(&str, Accepts)] = &[("v1", Accepts::V1), ("v2", Accepts::V2), ("any", Accepts::Any)];

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::opening::HEADER_TIME;
    use longhaul_core::proxy_header::Bad;

    #[test]
    fn help_and_manual_have_the_time_for_a_header() {
        let help = PROXY_IN.flag.expect("a flag").long;
        assert!(help.contains(&format!("within {} seconds (longer", HEADER_TIME.as_secs())), "{help}");
        let reason = format!("\n| `{}` | ", Bad::Slow(HEADER_TIME));
        assert!(include_str!("../../../../docs/log.md").contains(&reason), "docs/log.md lacks {reason}");
    }
}
