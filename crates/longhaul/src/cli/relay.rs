//! `longhaul relay`: one tunnel from flags. Each flag but `--set` comes from a row of [`longhaul_config::keys`], which reads the
//! key of the same name in a file.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use longhaul_config::keys::{Argument, DAEMON, Flag, KeyDefault, KeyValue, Row, TUNNEL};
use longhaul_config::{Config, Loaded, Message, Remark, Severity, Syntax, Tunnel, options};
use std::net::{Ipv6Addr, SocketAddr};

/// The flags of `longhaul relay`.
pub(super) struct RelayFlags {
    tunnel: Tunnel,
    /// The keys of the daemon; no tunnels.
    daemon: Config,
    /// Values of `--set`.
    set: Vec<String>,
}

impl Args for RelayFlags {
    fn augment_args(command: Command) -> Command {
        let tunnel = TUNNEL.iter().filter_map(|row| arg(row, blank));
        // What must be given comes first.
        let (required, optional): (Vec<Arg>, Vec<Arg>) = tunnel.partition(Arg::is_required_set);
        let daemon = DAEMON.iter().filter_map(|row| arg(row, Config::default));
        command.args(required).args(optional).arg(set()).args(daemon).after_long_help(EXAMPLES)
    }

    fn augment_args_for_update(command: Command) -> Command {
        RelayFlags::augment_args(command)
    }
}

impl FromArgMatches for RelayFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<RelayFlags, clap::Error> {
        let mut flags = RelayFlags { tunnel: blank(), daemon: Config::default(), set: Vec::new() };
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        fill(TUNNEL, &mut self.tunnel, matches)?;
        fill(DAEMON, &mut self.daemon, matches)?;
        self.set.extend(matches.get_many::<String>("set").into_iter().flatten().cloned());
        Ok(())
    }
}

impl RelayFlags {
    /// Returns the configuration of this one tunnel, and the warnings about it.
    ///
    /// # Errors
    /// Names the mistake, and what to write instead.
    pub(super) fn load(self) -> Result<Loaded, String> {
        let RelayFlags { mut tunnel, daemon, set } = self;
        for text in &set {
            options::set(&mut tunnel.accept, &mut tunnel.dial, text)
                .map_err(|why| format!("invalid value '{text}' for '--set <LEG.KEY=VALUE>': {why}"))?;
        }
        let mut remarks = longhaul_config::remarks(&tunnel, Syntax::Flags);
        // Paths belong to the daemon, of which this is the only tunnel.
        let bandwidth = if tunnel.bandwidth.is_auto { std::mem::take(&mut tunnel.bandwidth) } else { daemon.bandwidth };
        let config = Config { tunnels: vec![tunnel], bandwidth, ..daemon };
        remarks.extend(longhaul_config::daemon_remarks(&config, Syntax::Flags));
        let (errors, warnings): (Vec<_>, Vec<_>) =
            remarks.into_iter().partition(|remark| remark.severity == Severity::Error);
        if let Some(error) = errors.first() {
            return Err(format!("--{}: {}", error.key, error.text));
        }
        let message = |Remark { severity, key, text }| Message { severity, place: key, text };
        let warnings = warnings.into_iter().map(message).collect();
        Ok(Loaded { config, warnings })
    }
}

/// Returns the flag of `row`, where it has one; `blank` returns a model to try values on.
fn arg<M: 'static>(row: &'static Row<M>, blank: fn() -> M) -> Option<Arg> {
    let flag = row.flag.as_ref()?;
    let arg = Arg::new(flag.name).long(flag.name);
    let default = row.flag_default();
    let short = match row.default {
        KeyDefault::Words(words) if default.is_none() => format!("{} [default: {words}]", flag.short),
        _ => flag.short.into(),
    };
    let arg = if flag.long.is_empty() { arg } else { arg.long_help(format!("{short}\n\n{}", flag.long)) };
    let arg = arg.help(short);
    let Argument::Named(name) = flag.argument else { return Some(arg.action(ArgAction::SetTrue)) };
    // The row parses twice: here, so that clap names the flag of a bad value, and in `fill`.
    let parse = move |text: &str| row.set(&mut blank(), text).map(|()| text.to_string());
    let arg = arg.value_name(name).value_parser(parse);
    let arg = match row.value {
        KeyValue::Several { .. } => arg.action(ArgAction::Append).value_delimiter(','),
        KeyValue::One(_) | KeyValue::Number(_) | KeyValue::Options { .. } => arg.action(ArgAction::Set),
    };
    Some(match default {
        Some(value) => arg.default_value(value),
        None => arg.required(row.default == KeyDefault::Required),
    })
}

/// Stores the values of the flags of `rows` in `model`.
fn fill<M>(rows: &'static [Row<M>], model: &mut M, matches: &ArgMatches) -> Result<(), clap::Error> {
    for row in rows {
        let Some(flag) = &row.flag else { continue };
        for value in values(flag, matches) {
            row.set(model, value).map_err(|why| clap::Error::raw(clap::error::ErrorKind::ValueValidation, why))?;
        }
    }
    Ok(())
}

/// Returns the values that were given with `flag`, or its default.
fn values<'m>(flag: &'static Flag, matches: &'m ArgMatches) -> Vec<&'m str> {
    match flag.argument {
        Argument::Means(value) if matches.get_flag(flag.name) => vec![value],
        Argument::Means(_) => Vec::new(),
        Argument::Named(_) => matches.get_many::<String>(flag.name).into_iter().flatten().map(String::as_str).collect(),
    }
}

/// The one flag for every socket option.
fn set() -> Arg {
    Arg::new("set")
        .long("set")
        .value_name("LEG.KEY=VALUE")
        .value_parser(value_parser!(String))
        .action(ArgAction::Append)
        .help("Socket option of a leg; see `longhaul options`")
        .long_help(
            "Socket option of a leg; see `longhaul options`\n\n`accept.` is the leg from the client, `dial.` the leg to the \
             next hop. Repeat the flag for several options. If the kernel uses another value than yours, the log has \
             a warning with both values.",
        )
}

/// Returns a tunnel without the values that must be given.
fn blank() -> Tunnel {
    Tunnel::new("", SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)), Vec::new())
}

const EXAMPLES: &str = "\
Examples:
  In place of socat TCP4-LISTEN:6000,fork,range=10.10.10.0/24 TCP4:b:6000
    longhaul relay --listen 0.0.0.0:6000 --to b:6000 --allow 10.10.10.0/24
  A next hop behind a VPN with a small MTU, and a second one if that is down:
    longhaul relay --listen 6000 --to b1:6000,b2:6000 --set dial.mss=1254B";
