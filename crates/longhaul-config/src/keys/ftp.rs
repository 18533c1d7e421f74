//! Keys about the protocol of a tunnel, and about FTP.

use crate::remark::{Remark, Syntax};
use crate::row::{Argument, Flag, KeyDefault, KeyValue, Row, list, no_line};
use crate::tunnel::{Ftp, Protocol, Tunnel};
use crate::value;
use longhaul_core::ftp::Mode;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;

/// The keys of a tunnel about its protocol, in the order of the manual.
pub(super) const ROWS: &[Row<Tunnel>] = &[PROTOCOL, PORTS, ADVERTISE, DATA_FROM, MODE];

/// `protocol` of a tunnel.
const PROTOCOL: Row<Tunnel> = Row {
    name: "protocol",
    default: KeyDefault::Value("\"tcp\""),
    example: "\"ftp\"",
    flag: Some(Flag {
        name: "protocol",
        argument: Argument::Named("NAME"),
        short: "Protocol that the flows carry",
        long: "tcp or ftp. With tcp, bytes pass unchanged. With ftp, the tunnel carries control connections of FTP: \
               the addresses and ports in PASV, EPSV, PORT and EPRT are rewritten, and data connections pass through \
               the relay, too.",
    }),
    value: KeyValue::One(|tunnel, text| value::word(text, PROTOCOLS).map(|protocol| tunnel.protocol = protocol)),
    show: |tunnel| (tunnel.protocol == Protocol::Ftp).then(|| format!("carries FTP{}", ports_shown(&tunnel.ftp))),
    check: |tunnel, syntax| [first_bytes(tunnel), proxies(tunnel), well_known_port(tunnel, syntax)].concat(),
    doc: "Protocol that the flows carry: `\"tcp\"`, whose bytes pass unchanged, or `\"ftp\"`. With `\"ftp\"` the tunnel \
          carries control connections of FTP, and opens a data connection for each file: [FTP](ftp.md).",
};

/// `ftp.ports` of a tunnel.
const PORTS: Row<Tunnel> = Row {
    name: "ftp.ports",
    default: KeyDefault::Words("kernel's choice"),
    example: "\"50000-50999\"",
    flag: Some(Flag {
        name: "ftp-ports",
        argument: Argument::Named("FIRST-LAST"),
        short: "Ports for FTP data",
        long: "The relay listens for FTP data connections on these ports, so that a firewall can let them pass. Each \
               data connection needs a free port only until it is connected.",
    }),
    value: KeyValue::One(|tunnel, text| ports(text).map(|ports| tunnel.ftp.ports = Some(ports))),
    show: no_line, // the line of `protocol` has it
    check: |tunnel, syntax| {
        [without_ftp(tunnel, syntax, PORTS.name, tunnel.ftp.ports.is_some()), own_listener(tunnel)].concat()
    },
    doc: "Ports on which the relay listens for data connections, for a firewall. Each data connection needs a free port only \
          until it is connected.",
};

/// `ftp.advertise` of a tunnel.
const ADVERTISE: Row<Tunnel> = Row {
    name: "ftp.advertise",
    default: KeyDefault::Words("own address"),
    example: "\"198.51.100.7\"",
    flag: Some(Flag {
        name: "ftp-advertise",
        argument: Argument::Named("ADDR"),
        short: "IPv4 for FTP clients",
        long: "The IPv4 address that PASV tells the client to connect to, where a NAT stands between the client and this \
               relay. Without this flag, it is the address that the client connected to. EPSV names no address.",
    }),
    value: KeyValue::One(|tunnel, text| advertise(text).map(|ip| tunnel.ftp.advertise = Some(ip))),
    show: |tunnel| with_ftp(tunnel)?.advertise.map(|ip| format!("tells FTP clients the address {ip}")),
    check: |tunnel, syntax| without_ftp(tunnel, syntax, ADVERTISE.name, tunnel.ftp.advertise.is_some()),
    doc: "IPv4 address that the reply to PASV tells the client, where a NAT stands between the client and the relay. For a NAT \
          between the relays, write it on the far one, whose client is the near relay. Without this key, it is the address \
          that the client connected to. The reply to EPSV names no address.",
};

