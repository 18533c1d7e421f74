//! Walks a config file, table by table, and compares its tunnels.

use crate::config::{Admin, Config, Probe};
use crate::document::{self, Field, Findings, KeyPlaces, Severity, Shape, Written, fields, kind};
use crate::keys::{self, ADMIN, DAEMON, PROBE, Remark, Row, Syntax, TUNNEL};
use crate::loops;
use crate::tunnel::Tunnel;
use longhaul_core::reload::covers_same;
use std::net::{Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::path::PathBuf;
use toml::de::{DeTable, DeValue};

/// Returns the control socket that a config file's text names, even if the text has errors elsewhere.
pub(crate) fn control_socket(text: &str) -> Option<PathBuf> {
    let (root, _) = DeTable::parse_recoverable(text);
    let DeValue::Table(table) = root.get_ref().get("admin")?.get_ref() else { return None };
    let mut admin = Admin::default();
    let row = ADMIN.iter().find(|row| row.name == SOCKET)?;
    row.read(&mut admin, table.get(SOCKET)?).ok()?;
    admin.socket
}

/// Reads a whole file. If `findings` has an error then, the result is of no use.
pub(crate) fn whole(findings: &mut Findings<'_>, root: &DeTable<'_>) -> Config {
    let mut config = Config::default();
    let places = fields(findings, &DAEMON_SHAPE, root, &mut config);
    let admin = root.get("admin").and_then(|given| section(findings, given, &ADMIN_SHAPE, &mut config.admin));
    let http = admin.and_then(|places| places.find("listen"));
    let _ = root.get("probe").and_then(|given| section(findings, given, &PROBE_SHAPE, &mut config.probe));
    match root.get("tunnel") {
        Some(given) => tunnels(findings, given, &mut config),
        None if findings.errors() > 0 => {}
        None => findings.add(Severity::Error, None, no_tunnel()),
    }
    if let (Some(place), Some(listen)) = (http, config.admin.listen) {
        same_port(findings, place, listen, &config.tunnels);
    }
    if findings.errors() == 0 {
        // Every tunnel is read by now. A remark about a key of the daemon is never about the whole file.
        remark(findings, keys::daemon_remarks(&config, Syntax::File), &places, 0..0);
    }
    config
}

/// Reads a table such as `[admin]`, which has this `shape`, into `model`. Returns the places of its keys.
fn section<M>(
    findings: &mut Findings<'_>,
    given: &Written<'_>,
    shape: &Shape<Row<M>>,
    model: &mut M,
) -> Option<KeyPlaces> {
    let prefix = shape.prefix;
    let DeValue::Table(table) = given.get_ref() else {
        let name = prefix.trim_end_matches('.');
        findings.error(given.span(), format!("{name} is {}; write [{name}]", kind(given.get_ref())));
        return None;
    };
    let places = fields(findings, shape, table, model);
    for remark in shape.keys.iter().flat_map(|row| (row.check)(model, Syntax::File)) {
        let place = places.find(&remark.key).unwrap_or(given.span());
        let text = format!("{prefix}{} = {}: {}", remark.key, findings.written(&place), remark.text);
        findings.add(remark.severity, Some(place), text);
    }
    Some(places)
}

/// Adds an error if a tunnel listens on the address of the HTTP listener.
fn same_port(findings: &mut Findings<'_>, place: Range<usize>, listen: SocketAddr, tunnels: &[Tunnel]) {
    if let Some(tunnel) = tunnels.iter().find(|tunnel| covers_same(tunnel.listen, listen)) {
        let (written, name) = (findings.written(&place), &tunnel.name);
        let text = format!("admin.listen = {written}: tunnel \"{name}\" listens there; write another port");
        findings.error(place, text);
    }
}

fn tunnels(findings: &mut Findings<'_>, given: &Written<'_>, config: &mut Config) {
    let DeValue::Array(list) = given.get_ref() else {
        let text = match given.get_ref() {
            DeValue::Table(_) => "[tunnel] has one bracket on each side; write [[tunnel]], with two".into(),
            other => format!("tunnel is {}; write [[tunnel]], and the keys of the tunnel below it", kind(other)),
        };
        return findings.error(given.span(), text);
    };
    if list.is_empty() {
        findings.error(given.span(), no_tunnel());
    }
    let mut places = Vec::new();
    for given in list {
        match given.get_ref() {
            DeValue::Table(table) => {
                let (tunnel, found) = tunnel(findings, table, given.span());
                config.tunnels.push(tunnel);
                places.push(found);
            }
            other => findings.error(given.span(), format!("a tunnel is {}; write [[tunnel]]", kind(other))),
        }
    }
    conflicts(findings, &config.tunnels, &places);
    loops(findings, &config.tunnels, &places);
    data_ports(findings, &config.tunnels, &places);
    background(findings, config, &places);
}

fn tunnel(findings: &mut Findings<'_>, table: &DeTable<'_>, span: Range<usize>) -> (Tunnel, KeyPlaces) {
    // Placeholders for the required keys. If one of them is missing, the whole configuration is dropped.
    let mut tunnel = Tunnel::new("", SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)), Vec::new());
    let errors = findings.errors();
    let places = fields(findings, &TUNNEL_SHAPE, table, &mut tunnel);
    document::required(findings, TUNNEL, "[[tunnel]]", table, span.clone());
    // A tunnel with errors holds placeholders, and remarks about those would mislead.
    if findings.errors() == errors {
        remark(findings, keys::remarks(&tunnel, Syntax::File), &places, span);
    }
    (tunnel, places)
}

