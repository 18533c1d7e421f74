//! The table of socket options of one leg: `{ congestion = "bbr", mss = 1254 }`.

use crate::document::{Fault, Severity, Spellings, Written, bare_number, fault, kind, scalar, twice};
use crate::keys::remark::Remark;
use crate::options::{self, Leg, LegOptions, Setting, Unit, row};
use crate::tunnel::Tunnel;
use toml::de::DeValue;

/// Reads the options of `leg` into `options`.
///
/// # Errors
/// All faults in the table.
pub(super) fn read(options: &mut LegOptions, leg: Leg, given: &Written<'_>) -> Result<(), Vec<Fault>> {
    let DeValue::Table(table) = given.get_ref() else {
        let text = format!("it is {}; write {} = {{ nodelay = true }}", kind(given.get_ref()), leg.name());
        return Err(fault(given, text));
    };
    let mut faults = Vec::new();
    let spellings = Spellings::of(table);
    for (key, value) in table {
        let name = key.get_ref();
        let set = match (spellings.earlier(name, key.span().start), scalar(value.get_ref())) {
            (Some(first), _) => Err(twice(first)),
            (None, Some(text)) => {
                let is_count = row(leg, &name.replace('_', "-")).is_some_and(|row| row.unit == Unit::Count);
                let bare = if is_count { bare_number(value) } else { Ok(()) };
                bare.and_then(|()| options.set(leg, name, &text))
            }
            (None, None) => Err(format!("it is {}; write one value", kind(value.get_ref()))),
        };
        faults.extend(set.err().map(|text| Fault { below: format!(".{name}"), span: value.span(), text }));
    }
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

/// Returns one line with the configured options; `None` if there are none.
pub(super) fn show(tunnel: &Tunnel, leg: Leg) -> Option<String> {
    let asked: Vec<_> = tunnel
        .options(leg)
        .asked()
        .map(|setting| format!("{} {}", setting.row.key, options::show(setting.row, &setting.value)))
        .collect();
    (!asked.is_empty()).then(|| format!("{leg} leg: {}", asked.join(", ")))
}

/// Returns the warnings and notes about the configured options.
pub(super) fn check(tunnel: &Tunnel, leg: Leg) -> Vec<Remark> {
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
