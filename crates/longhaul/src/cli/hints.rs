//! Hints for a wrong command line: the flag that was probably meant, also by its name in another program.

use clap::Command;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use longhaul_config::options::{ROWS, Row};
use longhaul_config::suggest;
use longhaul_config::value;
use std::env;

/// Returns clap's message for a wrong command line of `cli`, with what to write instead where that is known.
pub(super) fn meant(mut err: clap::Error, mut cli: Command) -> clap::Error {
    let args: Vec<String> = env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect();
    if err.kind() == ErrorKind::InvalidSubcommand {
        let service = match err.get(ContextKind::InvalidSubcommand) {
            // The lab has no service.
            Some(ContextValue::String(given)) if !args.iter().any(|arg| arg == "lab") => service(given),
            _ => None,
        };
        if let Some(tip) = service.or_else(|| socat(&args, "longhaul relay ")) {
            err.remove(ContextKind::SuggestedSubcommand);
            err.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
        }
        return err;
    }
    let Some(ContextValue::String(given)) = err.get(ContextKind::InvalidArg) else { return err };
    let given = given.clone();
    cli.build();
    let asked = |command: &&mut Command| args.iter().any(|arg| arg == command.get_name());
    let Some(command) = cli.get_subcommands_mut().find(asked) else { return err };
    if err.kind() != ErrorKind::UnknownArgument {
        return err;
    }
    drop_escape(&mut err);
    // clap's own usage shows the flag that clap has guessed.
    let usage = ContextValue::StyledStr(command.render_usage());
    if let Some(tip) = tip(command.get_name(), &given, &args) {
        err.remove(ContextKind::SuggestedArg);
        err.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(tip)]));
        err.insert(ContextKind::Usage, usage);
        return err;
    }
    let flags = command.get_arguments().filter_map(clap::Arg::get_long);
    let flag = suggest::nearest(word(&given), flags).map(|flag| ContextValue::String(format!("--{flag}")));
    if let Some(flag) = flag.filter(|flag| err.get(ContextKind::SuggestedArg) != Some(flag)) {
        err.insert(ContextKind::SuggestedArg, flag);
        err.insert(ContextKind::Usage, usage);
    }
    err
}

/// Removes clap's tip `to pass '--check' as a value, use '-- --check'`: no argument of longhaul has such a value.
fn drop_escape(err: &mut clap::Error) {
    let Some(ContextValue::StyledStrs(tips)) = err.remove(ContextKind::Suggested) else { return };
    let kept: Vec<_> = tips.into_iter().filter(|tip| !tip.to_string().contains(" as a value, use ")).collect();
    if !kept.is_empty() {
        err.insert(ContextKind::Suggested, ContextValue::StyledStrs(kept));
    }
}

/// Returns the command of systemd for `word`, a verb of systemctl(1) that longhaul does not have.
fn service(word: &str) -> Option<String> {
    match word {
        "start" | "stop" | "restart" => Some(format!("write: systemctl {word} longhaul")),
        _ => None,
    }
}

/// Returns a whole sentence for the argument `given`, which `command` does not know.
fn tip(command: &str, given: &str, args: &[String]) -> Option<String> {
    let is_flag = given.starts_with('-');
    match command {
        "relay" if is_flag => option(word(given)).or_else(|| suggest::advice(word(given)).map(Into::into)),
        "relay" => set(given, args).or_else(|| socat(args, "")).or_else(|| listen_and_to(args)),
        _ => None,
    }
}

/// Returns how to write `--set dial.mss 1254` and `--set dial.mss = 1254`, of which clap does not know the word `given`.
fn set(given: &str, args: &[String]) -> Option<String> {
    let at = args.windows(3).position(|words| words[0] == "--set" && words[2] == given)?;
    let key = &args[at + 1];
    let value = match given.strip_prefix('=').unwrap_or(given) {
        "" => args.get(at + 3)?,
        value => value,
    };
    (key.contains('.') && !key.contains('=')).then(|| format!("write {key}={value}"))
}

/// Returns the flags for two bare words, such as `6000 10.20.20.20:6000`.
fn listen_and_to(args: &[String]) -> Option<String> {
    let [.., listen, to] = args else { return None };
    let is_port = |text: &str| text.parse::<u16>().is_ok();
    let has_port = |text: &str| text.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && is_port(port));
    ((is_port(listen) || has_port(listen)) && has_port(to)).then(|| format!("write: --listen {listen} --to {to}"))
}

/// Returns a sentence for a line of socat among `args`: its flags here after `command`, or why it has no counterpart.
fn socat(args: &[String], command: &str) -> Option<String> {
    let args = || args.iter().map(String::as_str);
    match args().find_map(foreign) {
        Some(kind) => Some(format!(
            "longhaul carries only TCP, from a TCP port to a TCP port; socat's `{kind}` has no counterpart"
        )),
        None => value::socat_line(args()).map(|flags| format!("write: {command}{flags}")),
    }
}

/// Returns the keyword of a socat address that is not plain TCP: `UDP4-LISTEN` of `udp4-listen:53,fork`.
fn foreign(arg: &str) -> Option<String> {
    const FAMILIES: &[&str] = &[
        "UDP", "UDPLITE", "OPENSSL", "SSL", "DTLS", "SCTP", "DCCP", "VSOCK", "UNIX", "ABSTRACT", "EXEC", "SYSTEM",
        "SHELL", "SOCKS", "SOCKS4", "SOCKS4A", "SOCKS5", "PROXY", "TUN",
    ];
    let (kind, rest) = arg.split_once(':')?;
    let kind = kind.to_ascii_uppercase();
    let family = kind.split('-').next()?;
    let known = FAMILIES.contains(&family) || FAMILIES.contains(&family.trim_end_matches(['4', '6']));
    // `proxy:3128` is a host and a port: a port alone follows only what listens or receives.
    let is_port = rest.split(',').next()?.bytes().all(|byte| byte.is_ascii_digit());
    let takes_port = ["-LISTEN", "-L", "-RECV", "-RECVFROM"].iter().any(|end| kind.ends_with(end));
    (known && (takes_port || !is_port)).then_some(kind)
}

/// Returns how to write the socket option that `word` names.
fn option(word: &str) -> Option<String> {
    let row = suggest::named(word, ROWS.iter().map(|row| row.key));
    let row: &Row = ROWS.iter().find(|known| Some(known.key) == row)?;
    // The dial leg, where both can have it.
    let leg = row.legs.last()?;
    Some(format!("it is a socket option; write --set {leg}.{}={}", row.key, row.sample))
}

/// Returns the name in `--NAME=VALUE`.
fn word(given: &str) -> &str {
    given.trim_start_matches('-').split('=').next().unwrap_or_default()
}
