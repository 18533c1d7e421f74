//! The keys about checks of next hops, and about probes.

use crate::config::Probe;
use crate::next_hop::{Check, CheckBy};
use crate::remark::{Remark, Syntax, no_remarks};
use crate::row::{Argument, Flag, KeyDefault, KeyValue, Row, list, no_line};
use crate::tunnel::Tunnel;
use crate::value;
use longhaul_core::wire::probe::MAX_HOPS;
use longhaul_units::show_duration;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The keys of `[probe]`, in the order of the manual.
pub const PROBE: &[Row<Probe>] = &[
    Row {
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
    },
    Row {
        name: "measure_from",
        default: KeyDefault::Words("nobody"),
        example: "[\"10.20.20.0/24\"]",
        flag: None,
        value: KeyValue::Several {
            add: |probe, text| value::network(text).map(|net| probe.measure_from.push(net)),
            empty: "it is empty; write who may measure, or leave `measure_from` out",
        },
        show: |probe| {
            (!probe.measure_from.is_empty()).then(|| format!("lets {} measure the path", list(&probe.measure_from)))
        },
        check: no_remarks,
        doc: "Networks and addresses from which `longhaul path` may measure the path to this relay, at any of its tunnels. For \
              `longhaul path --tunnel`, the client is the near relay. A \
              measurement sends as fast as the path allows, for less than a minute, and one goes on at a time. The client must be in \
              the tunnel's `allow`, too. With `key_file`, whoever proves the key may measure from elsewhere. See [path](path.md).",
    },
];

/// The keys of a tunnel about checks of its next hops, in the order of the manual.
pub(super) const CHECKS: &[Row<Tunnel>] = &[
    Row {
        name: "check",
        default: KeyDefault::Value("\"none\""),
        example: "\"tcp\"",
        flag: Some(Flag {
            name: "check",
            argument: Argument::Named("KIND"),
            short: "Active checks of next hops",
            long: "none, tcp or verify. With tcp, longhaul connects to each next hop every 5 seconds, and resets the connection. \
                   With verify, the next hops are relays, and it sends a probe through each to the final host. A next hop \
                   that fails three checks in a row is not dialled until two checks in a row succeed.",
        }),
        value: KeyValue::One(|tunnel, text| value::word(text, KINDS).map(|by| tunnel.check.by = by)),
        show: |tunnel| {
            let Check { by, interval, rise, fall } = tunnel.check;
            let (interval, timeout) = (show_duration(interval), show_duration(tunnel.check.timeout()));
            let (what, good) = match by? {
                CheckBy::Tcp => ("checks each next hop", "answers"),
                CheckBy::Verify => ("sends a probe through each next hop", "successes"),
            };
            Some(format!("{what} every {interval} for {timeout}: {fall} failures are down, {rise} {good} are up"))
        },
        check: |tunnel, syntax| [checks_nothing(tunnel), through_no_relay(tunnel, syntax)].concat(),
        doc: "Active checks of the next hops: `\"none\"`; `\"tcp\"`, which connects to each next hop and resets the \
              connection at once; or `\"verify\"`, which sends a probe through each next hop to the final host. A next hop whose checks fail is not dialled: [active checks](next-hops.md#active-checks).",
    },
    Row {
        name: "check_interval",
        default: KeyDefault::Value("\"5s\""),
        example: "\"2s\"",
        flag: None,
        value: KeyValue::One(|tunnel, text| value::check_interval(text).map(|time| tunnel.check.interval = time)),
        show: no_line, // the line of `check` has it
        check: no_remarks,
        doc: "Time from the beginning of one check of a next hop to the next, 100 ms to 1 h. With `tcp` a check has 3 s, with `verify` the interval, but at least 5 s and at most 1 min. The next round waits for the last check.",
    },
    Row {
        name: "rise",
        default: KeyDefault::Value("2"),
        example: "3",
        flag: None,
        value: KeyValue::Number(|tunnel, text| checks(text).map(|count| tunnel.check.rise = count)),
        show: no_line,
        check: no_remarks,
        doc: "Number of good checks in a row after which a next hop is dialled again, 1 to 100.",
    },
    Row {
        name: "fall",
        default: KeyDefault::Value("3"),
        example: "2",
        flag: None,
        value: KeyValue::Number(|tunnel, text| checks(text).map(|count| tunnel.check.fall = count)),
        show: no_line,
        check: no_remarks,
        doc: "Number of failed checks in a row after which a next hop is no longer dialled, 1 to 100.",
    },
];

