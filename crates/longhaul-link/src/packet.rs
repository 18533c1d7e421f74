//! A packet on the link: a run of segments in one of the caller's buffers.

use std::time::Duration;

/// A run of segments of one packet; the caller keeps the bytes. Segmentation offload would send the run as `segments`
/// packets on the wire. It stays one `Packet` until a stage treats a part of it differently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// The caller's number of the buffer.
    pub slot: u32,
    /// Time since the link's start. On entry to a stage: when the packet arrives there. On exit: when the packet leaves.
    pub at: Duration,
    /// Index of the first segment, counted from the start of the buffer.
    pub first: u32,
    /// Number of segments; at least 1.
    pub segments: u32,
    /// IP and transport headers in bytes, repeated in each segment. The whole packet if offload will not cut it.
    pub headers: u32,
    /// Payload bytes of each segment; the buffer's last may have fewer. 0 if offload will not cut the packet.
    pub size: u32,
    /// Payload bytes of all segments together.
    pub payload: u32,
    /// Bytes that encapsulation adds to each segment on the wire; 0 without encapsulation.
    pub overhead: u32,
    /// Whether a router must drop the packet rather than fragment it: IPv4 with DF, and always IPv6.
    pub dont_fragment: bool,
    /// The part of a single segment that this packet is, while the segment travels in fragments.
    pub fragment: Option<Fragment>,
}

/// A part of a segment. Fragments exist only on the link; whole segments arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Bytes on the wire, with the fragment's own IP header.
    pub bytes: u32,
    /// Start of the fragment in its segment. A segment spans 0 to `u32::MAX`, whatever its length, so that fragments of
    /// fragments still add up to the whole.
    pub start: u32,
    /// End of the fragment in its segment; the next fragment starts there.
    pub end: u32,
}

impl Packet {
    /// Returns a packet of `bytes` bytes with one segment and DF set, as Linux sends it.
    pub fn single(slot: u32, at: Duration, bytes: u32) -> Packet {
        Packet { slot, at, segments: 1, headers: bytes, dont_fragment: true, ..Packet::default() }
    }

    /// Returns the bytes of all segments on the wire.
    pub fn wire_bytes(&self) -> u64 {
        match self.fragment {
            Some(fragment) => u64::from(fragment.bytes),
            None => u64::from(self.payload) + u64::from(self.segments) * u64::from(self.headers + self.overhead),
        }
    }

    /// Returns the number of segments that begin in this packet. All fragments of a segment thus count as 1 together.
    pub fn counted(&self) -> u64 {
        match self.fragment {
            Some(fragment) if fragment.start > 0 => 0,
            _ => u64::from(self.segments),
        }
    }

    /// Returns the first `segments` segments; all if there are fewer.
    pub fn front(&self, segments: u32) -> Packet {
        match segments < self.segments {
            true => Packet { segments, payload: segments * self.size, ..*self },
            false => *self,
        }
    }

    /// Returns the segments after the first `segments`; `None` if there are none.
    pub fn after(&self, segments: u32) -> Option<Packet> {
        let left = self.segments.checked_sub(segments).filter(|left| *left > 0)?;
        let payload = self.payload - segments * self.size;
        Some(Packet { first: self.first + segments, segments: left, payload, ..*self })
    }

    /// Returns the bytes of the first segment on the wire; no other segment is longer.
    pub fn segment_bytes(&self) -> u32 {
        match self.fragment {
            Some(fragment) => fragment.bytes,
            None => self.headers + self.overhead + if self.segments > 1 { self.size } else { self.payload },
        }
    }

    /// Splits off the last segment if it is shorter: returns the segments of equal length, and the short one.
    pub(super) fn by_length(&self) -> (Packet, Option<Packet>) {
        let full = self.segments - 1;
        match self.payload == self.segments * self.size || full == 0 {
            true => (*self, None),
            false => (self.front(full), self.after(full)),
        }
    }

    /// Returns the packet with `bytes` more on the wire for each segment.
    pub(super) fn longer(self, bytes: u32) -> Packet {
        match self.fragment {
            Some(fragment) => Packet { fragment: Some(Fragment { bytes: fragment.bytes + bytes, ..fragment }), ..self },
            None => Packet { overhead: self.overhead + bytes, ..self },
        }
    }
}
