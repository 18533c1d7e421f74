//! The keys about probes that the daemon makes of its own tunnels.

use crate::keys::remark::{Remark, Syntax};
use crate::keys::row::{Argument, Flag, KeyDefault, KeyValue, Row};
use crate::options::{Leg, key};
use crate::tunnel::Tunnel;
use longhaul_units::show_duration;
use std::net::IpAddr;
use std::time::Duration;

/// `verify` of a tunnel.
pub(super) const VERIFY: Row<Tunnel> = Row {
    name: "verify",
    default: KeyDefault::Words("none"),
    example: "\"30s\"",
    flag: Some(Flag {
        name: "verify",
        argument: Argument::Named("TIME"),
        default: None,
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

/// Returns an error for a listener that a connection of its own host does not reach.
fn unreachable_from_here(tunnel: &Tunnel, syntax: Syntax) -> Vec<Remark> {
    if tunnel.verify.is_none() {
        return Vec::new();
    }
    // Its zone is not known here.
    let is_link_local = matches!(tunnel.listen.ip(), IpAddr::V6(ip) if ip.is_unicast_link_local());
    let why = match tunnel.options(Leg::Accept).find(key::BIND_DEVICE) {
        _ if is_link_local => "the daemon cannot connect to its own listener on a link-local address",
        Some(_) => "the daemon's own connection comes over the loopback interface, which accept.bind-device keeps out",
        None => return Vec::new(),
    };
    let leave = match syntax {
        Syntax::File => "leave `verify` out",
        Syntax::Flags => "leave --verify out",
    };
    vec![Remark::error("verify", format!("{why}; {leave}, and run `longhaul verify` elsewhere"))]
}

/// Parses the time between two probes.
///
/// # Errors
/// The text is not a time from 1 s to 1 h.
fn interval(text: &str) -> Result<Duration, String> {
    const FORM: &str = "write a time from 1s to 1h, such as \"30s\"";
    let time = longhaul_units::duration(text).map_err(|err| format!("{err}; {FORM}"))?;
    let range = Duration::from_secs(1)..=Duration::from_secs(3600);
    if range.contains(&time) { Ok(time) } else { Err(format!("it is out of range; {FORM}")) }
}
