//! SIGINT, SIGTERM and SIGHUP end the lab at once, with a clean terminal. The lab's programs, namespaces and devices vanish with
//! the process in any case (see `supervisor`), so nothing is taken down here.

use crate::error::LabError;
use std::future::poll_fn;
use std::io;
use std::task::Poll;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::sleep;

/// Makes signals end the process: calls `tidy` on a thread of its own, then exits with 128 plus the signal's number, as shells
/// report it (130 for Ctrl-C). [`PATIENCE`] later a further signal does not wait for `tidy`, which may write to a pipe that nobody
/// reads. A signal that is already ignored, as under nohup(1), stays ignored.
///
/// # Errors
/// No thread or descriptor is available.
pub(crate) fn end_with(tidy: impl FnOnce() + Send + 'static) -> Result<(), LabError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
    let runtime = runtime.map_err(LabError::io("preparing for signals"))?;
    let mut signals = {
        let _inside = runtime.enter();
        Signals::open().map_err(LabError::io("preparing for signals"))?
    };
    let wait = async move {
        let which = signals.next().await;
        // Dropped when the thread ends, also by a panic.
        let (tidying, tidied) = tokio::sync::oneshot::channel::<()>();
        let body = move || {
            let _tidying = tidying;
            tidy();
        };
        let _ = std::thread::Builder::new().name("lab-tidy".into()).spawn(body);
        // The process ends next, so nothing is lost with the arm that is dropped.
        let further = async {
            sleep(PATIENCE).await;
            signals.next().await
        };
        tokio::select! {
            _ = tidied => which,
            further = further => further,
        }
    };
    let body = move || {
        let which = runtime.block_on(wait);
        std::process::exit(128 + which.as_raw_value());
    };
    let spawned = std::thread::Builder::new().name("lab-signals".into()).spawn(body);
    spawned.map(drop).map_err(LabError::io("starting the thread for signals"))
}

/// The signals that end the lab, without those that this process ignores.
struct Signals(Vec<(SignalKind, Signal)>);

impl Signals {
    fn open() -> io::Result<Signals> {
        let ignored = ignored();
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let heeded = kinds.into_iter().filter(|kind| ignored & (1 << (kind.as_raw_value() - 1)) == 0);
        heeded.map(|kind| Ok((kind, signal(kind)?))).collect::<io::Result<_>>().map(Signals)
    }

    /// Waits for the next signal. The wait may be dropped.
    async fn next(&mut self) -> SignalKind {
        poll_fn(|context| {
            let came =
                |(kind, signal): &mut (SignalKind, Signal)| signal.poll_recv(context).is_ready().then_some(*kind);
            self.0.iter_mut().find_map(came).map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// Returns the signals that this process ignores, one bit each, from signal 1 (proc_pid_status(5), SigIgn).
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}

/// Time that `tidy` has before a further signal ends the process. `lab up` may need 4 s to take its lab down.
const PATIENCE: Duration = Duration::from_secs(5);
