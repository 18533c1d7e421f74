//! TCP settings of a host as a scenario describes them, and the [`Profile`] made from them.

use crate::plan::conflict::Conflict;
use crate::plan::link::LinkSpec;
use crate::plan::profile::{Profile, Sysctl, Sysctls};
use longhaul_core::path::CUBIC;
use longhaul_core::path::laws::{MAX_UNSCALED_WINDOW, packet};
use longhaul_units::Bytes;

/// TCP settings of one host, as a scenario describes them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HostSpec {
    /// The window that the host offers, and the maximum that it has in flight; `None` means the kernel's autotuning.
    pub(crate) window: Option<Bytes>,
    /// Maximum size of an autotuned buffer; `None` means the kernel's default.
    pub(crate) buffers: Option<Bytes>,
    /// Congestion control. The default is CUBIC, as in Linux since 2.6.19. It does not depend on this machine's default, so a
    /// scenario gives the same result on every machine.
    pub(crate) congestion: String,
    /// Selective acknowledgements, and the newer loss detection of Linux that needs them.
    pub(crate) sack: bool,
    /// Window scaling (RFC 7323).
    pub(crate) scaling: bool,
    /// MTU of its interfaces in bytes.
    pub(crate) mtu: u32,
    /// MSS that the host offers and keeps to, in bytes of TCP options and payload; `None` means that it follows from the MTU.
    pub(crate) mss: Option<u32>,
    /// Whether the host hands super-packets to its interface for segmentation (TSO).
    pub(crate) offload: bool,
    /// Its sysctls. The shipped ones override the lab's own.
    pub(crate) sysctls: Sysctls,
}

impl Default for HostSpec {
    /// Returns a Linux host of today.
    fn default() -> HostSpec {
        HostSpec {
            window: None,
            buffers: None,
            congestion: CUBIC.into(),
            sack: true,
            scaling: true,
            mtu: 1500,
            mss: None,
            offload: true,
            sysctls: Sysctls::Defaults,
        }
    }
}

impl HostSpec {
    /// Returns the host with buffers that cover the link, and with TCP set as the advice for long paths says. This is the host
    /// that its owner could have if it could be changed.
    pub(crate) fn tuned(&self, link: &LinkSpec) -> HostSpec {
        HostSpec {
            window: None,
            buffers: Some(Profile::relay_buffer(link)),
            congestion: CUBIC.into(),
            sack: true,
            scaling: true,
            ..self.clone()
        }
    }

    /// Returns the payload bytes of a full segment with timestamps.
    pub(crate) fn payload(&self) -> u32 {
        self.mss.unwrap_or(self.mtu.saturating_sub(packet::HEADERS)).saturating_sub(TIMESTAMPS)
    }

    /// Returns an error if segments of `mss` bytes do not fit the host's MTU.
    pub(crate) fn too_large(&self, mss: u32) -> Option<String> {
        let max = self.mtu.saturating_sub(packet::HEADERS);
        let mtu = self.mtu;
        let text = format!("an MSS of {mss} does not fit an MTU of {mtu}; write {max} or less, or a larger mtu");
        (mss > max).then_some(text)
    }

    /// Returns the values that do not go together, each with the text to write instead.
    pub(crate) fn conflicts(&self) -> Vec<Conflict> {
        let mut conflicts = Vec::new();
        conflicts.extend(self.mss.and_then(|mss| self.too_large(mss)).map(|text| Conflict::new("mss", text)));
        if self.window.is_some() && self.buffers.is_some() {
            let text = "a window sets the buffers too; leave one of the two out";
            conflicts.push(Conflict::new("buffers", text));
        }
        if self.window.is_some_and(|window| window > MAX_UNSCALED_WINDOW) && !self.scaling {
            let max = MAX_UNSCALED_WINDOW.0;
            let text = format!("without window scaling a window is at most {max} bytes; write that, or scaling = true");
            conflicts.push(Conflict::new("window", text));
        }
        conflicts
    }

