//! TCP settings of a host, as the kernel takes them.

use longhaul_units::Bytes;

/// A kernel parameter and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sysctl {
    /// Its name below /proc/sys/net/ipv4.
    pub name: &'static str,
    /// Its value, as one writes it to that file.
    pub value: String,
}

/// TCP settings of a host.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Kernel parameters of IPv4 and TCP.
    pub sysctls: Vec<Sysctl>,
    /// Its kernel's congestion control; `None` leaves it what this machine has.
    pub congestion: Option<String>,
    /// Attributes of the host's routes, as ip-route(8) takes them: `window 262144 advmss 1460`.
    pub route: String,
    /// The most that the host's TCP may write into a header's window field, before scaling; needs nft(8).
    pub window_field: Option<u16>,
    /// MTU of the host's interfaces in bytes.
    pub mtu: u32,
    /// Whether it hands super-packets to its interface to be cut there.
    pub offload: bool,
    /// Whether it has the sysctls of packaging/90-longhaul.conf, which come after the others.
    pub shipped: bool,
}

impl Sysctl {
    /// The parameter `name` with `value`.
    pub fn new(name: &'static str, value: impl Into<String>) -> Sysctl {
        Sysctl { name, value: value.into() }
    }
}

impl Profile {
    /// A Linux host of today with everything at its default.
    pub fn plain() -> Profile {
        Profile {
            sysctls: Vec::new(),
            congestion: None,
            route: String::new(),
            window_field: None,
            mtu: 1500,
            offload: true,
            shipped: false,
        }
    }

    /// A Linux host of today whose buffers may grow to `most`.
    pub fn buffers(max: Bytes) -> Profile {
        let sysctl = |name, first: u64| Sysctl::new(name, format!("4096 {} {}", first.min(max.0), max.0));
        let sysctls = vec![sysctl("tcp_rmem", 131_072), sysctl("tcp_wmem", 65_536)];
        Profile { sysctls, ..Profile::plain() }
    }

    /// Adds an attribute of its routes.
    pub(crate) fn add_route(&mut self, attribute: &str) {
        if !self.route.is_empty() {
            self.route.push(' ');
        }
        self.route.push_str(attribute);
    }
}
