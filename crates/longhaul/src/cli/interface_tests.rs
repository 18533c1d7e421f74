//! The names of the command line and of a configuration file that other versions must have, too: `interface/`.

use super::{Cli, options::word};
use crate::interface::check;
use clap::{Arg, Command, CommandFactory};
use longhaul_config::keys::{ADMIN, DAEMON, KeyValue, PROBE, Row, TUNNEL};
use longhaul_config::options::{Leg, ROWS};

#[test]
fn no_released_command_or_flag_is_gone() {
    let mut cli = Cli::command();
    cli.build();
    let mut names = Vec::new();
    collect("longhaul", &cli, true, &mut names);
    check("commands", names);
}

#[test]
fn no_released_key_or_option_is_gone() {
    let keys = [keys("", DAEMON), keys("admin.", ADMIN), keys("probe.", PROBE), keys("tunnel.", TUNNEL)].concat();
    let options = ROWS
        .iter()
        .flat_map(|row| row.legs.iter().map(move |leg: &Leg| format!("tunnel.{leg}.{} {}", row.key, word(row.unit))));
    check("config", keys.into_iter().chain(options));
}

/// Adds the names of `command` and of those below it. A flag that all commands have is listed once.
fn collect(path: &str, command: &Command, is_first: bool, names: &mut Vec<String>) {
    let shown = command.get_arguments().filter(|arg| is_first || !arg.is_global_set() && arg.get_id() != "help");
    names.extend(shown.flat_map(spellings).map(|spelling| format!("{path} {spelling}")));
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        for name in [below.get_name()].into_iter().chain(below.get_all_aliases()) {
            names.push(format!("{path} {name}"));
            collect(&format!("{path} {name}"), below, false, names);
        }
    }
}

/// Returns each way of writing an argument. One without a name is told by its place.
fn spellings(arg: &Arg) -> Vec<String> {
    let short = arg.get_short_and_visible_aliases().unwrap_or_default().into_iter().map(|short| format!("-{short}"));
    let long = arg.get_long_and_visible_aliases().unwrap_or_default().into_iter().map(|long| format!("--{long}"));
    let place = arg.get_index().map(|place| format!("argument {place}"));
    let values: Vec<String> = match (arg.get_action().takes_values(), arg.get_possible_values()) {
        (false, _) => vec![String::new()],
        (true, values) if values.is_empty() => vec![" VALUE".into()],
        (true, values) => values.iter().map(|value| format!(" {}", value.get_name())).collect(),
    };
    let names = short.chain(long).chain(place);
    names.flat_map(|name| values.iter().map(move |value| name.clone() + value).collect::<Vec<_>>()).collect()
}

fn keys<M>(table: &str, rows: &[Row<M>]) -> Vec<String> {
    let written = rows.iter().filter_map(|row| match row.value {
        KeyValue::One(_) => Some((row.name, "value")),
        KeyValue::Number(_) => Some((row.name, "number")),
        KeyValue::Several { .. } => Some((row.name, "value or list")),
        // Its options have names of their own.
        KeyValue::Options { .. } => None,
    });
    written.map(|(name, kind)| format!("{table}{name} {kind}")).collect()
}
