//! The audit as a JSON document. Other programs rely on its fields: docs/audit.md lists them.

use super::finding::{Audited, Doubt, Finding};
use super::reader::Shown;
use crate::first::First;
use crate::path::Path;
use crate::predict::{Limit, mbps};
use longhaul_units::Bytes;
use serde::Serialize;

/// Returns the document about `hosts` on `path`.
pub(super) fn text(path: &Path, first: Option<&First>, hosts: &[Audited], message: Option<&str>) -> String {
    let document = Document {
        longhaul: "audit",
        format: 1,
        path: PathOf {
            rtt_ms: path.rtt.as_secs_f64() * 1e3,
            rate_mbps: mbps(path.rate),
            loss: path.loss,
            mtu: path.mtu,
            encap: path.encapsulation.map(|encapsulation| encapsulation.name),
        },
        first,
        hosts: hosts.iter().map(HostOf::of).collect(),
        message,
    };
    // Only a map with keys that are no strings, or an error of its own, cannot be written.
    serde_json::to_string_pretty(&document).map(|text| text + "\n").unwrap_or_default()
}

#[derive(Serialize)]
struct Document<'a> {
    longhaul: &'static str,
    format: u32,
    path: PathOf,
    /// Null without a measured limit.
    first: Option<&'a First>,
    hosts: Vec<HostOf<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

#[derive(Serialize)]
struct PathOf {
    rtt_ms: f64,
    rate_mbps: f64,
    loss: f64,
    mtu: u32,
    encap: Option<&'static str>,
}

#[derive(Serialize)]
struct HostOf<'a> {
    name: &'a str,
    os: &'static str,
    guessed: bool,
    window_bytes: Option<u64>,
    mbps: Option<f64>,
    limited_by: Option<Limit>,
    /// The rate with every window tuned, and that through relays; null for a system without windows.
    tuned_mbps: Option<f64>,
    relay_mbps: Option<f64>,
    settings: Vec<SettingOf<'a>>,
    findings: Vec<FindingOf<'a>>,
    /// Why the rates may be others; null if nothing is in doubt.
    in_doubt: Option<String>,
    /// Commands whose output is missing, so that the window may be smaller, or is unknown.
    missing: Vec<&'static str>,
    interfaces: Vec<InterfaceOf<'a>>,
    lines: Lines,
}

#[derive(Serialize)]
struct InterfaceOf<'a> {
    name: &'a str,
    window_bytes: u64,
}

impl<'a> InterfaceOf<'a> {
    fn of((name, window): &'a (String, Bytes)) -> InterfaceOf<'a> {
        InterfaceOf { name, window_bytes: window.0 }
    }
}

#[derive(Serialize)]
struct SettingOf<'a> {
    name: &'a str,
    value: &'a str,
    from: &'a str,
}

/// A finding. It has no value if the paste does not show it, no commands if nothing else is better for this path, and no source if it is
/// a counter and no setting.
#[derive(Serialize)]
struct FindingOf<'a> {
    setting: &'static str,
    value: Option<&'a str>,
    place: &'a str,
    what: &'static str,
    effect_mbps: Option<f64>,
    want: Option<&'a str>,
    set_now: Option<&'a str>,
    set_permanent: Option<&'a str>,
    undo: Option<&'a str>,
    caveat: Option<&'a str>,
    source: Option<&'static str>,
    verified: bool,
}

#[derive(Serialize)]
struct Lines {
    understood: u64,
    ignored: u64,
}

impl<'a> HostOf<'a> {
    fn of(audited: &'a Audited) -> HostOf<'a> {
        let host = &audited.host;
        let control = audited.doubt.as_ref().and_then(|doubt| doubt.paste);
        HostOf {
            name: &host.name,
            os: host.system.name,
            guessed: host.is_guess,
            window_bytes: audited.window.map(|window| window.0),
            mbps: audited.now.map(|(rate, _)| mbps(rate)),
            limited_by: audited.now.map(|(_, limit)| limit),
            tuned_mbps: audited.tuned.map(mbps),
            relay_mbps: audited.relay.map(mbps),
            settings: host.facts.settings.iter().map(SettingOf::of).collect(),
            findings: audited.findings.iter().map(FindingOf::of).collect(),
            in_doubt: audited.doubt.as_ref().map(Doubt::why),
            missing: host.facts.missing.iter().copied().chain(control).collect(),
            interfaces: host.facts.interfaces.iter().map(InterfaceOf::of).collect(),
            lines: Lines { understood: host.lines.understood, ignored: host.lines.ignored },
        }
    }
}

impl<'a> SettingOf<'a> {
    fn of(shown: &'a Shown) -> SettingOf<'a> {
        SettingOf { name: &shown.name, value: &shown.value, from: &shown.from }
    }
}

impl<'a> FindingOf<'a> {
    fn of(finding: &'a Finding) -> FindingOf<'a> {
        let (source, change) = (finding.source(), finding.change.as_ref());
        FindingOf {
            setting: finding.setting,
            value: finding.value.as_deref(),
            place: &finding.place,
            what: finding.what,
            effect_mbps: finding.effect.map(mbps),
            want: change.map(|change| change.want.as_str()),
            set_now: change.map(|change| change.set_now.as_str()),
            set_permanent: change.map(|change| change.set_permanent.as_str()),
            undo: change.map(|change| change.undo.as_str()),
            caveat: change.map(|_| finding.caveat()),
            source: source.map(|(source, _)| source),
            verified: source.is_some_and(|(_, is_verified)| is_verified),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::host;
    use longhaul_core::advice::ENCAPSULATIONS;
    use longhaul_units::Rate;
    use std::time::Duration;

    #[test]
    fn no_released_field_of_the_document_is_gone() {
        let path = Path::new(Duration::from_millis(63), Rate(1_000_000_000));
        let path = Path { loss: 1e-4, encapsulation: ENCAPSULATIONS.first(), ..path };
        let pastes = [
            &include_bytes!("../../tests/pastes/aix-ifconfig-several.txt")[..],
            include_bytes!("../../tests/pastes/linux-session.txt"),
            include_bytes!("../../tests/pastes/linux-nstat.txt"),
        ];
        let host = |paste: &&[u8]| Audited::new(host::read(*paste, "paste", None).unwrap().unwrap(), &path);
        let first = First {
            kind: "receiver-window",
            direction: "up".into(),
            host: Some("far"),
            address: Some(String::new()),
            text: String::new(),
            relays: Some(String::new()),
            what_if_mbps: Some(1.0),
        };
        let hosts: Vec<Audited> = pastes.iter().map(host).collect();
        let document = text(&path, Some(&first), &hosts, Some(""));
        let document = serde_json::from_str(&document).unwrap();
        crate::interface::check("audit", crate::interface::fields(&[document]));
    }
}