/// `ftp.data_from` of a tunnel.
const DATA_FROM: Row<Tunnel> = Row {
    name: "ftp.data_from",
    default: KeyDefault::Words("none"),
    example: "[\"192.0.2.0/24\"]",
    flag: Some(Flag {
        name: "ftp-data-from",
        argument: Argument::Named("CIDR"),
        short: "More hosts for FTP data",
        long: "Networks that may be an end of an FTP data connection beside the two peers of its control connection. \
               Needed where one side is a plain port map, or for a transfer between two servers (FXP).",
    }),
    value: KeyValue::Several {
        add: |tunnel, text| value::network(text).map(|net| tunnel.ftp.data_from.push(net)),
        empty: "it is empty; write a network, or leave the key out",
    },
    show: |tunnel| match with_ftp(tunnel)?.data_from.as_slice() {
        [] => None,
        nets => Some(format!("lets FTP data pass from and to {}", list(nets))),
    },
    check: |tunnel, syntax| without_ftp(tunnel, syntax, DATA_FROM.name, !tunnel.ftp.data_from.is_empty()),
    doc: "Networks that may be an end of a data connection beside the two peers of its control connection. Needed where one \
          side is a plain port map, or for a transfer between two servers (FXP). Every other address is refused.",
};

/// `ftp.mode` of a tunnel.
const MODE: Row<Tunnel> = Row {
    name: "ftp.mode",
    default: KeyDefault::Value("\"client\""),
    example: "\"passive\"",
    flag: Some(Flag {
        name: "ftp-mode",
        argument: Argument::Named("MODE"),
        short: "FTP mode of the next hop",
        long: "client, passive or active. With client, the relay asks its next hop for the mode for which the client asks. \
               With passive, it always asks for passive mode: the relay opens the data connections to the next hop, also \
               those of clients in active mode. With active, it always asks for active mode: the next hop opens them, also \
               those of clients in passive mode.",
    }),
    value: KeyValue::One(|tunnel, text| value::word(text, MODES).map(|mode| tunnel.ftp.mode = mode)),
    show: |tunnel| match with_ftp(tunnel)?.mode {
        Mode::Client => None,
        Mode::Passive => Some("asks the next hop for passive FTP".into()),
        Mode::Active => Some("asks the next hop for active FTP".into()),
    },
    check: |tunnel, syntax| without_ftp(tunnel, syntax, MODE.name, tunnel.ftp.mode != Mode::Client),
    doc: "Mode for which the relay asks its next hop: `\"client\"`, the one for which the client asks, `\"passive\"` or \
          `\"active\"`. With `\"passive\"` the relay opens the data connections to the next hop, also those of clients in \
          active mode. With `\"active\"` the next hop opens them, also those of clients in passive mode.",
};

/// Returns an error for a SYN that carries the client's first bytes, which nothing would rewrite.
fn first_bytes(tunnel: &Tunnel) -> Vec<Remark> {
    match tunnel.protocol {
        Protocol::Ftp if tunnel.dial.fast_open() => {
            let text = "an FTP server speaks first, so dial.fastopen only delays it; leave dial.fastopen out";
            vec![Remark::error("protocol", text.into())]
        }
        Protocol::Ftp | Protocol::Tcp => Vec::new(),
    }
}

/// Returns errors for PROXY headers. A proxy before this relay passes the control connection on, but not the data connections.
fn proxies(tunnel: &Tunnel) -> Vec<Remark> {
    let before = "a proxy before this relay does not pass data connections on; leave proxy_in out, and let FTP clients connect \
                  to this relay itself";
    let after = "neither FTP servers nor relays with protocol = \"ftp\" read a PROXY header; leave proxy_out out";
    let is_set = [(tunnel.proxy_in.is_some(), before), (tunnel.proxy_out.is_some(), after)];
    let errors = is_set.into_iter().filter(|(is_set, _)| *is_set && tunnel.protocol == Protocol::Ftp);
    errors.map(|(_, text)| Remark::error("protocol", text.into())).collect()
}

