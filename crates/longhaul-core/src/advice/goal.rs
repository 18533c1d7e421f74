//! What a path needs of a host.

use longhaul_units::Bytes;

/// The values that a path needs, from which each setting takes its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Goal {
    /// The TCP window: twice the bandwidth-delay product, up to the system's limit.
    pub window: Bytes,
    /// The largest IP packet that fits into the path, inside its encapsulation.
    pub packet: u32,
    /// Whether `packet` is smaller than a host on Ethernet would send: 1500 bytes.
    pub is_packet_short: bool,
    /// Whether the path loses packets at random.
    pub has_loss: bool,
}

impl Goal {
    /// Returns the MSS that fits into the path.
    pub fn mss(&self) -> u32 {
        crate::path::laws::packet::mss(self.packet)
    }
}
