//! Seeded randomness: a link must treat the same packets the same way in every run of a test, on every machine.

use crate::packet::Packet;

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    /// Returns a generator; the same seed gives the same numbers.
    pub(super) fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Returns the next number, `0 < n <= 1`: never 0, so that its logarithm is finite.
    pub(super) fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        ((z >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Returns the number of independent trials that fail before the next success, each trial succeeding with probability
    /// `share`. The number has a geometric distribution, so one draw covers all trials. With a share of 0 no trial
    /// succeeds, and the number is `u64::MAX`.
    pub(super) fn failures(&mut self, share: f64) -> u64 {
        if share <= 0.0 {
            return u64::MAX;
        }
        (self.unit().ln() / (-share).ln_1p()) as u64
    }
}

/// Hits each segment with the same probability, independently of the others. It draws once per hit, not per segment.
#[derive(Clone, Debug)]
pub(super) struct Chance {
    share: f64,
    random: Random,
    /// Number of segments to spare before the next hit.
    gap: u64,
}

impl Chance {
    /// Hits a `share` of segments, from 0 to 1.
    pub(super) fn new(share: f64, seed: u64) -> Chance {
        let mut random = Random::new(seed);
        let gap = random.failures(share);
        Chance { share, random, gap }
    }

    /// Calls `each` with the parts of the packet in order: a run of spared segments with `false`, a single hit segment
    /// with `true`.
    pub(super) fn split_hits(&mut self, packet: Packet, mut each: impl FnMut(Packet, bool)) {
        let mut left = Some(packet);
        while let Some(packet) = left {
            if self.gap >= u64::from(packet.segments) {
                self.gap = self.gap.saturating_sub(u64::from(packet.segments));
                return each(packet, false);
            }
            let spared = self.gap as u32;
            if spared > 0 {
                each(packet.front(spared), false);
            }
            let rest = packet.after(spared);
            if let Some(hit) = rest {
                each(hit.front(1), true);
            }
            left = rest.and_then(|rest| rest.after(1));
            self.gap = self.random.failures(self.share);
        }
    }
}
