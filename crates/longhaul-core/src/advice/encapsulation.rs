//! The encapsulations that a path may have. One row is one encapsulation.

use crate::path::laws::packet::Overhead;

/// One encapsulation.
#[derive(Debug)]
pub struct Encapsulation {
    /// Name on the command line.
    pub name: &'static str,
    /// What it is, for people.
    pub title: &'static str,
    /// The bytes that it adds.
    pub overhead: Overhead,
    /// The document that says so.
    pub source: &'static str,
    /// What to know of it; may be empty.
    pub caveat: &'static str,
}

impl Encapsulation {
    /// Returns the row called `name`.
    pub fn named(name: &str) -> Option<&'static Encapsulation> {
        ENCAPSULATIONS.iter().find(|row| row.name == name)
    }
}

/// All encapsulations.
pub const ENCAPSULATIONS: &[Encapsulation] = &[
    Encapsulation {
        name: "esp-gcm",
        title: "IPsec ESP in tunnel mode, AES-GCM",
        overhead: Overhead { outer: 20, header: 8, iv: 8, trailer: 2, align: 4, icv: 16 },
        source: "RFC 4303, RFC 4106",
        caveat: "With NAT traversal (UDP), subtract 8 bytes from the MTU first.",
    },
    Encapsulation {
        name: "esp-cbc",
        title: "IPsec ESP in tunnel mode, AES-CBC with SHA1-96",
        overhead: Overhead { outer: 20, header: 8, iv: 16, trailer: 2, align: 16, icv: 12 },
        source: "RFC 4303, RFC 3602, RFC 2404",
        caveat: "With NAT traversal (UDP), subtract 8 bytes from the MTU first.",
    },
    Encapsulation {
        name: "gre",
        title: "GRE without key and checksum",
        overhead: Overhead { outer: 20, header: 4, iv: 0, trailer: 0, align: 0, icv: 0 },
        source: "RFC 2784",
        caveat: "",
    },
    Encapsulation {
        name: "vxlan",
        title: "VXLAN",
        overhead: Overhead { outer: 28, header: 22, iv: 0, trailer: 0, align: 0, icv: 0 },
        source: "RFC 7348",
        caveat: "",
    },
    Encapsulation {
        name: "wireguard",
        title: "WireGuard over IPv4",
        overhead: Overhead { outer: 28, header: 16, iv: 0, trailer: 0, align: 16, icv: 16 },
        source: "wireguard.com/protocol",
        caveat: "The kernel does not pad a packet beyond the interface's MTU; an interface with a larger MTU may carry 1 to 15 bytes more.",
    },
    Encapsulation {
        name: "expressroute",
        title: "Azure ExpressRoute to Skytap",
        overhead: Overhead { outer: 50, header: 0, iv: 0, trailer: 0, align: 0, icv: 0 },
        source: "Skytap on Azure guide, May 2023: 50 bytes of encapsulation",
        caveat: "The guide does not say what the 50 bytes are.",
    },
];
