//! The start: descriptors, threads, signals, tunnels.

use super::descriptors::Descriptors;
use super::error::DaemonError;
use super::serve::Daemon;
use super::signals::Signals;
use crate::admin::{self, Admin, Source};
use crate::control::Control;
use longhaul_config::{Config, options};
use longhaul_relay::Relay;
use longhaul_sys::{activation, limits};
use std::path::PathBuf;
use tracing::info;

/// Serves the tunnels of `config` until SIGTERM or SIGINT has drained them. SIGHUP reads `file` again.
///
/// # Errors
/// Nothing was started. Or a listener has panicked, and the end of the process resets the remaining flows.
pub fn run(config: Config, file: Option<PathBuf>) -> Result<(), DaemonError> {
    // Before anything else opens a descriptor that could get one of their numbers.
    let passed = activation::sockets();
    let nofile = limits::raise_nofile().map_err(|err| DaemonError::process("descriptors")(&err))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("longhaul")
        .max_blocking_threads(MAX_BLOCKING_THREADS)
        .build()
        .map_err(|err| DaemonError::process("cannot start threads")(&err))?;
    // Before the count, because it keeps descriptors of its own.
    let thread = admin::Thread::start().map_err(|err| DaemonError::process("cannot start the admin thread")(&err))?;
    let descriptors = Descriptors::count(nofile, passed.len())?;
    let relay = Relay::new(descriptors.left(config.tunnels.len())?);
    relay.share_out(None, config.max_flows);
    info!(nofile, most_flows = relay.max_flows(), most_pipes = relay.max_pipes(), "limits");
    options::missing().iter().for_each(|lack| info!("{lack}"));
    let name = config.tunnels.first().map(|tunnel| tunnel.name.clone()).unwrap_or_default();
    let done = runtime.block_on(async {
        relay.adopt(passed);
        let (control, commands) = Control::new();
        let socket = admin::default_path(file.as_ref().map_or(name.as_str(), |_| "admin"));
        let admin = Admin::new(thread, Source::new(control.clone(), relay.clone()), socket, nofile);
        let mut daemon = Daemon::new(relay, file, descriptors.open);
        daemon.administrate(admin);
        // Before the first tunnel listens, so that from then on signals work as docs/operations.md says.
        let signals = Signals::new().map_err(|err| DaemonError::process("signals")(&err))?;
        daemon.apply(config)?;
        tokio::spawn(signals.forward(control));
        daemon.serve(commands).await
    });
    // Dropping the runtime would wait for names that are still being resolved.
    runtime.shutdown_background();
    done
}

/// Maximum number of threads that may wait for getaddrinfo(3) with `resolver = "system"`. Each name has one at most. A
/// thread starts when a name is looked up and ends after it was idle for 10 s.
const MAX_BLOCKING_THREADS: usize = 4096;
