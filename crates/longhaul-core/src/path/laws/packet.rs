//! Packets inside an encapsulation: the bytes that it adds, and the largest inner packet that a line takes.
//!
//! | part | bytes |
//! | --- | --- |
//! | outer | the outer IP header, with the UDP header if there is one |
//! | header | the encapsulation's own header |
//! | iv | the initialization vector |
//! | trailer, align | the trailer, padded together with the inner packet to a multiple of align |
//! | icv | the integrity check value |

/// The bytes that an encapsulation adds, part by part. The default adds nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overhead {
    /// The outer IP header, with the UDP header if there is one.
    pub outer: u32,
    /// The encapsulation's own header.
    pub header: u32,
    /// The initialization vector.
    pub iv: u32,
    /// The trailer, which is padded together with the inner packet.
    pub trailer: u32,
    /// The multiple to which inner packet and trailer are padded; 0 and 1 mean no padding.
    pub align: u32,
    /// The integrity check value.
    pub icv: u32,
}

impl Overhead {
    /// Returns the bytes on the line of an inner packet of `inner` bytes.
    pub fn outer_bytes(&self, inner: u32) -> u32 {
        let padded = (inner + self.trailer).next_multiple_of(self.align.max(1));
        self.fixed() + padded
    }

    /// Returns the bytes of the largest inner packet that fits into a packet of `mtu` bytes; `None` if none does.
    pub fn max_inner(&self, mtu: u32) -> Option<u32> {
        let align = self.align.max(1);
        let padded = mtu.checked_sub(self.fixed())? / align * align;
        padded.checked_sub(self.trailer).filter(|inner| *inner > 0)
    }

    /// Returns the bytes that every packet has besides its padded part.
    fn fixed(&self) -> u32 {
        self.outer + self.header + self.iv + self.icv
    }
}

/// Returns the bytes of the headers of IP and TCP without options (RFC 8200 3 for IPv6).
pub fn headers(is_ipv6: bool) -> u32 {
    if is_ipv6 { HEADERS + 20 } else { HEADERS }
}

/// Returns the payload of a full TCP segment in an IPv4 packet of `packet` bytes, without options: the MSS that a host
/// announces. Zero if there is no room for payload.
pub fn mss(packet: u32) -> u32 {
    packet.saturating_sub(HEADERS)
}

/// Bytes of the headers of IPv4 and TCP without options (RFC 9293 3.7.1).
pub const HEADERS: u32 = 40;
/// Smallest MTU that is advised on: every host takes a packet of this size (RFC 791 3.1).
pub const MIN_MTU: u32 = 576;
/// Largest MTU of IP.
pub const MAX_MTU: u32 = 65_535;
