//! `longhaul check`: whether a file is good, and what `longhaul run` would do with it.

use longhaul::config::{self, Config, Tunnel};
use longhaul::options::{self, LegOptions};
use longhaul_core::units::show_duration;
use std::path::Path;
use std::process::ExitCode;

/// Says on stderr what is wrong or doubtful in the file at `path`, and on stdout what would run.
pub(super) fn check(path: &Path) -> ExitCode {
    match config::load(path) {
        Ok(loaded) => {
            super::complain(&loaded.warnings);
            super::print(&format!("{}: {}", path.display(), summary(&loaded.config)))
        }
        Err(refused) => super::complain(&refused.lines),
    }
}

/// What would run, a few lines for each tunnel.
fn summary(config: &Config) -> String {
    let count = config.tunnels.len();
    let mut text = format!("good, {count} tunnel{}\n", if count == 1 { "" } else { "s" });
    for tunnel in &config.tunnels {
        text += &lines(tunnel);
    }
    let drain = config.drain_timeout.map_or("without limit".into(), |time| format!("for {}", show_duration(time)));
    text + &format!("SIGTERM waits {drain} for flows to end\n")
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
        format!("  dials {}, waits {} for each", tunnel.policy.help, show_duration(tunnel.connect_timeout)),
    ];
    if tunnel.to.len() == 1 {
        lines[4] = format!("  waits {} for it to answer", show_duration(tunnel.connect_timeout));
    }
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
