//! SIGINT, SIGTERM and SIGHUP: the lab ends at once, with a clean terminal. Its programs, namespaces and devices go with the
//! process, however that ends (see `supervisor`), so nothing has to be taken down here.

use crate::error::LabError;
use tokio::signal::unix::{SignalKind, signal};

/// From here on a signal ends the process: `tidy` is called, and the exit code is 128 and the signal's number, as shells
/// say it (130 for Ctrl-C). A signal that the process was told to ignore, as nohup(1) does, stays ignored.
///
/// # Errors
/// There is no thread left, or no descriptor.
pub(crate) fn end_with(tidy: impl FnOnce() + Send + 'static) -> Result<(), LabError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    let runtime = runtime.map_err(LabError::io("preparing for signals"))?;
    let ignored = ignored();
    let [mut interrupt, mut terminate, mut hang_up] = {
        let _inside = runtime.enter();
        let open = |kind| match ignored & (1 << (SignalKind::as_raw_value(&kind) - 1)) {
            0 => signal(kind).map(Some).map_err(LabError::io("preparing for signals")),
            _ => Ok(None),
        };
        [open(SignalKind::interrupt())?, open(SignalKind::terminate())?, open(SignalKind::hangup())?]
    };
    let wait = async move {
        // Receiving a signal is cancel-safe: one that is not taken here ends the process all the same.
        tokio::select! {
            Some(()) = next(&mut interrupt) => SignalKind::interrupt(),
            Some(()) = next(&mut terminate) => SignalKind::terminate(),
            Some(()) = next(&mut hang_up) => SignalKind::hangup(),
            else => std::future::pending().await,
        }
    };
    let body = move || {
        let which = runtime.block_on(wait);
        tidy();
        std::process::exit(128 + which.as_raw_value());
    };
    let spawned = std::thread::Builder::new().name("lab-signals".into()).spawn(body);
    spawned.map(drop).map_err(LabError::io("starting the thread for signals"))
}

async fn next(signal: &mut Option<tokio::signal::unix::Signal>) -> Option<()> {
    match signal {
        Some(signal) => signal.recv().await,
        None => None,
    }
}

/// The signals that this process ignores, a bit each from signal 1 on (proc_pid_status(5), SigIgn).
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}
