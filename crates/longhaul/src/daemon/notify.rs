//! Messages to systemd (sd_notify(3)), and to the log what systemd is told of a reload that comes too late.

use sd_notify::NotifyState;
use std::time::Duration;
use tokio::time::interval;
use tracing::{info, warn};

/// Tells systemd, when it is there.
pub(super) fn tell(state: &[NotifyState<'_>]) {
    if let Err(err) = sd_notify::notify(false, state) {
        warn!(%err, "cannot tell systemd");
    }
}

/// Tells systemd that a reload has begun. It wants the time, or waits for it (sd_notify(3), Type=notify-reload).
pub(super) fn tell_reloading() {
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        tell(&[NotifyState::Reloading, now]);
    }
}

/// Answers a reload that comes too late: `systemctl reload` of a unit with Type=notify-reload waits for READY=1.
pub(super) fn not_reloaded() {
    info!("draining: not reloaded");
    tell(&[NotifyState::Ready]);
}

/// Tells systemd's watchdog twice in its time that the runtime still runs (sd_watchdog_enabled(3)).
pub(super) async fn watchdog() {
    let mut usec = 0;
    if sd_notify::watchdog_enabled(false, &mut usec) {
        let mut tick = interval(Duration::from_micros(usec / 2).max(Duration::from_millis(1)));
        loop {
            tick.tick().await;
            tell(&[NotifyState::Watchdog]);
        }
    }
}