/// Returns a warning if the listener or a next hop has the port of FTP, and nothing rewrites the control connection; or that of FTP with
/// implicit TLS, and nothing can be rewritten.
fn well_known_port(tunnel: &Tunnel, syntax: Syntax) -> Vec<Remark> {
    let key = |port| match tunnel.to.iter().any(|hop| hop.port == port) {
        true => Some("to"),
        false => (tunnel.listen.port() == port).then_some("listen"),
    };
    let remedy = match (tunnel.protocol, syntax) {
        (Protocol::Tcp, Syntax::File) => "write protocol = \"ftp\"",
        (Protocol::Tcp, Syntax::Flags) => "add --protocol ftp",
        (Protocol::Ftp, Syntax::File) => "leave protocol out",
        (Protocol::Ftp, Syntax::Flags) => "leave --protocol out",
    };
    let (key, text) = match tunnel.protocol {
        Protocol::Tcp => (
            key(FTP_PORT),
            format!("port {FTP_PORT} is FTP's, and its data connections do not pass a plain tunnel; {remedy}"),
        ),
        Protocol::Ftp => (
            key(FTPS_PORT),
            format!(
                "port {FTPS_PORT} is that of FTP with implicit TLS, which is refused here; {remedy}, and see docs/ftp.md"
            ),
        ),
    };
    key.map(|key| Remark::warning(key, text)).into_iter().collect()
}

/// Returns the keys of FTP, if they have an effect.
fn with_ftp(tunnel: &Tunnel) -> Option<&Ftp> {
    (tunnel.protocol == Protocol::Ftp).then_some(&tunnel.ftp)
}

/// Returns a warning if `ftp.ports` contains the port of the tunnel's own listener.
fn own_listener(tunnel: &Tunnel) -> Vec<Remark> {
    let port = tunnel.listen.port();
    if !tunnel.has_data_port(port) {
        return Vec::new();
    }
    vec![Remark::warning(PORTS.name, format!("this tunnel listens on port {port}; write a range without it"))]
}

/// Returns a warning for `key`, if it is set and the tunnel does not carry FTP.
fn without_ftp(tunnel: &Tunnel, syntax: Syntax, key: &str, is_set: bool) -> Vec<Remark> {
    if tunnel.protocol == Protocol::Ftp || !is_set {
        return Vec::new();
    }
    let text = match syntax {
        Syntax::File => "has no effect without protocol = \"ftp\"; add that line",
        Syntax::Flags => "has no effect without protocol = \"ftp\"; add --protocol ftp",
    };
    vec![Remark::warning(key, text.into())]
}

fn ports_shown(ftp: &Ftp) -> String {
    let range = ftp.ports.as_ref();
    range.map_or_else(String::new, |ports| format!(", with data ports {}-{}", ports.start(), ports.end()))
}

/// Parses a range of ports, 1024 to 65535.
///
/// # Errors
/// The text is not `FIRST-LAST`, or it has ports out of range.
fn ports(text: &str) -> Result<RangeInclusive<u16>, String> {
    let port = |text: &str| text.trim().parse().ok().filter(|port| *port >= 1024);
    let range = text.split_once('-').and_then(|(first, last)| Some(port(first)?..=port(last)?));
    match range {
        Some(range) if range.is_empty() => {
            Err(format!("its first port is above its last; write \"{}-{}\"", range.end(), range.start()))
        }
        Some(range) => Ok(range),
        None => Err("write the first and the last port, from 1024 to 65535, such as \"50000-50999\"".into()),
    }
}

/// Parses the IPv4 address that clients are told.
///
/// # Errors
/// The text is not an address that a client could connect to.
fn advertise(text: &str) -> Result<Ipv4Addr, String> {
    const FORM: &str = "write the IPv4 address that clients connect to, without a port, such as \"198.51.100.7\"";
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V4(ip)) if !ip.is_unspecified() && !ip.is_multicast() && !ip.is_broadcast() => Ok(ip),
        Ok(IpAddr::V6(_)) => Err(format!("the reply to PASV has room for IPv4 alone; {FORM}")),
        _ => Err(FORM.into()),
    }
}

