//! Buffers for the packets under way: taken and given back without allocating once there have been enough.
//!
//! Two sizes, for a link under load holds either super-packets or a great many acknowledgements, and the second must
//! not cost 64 KiB each.

use longhaul_sys::tun::FRAME_MAX;

/// Frames under way, each with how many pieces of it have yet to arrive.
#[derive(Debug)]
pub(crate) struct Frames {
    slots: Vec<Slot>,
    /// Slots that hold nothing, of each size.
    free: [Vec<u32>; SIZES.len()],
    /// Bytes allocated so far, and how many may be.
    allocated: usize,
    limit: usize,
    /// The frame that is being read.
    incoming: Box<[u8]>,
}

#[derive(Debug)]
struct Slot {
    bytes: Box<[u8]>,
    length: usize,
    pieces: usize,
    size: usize,
}

impl Frames {
    /// A pool that holds at most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Frames {
        let incoming = vec![0; FRAME_MAX].into_boxed_slice();
        Frames { slots: Vec::new(), free: Default::default(), allocated: 0, limit, incoming }
    }

    /// Returns the buffer for the next frame.
    pub(crate) fn incoming(&mut self) -> &mut [u8] {
        &mut self.incoming
    }

    /// The first `length` bytes of what was read.
    pub(crate) fn arrived(&self, length: usize) -> &[u8] {
        &self.incoming[..length]
    }

    /// Keeps the first `length` bytes of what was read: its slot, or nothing when the pool is full.
    pub(crate) fn keep(&mut self, length: usize) -> Option<u32> {
        let size = SIZES.iter().position(|size| length <= *size)?;
        let slot = self.free[size].pop().or_else(|| self.grow(size))?;
        let place = &mut self.slots[slot as usize];
        if place.bytes.len() == FRAME_MAX {
            // Both are of full size: the frame stays where it was read.
            std::mem::swap(&mut place.bytes, &mut self.incoming);
        } else {
            place.bytes[..length].copy_from_slice(&self.incoming[..length]);
        }
        place.length = length;
        Some(slot)
    }

    /// Says in how many pieces the frame in `slot` will arrive; with 0 the slot is free again.
    pub(crate) fn expect(&mut self, slot: u32, pieces: usize) {
        let place = &mut self.slots[slot as usize];
        place.pieces = pieces;
        if pieces == 0 {
            self.free[place.size].push(slot);
        }
    }

    /// The frame in `slot`.
    pub(crate) fn frame(&self, slot: u32) -> &[u8] {
        let place = &self.slots[slot as usize];
        &place.bytes[..place.length]
    }

    /// One piece of the frame in `slot` has arrived.
    pub(crate) fn release(&mut self, slot: u32) {
        let left = self.slots[slot as usize].pieces.saturating_sub(1);
        self.expect(slot, left);
    }

    fn grow(&mut self, size: usize) -> Option<u32> {
        let bytes = SIZES[size];
        if self.allocated + bytes > self.limit {
            return None;
        }
        self.allocated += bytes;
        self.slots.push(Slot { bytes: vec![0; bytes].into_boxed_slice(), length: 0, pieces: 0, size });
        u32::try_from(self.slots.len() - 1).ok()
    }
}

/// One segment of an Ethernet with its header, and whatever a device can give.
const SIZES: [usize; 2] = [2048, FRAME_MAX];

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(frames: &mut Frames, byte: u8, length: usize) -> Option<u32> {
        frames.incoming()[..length].fill(byte);
        frames.keep(length)
    }

    #[test]
    fn a_frame_stays_until_its_last_piece_has_arrived() {
        let mut frames = Frames::new(1 << 20);
        for length in [60, 60_000] {
            let slot = keep(&mut frames, 7, length).unwrap();
            frames.expect(slot, 2);
            frames.release(slot);
            let other = keep(&mut frames, 8, length).unwrap();
            frames.expect(other, 1);
            assert_ne!(slot, other);
            assert_eq!(frames.frame(slot), vec![7; length]);
            assert_eq!(frames.frame(other), vec![8; length]);
            frames.release(slot);
            assert_eq!(keep(&mut frames, 9, length), Some(slot), "reused, not allocated");
        }
    }

    #[test]
    fn a_full_pool_says_so_and_recovers() {
        let mut frames = Frames::new(FRAME_MAX);
        let slot = keep(&mut frames, 1, 60_000).unwrap();
        assert_eq!(keep(&mut frames, 2, 60_000), None);
        frames.expect(slot, 0);
        assert!(keep(&mut frames, 3, 60_000).is_some());
    }
}
