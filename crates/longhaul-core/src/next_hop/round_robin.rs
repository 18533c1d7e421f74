//! Takes the next hops in turn. With weights 3 and 1 the turns are a a b a: spread as evenly as possible, not in bursts.
//!
//! A hop of weight w has w events in each round, at the times 1/2w, 3/2w, 5/2w .. of the round. The turn decides which
//! event it is. So the order needs no state but the turn, and a hop that was away has no turns to make up for.

use super::policy::{Choice, Load, Policy, rotated};

pub(super) const POLICY: Policy = Policy {
    name: "round-robin",
    help: "each in turn",
    uses_weights: true,
    is_sticky: false,
    order: |choice| rotated(choice.hops.len(), first(choice)),
};

fn first(choice: &Choice<'_>) -> usize {
    let round: u64 = choice.hops.iter().map(weight).sum();
    let turn = choice.turn % round.max(1);
    (0..choice.hops.len()).find(|hop| has_event(choice.hops, *hop, turn)).unwrap_or(0)
}

/// Whether one of the events of `hop` is number `turn` of the round.
fn has_event(hops: &[Load], hop: usize, turn: u64) -> bool {
    let (mut low, mut high) = (0, weight(&hops[hop]));
    while low < high {
        let middle = (low + high) / 2;
        match rank(hops, hop, middle).cmp(&turn) {
            std::cmp::Ordering::Equal => return true,
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Greater => high = middle,
        }
    }
    false
}

/// Returns the number of events before event `event` of `hop`. Of events at the same time, the earlier hop's come first.
fn rank(hops: &[Load], hop: usize, event: u64) -> u64 {
    let before = |(other, load): (usize, &Load)| {
        // Event k of the other hop is at (2k + 1) / 2w. It is earlier if 2k + 1 < limit.
        let limit = (2 * event + 1) * weight(load);
        let own = weight(&hops[hop]);
        match other < hop {
            true => (limit / own).div_ceil(2),
            false => limit.div_ceil(own) / 2,
        }
    };
    hops.iter().enumerate().map(before).sum()
}

fn weight(load: &Load) -> u64 {
    u64::from(load.weight.max(1))
}