/// Adds `remarks` at the places of their keys, or at `span` where a key is not written.
fn remark(findings: &mut Findings<'_>, remarks: Vec<Remark>, places: &KeyPlaces, span: Range<usize>) {
    for remark in remarks {
        let place = places.find(&remark.key);
        let written = place.as_ref().map(|span| format!(" = {}", findings.written(span))).unwrap_or_default();
        let text = format!("{}{written}: {}", remark.key, remark.text);
        findings.add(remark.severity, Some(place.unwrap_or(span.clone())), text);
    }
}

/// Adds an error for each tunnel whose name or listen address an earlier tunnel has.
fn conflicts(findings: &mut Findings<'_>, tunnels: &[Tunnel], places: &[KeyPlaces]) {
    for (later, (tunnel, place)) in tunnels.iter().zip(places).enumerate() {
        let earlier = || tunnels[..later].iter().zip(places);
        if let (Some(span), true) = (place.find("name"), earlier().any(|(other, _)| other.name == tunnel.name)) {
            let text = format!("name = \"{}\": another tunnel has this name; write one of its own", tunnel.name);
            findings.error(span, text);
        }
        let taken = |(other, place): &(&Tunnel, &KeyPlaces)| listens(place) && covers_same(tunnel.listen, other.listen);
        if let (Some(span), Some((other, _))) = (place.find("listen"), earlier().find(taken)) {
            let written = findings.written(&span);
            let (name, listen) = (&other.name, other.listen);
            let text = format!(
                "listen = {written}: tunnel \"{name}\" listens on {listen} already; write another address or port"
            );
            findings.error(span, text);
        }
    }
}

/// Adds a warning for each tunnel whose `ftp.ports` contain the port of another tunnel's listener. That is no error, because the
/// addresses may differ, and the relay takes another port of the range if one is taken.
fn data_ports(findings: &mut Findings<'_>, tunnels: &[Tunnel], places: &[KeyPlaces]) {
    for (index, (tunnel, place)) in tunnels.iter().zip(places).enumerate() {
        let mut others = tunnels.iter().zip(places).enumerate().filter(|(other, _)| *other != index);
        let other = others.find(|(_, (other, place))| listens(place) && tunnel.has_data_port(other.listen.port()));
        if let (Some(span), Some((_, (other, _)))) = (place.find("ftp.ports"), other) {
            let (written, name, port) = (findings.written(&span), &other.name, other.listen.port());
            let text = format!(
                "ftp.ports = {written}: tunnel \"{name}\" listens on port {port}, and may fail to start while a data \
                 connection waits there; write a range without it"
            );
            findings.add(Severity::Warning, Some(span), text);
        }
    }
}

/// Adds a warning for each tunnel in the background if the daemon's `bandwidth` is never `auto`.
fn background(findings: &mut Findings<'_>, config: &Config, places: &[KeyPlaces]) {
    let remedy = "bandwidth = \"auto\"; write that above the first [[tunnel]]";
    for (tunnel, places) in config.tunnels.iter().zip(places) {
        let warning = keys::background_without_auto(&config.bandwidth, tunnel, remedy);
        remark(findings, warning.into_iter().collect(), places, 0..0);
    }
}

/// Whether the tunnel of `place` has a valid address. Otherwise it has a placeholder, which conflicts with nothing.
fn listens(place: &KeyPlaces) -> bool {
    place.find("listen").is_some()
}

/// Adds an error for each tunnel that dials itself through other tunnels of the file.
fn loops(findings: &mut Findings<'_>, tunnels: &[Tunnel], places: &[KeyPlaces]) {
    for (place, way) in places.iter().zip(loops::longer_loops(tunnels, &|ip| ip.is_loopback())) {
        if let (Some(span), Some(way)) = (place.find("to"), way) {
            let names: Vec<_> = way.iter().map(|index| format!("\"{}\"", tunnels[*index].name)).collect();
            let text = format!(
                "to = {}: this leads back here through tunnel {}, so every flow would loop; write the next hop's address",
                findings.written(&span),
                names.join(", ")
            );
            findings.error(span, text);
        }
    }
}

fn no_tunnel() -> String {
    let required: Vec<String> = TUNNEL.iter().filter_map(Field::required).collect();
    format!("there is no tunnel; write [[tunnel]], and below it, each on its own line: {}", required.join(", "))
}

/// The key of `[admin]` that names the control socket.
const SOCKET: &str = "socket";

const DAEMON_SHAPE: Shape<Row<Config>> =
    Shape { tables: &[("tunnel", "[[tunnel]]"), ("admin", "[admin]"), ("probe", "[probe]")], ..shape("", DAEMON) };
const TUNNEL_SHAPE: Shape<Row<Tunnel>> = shape("", TUNNEL);
const ADMIN_SHAPE: Shape<Row<Admin>> = shape("admin.", ADMIN);
const PROBE_SHAPE: Shape<Row<Probe>> = shape("probe.", PROBE);

const fn shape<M>(prefix: &'static str, keys: &'static [Row<M>]) -> Shape<Row<M>> {
    Shape { prefix, keys, tables: &[], elsewhere: keys::elsewhere }
}
