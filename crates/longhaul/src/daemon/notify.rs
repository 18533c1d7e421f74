//! Messages to systemd (sd_notify(3)). A reload that comes too late is logged too.

use sd_notify::NotifyState;
use std::time::Duration;
use tokio::time::interval;
use tracing::{info, warn};

/// Sends `state` to systemd, if systemd started us.
pub(super) fn tell(state: &[NotifyState<'_>]) {
    if let Err(err) = sd_notify::notify(false, state) {
        warn!(%err, "cannot notify systemd");
    }
}

/// Tells systemd that a reload has begun. systemd needs the time with it (sd_notify(3), Type=notify-reload).
pub(super) fn tell_reloading() {
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        tell(&[NotifyState::Reloading, now]);
    }
}

/// Answers a reload that comes too late. `systemctl reload` of a unit with Type=notify-reload waits for READY=1.
pub(super) fn not_reloaded() {
    info!("draining: not reloaded");
    tell(&[NotifyState::Ready]);
}

/// Tells systemd's watchdog that the runtime works, twice per watchdog period (sd_watchdog_enabled(3)), while `is_well`
/// returns true.
pub(super) async fn watchdog(is_well: impl Fn() -> bool) {
    let mut usec = 0;
    if sd_notify::watchdog_enabled(false, &mut usec) {
        let mut tick = interval(Duration::from_micros(usec / 2).max(Duration::from_millis(1)));
        loop {
            tick.tick().await;
            if is_well() {
                tell(&[NotifyState::Watchdog]);
            }
        }
    }
}
