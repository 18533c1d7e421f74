//! Max-min fair sharing of a capacity among demands.

use longhaul_units::Rate;

/// Returns the level at which `capacity` is shared max-min fairly among `demands`: everybody gets its demand or the
/// level, whichever is less. Returns `None` if the demands fit into the capacity. Sorts `demands`.
///
/// No flow gets more than it demands, and none whose demand is not met gets less than another. The shares together are
/// never above the capacity, and below it only by the rounding of the level to whole bits per second.
pub(super) fn fair_level(capacity: Rate, demands: &mut [Rate]) -> Option<Rate> {
    demands.sort_unstable();
    let mut left = capacity.0;
    for (met, demand) in demands.iter().enumerate() {
        let level = left / (demands.len() - met) as u64;
        if demand.0 > level {
            return Some(Rate(level));
        }
        left -= demand.0;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shares(capacity: u64, demands: &[u64]) -> Vec<u64> {
        let mut sorted: Vec<Rate> = demands.iter().copied().map(Rate).collect();
        let level = fair_level(Rate(capacity), &mut sorted).map_or(u64::MAX, |level| level.0);
        demands.iter().map(|demand| *demand.min(&level)).collect()
    }

    #[test]
    fn small_demands_are_met_and_the_others_share_the_rest() {
        assert_eq!(shares(100, &[10, 200, 20, 90]), [10, 35, 20, 35]);
        assert_eq!(shares(100, &[10, 20]), [10, 20]);
        assert_eq!(shares(100, &[50, 50]), [50, 50]);
        assert_eq!(shares(100, &[u64::MAX, u64::MAX, u64::MAX]), [33, 33, 33]);
        assert_eq!(shares(0, &[1, 0]), [0, 0]);
        assert_eq!(shares(7, &[]), [0; 0]);
        let mut many = vec![100_000; 99];
        many.push(u64::MAX);
        assert_eq!(shares(200_000_000, &many)[99], 190_100_000);
    }

    proptest! {
        #[test]
        fn the_shares_are_max_min_fair(
            capacity in 0..10_000u64,
            demands in prop::collection::vec(prop_oneof![0..500u64, 0..10_000u64, Just(u64::MAX)], 0..40),
        ) {
            let shares = shares(capacity, &demands);
            let sum: u64 = shares.iter().sum();
            prop_assert!(sum <= capacity, "never above the cap");
            for (share, demand) in shares.iter().zip(&demands) {
                prop_assert!(share <= demand, "nobody gets more than it wants");
                if share < demand {
                    prop_assert!(shares.iter().all(|other| other <= share), "nobody who wants more gets less");
                    prop_assert!(capacity - sum < demands.len() as u64, "nothing is left over");
                }
            }
        }

        #[test]
        fn more_capacity_takes_from_nobody_and_less_demand_gives_to_all(
            capacity in 0..10_000u64,
            more in 0..1_000u64,
            demands in prop::collection::vec(0..2_000u64, 1..40),
            less in 0..2_000u64,
        ) {
            let before = shares(capacity, &demands);
            let richer = shares(capacity + more, &demands);
            prop_assert!(before.iter().zip(&richer).all(|(before, after)| after >= before));
            let mut modest = demands.clone();
            modest[0] = modest[0].saturating_sub(less);
            let after = shares(capacity, &modest);
            prop_assert!(before.iter().zip(&after).skip(1).all(|(before, after)| after >= before));
        }
    }
}
