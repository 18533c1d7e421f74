//! Walks a config file by hand, table by table, so that every message names line, column, key and value, and so that one
//! reading reports every error of the file.

use super::keys::{self, Admin, Fault, Key, TOP, TUNNEL, Written};
use super::problem::{Findings, Problem, Severity};
use super::{Config, Tunnel, lint};
use crate::suggest;
use std::net::{Ipv6Addr, SocketAddr};
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// Reads a config file's text: the configuration, or nothing when there is an error, and everything there is to say about
/// it in the order of the file. It never panics, whatever the text.
pub fn read(text: &str) -> (Option<Config>, Vec<Problem>) {
    let mut findings = Findings::new(text);
    let (root, syntax) = DeTable::parse_recoverable(text);
    for err in &syntax {
        let text = match err.message() {
            "duplicate key" => {
                let key = err.span().map(|span| findings.written(&span)).unwrap_or_default();
                format!("{key}: this key stands here a second time; write it once")
            }
            why => format!("this is not TOML ({why}); write KEY = VALUE, and a VALUE of text in double quotes"),
        };
        findings.add(Severity::Error, err.span(), text);
    }
    // What a parser makes of a broken file is guesswork: errors found in that would be its, not the writer's.
    let config = if syntax.is_empty() { Some(whole(&mut findings, root.get_ref())) } else { None };
    (config.filter(|_| findings.errors() == 0), findings.in_order())
}

/// Where the values of a table stand, by key; those of inner tables as `dial.mss`. Only what was read well.
struct Places(Vec<(String, Range<usize>)>);

impl Places {
    fn find(&self, key: &str) -> Option<Range<usize>> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, span)| span.clone())
    }
}

fn whole(findings: &mut Findings<'_>, root: &DeTable<'_>) -> Config {
    let mut config = Config::default();
    fields(
        findings,
        &Shape { prefix: "", keys: TOP, tables: &[("tunnel", "[[tunnel]]"), ("admin", "[admin]")] },
        root,
        &mut config,
    );
    if let Some(given) = root.get("admin") {
        admin(findings, given);
    }
    match root.get("tunnel") {
        Some(given) => tunnels(findings, given, &mut config),
        None if findings.errors() > 0 => {}
        None => findings.add(Severity::Error, None, NO_TUNNEL.into()),
    }
    config
}

fn admin(findings: &mut Findings<'_>, given: &Written<'_>) {
    match given.get_ref() {
        DeValue::Table(table) => {
            fields(findings, &Shape { prefix: "admin.", keys: keys::ADMIN, tables: &[] }, table, &mut Admin);
            let text =
                "[admin]: this version reads it and does not serve it yet: there is no socket and no HTTP listener";
            findings.add(Severity::Warning, Some(given.span()), text.into());
        }
        other => findings.error(given.span(), format!("admin is {}; write [admin]", keys::kind(other))),
    }
}

fn tunnels(findings: &mut Findings<'_>, given: &Written<'_>, config: &mut Config) {
    let DeValue::Array(list) = given.get_ref() else {
        let text = format!("tunnel is {}; write [[tunnel]], with two brackets", keys::kind(given.get_ref()));
        return findings.error(given.span(), text);
    };
    if list.is_empty() {
        findings.error(given.span(), NO_TUNNEL.into());
    }
    let mut places = Vec::new();
    for given in list {
        match given.get_ref() {
            DeValue::Table(table) => {
                let (tunnel, found) = tunnel(findings, table, given.span());
                config.tunnels.push(tunnel);
                places.push(found);
            }
            other => findings.error(given.span(), format!("a tunnel is {}; write [[tunnel]]", keys::kind(other))),
        }
    }
    clashes(findings, &config.tunnels, &places);
    circles(findings, &config.tunnels, &places);
}

fn tunnel(findings: &mut Findings<'_>, table: &DeTable<'_>, span: Range<usize>) -> (Tunnel, Places) {
    // What must be configured is not there until it is read; with an error the whole configuration is dropped.
    let mut tunnel = Tunnel::new("", SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)), Vec::new());
    let errors = findings.errors();
    let places = fields(findings, &Shape { prefix: "", keys: TUNNEL, tables: &[] }, table, &mut tunnel);
    for key in TUNNEL {
        if let (Some(example), false) = (key.required, table.contains_key(key.name)) {
            findings.error(span.clone(), format!("this [[tunnel]] has no {}; write {example}", key.name));
        }
    }
    // Of a tunnel that was read in part, remarks would be about what nobody wrote.
    let whole = findings.errors() == errors;
    for remark in lint::remarks(&tunnel, lint::Told::InFile).into_iter().filter(|_| whole) {
        let place = places.find(&remark.key);
        let written = place.as_ref().map(|span| format!(" = {}", findings.written(span))).unwrap_or_default();
        let text = format!("{}{written}: {}", remark.key, remark.text);
        findings.add(remark.severity, Some(place.unwrap_or(span.clone())), text);
    }
    (tunnel, places)
}

