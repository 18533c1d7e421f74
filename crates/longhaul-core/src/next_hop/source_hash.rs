//! Takes the hop by the client's address: rendezvous hashing. Each client ranks all hops by a hash of client and hop,
//! and takes the best. When a hop goes away, only its own clients move, each to its second best.

use super::policy::{Choice, Policy};
use std::cmp::Ordering;

pub(super) const POLICY: Policy = Policy {
    name: "source-hash",
    help: "by the client's address; a hop that goes away moves only its own clients",
    uses_weights: true,
    is_sticky: true,
    order: |choice| {
        let mut order: Vec<(usize, f64)> = (0..choice.hops.len()).map(|hop| (hop, cost(choice, hop))).collect();
        order.sort_by(|a, b| a.1.partial_cmp(&b.1).unwrap_or(Ordering::Equal));
        order.into_iter().map(|(hop, _)| hop).collect()
    },
};

/// Returns a random time for the client and `hop`, exponentially distributed with the weight as its rate. So each hop
/// has the shortest time with a probability proportional to its weight.
fn cost(choice: &Choice<'_>, hop: usize) -> f64 {
    let load = &choice.hops[hop];
    // 53 bits, as many as a double holds; above 0 and below 1.
    let uniform = ((load.key.of_client(choice.client) >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    -uniform.ln() / f64::from(load.weight.max(1))
}
