//! SIGINT, SIGTERM and SIGHUP end the lab at once, with a clean terminal. The lab's programs, namespaces and devices vanish with
//! the process in any case (see `supervisor`), so nothing is taken down here.

use crate::error::LabError;
use tokio::signal::unix::{SignalKind, signal};

/// Makes signals end the process: calls `tidy`, then exits with 128 plus the signal's number, as shells report it (130 for
/// Ctrl-C). A signal that is already ignored, as under nohup(1), stays ignored.
///
/// # Errors
/// No thread or descriptor is available.
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
        // Receiving a signal is cancel-safe. A signal that is not received here does not matter, because the process ends anyway.
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

/// Returns the signals that this process ignores, one bit each, from signal 1 (proc_pid_status(5), SigIgn).
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}
