//! Takes the hop that has the fewest flows for its weight. Hops with equally few take turns.

use super::policy::{Load, Policy, take_turns};

pub(super) const POLICY: Policy = Policy {
    name: "least-flows",
    help: "the one with the fewest flows, divided by its weight",
    uses_weights: true,
    is_sticky: false,
    order: |choice| {
        let hops = choice.hops;
        let mut order: Vec<usize> = (0..hops.len()).collect();
        order.sort_by(|a, b| cost(&hops[*a], &hops[*b]).cmp(&cost(&hops[*b], &hops[*a])));
        let equal = |hop: &usize| cost(&hops[*hop], &hops[order[0]]) == cost(&hops[order[0]], &hops[*hop]);
        let equals = order.iter().filter(|hop| equal(hop)).count();
        take_turns(order, equals, choice.turn)
    },
};

/// Returns the flows that `of` would have with one more, multiplied by the weight of `other`: the two products compare as
/// the numbers of flows divided by the own weight do.
fn cost(of: &Load, other: &Load) -> u64 {
    (u64::from(of.flows) + 1) * u64::from(other.weight.max(1))
}
