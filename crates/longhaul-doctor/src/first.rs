//! The first advice for a measured path: what lifts its first limit.

use crate::path::{Limited, Measured, Path};
use longhaul_core::advice::{Effect, Goal, Setting, System};
use longhaul_core::path::diagnosis::Kind;
use longhaul_core::path::measured::BELOW_POLICER;
use longhaul_units::Rate;
use serde::Serialize;

/// The first advice for a measured path: the change that lifts its first limit. Other programs rely on its fields.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct First {
    /// Name of the limit.
    pub(crate) kind: &'static str,
    /// The direction that has it.
    pub(crate) direction: String,
    /// The host to change: `far`, `here` for the one that measured, or null if no setting of a host lifts the limit.
    pub(crate) host: Option<&'static str>,
    /// Its address, if the file tells.
    pub(crate) address: Option<String>,
    /// The first step, in a sentence.
    pub(crate) text: String,
    /// The effect of two relays; null if they do not lift the limit.
    pub(crate) relays: Option<String>,
    /// The rate then, in 10^6 bit/s; null if it is not known.
    pub(crate) what_if_mbps: Option<f64>,
}

impl Limited {
    /// Returns what to do first on `path`; `None` if the limit is not known.
    pub(crate) fn first(&self, path: &Path) -> Option<First> {
        let remedy = self.remedy()?;
        // A file of an older longhaul, or a measurement that ended early, has no MSS.
        let mss = path.is_packet_short().then(|| path.mss_clamp());
        let has_no_mss = remedy.effects.contains(&Effect::PacketSize) && mss.is_none();
        let is_far = self.is_of_far(remedy);
        let (text, relays) = remedy.sentences(&self.host(remedy), mss, self.cap(path));
        let is_of_host = remedy.is_of_host() && !has_no_mss;
        Some(First {
            kind: remedy.kind.name(),
            direction: if self.direction == "down" { "down".into() } else { "up".into() },
            host: is_of_host.then_some(if is_far { "far" } else { "here" }),
            address: (is_far && is_of_host && !self.far.is_empty()).then(|| self.shown_far()),
            text,
            relays: (!relays.is_empty()).then_some(relays),
            what_if_mbps: self.what_if_mbps,
        })
    }

    /// Returns the rate of payload that relays are to send at most; `None` if the path has no policer.
    pub(crate) fn cap(&self, path: &Path) -> Option<Rate> {
        if self.kind == Kind::Policer.name() { cap_below(path.line()) } else { None }
    }

    /// Whether `setting` of `system` lifts the limit on `path`.
    pub(crate) fn is_lifted_by(&self, setting: &Setting, system: &System, path: &Path) -> bool {
        let goal = path.goal(system);
        let whole = (setting.want)(&Goal { is_packet_short: false, ..goal });
        // A mode that every path wants makes no packet smaller.
        let is_mode = setting.effect == Effect::PacketSize && whole == (setting.want)(&goal);
        self.remedy().is_some_and(|remedy| remedy.effects.contains(&setting.effect)) && !is_mode
    }
}

impl Measured {
    /// Returns the path; `None` without a round trip or a rate.
    fn path(&self) -> Option<Path> {
        let path = Path::new(self.rtt?, self.rate?);
        Some(Path {
            is_least: self.is_least,
            loss: self.loss.unwrap_or(0.0),
            mtu: self.uncut_mtu().unwrap_or(path.mtu),
            is_ipv6: self.is_ipv6,
            ..path
        })
    }

    /// Returns the change that lifts the limit, in sentences; `None` if the limit is not known.
    pub fn first(&self) -> Option<String> {
        Some(self.limited.as_ref()?.first(&self.path()?)?.sentences())
    }

    /// Returns the MSS with which relays lift the limit, if it is one of packets.
    pub fn relay_mss(&self) -> Option<u32> {
        let remedy = self.limited.as_ref()?.remedy()?;
        let path = self.path()?;
        (remedy.effects.contains(&Effect::PacketSize) && path.is_packet_short()).then(|| path.mss_clamp())
    }

    /// Returns the cap with which relays lift the limit, if it is a policer.
    pub fn relay_cap(&self) -> Option<Rate> {
        self.limited.as_ref()?.cap(&self.path()?)
    }
}

impl First {
    /// Returns the advice in sentences.
    pub(crate) fn sentences(&self) -> String {
        let relays = self.relays.as_ref().map(|relays| format!(" {relays}")).unwrap_or_default();
        format!("First: {}{relays}", self.text)
    }
}

/// Returns the cap of relays on a path whose policer lets `line` through; `None` if a tunnel cannot have so small a cap.
pub(crate) fn cap_below(line: Rate) -> Option<Rate> {
    let cap = (line.0 as f64 * BELOW_POLICER) as u64;
    // The least one of the key, and whole kbit.
    (cap >= LEAST_CAP).then_some(Rate(cap / 1000 * 1000))
}

/// Least cap of a tunnel.
const LEAST_CAP: u64 = 1_000_000;
