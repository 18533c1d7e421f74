//! The advice as a JSON document. Other programs rely on its fields: docs/advise.md lists them.

use super::advice::{Advice, PredictionRow, SettingChange, Typed, host_mss};
use crate::first::First;
use crate::predict::{Limit, mbps};
use longhaul_core::path::laws::window_scale;
use serde::Serialize;

/// Returns the document.
pub(super) fn text(advice: &Advice) -> String {
    let document = Document::of(advice);
    // Only a map with keys that are no strings, or an error of its own, cannot be written.
    serde_json::to_string_pretty(&document).map(|text| text + "\n").unwrap_or_default()
}

#[derive(Serialize)]
struct Document<'a> {
    longhaul: &'static str,
    format: u32,
    path: PathOf,
    bdp_bytes: u64,
    window_bytes: u64,
    window_scale: u8,
    mss: u32,
    mss_clamp: u32,
    connections: u64,
    /// Null without a measured limit.
    first: Option<&'a First>,
    /// The hosts as they are.
    hosts: HostsOf<'a>,
    rows: Vec<RowOf>,
    verdict: Vec<String>,
    systems: Vec<SystemOf<'a>>,
    longhaul_toml: Files<'a>,
    sysctls: Vec<Sysctl<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<ProfileOf>,
}

#[derive(Serialize)]
struct PathOf {
    rtt_ms: f64,
    rate_mbps: f64,
    loss: f64,
    mtu: u32,
    encap: Option<&'static str>,
    /// The largest IP packet inside the encapsulation.
    inner_mtu: u32,
}

#[derive(Serialize)]
struct HostsOf<'a> {
    /// The rate of payload that one connection had when the path was measured.
    measured_mbps: Option<f64>,
    window_bytes: u64,
    window_from: &'a str,
    application: Option<&'static str>,
    application_window_bytes: Option<u64>,
}

#[derive(Serialize)]
struct RowOf {
    what: &'static str,
    mbps: f64,
    seconds: Option<f64>,
    limited_by: Limit,
    then_limited_by: Option<Limit>,
    then_mbps: Option<f64>,
    connections: u64,
}

#[derive(Serialize)]
struct SystemOf<'a> {
    os: &'static str,
    settings: Vec<SettingOf<'a>>,
}

#[derive(Serialize)]
struct SettingOf<'a> {
    name: &'static str,
    place: &'static str,
    value: &'a str,
    unit: &'static str,
    default: &'static str,
    read: &'a str,
    set_now: &'a str,
    set_permanent: &'a str,
    undo: &'a str,
    caveat: &'static str,
    source: &'static str,
    verified: bool,
    /// Whether it lifts the measured limit.
    first: bool,
}

#[derive(Serialize)]
struct Files<'a> {
    near: &'a str,
    far: &'a str,
}

#[derive(Serialize)]
struct Sysctl<'a> {
    name: &'static str,
    value: &'a str,
}

#[derive(Serialize)]
struct ProfileOf {
    name: &'static str,
    source: &'static str,
    path_source: &'static str,
    published: Vec<Published>,
    contradictions: &'static [&'static str],
}

#[derive(Serialize)]
struct Published {
    system: &'static str,
    setting: &'static str,
    value: &'static str,
}

impl<'a> Document<'a> {
    fn of(advice: &'a Advice) -> Document<'a> {
        let question = &advice.question;
        let path = &question.path;
        Document {
            longhaul: "advise",
            format: 1,
            path: PathOf {
                rtt_ms: path.rtt.as_secs_f64() * 1e3,
                rate_mbps: mbps(path.rate),
                loss: path.loss,
                mtu: path.mtu,
                encap: path.encapsulation.map(|encapsulation| encapsulation.name),
                inner_mtu: path.packet(),
            },
            bdp_bytes: path.bandwidth_delay().0,
            window_bytes: advice.window.0,
            window_scale: window_scale(advice.window),
            mss: host_mss(path),
            mss_clamp: path.mss_clamp(),
            connections: advice.connections,
            first: advice.first.as_ref(),
            hosts: HostsOf {
                measured_mbps: advice.measured().map(|(rate, _)| mbps(rate)),
                window_bytes: advice.hosts.window.0,
                window_from: &advice.window_from,
                application: question.application.map(|application| application.name),
                application_window_bytes: advice.hosts.application.map(|window| window.0),
            },
            rows: advice.rows.iter().map(RowOf::of).collect(),
            verdict: advice.verdict(),
            systems: advice.systems.iter().map(SystemOf::of).collect(),
            longhaul_toml: Files { near: &advice.relays.near, far: &advice.relays.far },
            sysctls: advice.relays.sysctls.iter().map(|(name, value)| Sysctl { name, value }).collect(),
            profile: question.profile.map(|profile| ProfileOf {
                name: profile.name,
                source: super::profile::SOURCE,
                path_source: profile.path_source,
                published: profile.published.iter().map(Published::of).collect(),
                contradictions: profile.contradictions,
            }),
        }
    }
}

impl RowOf {
    fn of(row: &PredictionRow) -> RowOf {
        let prediction = &row.prediction;
        RowOf {
            what: row.what.name(),
            mbps: mbps(prediction.rate),
            seconds: row.seconds,
            limited_by: prediction.limit,
            then_limited_by: prediction.then.map(|(limit, _)| limit),
            then_mbps: prediction.then.map(|(_, rate)| mbps(rate)),
            connections: prediction.connections,
        }
    }
}

impl<'a> SystemOf<'a> {
    fn of(typed: &'a Typed) -> SystemOf<'a> {
        SystemOf { os: typed.system.name, settings: typed.settings.iter().map(SettingOf::of).collect() }
    }
}

impl<'a> SettingOf<'a> {
    fn of(change: &'a SettingChange) -> SettingOf<'a> {
        SettingOf {
            name: change.setting.name,
            place: change.setting.place,
            value: &change.value,
            unit: change.setting.unit,
            default: change.setting.default,
            read: &change.read,
            set_now: &change.set_now,
            set_permanent: &change.set_permanent,
            undo: &change.undo,
            caveat: change.setting.caveat,
            source: change.setting.source,
            verified: change.setting.verified,
            first: change.is_first,
        }
    }
}

impl Published {
    fn of([system, setting, value]: &[&'static str; 3]) -> Published {
        Published { system, setting, value }
    }
}
