//! The order in which the targets of an SRV name are tried (RFC 2782).

/// Rank of one target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rank {
    /// The targets with the smallest number are tried first.
    pub priority: u16,
    /// Share among the targets of one priority. A target with weight 0 beside others has nearly none.
    pub weight: u16,
}

/// Returns the order in which to try targets of these `ranks`: each index of `ranks` once. `random(max)` returns a
/// number of `0..=max`, each as likely as any other.
pub fn order(ranks: &[Rank], mut random: impl FnMut(u32) -> u32) -> Vec<usize> {
    let mut left: Vec<usize> = (0..ranks.len()).collect();
    // "In any order" below is a random one. Targets that all have weight 0 would otherwise keep the order of the answer, and
    // the first one would get every connection.
    for end in (1..left.len()).rev() {
        let drawn = random(u32::try_from(end).unwrap_or(u32::MAX));
        left.swap(end, usize::try_from(drawn).map_or(end, |drawn| drawn.min(end)));
    }
    // RFC 2782, Weight: "arrange all SRV RRs .. in any order, except that all those with weight 0 are placed at the
    // beginning of the list".
    left.sort_by_key(|index| (ranks[*index].priority, ranks[*index].weight != 0));
    let mut order = Vec::with_capacity(left.len());
    while let Some(first) = left.first() {
        let priority = ranks[*first].priority;
        let same = || left.iter().map(|index| ranks[*index]).take_while(|rank| rank.priority == priority);
        let all: u32 = same().map(|rank| u32::from(rank.weight)).sum();
        // "choose a uniform random number between 0 and the sum computed (inclusive), and select the RR whose running
        // sum value is the first in the selected order which is greater than or equal to the random number selected".
        let drawn = random(all);
        let mut running = 0;
        let chosen = same().position(|rank| {
            running += u32::from(rank.weight);
            running >= drawn
        });
        order.push(left.remove(chosen.unwrap_or(0)));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rank(priority: u16, weight: u16) -> Rank {
        Rank { priority, weight }
    }

    #[test]
    fn priorities_come_before_weights() {
        let ranks = [rank(20, 0), rank(10, 1), rank(10, 9), rank(5, 0)];
        assert_eq!(order(&ranks, |_| 0), [3, 1, 2, 0]);
        assert_eq!(order(&ranks, |max| max), [3, 2, 1, 0]);
    }

    /// Each of them is first as often as any other.
    #[test]
    fn targets_that_all_have_weight_0_share_equally() {
        let mut first = [0; 3];
        for (a, b) in (0..3).flat_map(|a| (0..2).map(move |b| (a, b))) {
            let mut drawn = [a, b].into_iter();
            let order = order(&[rank(10, 0); 3], |max| drawn.next().map_or(0, |number| number.min(max)));
            first[order[0]] += 1;
        }
        assert_eq!(first, [2; 3]);
    }

    /// Every number is drawn once: a target is first as often as its weight.
    #[test]
    fn weights_are_shares() {
        let ranks = [rank(1, 10), rank(1, 30), rank(1, 60), rank(1, 0)];
        let mut first = [0; 4];
        for drawn in 0..=100 {
            first[order(&ranks, |max| drawn.min(max))[0]] += 1;
        }
        assert_eq!(first, [10, 30, 60, 1]);
    }

    proptest! {
        #[test]
        fn each_target_comes_once_by_priority(
            ranks in prop::collection::vec((0_u16..4, any::<u16>()), 0..40),
            drawn: u32
        ) {
            let ranks: Vec<Rank> = ranks.into_iter().map(|(priority, weight)| rank(priority, weight)).collect();
            let order = order(&ranks, |max| drawn % (max + 1));
            let mut sorted = order.clone();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..ranks.len()).collect::<Vec<_>>());
            prop_assert!(order.is_sorted_by_key(|index| ranks[*index].priority));
        }
    }
}
