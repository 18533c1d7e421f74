//! A pool of buffers for the packets under way. Once it has grown enough, it allocates no more.
//!
//! Buffers have several sizes, because a link holds super-packets, pairs of segments and acknowledgements: the queue of a hundred slow
//! flows must not cost 64 KiB for each two segments.

use longhaul_sys::tun::FRAME_MAX;

/// Frames under way, each with the number of its pieces that have yet to arrive.
#[derive(Debug)]
pub(crate) struct Frames {
    slots: Vec<Slot>,
    /// Empty slots, by size.
    free: [Vec<u32>; SIZES.len()],
    /// Bytes allocated so far, by size, and their maximum. Buffers stay allocated, so each size has a maximum of its own: traffic may change.
    allocated: [usize; SIZES.len()],
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
    /// Returns a pool of at most `limit` bytes in buffers of each size.
    pub(crate) fn new(limit: usize) -> Frames {
        let incoming = vec![0; FRAME_MAX].into_boxed_slice();
        Frames { slots: Vec::new(), free: Default::default(), allocated: Default::default(), limit, incoming }
    }

    /// Returns the buffer for the next frame.
    pub(crate) fn incoming(&mut self) -> &mut [u8] {
        &mut self.incoming
    }

    /// Returns the first `length` bytes of the frame that was read.
    pub(crate) fn arrived(&self, length: usize) -> &[u8] {
        &self.incoming[..length]
    }

    /// Keeps the first `length` bytes of the frame that was read. Returns its slot, or `None` if the pool is full.
    pub(crate) fn keep(&mut self, length: usize) -> Option<u32> {
        let size = SIZES.iter().position(|size| length <= *size)?;
        let slot = self.free[size].pop().or_else(|| self.grow(size))?;
        let place = &mut self.slots[slot as usize];
        if place.bytes.len() == FRAME_MAX {
            // Both buffers have full size, so they are swapped instead of copied.
            std::mem::swap(&mut place.bytes, &mut self.incoming);
        } else {
            place.bytes[..length].copy_from_slice(&self.incoming[..length]);
        }
        place.length = length;
        Some(slot)
    }

    /// Sets the number of pieces in which the frame in `slot` will arrive. With 0 the slot becomes free.
    pub(crate) fn expect(&mut self, slot: u32, pieces: usize) {
        let place = &mut self.slots[slot as usize];
        place.pieces = pieces;
        if pieces == 0 {
            self.free[place.size].push(slot);
        }
    }

    /// Returns the frame in `slot`.
    pub(crate) fn frame(&self, slot: u32) -> &[u8] {
        let place = &self.slots[slot as usize];
        &place.bytes[..place.length]
    }

    /// Counts the arrival of one piece of the frame in `slot`. Frees the slot after the last piece.
    pub(crate) fn release(&mut self, slot: u32) {
        let left = self.slots[slot as usize].pieces.saturating_sub(1);
        self.expect(slot, left);
    }

    fn grow(&mut self, size: usize) -> Option<u32> {
        let bytes = SIZES[size];
        if self.allocated[size] + bytes > self.limit {
            return None;
        }
        self.allocated[size] += bytes;
        self.slots.push(Slot { bytes: vec![0; bytes].into_boxed_slice(), length: 0, pieces: 0, size });
        u32::try_from(self.slots.len() - 1).ok()
    }
}

/// Sizes of buffers in bytes: an acknowledgement, a segment of an Ethernet, and up to the largest frame of a device, so that a buffer with
/// full segments is half full or more.
const SIZES: [usize; 7] = [256, 2048, 4096, 8192, 16_384, 32_768, FRAME_MAX];

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

    /// In one run with 100 flows, a sixth of all frames was lost here, and the figures were wrong: each two segments had 64 KiB.
    #[test]
    fn a_pool_of_twice_the_bytes_holds_frames_of_any_size() {
        for length in [1_500, 2_962, 5_858, 14_546, 40_000, 60_000] {
            let mut frames = Frames::new(2 << 20);
            let kept = (0..).take_while(|_| frames.keep(length).is_some()).count();
            assert!(kept * length * 11 / 5 >= 2 << 20, "{kept} frames of {length}");
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
