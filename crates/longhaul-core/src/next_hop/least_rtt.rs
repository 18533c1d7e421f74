//! Takes the hop whose handshakes are the fastest. A hop that was never measured comes first. Hops of nearly the same
//! time take turns, so that noise does not send all flows to one of them. One dial in 32 goes to each hop in turn,
//! because only a dial shows that a hop has become faster.

use super::policy::{Choice, Policy, rotated, take_turns};
use std::time::Duration;

pub(super) const POLICY: Policy = Policy {
    name: "least-rtt",
    help: "the one whose handshakes are the fastest; those within 10 % or 1 ms take turns",
    uses_weights: false,
    is_sticky: false,
    order: |choice| {
        let count = choice.hops.len();
        let turns = choice.turn / EXPLORE_TURNS;
        if choice.turn % EXPLORE_TURNS == EXPLORE_TURNS - 1 {
            return rotated(count, (turns % count.max(1) as u64) as usize);
        }
        let near = choice
            .hops
            .iter()
            .filter_map(|hop| hop.rtt)
            .min()
            .map_or(Duration::ZERO, |best| best + (best / 10).max(SAME));
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by_key(|hop| time(choice, *hop, near));
        let fastest = order.iter().filter(|hop| time(choice, **hop, near).is_zero()).count();
        take_turns(order, fastest, choice.turn)
    },
};

/// Returns the time of `hop`; zero if it is at most `near` or was never measured.
fn time(choice: &Choice<'_>, hop: usize, near: Duration) -> Duration {
    choice.hops[hop].rtt.filter(|rtt| *rtt > near).unwrap_or_default()
}

/// One dial of so many does not go to the fastest hop: 3 % of the flows.
const EXPLORE_TURNS: u64 = 32;
/// Difference that does not matter: the scheduling noise of a busy relay.
const SAME: Duration = Duration::from_millis(1);
