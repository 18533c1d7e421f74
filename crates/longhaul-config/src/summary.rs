//! What a configuration does, in words: what `longhaul check` prints of a good file.

use crate::options::{self, LegOptions};
use crate::{Config, Tunnel};
use longhaul_units::show_duration;
use std::time::Duration;

/// What `config` does, a few lines for each tunnel.
pub fn summary(config: &Config) -> String {
    let count = config.tunnels.len();
    let mut text = format!("good, {count} tunnel{}\n", if count == 1 { "" } else { "s" });
    for tunnel in &config.tunnels {
        text += &lines(tunnel);
    }
    text + &match config.drain_timeout {
        None => "SIGTERM waits for every flow to end\n".into(),
        Some(Duration::ZERO) => "SIGTERM resets every flow at once\n".into(),
        Some(time) => format!("SIGTERM waits {} for flows to end\n", show_duration(time)),
    }
}

fn lines(tunnel: &Tunnel) -> String {
    let words = |list: Vec<String>| list.join(", ");
    let mut lines = vec![
        tunnel.name.clone(),
        format!("  listens on {}", tunnel.listen),
        match tunnel.allow.is_empty() {
            true => "  allows everybody".into(),
            false => format!("  allows {}", words(tunnel.allow.iter().map(ToString::to_string).collect())),
        },
        format!("  dials {}", words(tunnel.to.iter().map(ToString::to_string).collect())),
    ];
    if tunnel.to.len() > 1 {
        lines.push(format!("  order {}: {}", tunnel.policy.name, tunnel.policy.help));
    }
    lines.push(format!("  waits {} for an address to answer", show_duration(tunnel.connect_timeout)));
    lines.extend(tunnel.source.map(|source| format!("  dials from {source}")));
    lines.extend(tunnel.max_flows.map(|count| format!("  carries up to {count} flows at once")));
    lines.extend((!tunnel.splice).then(|| "  copies through user space".to_string()));
    lines.extend(leg("accept", &tunnel.accept));
    lines.extend(leg("dial", &tunnel.dial));
    lines.join("\n") + "\n"
}

fn leg(name: &str, leg: &LegOptions) -> Option<String> {
    let asked: Vec<_> = leg
        .asked()
        .map(|setting| format!("{} {}", setting.row.key, options::show(setting.row, &setting.value)))
        .collect();
    (!asked.is_empty()).then(|| format!("  {name} leg: {}", asked.join(", ")))
}
