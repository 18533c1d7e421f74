//! `longhaul verify`: whether tunnels are whole, from end to end.

use super::{BROKEN, UNKNOWN, WRONG, complain, control, logs, print};
use clap::Args;
use longhaul::admin::client::{Ask, NoAnswer};
use longhaul::admin::snapshot::{Snapshot, TunnelState};
use longhaul::figures::count;
use longhaul_config::{Config, Message, NextHop, Severity, Tunnel, key_file};
use longhaul_core::health::Health;
use longhaul_core::proxy_header::Accepts;
use longhaul_core::wire::probe::MAX_ECHO_BYTES;
use longhaul_core::wire::proof::Key;
use longhaul_relay::verify::{self, MIN_ECHO_BYTES, Plan, Verified};
use longhaul_units::{Bytes, Rate};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// The flags of `longhaul verify`.
#[derive(Args)]
pub(super) struct VerifyFlags {
    /// Tunnel to verify [default: every tunnel]
    tunnel: Option<String>,
    /// Configuration file
    ///
    /// By default /etc/longhaul/longhaul.toml.
    #[arg(short, long, value_name = "FILE", default_value = longhaul_config::DEFAULT_PATH, hide_default_value = true)]
    config: PathBuf,
    /// Control socket of a daemon, to verify its tunnels
    ///
    /// For `longhaul relay` and the instances of longhaul@.service, which have no file. That of `longhaul relay --name NAME` is
    /// /run/longhaul/NAME.sock.
    #[arg(long, value_name = "SOCKET", conflicts_with = "config")]
    admin: Option<PathBuf>,
    /// File with the key that the relays want
    ///
    /// By default the `key_file` below `[probe]` in the configuration file. With --admin there is no default.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Payload to send there and back
    ///
    /// 1KiB to 64MiB. A tunnel with a bandwidth cap gets at most the bytes that take 7.5 s at the cap.
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = size)]
    size: u32,
    /// Time to wait for each answer
    ///
    /// Default: `connect_timeout` for each next hop and 5 s, but at least 15 s, so that the tunnel's dials have failed. The
    /// whole probe of a tunnel may take this time once for each stage (the connection, each relay, the payload), and the time
    /// that the payload takes at 1 Mbit/s or at a sixteenth of the tunnel's bandwidth cap, up to 2 minutes: 69 s with the defaults.
    #[arg(long, value_name = "TIME", value_parser = limit)]
    timeout: Option<Duration>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Print one line for Nagios
    ///
    /// The exit code is 0 if every tunnel is whole, 2 if one is broken, and 3 if that cannot be told.
    #[arg(long, conflicts_with = "json")]
    nagios: bool,
}

/// Verifies the tunnels, one after the other, and prints the results.
pub(super) fn verify(flags: &VerifyFlags, logs: logs::LogFlags) -> ExitCode {
    let (tunnels, key) = match flags.plan(logs) {
        Ok(plan) => plan,
        Err(code) => return code,
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(err) => {
            complain(&[format!("error: cannot start the runtime: {err}")]);
            return ExitCode::from(UNKNOWN);
        }
    };
    let verified: Vec<Verified> =
        tunnels.iter().map(|tunnel| runtime.block_on(flags.probe(tunnel, key.clone()))).collect();
    let printed = match (flags.json, flags.nagios) {
        (true, _) => print(&verify::json(&verified)),
        (_, true) => print(&verify::nagios(&verified)),
        _ => print(&verified.iter().map(Verified::text).collect::<String>()),
    };
    match verified.iter().map(Verified::health).max() {
        // Then an error of stdout counts.
        Some(Health::Good) => printed,
        Some(Health::Broken) if flags.nagios => ExitCode::from(BROKEN),
        Some(Health::Broken) => ExitCode::FAILURE,
        _ => ExitCode::from(UNKNOWN),
    }
}

