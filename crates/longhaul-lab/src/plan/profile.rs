//! TCP settings of a host, in the form that the kernel takes.

use longhaul_units::Bytes;

/// The kernel parameters that a host has besides those of its profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sysctls {
    /// The kernel's defaults.
    #[default]
    Defaults,
    /// Those of packaging/90-longhaul.conf, which longhaul ships for relays. They are set after those of the profile.
    Shipped,
}

/// A kernel parameter and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sysctl {
    /// The name below /proc/sys/net/ipv4.
    pub name: &'static str,
    /// The value to write to that file.
    pub value: String,
}

/// TCP settings of a host.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Kernel parameters of IPv4 and TCP.
    pub sysctls: Vec<Sysctl>,
    /// The kernel's congestion control; `None` keeps this machine's default.
    pub congestion: Option<String>,
    /// Attributes of the host's routes, in the syntax of ip-route(8): `window 262144 advmss 1460`.
    pub route: String,
    /// Maximum of the window field in TCP headers, before scaling; needs nft(8).
    pub window_field: Option<u16>,
    /// MTU of the host's interfaces in bytes.
    pub mtu: u32,
    /// Whether the host hands super-packets to its interface for segmentation (TSO).
    pub offload: bool,
    /// Further kernel parameters.
    pub further: Sysctls,
}

impl Sysctl {
    /// Returns the parameter `name` with `value`.
    pub fn new(name: &'static str, value: impl Into<String>) -> Sysctl {
        Sysctl { name, value: value.into() }
    }
}

impl Profile {
    /// Returns a Linux host of today with all settings at their defaults.
    pub fn plain() -> Profile {
        Profile {
            sysctls: Vec::new(),
            congestion: None,
            route: String::new(),
            window_field: None,
            mtu: 1500,
            offload: true,
            further: Sysctls::Defaults,
        }
    }

    /// Returns a Linux host of today whose buffers may grow to `max`.
    pub fn buffers(max: Bytes) -> Profile {
        let sysctl = |name, first: u64| Sysctl::new(name, format!("4096 {} {}", first.min(max.0), max.0));
        let sysctls = vec![sysctl("tcp_rmem", 131_072), sysctl("tcp_wmem", 65_536)];
        Profile { sysctls, ..Profile::plain() }
    }

    /// Adds an attribute to the host's routes.
    pub(crate) fn add_route(&mut self, attribute: &str) {
        if !self.route.is_empty() {
            self.route.push(' ');
        }
        self.route.push_str(attribute);
    }
}
