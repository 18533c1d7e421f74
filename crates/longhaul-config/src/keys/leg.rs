//! The table of socket options of one leg: `{ congestion = "bbr", mss = 1254 }`.

use crate::document::Severity;
use crate::options::{self, Leg, Setting};
use crate::remark::Remark;
use crate::row::{KeyDefault, KeyValue, Row};
use crate::tunnel::Tunnel;

/// The tables of socket options of a tunnel.
pub(super) const ROWS: &[Row<Tunnel>] = &[
    Row {
        name: "accept",
        default: KeyDefault::Value("{}"),
        example: "{ defer-accept = \"3s\" }",
        flag: None, // `--set accept.KEY=VALUE`
        value: KeyValue::Options { leg: Leg::Accept, of: |tunnel| &mut tunnel.accept },
        show: |tunnel| show(tunnel, Leg::Accept),
        check: |tunnel, _| check(tunnel, Leg::Accept),
        doc: "[Socket options](options.md) of the accept leg, which is the connection from the client.",
    },
    Row {
        name: "dial",
        default: KeyDefault::Value("{}"),
        example: "{ congestion = \"bbr\", mss = 1254 }",
        flag: None, // `--set dial.KEY=VALUE`
        value: KeyValue::Options { leg: Leg::Dial, of: |tunnel| &mut tunnel.dial },
        show: |tunnel| show(tunnel, Leg::Dial),
        check: |tunnel, _| check(tunnel, Leg::Dial),
        doc: "[Socket options](options.md) of the dial leg, which is the connection to the next hop.",
    },
];

/// Returns one line with the configured options; `None` if there are none.
fn show(tunnel: &Tunnel, leg: Leg) -> Option<String> {
    let asked: Vec<_> = tunnel
        .options(leg)
        .asked()
        .map(|setting| format!("{} {}", setting.row.key, options::show(setting.row, &setting.value)))
        .collect();
    (!asked.is_empty()).then(|| format!("{leg} leg: {}", asked.join(", ")))
}

/// Returns the warnings and notes about the configured options.
fn check(tunnel: &Tunnel, leg: Leg) -> Vec<Remark> {
    let asked = || tunnel.options(leg).asked();
    let cautions = asked().filter_map(|setting| caution(leg, setting));
    cautions
        .chain(asked().filter_map(|setting| beside_mptcp(tunnel, leg, setting)))
        .chain(idle_rto_max(tunnel, leg))
        .collect()
}

/// Returns a warning about an `rto-max` that has no effect because of other options.
fn idle_rto_max(tunnel: &Tunnel, leg: Leg) -> Option<Remark> {
    let of = tunnel.options(leg);
    let is_idle = of.asked().any(|setting| setting.row.key == options::key::RTO_MAX) && of.least_rto_max().is_none();
    let text = "it has no effect on a leg with user-timeout, mptcp or a keepalive option; leave one of them out";
    is_idle.then(|| Remark::warning(&format!("{leg}.{}", options::key::RTO_MAX), text.into()))
}

/// Returns a warning about an option that the kernel refuses at the start of the tunnel because of `mptcp`. It is only a
/// warning, because later kernels may accept the option.
fn beside_mptcp(tunnel: &Tunnel, leg: Leg, setting: &Setting) -> Option<Remark> {
    let refused = tunnel.mptcp(leg) && setting.row.mptcp_refuses;
    refused.then(|| {
        let text = format!(
            "the kernel refuses it together with {leg}.mptcp (Linux 6.18), and the tunnel does not start; leave one of them out"
        );
        Remark::warning(&format!("{leg}.{}", setting.row.key), text)
    })
}

/// Returns the row's warning about the value, or else its caution unless the option is off.
fn caution(leg: Leg, setting: &Setting) -> Option<Remark> {
    let key = format!("{leg}.{}", setting.row.key);
    match (setting.row.warning)(&setting.value) {
        Some(text) => Some(Remark::warning(&key, text)),
        None if setting.value.is_off() || setting.row.caution.is_empty() => None,
        None => Some(Remark { severity: Severity::Note, key, text: setting.row.caution.into() }),
    }
}
