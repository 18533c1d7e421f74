//! The keys about probes that the daemon makes of its own tunnels.

use crate::config::Probe;
use crate::keys::remark::{Remark, Syntax, no_remarks};
use crate::keys::row::{Argument, Flag, KeyDefault, KeyValue, Row};
use crate::tunnel::{CheckBy, Tunnel};
use crate::value;
use longhaul_units::show_duration;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The keys of `[probe]`, in the order of the manual.
pub(crate) const PROBE: &[Row<Probe>] = &[Row {
    name: "key_file",
    default: KeyDefault::Words("none"),
    example: "\"/run/credentials/longhaul.service/probe.key\"",
    flag: None,
    value: KeyValue::One(|probe, text| key_file(text).map(|path| probe.key_file = Some(path))),
    show: |probe| Some(format!("answers only probes with the key in {}", probe.key_file.as_ref()?.display())),
    check: no_remarks,
    doc: "Absolute path of a file with a key that the relays share: 16 to 4096 bytes, without white space at the end. With it, \
          each tunnel answers or passes on only a probe whose sender proves the key. The daemon's own probes and \
          `longhaul verify` prove it elsewhere. The daemon does not start, and a reload is refused, if the file cannot be read or \
          if other users may read it. A reload reads the file again. See [A key for \
          probes](operations.md#a-key-for-probes).",
}];

/// `verify` of a tunnel.
pub(super) const VERIFY: Row<Tunnel> = Row {
    name: "verify",
    default: KeyDefault::Words("none"),
    example: "\"30s\"",
    flag: Some(Flag {
        name: "verify",
        argument: Argument::Named("TIME"),
        short: "Interval of its own probes",
        long: "1s to 1h: the time from the beginning of one probe to the next. Each probe goes through the tunnel's own \
               listener to the final host, as those of `longhaul verify` do. While the tunnel is broken, the log, \
               `longhaul status` and /readyz name the stage.",
    }),
    value: KeyValue::One(|tunnel, text| interval(text).map(|time| tunnel.verify = Some(time))),
    show: |tunnel| Some(format!("is verified every {}", show_duration(tunnel.verify?))),
    check: unreachable_from_here,
    doc: "Time from the beginning of one probe of the tunnel to the next, 1 s to 1 h. The daemon sends each probe through the \
          tunnel's own listener to the final host, as [`longhaul verify`](operations.md#verifying-a-tunnel) does. While the \
          tunnel is broken, the log, `longhaul status` and `/readyz` name the stage: \
          [Verifying a tunnel for ever](operations.md#verifying-a-tunnel-for-ever).",
};

/// Returns an error for probes through next hops that are no relays.
pub(super) fn through_no_relay(tunnel: &Tunnel, syntax: Syntax) -> Vec<Remark> {
    if tunnel.check.by != Some(CheckBy::Verify) || tunnel.verify_hops != Some(0) {
        return Vec::new();
    }
    let (hops, other) = match syntax {
        Syntax::File => ("verify_hops = 0", "check = \"tcp\""),
        Syntax::Flags => ("--verify-hops 0", "--check tcp"),
    };
    let text = format!("with {hops} the next hops are final hosts, which answer no probe; write {other}");
    vec![Remark::error("check", text)]
}

/// Returns an error for a listener that a connection of its own host may not reach. The kernel takes the connection for one over
/// the interface that has the address, which may be another one than the listener's. A link-local address is of that interface.
fn unreachable_from_here(tunnel: &Tunnel, syntax: Syntax) -> Vec<Remark> {
    let is_link_local = matches!(tunnel.listen.ip(), IpAddr::V6(ip) if ip.is_unicast_link_local());
    let may_be_kept_out = tunnel.accept.bind_device().is_some_and(|device| !is_link_local && device != "lo");
    if tunnel.verify.is_none() || !may_be_kept_out {
        return Vec::new();
    }
    let verify = match syntax {
        Syntax::File => "`verify`",
        Syntax::Flags => "--verify",
    };
    let text = format!(
        "accept.bind-device keeps the daemon's own connection out, unless that interface has the address; leave {verify} out, \
         and run `longhaul verify` on another host"
    );
    vec![Remark::error("verify", text)]
}

fn key_file(text: &str) -> Result<PathBuf, String> {
    value::path(text, usize::MAX, "write an absolute path, such as \"/run/credentials/longhaul.service/probe.key\"")
}

/// Parses the time between two probes.
///
/// # Errors
/// The text is not a time from 1 s to 1 h.
fn interval(text: &str) -> Result<Duration, String> {
    let range = Duration::from_secs(1)..=Duration::from_secs(3600);
    value::time(text, range, "write a time from 1s to 1h, such as \"30s\"")
}
