//! The longhaul.toml of both relays, and their sysctls.

use crate::path::Path;
use clap::Args;
use longhaul_core::advice::{Goal, LINUX, Setting};
use longhaul_units::{Bytes, Rate};
use std::fmt::Write as _;
use std::net::IpAddr;

/// The addresses in the files of both relays.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct Addresses {
    /// Where the near relay listens
    ///
    /// By default a documentation address, for you to replace.
    #[arg(long, value_name = "ADDR:PORT")]
    near_listen: Option<String>,
    /// Where the far relay listens
    ///
    /// The near relay dials it. By default a documentation address.
    #[arg(long, value_name = "ADDR:PORT")]
    far_listen: Option<String>,
    /// Host and port that the far relay dials
    ///
    /// By default a documentation address.
    #[arg(long, value_name = "HOST:PORT")]
    target: Option<String>,
}

/// The configuration of both relays.
#[derive(Debug)]
pub(super) struct RelayFiles {
    /// The longhaul.toml of the near relay.
    pub(super) near: String,
    /// The longhaul.toml of the far relay.
    pub(super) far: String,
    /// Name and value of each sysctl that both relays need.
    pub(super) sysctls: Vec<(&'static str, String)>,
}

/// Returns the configuration for `path`, where the relays send at most at the rate `cap`.
///
/// # Errors
/// An address cannot stand in a configuration file: the flag, and what `longhaul check` says of it.
pub(super) fn files(path: &Path, cap: Option<Rate>, addresses: &Addresses) -> Result<RelayFiles, String> {
    let given = [&addresses.near_listen, &addresses.far_listen, &addresses.target];
    let [near, far, target] =
        [(0, NEAR_LISTEN), (1, FAR_LISTEN), (2, TARGET)].map(|(at, sample)| given[at].as_deref().unwrap_or(sample));
    for (flag, value) in [("--near-listen", near), ("--far-listen", far), ("--target", target)] {
        if value.contains(['"', '\\']) || value.chars().any(char::is_control) {
            return Err(format!("{flag} {value:?}: write ADDR:PORT, such as {FAR_LISTEN}"));
        }
    }
    // The near relay dials it, so a port alone is not enough.
    if !far.contains(':') {
        return Err(format!("--far-listen {far}: the near relay dials it, so write ADDR:PORT, such as {FAR_LISTEN}"));
    }
    let head = |site: &str| head(site, path, given.iter().all(|address| address.is_some()));
    let cap = bandwidth(cap);
    let near_file = head("near") + &tunnel("to-far-site", near, far) + EVERYONE + &mss(path) + &cap;
    let far_file = head("far") + &tunnel("from-near-site", far, target) + &allow(near) + VERIFY + &cap;
    let flags = ["--near-listen or --far-listen", "--far-listen or --target"];
    for (text, flags) in [&near_file, &far_file].into_iter().zip(flags) {
        longhaul_config::parse("longhaul.toml", text)
            .map_err(|refused| format!("{flags} cannot be used: {}", first(&refused.messages)))?;
    }
    Ok(RelayFiles { near: near_file, far: far_file, sysctls: sysctls(path) })
}

/// Returns the sysctls of Linux that a relay needs on this path, beyond the kernel's defaults.
fn sysctls(path: &Path) -> Vec<(&'static str, String)> {
    let goal = relay_goal(path);
    // A relay chooses the congestion control of each leg itself, and sets no buffer size.
    let serves = |setting: &&Setting| setting.name.starts_with("net.ipv4.") && setting.name != CONGESTION;
    let sysctls = LINUX.settings.iter().filter(serves);
    sysctls.filter_map(|setting| Some((setting.name, setting.change(setting.default, &goal)?))).collect()
}

/// Returns what `path` needs of a relay's kernel.
pub(crate) fn relay_goal(path: &Path) -> Goal {
    let goal = path.goal(&LINUX);
    // The send buffer has the size of the window. It keeps what is behind a lost segment for a further round trip.
    let twice = Bytes(goal.window.0.saturating_mul(2)).min(LINUX.max_window);
    Goal { window: twice.max(INSTALLED_BUFFERS), ..goal }
}

fn head(site: &str, path: &Path, is_complete: bool) -> String {
    let mut text = format!(
        "# /etc/longhaul/longhaul.toml of the {site} relay, for a path of {} and {}.\n",
        crate::show::round_trip(path.rtt),
        path.rate
    );
    if !is_complete {
        text += "# 192.0.2.20, 198.51.100.20 and 198.51.100.30 are documentation addresses: write your own.\n";
    }
    text
}

fn tunnel(name: &str, listen: &str, to: &str) -> String {
    format!("\n[[tunnel]]\nname   = \"{name}\"\nlisten = \"{listen}\"\nto     = [\"{to}\"]\n")
}

/// Returns the MSS of the WAN leg, where the path's packets are shorter than Ethernet's. One side sets it for both directions.
fn mss(path: &Path) -> String {
    let mut text = String::new();
    if path.is_packet_short() {
        let _ = writeln!(text, "# Larger segments do not fit into a packet of {} bytes.", path.packet());
        let _ = writeln!(text, "dial   = {{ mss = {} }}", path.mss_clamp());
    }
    text
}

/// Returns the cap of the tunnel, where the path has a policer.
fn bandwidth(cap: Option<Rate>) -> String {
    cap.map_or_else(String::new, |cap| {
        format!("# A little less than the policer of the path lets through.\nbandwidth = \"{cap}\"\n")
    })
}

/// Returns the list of clients of the far relay: the near relay alone, if its address is known.
fn allow(near: &str) -> String {
    let host = near.rsplit_once(':').map_or("", |(host, _)| host.trim_matches(['[', ']']));
    match host.parse::<IpAddr>() {
        Ok(address) if !address.is_unspecified() => {
            let bits = if address.is_ipv4() { 32 } else { 128 };
            format!(
                "# The address from which the near relay dials: write another one if it has several.\nallow  = [\"{address}/{bits}\"]\n"
            )
        }
        _ => EVERYONE.into(),
    }
}

/// Returns the first error of a refused file.
fn first(messages: &[longhaul_config::Message]) -> String {
    let is_error = |message: &&longhaul_config::Message| message.severity == longhaul_config::Severity::Error;
    messages.iter().find(is_error).map(|message| message.text.clone()).unwrap_or_default()
}

/// Largest buffers in packaging/90-longhaul.conf. They are limits of autotuning, not allocations.
const INSTALLED_BUFFERS: Bytes = Bytes(256 << 20);
const CONGESTION: &str = "net.ipv4.tcp_congestion_control";
const EVERYONE: &str = "# Everyone may connect. To let only some addresses in: allow = [\"10.10.10.0/24\"]\n";
/// The far relay dials the final host itself.
const VERIFY: &str = "verify_hops = 0\n";
// RFC 5737: addresses for documentation.
const NEAR_LISTEN: &str = "192.0.2.20:6000";
const FAR_LISTEN: &str = "198.51.100.20:6000";
const TARGET: &str = "198.51.100.30:22";
