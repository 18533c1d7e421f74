use super::*;
use crate::config::{Admin, Config, Probe};
use crate::document::{Field, Severity};
use longhaul_core::next_hop::POLICIES;
use toml::de::{DeTable, DeValue};

const DOCUMENT: &str = include_str!("../../../../docs/configuration.md");

#[test]
fn docs_configuration_md_matches_the_rows() {
    let policies: String = POLICIES.iter().map(|policy| format!("| `{}` | {} |\n", policy.name, policy.help)).collect();
    let mut document = DOCUMENT.to_string();
    for (heading, head, rows) in [
        ("## Keys of the daemon", KEYS, DAEMON.iter().map(line).collect()),
        ("## Keys of a tunnel", KEYS, TUNNEL.iter().map(line).collect()),
        ("### Policies", "| policy | next hop that is dialled first |\n| --- | --- |\n", policies),
        ("## Keys of `[admin]`", KEYS, ADMIN.iter().map(line).collect::<String>()),
        ("## Keys of `[probe]`", KEYS, PROBE.iter().map(line).collect::<String>()),
    ] {
        document = with_table(&document, heading, &format!("{head}{rows}"));
    }
    if std::env::var_os("UPDATE").is_some() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        return std::fs::write(file, document).expect("docs/configuration.md");
    }
    assert!(
        document == DOCUMENT,
        "run UPDATE=1 cargo test -p longhaul-config --lib docs_configuration_md; read the diff"
    );
}

const KEYS: &str = "| key | default | meaning | flag of `longhaul relay` |\n| --- | --- | --- | --- |\n";

fn line<M>(row: &Row<M>) -> String {
    let default = match row.default {
        KeyDefault::Required | KeyDefault::RequiredInFile(_) => "required".into(),
        KeyDefault::Value(value) => format!("`{value}`"),
        KeyDefault::Words(words) => words.to_string(),
    };
    let flag = match (&row.flag, &row.value) {
        (Some(Flag { name, argument: Argument::Named(value), .. }), _) => format!("`--{name} {value}`"),
        (Some(Flag { name, argument: Argument::Means(_), .. }), _) => format!("`--{name}`"),
        (None, KeyValue::Options { leg, .. }) => format!("`--set {leg}.KEY=VALUE`"),
        (None, _) => "none".into(),
    };
    format!("| `{}` | {default} | {} Example: `{}` | {flag} |\n", row.name, row.doc, row.example)
}

/// Returns `document` with `table` in place of the first table below `heading`.
fn with_table(document: &str, heading: &str, table: &str) -> String {
    let (before, after) = document.split_once(heading).unwrap_or_else(|| panic!("{heading} is missing"));
    let start = after.find("\n| ").unwrap_or_else(|| panic!("{heading}: its table is missing")) + 1;
    let end = after[start..].find("\n\n").map_or(after.len(), |end| start + end + 1);
    format!("{before}{heading}{}{table}{}", &after[..start], &after[end..])
}

#[test]
fn every_row_reads_its_own_default_and_example() {
    let tunnel = || Tunnel::new("", "[::]:0".parse().expect("an address"), Vec::new());
    for row in TUNNEL {
        let mut given = tunnel();
        read(row, row.example, &mut given);
        assert!(given != tunnel() || row.example == default(row.default), "{}: the example has no effect", row.name);
        if let KeyDefault::Value(value) = row.default {
            let mut given = tunnel();
            read(row, value, &mut given);
            assert_eq!(given, tunnel(), "{}: the model has another default", row.name);
        }
    }
    DAEMON.iter().for_each(|row| read(row, row.example, &mut Config::default()));
    ADMIN.iter().for_each(|row| read(row, row.example, &mut Admin::default()));
    PROBE.iter().for_each(|row| read(row, row.example, &mut Probe::default()));
}

