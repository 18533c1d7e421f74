//! Describes a configuration in words for `longhaul check`.

use crate::config::Config;
use crate::keys::{ADMIN, DAEMON, PROBE, TUNNEL};

/// Returns a few lines for each tunnel of `config`, and a line for each setting of the process.
pub fn summary(config: &Config) -> String {
    let count = config.tunnels.len();
    let mut text = format!("good, {count} tunnel{}\n", if count == 1 { "" } else { "s" });
    for tunnel in &config.tunnels {
        text += &format!("{}\n", tunnel.name);
        text.extend(TUNNEL.iter().filter_map(|row| (row.show)(tunnel)).map(|line| format!("  {line}\n")));
    }
    text.extend(DAEMON.iter().filter_map(|row| (row.show)(config)).map(|line| format!("{line}\n")));
    text.extend(ADMIN.iter().filter_map(|row| (row.show)(&config.admin)).map(|line| format!("{line}\n")));
    text.extend(PROBE.iter().filter_map(|row| (row.show)(&config.probe)).map(|line| format!("{line}\n")));
    text
}
