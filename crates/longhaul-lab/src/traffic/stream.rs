//! The bytes that the lab's own traffic sends.
//!
//! The stream repeats one block of pseudo-random bytes. The block's length is a prime, so missing, duplicate or misplaced bytes
//! do not match, for any size of reads.

use std::sync::LazyLock;

/// Returns the block that the stream repeats. Only the first call generates it.
pub(crate) fn block() -> &'static [u8] {
    static BYTES: LazyLock<Vec<u8>> = LazyLock::new(generated);
    &BYTES
}

fn generated() -> Vec<u8> {
    let mut random = Random(0x6c6f_6e67_6861_756c);
    std::iter::repeat_with(|| (random.next() >> 24) as u8).take(BLOCK).collect()
}

/// Whether `bytes` equal the stream at `offset`.
pub(crate) fn matches(block: &[u8], offset: u64, mut bytes: &[u8]) -> bool {
    let mut at = (offset % BLOCK as u64) as usize;
    while !bytes.is_empty() {
        let length = bytes.len().min(BLOCK - at);
        if bytes[..length] != block[at..at + length] {
            return false;
        }
        (bytes, at) = (&bytes[length..], 0);
    }
    true
}

/// xorshift64 (Marsaglia, 2003). Its bytes do not compress.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// Returns the next number, of 56 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 8
    }
}

/// The largest prime below 2^20.
pub(crate) const BLOCK: usize = 1_048_573;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misplaced_bytes_do_not_match() {
        let block = block();
        let stream: Vec<u8> = block.iter().chain(block).copied().collect();
        assert!(matches(block, BLOCK as u64 * 7 + 100, &stream[100..BLOCK + 5000]));
        assert!(!matches(block, 101, &stream[100..5000]));
        assert!(!matches(block, 65_536, &stream[..65_536]));
    }
}