/// The fuzz target begins with these files, too.
#[test]
fn the_files_with_every_key_and_every_option_have_every_row() {
    let whole = include_str!("../../tests/config/good/every-key.toml");
    let (daemon, below) = whole.split_once("[admin]").expect("[admin]");
    let (admin, below) = below.split_once("[probe]").expect("[probe]");
    let (probe, tunnel) = below.split_once("[[tunnel]]").expect("[[tunnel]]");
    let has = |part: &str, name: &str| part.lines().any(|line| line.starts_with(&format!("{name} = ")));
    DAEMON.iter().for_each(|row| assert!(has(daemon, row.name), "{}", row.name));
    ADMIN.iter().for_each(|row| assert!(has(admin, row.name), "[admin] {}", row.name));
    PROBE.iter().for_each(|row| assert!(has(probe, row.name), "[probe] {}", row.name));
    TUNNEL.iter().for_each(|row| assert!(has(tunnel, row.name), "[[tunnel]] {}", row.name));
    let whole = include_str!("../../tests/config/good/every-option.toml");
    let (accept, dial) = whole.split_once("[tunnel.dial]").expect("[tunnel.dial]");
    for row in options::ROWS {
        let is_there = row.legs.iter().any(|leg| has(if *leg == Leg::Accept { accept } else { dial }, row.key));
        assert!(is_there, "{} of {:?}", row.key, row.legs);
    }
}

fn default(default: KeyDefault) -> &'static str {
    if let KeyDefault::Value(value) = default { value } else { "" }
}

fn read<M>(row: &Row<M>, value: &str, model: &mut M) {
    let text = format!("{} = {value}", row.name);
    let table = DeTable::parse(&text).unwrap_or_else(|err| panic!("{text}: {err}"));
    let mut inner = table.get_ref();
    let (tables, name) = row.name.rsplit_once('.').unwrap_or(("", row.name));
    for name in tables.split('.').filter(|name| !name.is_empty()) {
        let DeValue::Table(next) = inner.get(name).expect("the table").get_ref() else { panic!("{text}") };
        inner = next;
    }
    let given = inner.get(name).expect("the key");
    row.read(model, given).unwrap_or_else(|faults| panic!("{text}: {}", faults[0].text));
}

#[test]
fn the_short_help_of_a_flag_fits_one_line_and_its_default_is_valid() {
    let tunnel = || Tunnel::new("", "[::]:0".parse().expect("an address"), Vec::new());
    TUNNEL.iter().for_each(|row| fits(row, &mut tunnel()));
    DAEMON.iter().for_each(|row| fits(row, &mut Config::default()));
}

/// Checks the short help and the default of the row's flag.
fn fits<M>(row: &Row<M>, model: &mut M) {
    let Some(flag) = &row.flag else { return };
    let words = if let KeyDefault::Words(words) = row.default { Some(words) } else { None };
    let default = row.flag_default().or(words).map_or(0, |default| " [default: ]".len() + default.len());
    let no_default = matches!(flag.argument, Argument::Means(_));
    assert!(
        !flag.short.ends_with('.') && flag.short.len() + default * usize::from(!no_default) <= 47,
        "{}",
        flag.short
    );
    if let (Some(text), false) = (row.flag_default(), no_default) {
        row.set(model, text).unwrap_or_else(|err| panic!("{}: {err}", flag.name));
    }
}

#[test]
fn the_message_about_a_misplaced_key_names_its_place() {
    for name in ["connect_timeout", "connect-timeout"] {
        assert!(elsewhere(name, None).is_some_and(|text| text.contains("of one tunnel")), "{name}");
    }
    assert!(elsewhere("keepalive_idle", None).is_some_and(|text| text.contains("keepalive-idle = ..")));
    assert_eq!(elsewhere("quux", None), None);
    let tunnel = Tunnel::new("a", "[::]:1".parse().expect("an address"), Vec::new());
    assert_eq!(remarks(&tunnel, Syntax::File)[0].severity, Severity::Warning);
}
