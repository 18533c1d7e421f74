//! The payload of a probe: pseudo-random bytes, so that a misplaced byte shows and nothing on the way can compress them.

use longhaul_core::wire::probe::Nonce;

/// The bytes of a payload, from the next one on.
pub(super) struct Pattern {
    state: u64,
}

impl Pattern {
    /// Returns the payload of the probe with `nonce`.
    pub(super) fn new(nonce: &Nonce) -> Pattern {
        let mut seed = [0; 8];
        seed.copy_from_slice(&nonce[..8]);
        Pattern { state: u64::from_be_bytes(seed) | 1 }
    }

    fn next(&mut self) -> u8 {
        // xorshift64
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 32) as u8
    }

    /// Returns the next `bytes` bytes.
    pub(super) fn take(&mut self, bytes: usize) -> Vec<u8> {
        (0..bytes).map(|_| self.next()).collect()
    }

    /// Whether `piece` is what comes next.
    pub(super) fn is_next(&mut self, piece: &[u8]) -> bool {
        piece.iter().fold(true, |same, byte| (*byte == self.next()) & same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_is_the_same_in_any_pieces() {
        let mut pattern = Pattern::new(&[9; 16]);
        let bytes = pattern.take(1000);
        let mut again = Pattern::new(&[9; 16]);
        assert!(bytes.chunks(7).all(|piece| again.is_next(piece)));
        assert!(!Pattern::new(&[9; 16]).is_next(&bytes[1..]));
    }
}
