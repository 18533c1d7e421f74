//! Hashes that stay the same over restarts, versions and machines: two near relays send a client to the same hop.

use std::net::IpAddr;

/// Identifies a hop of a tunnel: a hash of its host and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HopKey(u64);

impl HopKey {
    /// Returns the key of a hop.
    pub fn of(host: &str, port: u16) -> HopKey {
        HopKey(mix(fnv(fnv(FNV_START, host.as_bytes()), &port.to_be_bytes())))
    }

    /// Returns a hash of the hop and the address of a client. IPv4 clients of an IPv6 listener count as IPv4.
    pub fn of_client(self, client: IpAddr) -> u64 {
        match client.to_canonical() {
            IpAddr::V4(ip) => mix(fnv(self.0, &ip.octets())),
            IpAddr::V6(ip) => mix(fnv(self.0, &ip.octets())),
        }
    }
}

/// Continues the hash FNV-1a over `bytes`.
fn fnv(start: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Spreads every bit of `value` over all 64 (the finalizer of splitmix64). FNV leaves the high bits of short texts alike.
pub(super) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;