impl VerifyFlags {
    /// Returns the tunnels to verify and the key, or the exit code of a command that makes no probe.
    fn plan(&self, logs: logs::LogFlags) -> Result<(Vec<Tunnel>, Option<Arc<Key>>), ExitCode> {
        let (from, mut tunnels, key_file) = match &self.admin {
            Some(socket) => (socket, self.running(socket)?, None),
            None => {
                let Config { tunnels, probe, .. } = match longhaul_config::load(&self.config) {
                    Ok(loaded) => loaded.config,
                    Err(refused) => {
                        logs.tell(&refused.messages);
                        return Err(self.cannot_begin(&first_error(&refused.messages)));
                    }
                };
                (&self.config, tunnels, probe.key_file)
            }
        };
        if let Some(name) = self.tunnel.as_ref().filter(|name| tunnels.iter().all(|tunnel| tunnel.name != **name)) {
            let known: Vec<_> = tunnels.iter().map(|tunnel| tunnel.name.as_str()).collect();
            return Err(self.refuse(&format!(
                "{} has no tunnel `{name}`; it has: {}",
                from.display(),
                known.join(", ")
            )));
        }
        tunnels.retain(|tunnel| self.tunnel.as_ref().is_none_or(|name| *name == tunnel.name));
        let key = self.key_file.as_ref().or(key_file.as_ref()).map(|path| key_file::load(path)).transpose();
        Ok((tunnels, key.map_err(|why| self.refuse(&why.to_string()))?.map(Arc::new)))
    }

    /// Returns the tunnels that the daemon at `socket` serves. A time that the state does not show has its default.
    fn running(&self, socket: &Path) -> Result<Vec<Tunnel>, ExitCode> {
        let answer = control::ask(socket, Ask::Status).map_err(|why| match why {
            NoAnswer::NoDaemon(_) | NoAnswer::Hangs(_) if self.nagios => {
                print(&format!("longhaul CRITICAL - {why}\n"));
                ExitCode::from(BROKEN)
            }
            NoAnswer::NoDaemon(_) | NoAnswer::Hangs(_) => control::failed(&format!("error: {why}")),
            why => self.refuse(&why.to_string()),
        })?;
        let snapshot: Snapshot =
            serde_json::from_slice(&answer).map_err(|err| self.refuse(&format!("the daemon's answer: {err}")))?;
        Ok(snapshot.tunnels.into_iter().filter_map(served).collect())
    }

    /// Tells why no probe is made. Returns the exit code.
    fn refuse(&self, why: &str) -> ExitCode {
        complain(&[format!("error: {why}")]);
        self.cannot_begin(why)
    }

    /// Returns the exit code of a command that makes no probe. Nagios shows only stdout, so the reason goes there, too.
    fn cannot_begin(&self, why: &str) -> ExitCode {
        if self.nagios {
            print(&format!("longhaul UNKNOWN - {}\n", why.replace(['|', '\n'], " ")));
            return ExitCode::from(UNKNOWN);
        }
        ExitCode::from(WRONG)
    }

    async fn probe(&self, tunnel: &Tunnel, key: Option<Arc<Key>>) -> Verified {
        let plan = Plan { key, ..Plan::of(tunnel, self.size, self.timeout) };
        let findings = verify::run(&plan).await;
        Verified { tunnel: tunnel.name.clone(), plan, findings }
    }
}

/// Returns the first error of `messages`, with its file.
fn first_error(messages: &[Message]) -> String {
    let errors = || messages.iter().filter(|message| message.severity == Severity::Error);
    let first = errors().next().map(|Message { place, text, .. }| format!("{place}: {text}")).unwrap_or_default();
    match errors().count() {
        0 | 1 => first,
        all => format!("{first}, and {}", count(all - 1, "more error")),
    }
}

/// Returns what a probe needs to know of a tunnel that is served, or `None` if its address cannot be read.
fn served(state: TunnelState) -> Option<Tunnel> {
    let to = state.to.iter().map(|_| NextHop::new("localhost", 1)).collect();
    let mut tunnel = Tunnel::new(state.name, state.listen.parse().ok()?, to);
    tunnel.verify_hops = state.verify_hops;
    tunnel.flow_bandwidth = state.lowest_cap_bits_per_second.map(Rate);
    tunnel.proxy_in = state.proxy_in.as_deref().and_then(Accepts::named);
    Some(tunnel)
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
