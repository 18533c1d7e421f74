//! A packet on the link: which of the caller's buffers holds it, and how many segments of it this is.

use std::time::Duration;

/// A run of segments of one packet whose bytes the caller keeps. What segmentation offload would send as `segments`
/// packets on the wire is one of these until something happens to a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The caller's name for the buffer.
    pub slot: u32,
    /// When the packet reaches the stage it is given to, or leaves the stage that gave it, since the link's start.
    pub at: Duration,
    /// The first of these segments, counted from the start of the buffer.
    pub first: u32,
    /// How many segments; at least 1.
    pub segments: u32,
    /// IP and transport headers in bytes, repeated in each segment. For a packet that offload will not cut: all of it.
    pub headers: u32,
    /// Payload bytes of each segment but the buffer's last, which may be shorter. 0 when offload will not cut it.
    pub size: u32,
    /// Payload bytes of all these segments together.
    pub payload: u32,
    /// What each segment occupies on the wire beyond its IP bytes: 0 unless the path encapsulates.
    pub overhead: u32,
}

impl Packet {
    /// A packet of `bytes` bytes that is its own only segment.
    pub fn single(slot: u32, at: Duration, bytes: u32) -> Packet {
        Packet { slot, at, first: 0, segments: 1, headers: bytes, size: 0, payload: 0, overhead: 0 }
    }

    /// What these segments occupy on the wire, in bytes.
    pub fn wire_bytes(&self) -> u64 {
        u64::from(self.payload) + u64::from(self.segments) * u64::from(self.headers + self.overhead)
    }

    /// The first `segments` of them; all when there are no more.
    pub fn front(&self, segments: u32) -> Packet {
        match segments < self.segments {
            true => Packet { segments, payload: segments * self.size, ..*self },
            false => *self,
        }
    }

    /// What is left after the first `segments`; nothing when there are no more.
    pub fn after(&self, segments: u32) -> Option<Packet> {
        let left = self.segments.checked_sub(segments).filter(|left| *left > 0)?;
        let payload = self.payload - segments * self.size;
        Some(Packet { first: self.first + segments, segments: left, payload, ..*self })
    }
}
