//! The keys of a config file as tables: a row reads one key. Adding a key is adding a row (and its line in
//! docs/configuration.md, which a test asks for).

use crate::document::{Fault, Key, Written, fault, key, kind, one, scalar, several};
use crate::options::{self, Leg, LegOptions};
use crate::suggest;
use crate::{Config, Tunnel, value};
use toml::de::DeValue;

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

/// Where a key belongs that does not belong where it stands, and what to write there.
pub(super) fn elsewhere(name: &str) -> Option<String> {
    if TOP.iter().any(|key| key.name == name) {
        return Some("it is of the whole daemon; write it above the first [[tunnel]]".into());
    }
    if TUNNEL.iter().any(|key| key.name == name) {
        return Some("it is of one tunnel; write it below its [[tunnel]]".into());
    }
    let legs = Leg::ALL.into_iter().filter(|leg| options::row(*leg, name).is_some());
    let written: Vec<String> = legs.map(|leg| format!("{leg} = {{ {name} = .. }}")).collect();
    match written.is_empty() {
        true => suggest::advice(name).map(|advice| format!("there is no such key; {advice}")),
        false => Some(format!("it is a socket option; write {} in a [[tunnel]]", written.join(" or "))),
    }
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

/// unix(7): sun_path has room for 108 bytes, and the last one is NUL.
const SUN_PATH_MAX: usize = 108;

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = include_str!("../../../docs/configuration.md");

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
