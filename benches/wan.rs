//! A standing WAN for `benches/run`: builds the lab's four hosts, says on stdout where their network namespaces are, and
//! keeps them until stdin ends.
//!
//! ```text
//! bench-wan aix|linux RTT_MS RATE_BITS LOSS        the hosts' kind, 63 1000000000 0.001
//! {"A": "/proc/4711/fd/7", "near": ..., "far": ..., "B": ...}
//! ```

#![forbid(unsafe_code)]

use anyhow::{Context, bail};
use longhaul::lab::{Host, LinkSpec, Profile, Wan};
use longhaul_core::units::{Bytes, Rate};
use std::io::Read;
use std::time::Duration;

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [hosts, rtt, rate, loss] = &args[..] else { bail!("usage: bench-wan aix|linux RTT_MS RATE_BITS LOSS") };
    let link = LinkSpec {
        loss: loss.parse()?,
        ..LinkSpec::new(Duration::from_millis(rtt.parse()?), Some(Rate(rate.parse()?)))
    };
    let host = match hosts.as_str() {
        "aix" => Profile::aix_like(Bytes(256 << 10)),
        // Linux of today whose buffers cover the path: what the hosts could be if they could be changed.
        "linux" => Profile::relay(&link),
        other => bail!("{other}: aix or linux"),
    };
    // Without a congestion control of the routes: it would win over the one that a relay asks for.
    let relay = Profile { route: String::new(), ..Profile::relay(&link) };
    let wan = Wan::build(&link, [host.clone(), relay.clone(), relay, host])
        .map_err(|problem| anyhow::anyhow!("{problem}"))?;
    let mut places = Vec::new();
    for (name, host) in [("A", Host::A), ("near", Host::Near), ("far", Host::Far), ("B", Host::B)] {
        places.push(format!("\"{name}\": \"{}\"", namespace(&wan, host)?));
    }
    println!("{{{}}}", places.join(", "));
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// The path by which another process may enter the host's network: the descriptor of ours that holds it.
fn namespace(wan: &Wan, host: Host) -> anyhow::Result<String> {
    let said = wan.output(host, "readlink", &["/proc/self/ns/net"]).map_err(|problem| anyhow::anyhow!("{problem}"))?;
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let file = entry?;
        // A descriptor that was closed meanwhile is none that we look for.
        let Ok(target) = std::fs::read_link(file.path()) else { continue };
        if target.to_str() == Some(said.trim()) {
            return Ok(format!("/proc/{}/fd/{}", std::process::id(), file.file_name().to_string_lossy()));
        }
    }
    None.with_context(|| format!("no descriptor holds {}", said.trim()))
}
