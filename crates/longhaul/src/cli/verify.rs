//! `longhaul verify`: whether tunnels are whole, from end to end.

use super::{BROKEN, UNKNOWN, WRONG, complain, logs, print};
use clap::Args;
use longhaul::verify::{self, MIN_ECHO_BYTES, Plan, Verdict, Verified};
use longhaul_config::{Config, Tunnel};
use longhaul_core::wire::probe::MAX_ECHO_BYTES;
use longhaul_core::wire::proof::Key;
use longhaul_units::Bytes;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// The flags of `longhaul verify`.
#[derive(Args)]
pub(super) struct Flags {
    /// Tunnel to verify [default: every tunnel]
    tunnel: Option<String>,
    /// Configuration file
    ///
    /// By default /etc/longhaul/longhaul.toml.
    #[arg(short, long, value_name = "FILE", default_value = longhaul_config::DEFAULT_PATH, hide_default_value = true)]
    config: PathBuf,
    /// File with the key that the relays want
    ///
    /// By default the `key_file` below `[probe]` in the configuration file.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Payload to send there and back
    ///
    /// 1KiB to 64MiB.
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = size)]
    size: u32,
    /// Time to wait for each answer
    ///
    /// By default, until the tunnel's dials have failed: `connect_timeout` for each next hop and 5 s, and 15 s or more.
    #[arg(long, value_name = "TIME", value_parser = limit)]
    timeout: Option<Duration>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Print one line for Nagios
    ///
    /// The exit code is 0 if every tunnel is whole, 2 if one is broken, and 3 otherwise.
    #[arg(long, conflicts_with = "json")]
    nagios: bool,
}

/// Verifies the tunnels, one after the other, and prints the results.
pub(super) fn verify(flags: &Flags, logs: logs::Flags) -> ExitCode {
    let refused = ExitCode::from(if flags.nagios { UNKNOWN } else { WRONG });
    let Config { tunnels, probe, .. } = match longhaul_config::load(&flags.config) {
        Ok(loaded) => loaded.config,
        Err(why) => {
            logs.tell(&why.messages);
            return refused;
        }
    };
    let chosen: Vec<&Tunnel> =
        tunnels.iter().filter(|tunnel| flags.tunnel.as_ref().is_none_or(|name| *name == tunnel.name)).collect();
    if let (true, Some(name)) = (chosen.is_empty(), &flags.tunnel) {
        let known: Vec<_> = tunnels.iter().map(|tunnel| tunnel.name.as_str()).collect();
        complain(&[format!("error: {} has no tunnel `{name}`; it has: {}", flags.config.display(), known.join(", "))]);
        return refused;
    }
    let key = match flags.key_file.as_ref().or(probe.key_file.as_ref()).map(|path| verify::load_key(path)).transpose() {
        Ok(key) => key.map(Arc::new),
        Err(why) => {
            complain(&[format!("error: {why}")]);
            return refused;
        }
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(err) => {
            complain(&[format!("error: cannot start the runtime: {err}")]);
            return ExitCode::from(UNKNOWN);
        }
    };
    let verified: Vec<Verified> =
        chosen.into_iter().map(|tunnel| runtime.block_on(flags.probe(tunnel, key.clone()))).collect();
    let printed = match (flags.json, flags.nagios) {
        (true, _) => print(&verify::json(&verified)),
        (_, true) => print(&verify::nagios(&verified)),
        _ => print(&verified.iter().map(Verified::text).collect::<String>()),
    };
    match verified.iter().map(Verified::verdict).max() {
        // Then an error of stdout counts.
        Some(Verdict::Whole) => printed,
        Some(Verdict::Broken) if flags.nagios => ExitCode::from(BROKEN),
        Some(Verdict::Broken) => ExitCode::FAILURE,
        Some(Verdict::Unknown) | None => ExitCode::from(UNKNOWN),
    }
}

impl Flags {
    async fn probe(&self, tunnel: &Tunnel, key: Option<Arc<Key>>) -> Verified {
        let plan = Plan { key, ..Plan::of(tunnel, self.size, self.timeout) };
        let findings = verify::run(&plan).await;
        Verified { tunnel: tunnel.name.clone(), plan, findings }
    }
}

fn size(text: &str) -> Result<u32, String> {
    let Bytes(bytes) = text.parse().map_err(|err| format!("{err}; write a size such as 1MiB"))?;
    let range = MIN_ECHO_BYTES..=MAX_ECHO_BYTES;
    u32::try_from(bytes).ok().filter(|bytes| range.contains(bytes)).ok_or_else(|| "write 1KiB to 64MiB".into())
}

fn limit(text: &str) -> Result<Duration, String> {
    let time = longhaul_units::duration(text).map_err(|err| format!("{err}; write a time such as 10s"))?;
    if time.is_zero() { Err("write a time such as 10s".into()) } else { Ok(time) }
}