/// The keys of a tunnel about probes, in the order of the manual.
pub(super) const VERIFY: &[Row<Tunnel>] = &[
    Row {
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
    },
    Row {
        name: "verify_hops",
        default: KeyDefault::Words("1"),
        example: "0",
        flag: Some(Flag {
            name: "verify-hops",
            argument: Argument::Named("COUNT"),
            short: "Relays after this one",
            long: "0 to 8, for `longhaul verify`. With 0 the next hop is the final host, and a probe is answered here. Without this flag, a probe from \
                   this host is passed on to the next hop, which must then be a relay. A probe from another host is not.",
        }),
        value: KeyValue::Number(|tunnel, text| verify_hops(text).map(|hops| tunnel.verify_hops = Some(hops))),
        show: |tunnel| match tunnel.verify_hops? {
            0 => Some("answers probes: the next hop is the final host".into()),
            1 => Some("passes probes on to 1 more relay".into()),
            hops => Some(format!("passes probes on to {hops} more relays")),
        },
        check: no_remarks,
        doc: "Number of relays after this one, 0 to 8, for [`longhaul verify`](operations.md#verifying-a-tunnel). With `0` the \
              next hop is the final host, and a probe is never passed on. Write `0` on the last relay. Without this key, the \
              relay passes on a probe that comes from its own host, and refuses to pass on one that comes from another host.",
    },
    Row {
        name: "verify_final",
        default: KeyDefault::Value("true"),
        example: "false",
        flag: Some(Flag {
            name: "no-verify-final",
            argument: Argument::Means("false"),
            short: "Answer probes without a dial",
            long: "A probe then leaves the final host's port alone. The dial waits up to 20 ms for the client's first byte, \
                   which delays protocols in which the server speaks first.",
        }),
        value: KeyValue::One(|tunnel, text| value::switch(text).map(|on| tunnel.verify_final = on)),
        show: |tunnel| (!tunnel.verify_final).then(|| "answers probes without dialling the final host".into()),
        check: no_remarks,
        doc: "`false` on the last relay answers a probe without a dial, so that the final host does not count a connection \
              without a login. To recognise a probe in time, each dial of the tunnel then waits up to 20 ms for the client's \
              first byte. Where the server speaks first, each connection takes 20 ms longer.",
    },
];

/// Returns an error for probes through next hops that are no relays.
fn through_no_relay(tunnel: &Tunnel, syntax: Syntax) -> Vec<Remark> {
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

fn checks_nothing(tunnel: &Tunnel) -> Vec<Remark> {
    if tunnel.check.by.is_some() || tunnel.check == Check::NONE {
        return Vec::new();
    }
    let text = "without checks, check_interval, rise and fall have no effect; write check = \"tcp\"";
    vec![Remark::warning("check", text.into())]
}

fn checks(text: &str) -> Result<u32, String> {
    value::number(text, 1..=100, "write a number of checks from 1 to 100")
}

fn verify_hops(text: &str) -> Result<u8, String> {
    let form = format!("write the number of relays after this one, 0 to {MAX_HOPS}; 0 if it dials the final host");
    value::number(text, 0..=MAX_HOPS, &form)
}

const KINDS: &[(&str, Option<CheckBy>)] =
    &[("tcp", Some(CheckBy::Tcp)), ("verify", Some(CheckBy::Verify)), ("none", None)];
