//! Bounds the bytes that pumps hold while they wait for their sinks, in pipes and on the heap together.
//!
//! Bytes that were read can only go to the sink, so the bound applies to reads: the more bytes wait, the less a pump
//! reads at once. Ten thousand stalled readers hold at most [`MAX_HELD`] plus [`MIN_FILL`] each.

/// Returns the number of bytes that a pump may read at once while all pumps together hold `held` bytes: [`MIN_FILL`] to
/// [`MAX_FILL`].
pub fn max_fill(held: usize) -> usize {
    (MAX_HELD.saturating_sub(held) / PARTS).clamp(MIN_FILL, MAX_FILL)
}

/// The maximum number of bytes of one fill. docs/design/data-path.md has the figures for other sizes.
pub const MAX_FILL: usize = 1 << 20;

/// Number of bytes that a pump may always read at once. With so many, splice still saves more than its calls cost.
pub const MIN_FILL: usize = 16 * 1024;

/// Number of waiting bytes at which fills shrink to [`MIN_FILL`]. 64 bulk flows fill their pipes with so many.
pub const MAX_HELD: usize = 64 << 20;

/// One fill takes at most 1/`PARTS` of the unused part of [`MAX_HELD`]. With 16, pipes are filled whole until three
/// quarters are in use.
const PARTS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_thousand_pumps_that_wait_hold_a_bounded_number_of_bytes() {
        const PUMPS: usize = 10_000;
        assert_eq!(max_fill(0), MAX_FILL);
        let held = (0..PUMPS).fold(0, |held, _| held + max_fill(held));
        assert!(held <= MAX_HELD + PUMPS * MIN_FILL, "{held}");
        assert_eq!(max_fill(held), MIN_FILL);
        assert_eq!(max_fill(usize::MAX), MIN_FILL);
    }

    #[test]
    fn pipes_are_filled_whole_until_three_quarters_are_in_use() {
        assert_eq!(max_fill(MAX_HELD * 3 / 4), MAX_FILL);
        assert!(max_fill(MAX_HELD * 3 / 4 + PARTS) < MAX_FILL);
    }
}
