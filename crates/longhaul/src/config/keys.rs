//! The keys of a config file as tables: a row reads one key. Adding a key is adding a row (and its line in
//! docs/configuration.md, which a test asks for).

use super::{Config, Tunnel, value};
use crate::options::LegOptions;
use longhaul_sys::sockopt::Leg;
use std::ops::Range;
use toml::Spanned;
use toml::de::DeValue;

/// A value of the file, with its place.
pub(super) type Written<'t> = Spanned<DeValue<'t>>;

/// What is wrong with one value: its key, its place, what to write instead.
pub(super) struct Fault {
    /// The part of the key below the row's own, such as `.mss`; empty when it is the row's own.
    pub(super) below: String,
    /// Where the value stands.
    pub(super) span: Range<usize>,
    /// What is wrong and what to write.
    pub(super) text: String,
}

/// One key that may stand in a `T`.
pub(super) struct Key<T: 'static> {
    /// Its name.
    pub(super) name: &'static str,
    /// What to write when it is missing, for keys that must be there.
    pub(super) required: Option<&'static str>,
    /// Reads its value into the model.
    pub(super) read: fn(&mut T, &Written<'_>) -> Result<(), Vec<Fault>>,
}

/// What an `[admin]` table says. This version reads and checks it, and does not serve it yet.
#[derive(Default)]
pub(super) struct Admin;

/// The keys before the first `[[tunnel]]`, but for the tables.
pub(super) const TOP: &[Key<Config>] = &[key("drain_timeout", |config: &mut Config, given| {
    one(given, value::drain_timeout).map(|time| config.drain_timeout = Some(time))
})];

/// The keys of a `[[tunnel]]`.
pub(super) const TUNNEL: &[Key<Tunnel>] = &[
    Key {
        name: "name",
        required: Some("name = \"ssh-to-b\""),
        read: |tunnel, given| one(given, value::name).map(|name| tunnel.name = name),
    },
    Key {
        name: "listen",
        required: Some("listen = \"10.0.0.1:6000\""),
        read: |tunnel, given| one(given, value::listen).map(|listen| tunnel.listen = listen),
    },
    Key {
        name: "to",
        required: Some("to = \"10.20.20.20:6000\""),
        read: |tunnel, given| {
            let hops = several(given, value::next_hop)?;
            if hops.is_empty() {
                return Err(fault(given, "it is empty; write at least one next hop, such as [\"10.20.20.20:6000\"]"));
            }
            tunnel.to = hops;
            Ok(())
        },
    },
    key("policy", |tunnel, given| one(given, value::policy).map(|policy| tunnel.policy = policy)),
    key("allow", |tunnel, given| {
        let nets = several(given, value::network)?;
        if nets.is_empty() {
            // Whoever writes this may mean nobody, and would get everybody.
            return Err(fault(given, "it is empty; write who may connect, or leave `allow` out to let everybody in"));
        }
        tunnel.allow = nets;
        Ok(())
    }),
    key("max_flows", |tunnel, given| one(given, value::max_flows).map(|count| tunnel.max_flows = Some(count))),
    key("connect_timeout", |tunnel, given| {
        one(given, value::connect_timeout).map(|time| tunnel.connect_timeout = time)
    }),
    key("source", |tunnel, given| one(given, value::source).map(|source| tunnel.source = Some(source))),
    key("splice", |tunnel, given| one(given, value::switch).map(|on| tunnel.splice = on)),
    key("accept", |tunnel, given| leg(&mut tunnel.accept, Leg::Accept, given)),
    key("dial", |tunnel, given| leg(&mut tunnel.dial, Leg::Dial, given)),
];

/// The keys of `[admin]`.
pub(super) const ADMIN: &[Key<Admin>] = &[
    key("socket", |_, given| {
        one(given, |text| match text.starts_with('/') && text.len() < SUN_PATH_MAX && !text.contains('\0') {
            true => Ok(()),
            false => {
                Err("write an absolute path shorter than 108 bytes, such as \"/run/longhaul/admin.sock\"".to_string())
            }
        })
    }),
    key("listen", |_, given| one(given, value::listen).map(drop)),
];

