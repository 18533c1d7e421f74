//! A packet on the link: which of the caller's buffers holds it, and how many segments of it this is.

use std::time::Duration;

/// A run of segments of one packet whose bytes the caller keeps. What segmentation offload would send as `segments`
/// packets on the wire is one of these until something happens to a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The caller's name for the buffer.
    pub slot: u32,
    /// The time, since the link's start, at which the packet reaches the stage it is given to, or leaves the stage that gave it.
    pub at: Duration,
    /// The first of these segments, counted from the start of the buffer.
    pub first: u32,
    /// Number of segments; at least 1.
    pub segments: u32,
    /// IP and transport headers in bytes, repeated in each segment. For a packet that offload will not cut: all of it.
    pub headers: u32,
    /// Payload bytes of each segment but the buffer's last, which may be shorter. 0 when offload will not cut it.
    pub size: u32,
    /// Payload bytes of all these segments together.
    pub payload: u32,
    /// Bytes of each segment on the wire beyond its IP bytes: 0 unless the path encapsulates.
    pub overhead: u32,
    /// Whether a router must drop it rather than fragment it: IPv4's DF, and always with IPv6.
    pub dont_fragment: bool,
    /// The part of a single segment that this is, while it travels in fragments.
    pub fragment: Option<Fragment>,
}

/// A part of a segment. Fragments exist on the link only: what arrives is a whole segment again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Its bytes on the wire, with an IP header of its own.
    pub bytes: u32,
    /// Where it begins and ends in the segment, which is a range from 0 to `u32::MAX` whatever its length: fragments
    /// that are cut again still add up to it.
    pub start: u32,
    /// End of its range, where the next begins.
    pub end: u32,
}

impl Packet {
    /// A packet of `bytes` bytes that is its own only segment and may not be fragmented, as Linux sends them.
    pub fn single(slot: u32, at: Duration, bytes: u32) -> Packet {
        let dont_fragment = true;
        let fragment = None;
        let first = 0;
        let segments = 1;
        let headers = bytes;
        let size = 0;
        let payload = 0;
        let overhead = 0;
        Packet { slot, at, first, segments, headers, size, payload, overhead, dont_fragment, fragment }
    }

    /// Returns the bytes of these segments on the wire.
    pub fn wire_bytes(&self) -> u64 {
        match self.fragment {
            Some(fragment) => u64::from(fragment.bytes),
            None => u64::from(self.payload) + u64::from(self.segments) * u64::from(self.headers + self.overhead),
        }
    }

    /// Returns the number of segments counted for it: those that begin in it, so that the fragments of one count 1 together.
    pub fn counted(&self) -> u64 {
        match self.fragment {
            Some(fragment) if fragment.start > 0 => 0,
            _ => u64::from(self.segments),
        }
    }

    /// The first `segments` of them; all when there are no more.
    pub fn front(&self, segments: u32) -> Packet {
        match segments < self.segments {
            true => Packet { segments, payload: segments * self.size, ..*self },
            false => *self,
        }
    }

    /// Returns the rest after the first `segments`; `None` when there are no more.
    pub fn after(&self, segments: u32) -> Option<Packet> {
        let left = self.segments.checked_sub(segments).filter(|left| *left > 0)?;
        let payload = self.payload - segments * self.size;
        Some(Packet { first: self.first + segments, segments: left, payload, ..*self })
    }

    /// Returns the bytes of the first segment on the wire; none of the others is longer.
    pub fn segment_bytes(&self) -> u32 {
        match self.fragment {
            Some(fragment) => fragment.bytes,
            None => self.headers + self.overhead + if self.segments > 1 { self.size } else { self.payload },
        }
    }

    /// The segments of equal length, and apart from them the last if it is shorter.
    pub(super) fn by_length(&self) -> (Packet, Option<Packet>) {
        let full = self.segments - 1;
        match self.payload == self.segments * self.size || full == 0 {
            true => (*self, None),
            false => (self.front(full), self.after(full)),
        }
    }

    /// The same with `bytes` more on the wire for each segment.
    pub(super) fn longer(self, bytes: u32) -> Packet {
        match self.fragment {
            Some(fragment) => Packet { fragment: Some(Fragment { bytes: fragment.bytes + bytes, ..fragment }), ..self },
            None => Packet { overhead: self.overhead + bytes, ..self },
        }
    }
}