    /// Returns the kernel settings of the host.
    pub(crate) fn profile(&self) -> Profile {
        let mut profile = match (self.window, self.buffers) {
            (Some(window), _) => self.windowed(window),
            (None, Some(max)) => Profile::buffers(max),
            (None, None) => Profile::plain(),
        };
        profile.congestion = Some(self.congestion.clone());
        if !self.sack {
            profile.sysctls.extend([Sysctl::new("tcp_sack", "0"), Sysctl::new("tcp_recovery", "0")]);
        }
        if !self.scaling {
            profile.sysctls.push(Sysctl::new("tcp_window_scaling", "0"));
        }
        if let Some(mss) = self.mss {
            profile.add_route(&format!("advmss {mss}"));
        }
        profile.mtu = self.mtu;
        profile.offload = self.offload;
        profile.further = self.sysctls;
        profile
    }

    /// Returns a host that offers `window` bytes and has no more in flight.
    ///
    /// The route limits the window. A clamp just below a power of two makes the kernel choose a window scale with which it
    /// cannot offer more (65,535 times 4 is 262,140). Linux 6.6 and later do not keep the clamp itself: they set it again as
    /// they learn how much of a buffer is payload. The buffers have room for the kernel's overhead, so that the window is the
    /// limit. If a window is between two powers, or below the 65,535 that need no scale, nft(8) reduces the window field of
    /// outgoing segments.
    fn windowed(&self, window: Bytes) -> Profile {
        let scale = (0..14).find(|scale| (65_536u64 << scale) >= window.0).unwrap_or(14);
        let room = (65_536u64 << scale) * 4;
        let route = format!("window {}", (65_536u64 << scale) - 1);
        let is_between = (65_535u64 << scale) as f64 > window.0 as f64 * SLACK;
        let window_field = is_between.then(|| (window.0 >> scale).max(1) as u16);
        let sysctls = ["tcp_wmem", "tcp_rmem"].map(|name| Sysctl::new(name, format!("4096 {room} {room}"))).to_vec();
        Profile { sysctls, route, window_field, ..Profile::plain() }
    }
}

/// Bytes of RFC 7323 timestamps, with their padding.
const TIMESTAMPS: u32 = 12;
/// Factor by which a host may offer more than its window.
const SLACK: f64 = 1.02;

impl Profile {
    /// Returns a relay host with CUBIC as its kernel's congestion control, and with buffers that cover the path, as advised for
    /// relays. The buffers hold twice the bandwidth-delay product, because the kernel counts its overhead in them. They hold as
    /// much again for the bytes in the link's queue.
    pub fn relay(link: &LinkSpec) -> Profile {
        HostSpec { buffers: Some(Profile::relay_buffer(link)), ..HostSpec::default() }.profile()
    }

    /// Returns the largest buffer of [`Profile::relay`]: at least 32 MiB, the default of Linux since 6.16.
    pub fn relay_buffer(link: &LinkSpec) -> Bytes {
        let path = link.bandwidth_delay().0.saturating_mul(4).next_power_of_two();
        Bytes(path.clamp(32 << 20, 1 << 30))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_held_by_the_scale_or_cut_down() {
        let made = |window| {
            let profile = HostSpec { window: Some(Bytes(window)), ..HostSpec::default() }.windowed(Bytes(window));
            (profile.route, profile.window_field)
        };
        assert_eq!(made(262_144), ("window 262143".into(), None));
        assert_eq!(made(65_536), ("window 65535".into(), None));
        assert_eq!(made(65_535), ("window 65535".into(), None));
        assert_eq!(made(2 << 20), ("window 2097151".into(), None));
        assert_eq!(made(48_000), ("window 65535".into(), Some(48_000)));
        assert_eq!(made(135_000), ("window 262143".into(), Some(33_750)));
    }

    #[test]
    fn values_that_conflict_are_reported() {
        let conflicts = |host: HostSpec| {
            host.conflicts().into_iter().map(|Conflict { key, why }| format!("{key}: {why}")).collect::<String>()
        };
        assert_eq!(conflicts(HostSpec::default()), "");
        let host = HostSpec { mtu: 1200, mss: Some(1460), ..HostSpec::default() };
        assert!(conflicts(host).starts_with("mss: an MSS of 1460 does not fit"));
        let host = HostSpec { window: Some(Bytes(65_536)), scaling: false, ..HostSpec::default() };
        assert!(conflicts(host.clone()).starts_with("window: without window scaling"));
        assert_eq!(conflicts(HostSpec { window: Some(Bytes(65_535)), ..host.clone() }), "");
        assert!(conflicts(HostSpec { buffers: Some(Bytes(65_536)), ..host }).starts_with("buffers: "));
        assert_eq!(HostSpec { mtu: 576, ..HostSpec::default() }.payload(), 524);
    }
}