const fn key<T>(name: &'static str, read: fn(&mut T, &Written<'_>) -> Result<(), Vec<Fault>>) -> Key<T> {
    Key { name, required: None, read }
}

/// A single value, read by `parse` whatever its TOML type: `listen = 6000` and `listen = "6000"` mean the same.
fn one<T>(given: &Written<'_>, parse: impl Fn(&str) -> Result<T, String>) -> Result<T, Vec<Fault>> {
    match scalar(given.get_ref()) {
        Some(text) => parse(&text).map_err(|text| fault(given, text)),
        None => Err(fault(given, format!("it is {}; write one value", kind(given.get_ref())))),
    }
}

/// One value, or a list of them.
fn several<T>(given: &Written<'_>, parse: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, Vec<Fault>> {
    let DeValue::Array(list) = given.get_ref() else { return one(given, parse).map(|value| vec![value]) };
    let mut values = Vec::new();
    let mut faults = Vec::new();
    for element in list {
        match one(element, &parse) {
            Ok(value) => values.push(value),
            Err(wrong) => faults.extend(wrong),
        }
    }
    if faults.is_empty() { Ok(values) } else { Err(faults) }
}

/// The options of one leg: `{ congestion = "bbr", mss = 1254 }`.
fn leg(options: &mut LegOptions, leg: Leg, given: &Written<'_>) -> Result<(), Vec<Fault>> {
    let DeValue::Table(table) = given.get_ref() else {
        let text = format!("it is {}; write {} = {{ nodelay = true }}", kind(given.get_ref()), leg.name());
        return Err(fault(given, text));
    };
    let mut faults = Vec::new();
    for (key, value) in table {
        let name = key.get_ref();
        let set = match scalar(value.get_ref()) {
            Some(text) => options.set(leg, name, &text),
            None => Err(format!("it is {}; write one value", kind(value.get_ref()))),
        };
        faults.extend(set.err().map(|text| Fault { below: format!(".{name}"), span: value.span(), text }));
    }
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

/// The text of a value that is neither list nor table.
fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.to_string()),
        DeValue::Float(number) => Some(number.to_string()),
        DeValue::Boolean(on) => Some(on.to_string()),
        DeValue::Datetime(time) => Some(time.to_string()),
        DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

/// What TOML calls it, with its article.
pub(super) fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
        _ => "a single value",
    }
}

fn fault(given: &Written<'_>, text: impl Into<String>) -> Vec<Fault> {
    vec![Fault { below: String::new(), span: given.span(), text: text.into() }]
}

/// unix(7): sun_path has room for 108 bytes, and the last one is NUL.
const SUN_PATH_MAX: usize = 108;

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = include_str!("../../../../docs/configuration.md");

    #[test]
    fn every_key_stands_in_its_table_of_the_document() {
        let part = |from: &str| {
            let rest = DOCUMENT.split_once(from).expect("the heading").1;
            rest.split("\n## ").next().expect("its text").to_string()
        };
        let keys: [(&str, Vec<&str>); 3] = [
            ("## Of the whole daemon", TOP.iter().map(|key| key.name).collect()),
            ("## `[[tunnel]]`", TUNNEL.iter().map(|key| key.name).collect()),
            ("## `[admin]`", ADMIN.iter().map(|key| key.name).collect()),
        ];
        for (heading, keys) in keys {
            let rows: Vec<_> =
                part(heading).lines().filter_map(|line| line.strip_prefix("| `").map(str::to_string)).collect();
            let documented: Vec<_> = rows.iter().filter_map(|row| row.split('`').next()).collect();
            assert_eq!(documented, keys, "{heading}");
        }
    }
}
