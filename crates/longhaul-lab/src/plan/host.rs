//! TCP of a host as a scenario sets it, and the [`Profile`] that does it.

use crate::plan::conflict::Conflict;
use crate::plan::link::LinkSpec;
use crate::plan::profile::{Profile, Sysctl};
use longhaul_units::Bytes;

/// TCP of one host, as a scenario describes it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HostSpec {
    /// The window it offers, and the most it has under way; `None` leaves it to the kernel's autotuning.
    pub(crate) window: Option<Bytes>,
    /// The most that autotuning may give a buffer; `None` leaves the kernel's default.
    pub(crate) buffers: Option<Bytes>,
    /// Congestion control. CUBIC unless said otherwise, as Linux has it since 2.6.19: with what this machine happens to have,
    /// the same scenario would come out differently elsewhere.
    pub(crate) congestion: String,
    /// Selective acknowledgements, and with them the newer ways of Linux to find losses.
    pub(crate) sack: bool,
    /// Window scaling (RFC 7323).
    pub(crate) scaling: bool,
    /// MTU of its interfaces in bytes.
    pub(crate) mtu: u32,
    /// The largest segment it offers and sends, in bytes of TCP options and payload; `None` means the MTU decides.
    pub(crate) mss: Option<u32>,
    /// Whether it hands super-packets to its interface to be cut there.
    pub(crate) offload: bool,
    /// Whether it has the sysctls that longhaul ships for relays, in place of what the lab would set.
    pub(crate) shipped: bool,
}

impl Default for HostSpec {
    /// A Linux host of today.
    fn default() -> HostSpec {
        HostSpec {
            window: None,
            buffers: None,
            congestion: "cubic".into(),
            sack: true,
            scaling: true,
            mtu: 1500,
            mss: None,
            offload: true,
            shipped: false,
        }
    }
}

impl HostSpec {
    /// The host whose buffers cover the link and whose TCP is as the advice for long paths is: what its owner could have
    /// if it could be changed.
    pub(crate) fn tuned(&self, link: &LinkSpec) -> HostSpec {
        HostSpec {
            window: None,
            buffers: Some(Profile::relay_buffer(link)),
            congestion: "cubic".into(),
            sack: true,
            scaling: true,
            ..self.clone()
        }
    }

    /// Payload bytes of its full segments, with timestamps.
    pub(crate) fn payload(&self) -> u32 {
        self.mss.unwrap_or(self.mtu.saturating_sub(IP_AND_TCP)).saturating_sub(TIMESTAMPS)
    }

    /// Returns the error of segments of `mss` bytes, if they do not fit its MTU.
    pub(crate) fn too_large(&self, mss: u32) -> Option<String> {
        let max = self.mtu.saturating_sub(IP_AND_TCP);
        let mtu = self.mtu;
        let text = format!("an MSS of {mss} does not fit an MTU of {mtu}; write {max} or less, or a larger mtu");
        (mss > max).then_some(text)
    }

    /// Returns the values that do not go together, each with the text to write instead.
    pub(crate) fn conflicts(&self) -> Vec<Conflict> {
        let mut conflicts = Vec::new();
        conflicts.extend(self.mss.and_then(|mss| self.too_large(mss)).map(|text| Conflict::new("mss", text)));
        if self.window.is_some() && self.buffers.is_some() {
            let text = "a host with a window has the buffers that fit it; leave one of the two out";
            conflicts.push(Conflict::new("buffers", text));
        }
        if self.window.is_some_and(|window| window.0 > UNSCALED) && !self.scaling {
            let text =
                format!("without window scaling a window has {UNSCALED} bytes at most; write that, or scaling = true");
            conflicts.push(Conflict::new("window", text));
        }
        conflicts
    }

    /// Returns the settings of the lab for it.
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
        profile.shipped = self.shipped;
        profile
    }

    /// A host that offers `window` bytes and has no more under way.
    ///
    /// The route limits the window: a clamp just below a power of two makes the kernel choose a window scale with
    /// which it cannot offer more (65,535 times 4 is 262,140). The clamp itself is not kept by Linux 6.6 and later, which
    /// set it anew as they learn how much of a buffer is payload. The buffers have room for the kernel's overhead, so
    /// that the window is what limits. A window between two powers, or below the 65,535 that need no scale, is cut down on
    /// its way out of the host.
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

/// Headers of IPv4 and TCP without options.
const IP_AND_TCP: u32 = 40;
/// The largest window that the TCP header has room for (RFC 9293).
const UNSCALED: u64 = 65_535;
/// RFC 7323 timestamps, with their padding.
const TIMESTAMPS: u32 = 12;
/// The factor by which a host may offer more than its window.
const SLACK: f64 = 1.02;

impl Profile {
    /// A host like AIX at its defaults on 10 GbE or virtual Ethernet: windows of `window` bytes, Reno, no SACK, none of
    /// the newer ways of Linux to find losses.
    pub fn aix_like(window: Bytes) -> Profile {
        HostSpec { window: Some(window), congestion: "reno".into(), sack: false, ..HostSpec::default() }.profile()
    }

    /// A relay host whose buffers cover the path, as the advice for relays is: twice the bandwidth-delay product, for
    /// the kernel counts its overhead in them, and as much again for what waits in the link's queue; and whose kernel's own
    /// congestion control is CUBIC.
    pub fn relay(link: &LinkSpec) -> Profile {
        HostSpec { buffers: Some(Profile::relay_buffer(link)), ..HostSpec::default() }.profile()
    }

    /// The largest buffer of [`Profile::relay`]: at least what Linux has by default since 6.16.
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
    fn what_does_not_go_together_is_said() {
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
