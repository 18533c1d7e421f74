//! Writes messages of the configuration to the log.

use longhaul_config::{Message, Severity};
use tracing::{error, info, warn};

/// Writes `message` to the log at the level of its severity.
pub fn log(message: &Message) {
    let Message { severity, place, text } = message;
    match severity {
        Severity::Error => error!("{place}: {text}"),
        Severity::Warning => warn!("{place}: {text}"),
        Severity::Note => info!("{place}: {text}"),
    }
}
