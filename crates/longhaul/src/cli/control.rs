//! Requests to a running daemon, and the flags that say which one: `longhaul reload`, `drain`, `kill` and `path --tunnel`.

use super::{complain, print};
use clap::Args;
use longhaul::admin::client::{self, Ask, NoAnswer};
use longhaul::admin::{DrainProgress, default_path};
use longhaul_config::{DEFAULT_PATH, Refused};
use longhaul_doctor::Measure;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tokio::runtime::{Builder, Runtime};

/// The flags that name a running daemon.
#[derive(Args)]
pub(super) struct Target {
    /// Configuration file of the daemon
    ///
    /// Its `[admin] socket` is the control socket, or /run/longhaul/admin.sock if it has none. Without -c and --admin, the file is
    /// /etc/longhaul/longhaul.toml.
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Control socket of the daemon
    ///
    /// That of `longhaul relay --name NAME` is /run/longhaul/NAME.sock. The name of an instance of longhaul@.service is the
    /// instance with dashes for colons: /run/longhaul/6000-10.20.20.20-6000.sock.
    #[arg(long, value_name = "SOCKET", conflicts_with = "config")]
    admin: Option<PathBuf>,
}

/// The flags of `longhaul path`.
#[derive(Args)]
pub(super) struct PathFlags {
    #[command(flatten)]
    measure: Measure,
    #[command(flatten)]
    target: Target,
}

/// The flags of `longhaul drain`.
#[derive(Args)]
pub(super) struct DrainFlags {
    #[command(flatten)]
    target: Target,
    /// Undo the drain: listen again
    #[arg(long)]
    undo: bool,
}

/// The flags of `longhaul kill`.
#[derive(Args)]
pub(super) struct KillFlags {
    #[command(flatten)]
    target: Target,
    /// Number of each flow, as in `longhaul status` and in the log
    ///
    /// Numbers begin again with 1 when the daemon starts again.
    #[arg(value_name = "FLOW", required = true, value_parser = number)]
    flows: Vec<u64>,
}

/// Measures a path. With --tunnel, the daemon makes the connections.
pub(super) fn path(flags: PathFlags) -> ExitCode {
    let PathFlags { measure, target } = flags;
    if target.is_named() && measure.tunnel().is_none() {
        return complain(&[
            "error: -c and --admin name the daemon of --tunnel NAME; write --tunnel, or leave them out",
        ]);
    }
    measure.run(|tunnel| target.measure(tunnel))
}

/// Lets the daemon read its file again, and prints the outcome.
pub(super) fn reload(target: &Target) -> ExitCode {
    match target.ask(Ask::Reload) {
        Ok(bytes) => {
            let answer: serde_json::Value = serde_json::from_slice(&bytes).unwrap_or_default();
            print(&format!("reloaded, tunnels: {}\n", answer["tunnels"]))
        }
        Err(NoAnswer::Refused(why)) => failed(&format!("reload refused: {why}")),
        Err(err) => failed(&format!("error: {err}")),
    }
}

/// Drains the daemon and waits for its last flow, or undoes the drain.
pub(super) fn drain(flags: &DrainFlags) -> ExitCode {
    if flags.undo {
        return match flags.target.ask(Ask::Undrain) {
            Ok(_) => print("the tunnels listen\n"),
            Err(NoAnswer::Refused(why)) => failed(&format!("the drain cannot be undone: {why}")),
            Err(err) => failed(&format!("error: {err}")),
        };
    }
    let mut said = None;
    let drained = flags.target.drain(|progress| {
        if said.replace(progress.flows) != Some(progress.flows) {
            complain(&[format!("draining, flows left: {}", progress.flows)]);
        }
    });
    match drained {
        Ok(()) => print("drained: no flow is left. SIGTERM ends the daemon; `longhaul drain --undo` listens again\n"),
        Err(err) => failed(&format!("error: {err}")),
    }
}

