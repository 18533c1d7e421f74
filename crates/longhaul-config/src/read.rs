//! Walks a config file, table by table, and compares its tunnels.

use crate::config::Config;
use crate::document::{self, Field, Findings, Places, Problem, Severity, Shape, Written, fields_or, kind};
use crate::keys::{self, Admin, DAEMON, Remark, Syntax, TUNNEL};
use crate::loops;
use crate::tunnel::Tunnel;
use std::net::{Ipv6Addr, SocketAddr};
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// Reads a config file's text. Returns the configuration, or `None` if the text has an error, and all errors, warnings and
/// notes in the order of the file. Never panics, whatever the text.
pub fn read(text: &str) -> (Option<Config>, Vec<Problem>) {
    document::read(text, whole)
}

fn whole(findings: &mut Findings<'_>, root: &DeTable<'_>) -> Config {
    let mut config = Config::default();
    let shape = Shape { prefix: "", keys: DAEMON, tables: &[("tunnel", "[[tunnel]]"), ("admin", "[admin]")] };
    let places = fields_or(findings, &shape, root, &mut config, keys::elsewhere);
    if let Some(given) = root.get("admin") {
        admin(findings, given);
    }
    match root.get("tunnel") {
        Some(given) => tunnels(findings, given, &mut config),
        None if findings.errors() > 0 => {}
        None => findings.add(Severity::Error, None, no_tunnel()),
    }
    // As in `tunnel`: remarks about placeholders would mislead.
    let whole = findings.errors() == 0;
    for remark in keys::daemon_remarks(&config, Syntax::File).into_iter().filter(|_| whole) {
        tell(findings, &places, remark, None);
    }
    config
}

/// Adds `remark` at the place of its key, or at `otherwise` if the key is not written.
fn tell(findings: &mut Findings<'_>, places: &Places, remark: Remark, otherwise: Option<Range<usize>>) {
    let place = places.find(&remark.key);
    let written = place.as_ref().map(|span| format!(" = {}", findings.written(span))).unwrap_or_default();
    let text = format!("{}{written}: {}", remark.key, remark.text);
    findings.add(remark.severity, place.or(otherwise), text);
}

fn admin(findings: &mut Findings<'_>, given: &Written<'_>) {
    match given.get_ref() {
        DeValue::Table(table) => {
            let shape = Shape { prefix: "admin.", keys: keys::ADMIN, tables: &[] };
            fields_or(findings, &shape, table, &mut Admin, keys::elsewhere);
            let text =
                "[admin]: this version reads it and does not serve it yet: there is no socket and no HTTP listener";
            findings.add(Severity::Warning, Some(given.span()), text.into());
        }
        other => findings.error(given.span(), format!("admin is {}; write [admin]", kind(other))),
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
}

fn tunnel(findings: &mut Findings<'_>, table: &DeTable<'_>, span: Range<usize>) -> (Tunnel, Places) {
    // Placeholders for the required keys. If one of them is missing, the whole configuration is dropped.
    let mut tunnel = Tunnel::new("", SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)), Vec::new());
    let errors = findings.errors();
    let shape = Shape { prefix: "", keys: TUNNEL, tables: &[] };
    let places = fields_or(findings, &shape, table, &mut tunnel, keys::elsewhere);
    document::required(findings, TUNNEL, "[[tunnel]]", table, span.clone());
    // A tunnel with errors holds placeholders, and remarks about those would mislead.
    let whole = findings.errors() == errors;
    for remark in keys::remarks(&tunnel, Syntax::File).into_iter().filter(|_| whole) {
        tell(findings, &places, remark, Some(span.clone()));
    }
    (tunnel, places)
}

/// Adds an error for each tunnel whose name or listen address an earlier tunnel has.
fn conflicts(findings: &mut Findings<'_>, tunnels: &[Tunnel], places: &[Places]) {
    for (later, (tunnel, place)) in tunnels.iter().zip(places).enumerate() {
        let earlier = || tunnels[..later].iter().zip(places);
        if let (Some(span), true) = (place.find("name"), earlier().any(|(other, _)| other.name == tunnel.name)) {
            let text = format!("name = \"{}\": another tunnel has this name; write one of its own", tunnel.name);
            findings.error(span, text);
        }
        // A tunnel without a place for `listen` has a placeholder address, which conflicts with nothing.
        let taken = |(other, place): &(&Tunnel, &Places)| {
            place.find("listen").is_some() && loops::covers_same(tunnel.listen, other.listen)
        };
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

/// Adds an error for each tunnel that dials itself through other tunnels of the file.
fn loops(findings: &mut Findings<'_>, tunnels: &[Tunnel], places: &[Places]) {
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