/// What may stand in a table.
struct Shape<T: 'static> {
    /// What stands before its keys in messages.
    prefix: &'static str,
    keys: &'static [Key<T>],
    /// Names of inner tables that somebody else reads, and how one writes them.
    tables: &'static [(&'static str, &'static str)],
}

/// Reads every key of `table` into `model`.
fn fields<T>(findings: &mut Findings<'_>, shape: &Shape<T>, table: &DeTable<'_>, model: &mut T) -> Places {
    let mut places = Places(Vec::new());
    for (name, given) in table {
        let (span, name) = (name.span(), name.get_ref().as_ref());
        if shape.tables.iter().any(|(table, _)| *table == name) {
            continue;
        }
        let Some(key) = shape.keys.iter().find(|key| key.name == name) else {
            findings.error(span, unknown(shape, name));
            continue;
        };
        match (key.read)(model, given) {
            Ok(()) => note(&mut places, name, given),
            Err(faults) => {
                for Fault { below, span, text } in faults {
                    let text = format!("{}{name}{below} = {}: {text}", shape.prefix, findings.written(&span));
                    findings.error(span, text);
                }
            }
        }
    }
    places
}

fn note(places: &mut Places, name: &str, given: &Written<'_>) {
    places.0.push((name.into(), given.span()));
    if let DeValue::Table(inner) = given.get_ref() {
        places.0.extend(inner.iter().map(|(key, value)| (format!("{name}.{}", key.get_ref()), value.span())));
    }
}

fn unknown<T>(shape: &Shape<T>, name: &str) -> String {
    let written = |key| shape.tables.iter().find(|(table, _)| *table == key).map_or(key, |(_, written)| *written);
    let known = || shape.keys.iter().map(|key| key.name).chain(shape.tables.iter().map(|(table, _)| *table));
    let shown: String = name.chars().take(40).collect();
    let known = match suggest::nearest(name, known()) {
        Some(near) => format!("did you mean {}?", written(near)),
        None => format!("the keys here are {}", known().map(written).collect::<Vec<_>>().join(", ")),
    };
    format!("{}{shown}: there is no such key; {known}", shape.prefix)
}

/// Names must be unique, and so must what is listened on.
fn clashes(findings: &mut Findings<'_>, tunnels: &[Tunnel], places: &[Places]) {
    for (later, (tunnel, place)) in tunnels.iter().zip(places).enumerate() {
        let earlier = || tunnels[..later].iter().zip(places);
        if let (Some(span), true) = (place.find("name"), earlier().any(|(other, _)| other.name == tunnel.name)) {
            let text = format!("name = \"{}\": another tunnel has this name; write one of its own", tunnel.name);
            findings.error(span, text);
        }
        // A listen address that could not be read is a placeholder, which clashes with nothing.
        let taken = |(other, place): &(&Tunnel, &Places)| {
            place.find("listen").is_some() && lint::covers_same(tunnel.listen, other.listen)
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

/// No tunnel may dial itself through others of the file.
fn circles(findings: &mut Findings<'_>, tunnels: &[Tunnel], places: &[Places]) {
    for (place, way) in places.iter().zip(lint::circles(tunnels)) {
        if let (Some(span), Some(way)) = (place.find("to"), way) {
            let names: Vec<_> = way.iter().map(|index| format!("\"{}\"", tunnels[*index].name)).collect();
            let text = format!(
                "to = {}: this leads back here through tunnel {}: every flow would go round without end; write the next \
                 hop's address",
                findings.written(&span),
                names.join(", ")
            );
            findings.error(span, text);
        }
    }
}

const NO_TUNNEL: &str = "there is no tunnel; write [[tunnel]] and below it name = \"ssh-to-b\", \
                         listen = \"10.0.0.1:6000\" and to = \"10.20.20.20:6000\", a line each";