/// Cuts the flows, one after the other, and prints the outcome of each. Goes on after a flow that does not exist.
pub(super) fn kill(flags: &KillFlags) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for flow in &flags.flows {
        code = match flags.target.ask(Ask::Kill(*flow)) {
            Ok(_) if print(&format!("flow {flow}: killed\n")) == ExitCode::SUCCESS => code,
            Ok(_) => return ExitCode::FAILURE,
            Err(NoAnswer::Refused(why)) => {
                complain(&[format!("flow {flow}: {why}")]);
                ExitCode::FAILURE
            }
            Err(err) => return failed(&format!("error: {err}")),
        };
    }
    code
}

fn number(text: &str) -> Result<u64, &'static str> {
    text.parse().map_err(|_| "write the number of a live flow, as in `longhaul status`")
}

impl Target {
    /// Returns the path of the daemon's control socket.
    ///
    /// # Errors
    /// The file that -c names cannot be read.
    pub(super) fn socket(&self) -> Result<PathBuf, NoAnswer> {
        if let Some(socket) = &self.admin {
            return Ok(socket.clone());
        }
        let configured = match &self.config {
            Some(file) => longhaul_config::control_socket(file).map_err(|refused| unreadable(&refused))?,
            // Without the file, a daemon may run with another one and the default socket.
            None => longhaul_config::control_socket(Path::new(DEFAULT_PATH)).ok().flatten(),
        };
        Ok(configured.unwrap_or_else(|| default_path("admin")))
    }

    /// Whether it is the daemon of longhaul.service, as far as the flags tell.
    pub(super) fn is_the_service(&self) -> bool {
        self.admin.is_none() && self.config.as_deref().is_none_or(|file| file == Path::new(DEFAULT_PATH))
    }

    /// Sends a request to the daemon. Returns the JSON text of its answer.
    ///
    /// # Errors
    /// There is no answer, or not the one that was asked for.
    pub(super) fn ask(&self, what: Ask) -> Result<Vec<u8>, NoAnswer> {
        ask(&self.socket()?, what)
    }

    /// Asks the daemon for the connections of a measurement through `tunnel`. Returns the connection on which it gives them.
    ///
    /// # Errors
    /// There is no daemon, or it begins no measurement. The text says why, and what to do.
    pub(super) fn measure(&self, tunnel: &str) -> Result<UnixStream, String> {
        let asked = self.socket().and_then(|socket| runtime()?.block_on(client::measure(&socket, tunnel)));
        asked.map_err(|err| match err {
            NoAnswer::NoDaemon(_) => {
                format!("{err}: start it (`longhaul run`), or name its control socket with --admin SOCKET")
            }
            err => err.to_string(),
        })
    }

    /// Whether a flag names the daemon.
    pub(super) fn is_named(&self) -> bool {
        self.config.is_some() || self.admin.is_some()
    }

    /// Drains the daemon, and waits until no flow is left. Calls `say` with the progress.
    ///
    /// # Errors
    /// There is no answer, or the drain has ended before the last flow.
    pub(super) fn drain(&self, say: impl FnMut(&DrainProgress)) -> Result<(), NoAnswer> {
        let socket = self.socket()?;
        runtime()?.block_on(client::drain(&socket, say))
    }
}

/// Sends a request to the daemon whose control socket is `socket`. Returns the JSON text of its answer.
///
/// # Errors
/// As [`Target::ask`].
pub(super) fn ask(socket: &Path, what: Ask) -> Result<Vec<u8>, NoAnswer> {
    runtime()?.block_on(client::ask(socket, what)).map(|bytes| bytes.to_vec())
}

/// Returns the reasons of `refused` without the word `error`, because each command writes that in front.
fn unreadable(refused: &Refused) -> NoAnswer {
    let why: Vec<String> =
        refused.messages.iter().map(|message| format!("{}: {}", message.place, message.text)).collect();
    NoAnswer::Failed(why.join("; "))
}

fn runtime() -> Result<Runtime, NoAnswer> {
    let runtime = Builder::new_current_thread().enable_io().enable_time().build();
    runtime.map_err(|err| NoAnswer::Failed(format!("cannot start: {err}")))
}

/// Writes `why` to stderr. Returns the exit code of a command that has failed.
pub(super) fn failed(why: &str) -> ExitCode {
    complain(&[why]);
    ExitCode::FAILURE
}