const PROTOCOLS: &[(&str, Protocol)] = &[("tcp", Protocol::Tcp), ("ftp", Protocol::Ftp)];
const MODES: &[(&str, Mode)] = &[("client", Mode::Client), ("passive", Mode::Passive), ("active", Mode::Active)];
/// Port of the control connection (RFC 959 8).
const FTP_PORT: u16 = 21;
/// IANA: FTP with TLS from the first byte.
const FTPS_PORT: u16 = 990;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Severity;
    use crate::next_hop::NextHop;

    #[test]
    fn a_range_of_ports_has_both_ends_and_no_low_port() {
        assert_eq!(ports("50000-50999"), Ok(50000..=50999));
        assert_eq!(ports("2000 - 2000"), Ok(2000..=2000));
        for text in ["", "-", "50000", "50000-", "80-90", "5000-4000", "50000-70000", "a-b", "-1-5000", "1-2-3"] {
            assert!(ports(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_client_can_be_told_an_ipv4_address_alone() {
        assert_eq!(advertise("198.51.100.7"), Ok(Ipv4Addr::new(198, 51, 100, 7)));
        for text in ["2001:db8::7", "0.0.0.0", "224.0.0.1", "relay.example", "198.51.100.7:21"] {
            assert!(advertise(text).is_err(), "{text}");
        }
    }

    #[test]
    fn proxy_headers_are_refused() {
        use longhaul_core::proxy_header::{Accepts, Version};
        let mut tunnel = Tunnel::new("a", "[::]:21".parse().expect("an address"), Vec::new());
        (tunnel.proxy_in, tunnel.proxy_out) = (Accepts::named("v2"), Some(Version::V2));
        assert_eq!(proxies(&tunnel), Vec::new());
        tunnel.protocol = Protocol::Ftp;
        let keys = |tunnel: &Tunnel| {
            let remarks = proxies(tunnel);
            assert!(remarks.iter().all(|remark| remark.severity == Severity::Error));
            let named = |key: &str| remarks.iter().any(|remark| remark.text.contains(key));
            [named("proxy_in"), named("proxy_out")]
        };
        assert_eq!(keys(&tunnel), [true, true]);
        tunnel.proxy_in = None;
        assert_eq!(keys(&tunnel), [false, true]);
        tunnel.proxy_out = None;
        assert_eq!(keys(&tunnel), [false, false]);
    }

    #[test]
    fn a_next_hop_with_the_port_of_ftp_needs_the_protocol() {
        let to = |port| vec![NextHop::new("b1", 2121), NextHop::new("b2", port)];
        let mut tunnel = Tunnel::new("a", "[::]:2121".parse().expect("an address"), to(22));
        let warnings = |tunnel: &Tunnel, syntax| -> Vec<String> {
            (PROTOCOL.check)(tunnel, syntax).iter().map(|remark| format!("{}: {}", remark.key, remark.text)).collect()
        };
        assert_eq!(warnings(&tunnel, Syntax::File), [""; 0]);
        tunnel.to = to(21);
        let text = "to: port 21 is FTP's, and its data connections do not pass a plain tunnel";
        assert_eq!(warnings(&tunnel, Syntax::File), [format!("{text}; write protocol = \"ftp\"")]);
        assert_eq!(warnings(&tunnel, Syntax::Flags), [format!("{text}; add --protocol ftp")]);
        tunnel.protocol = Protocol::Ftp;
        assert_eq!(warnings(&tunnel, Syntax::File), [""; 0]);
        tunnel.to = to(990);
        let text = "to: port 990 is that of FTP with implicit TLS, which is refused here";
        assert_eq!(warnings(&tunnel, Syntax::File), [format!("{text}; leave protocol out, and see docs/ftp.md")]);
        tunnel = Tunnel::new("a", "[::]:21".parse().expect("an address"), to(22));
        assert!(warnings(&tunnel, Syntax::File)[0].starts_with("listen: port 21 is FTP's"));
    }

    #[test]
    fn each_key_without_effect_is_warned_of() {
        let mut tunnel = Tunnel::new("a", "[::]:21".parse().expect("an address"), Vec::new());
        let warnings = |tunnel: &Tunnel, syntax| -> Vec<String> {
            let rows = [PORTS, ADVERTISE, DATA_FROM, MODE];
            let remarks = rows.iter().flat_map(|row| (row.check)(tunnel, syntax));
            remarks.map(|remark| format!("{}: {}", remark.key, remark.text)).collect()
        };
        assert_eq!(warnings(&tunnel, Syntax::File), [""; 0]);
        tunnel.ftp.ports = Some(50000..=50999);
        let text = "ftp.ports: has no effect without protocol = \"ftp\"; add that line";
        assert_eq!(warnings(&tunnel, Syntax::File), [text]);
        let text = "ftp.ports: has no effect without protocol = \"ftp\"; add --protocol ftp";
        assert_eq!(warnings(&tunnel, Syntax::Flags), [text]);
        tunnel.ftp.advertise = Some(Ipv4Addr::LOCALHOST);
        tunnel.ftp.data_from.push("192.0.2.0/24".parse().expect("a network"));
        tunnel.ftp.mode = Mode::Passive;
        assert_eq!(warnings(&tunnel, Syntax::File).len(), 4);
        tunnel.protocol = Protocol::Ftp;
        assert_eq!(warnings(&tunnel, Syntax::File), [""; 0]);
    }
}
