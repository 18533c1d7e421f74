//! The amount by which a cap has been underused or exceeded so far, and the capacity that makes up for it.
//!
//! The limits of the flows are never exact: a connection begins with segments that the kernel does not pace, a flow
//! waits for a round trip, BBR sends a little less than it may. The account counts what was sent, and raises or lowers
//! the capacity that is divided. So the cap holds on average, however the single errors come about.

use longhaul_units::Rate;
use std::time::Duration;

/// The account of one cap.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account {
    /// Number of bits that could have been sent and were not; negative if more were sent than the cap allows.
    balance: f64,
    /// Number of bits that were sent above the cap and have not been made up for since. Remembered for longer than `balance`.
    excess: f64,
}

impl Account {
    /// Counts `sent` bytes of the last `elapsed`, while the cap was `cap`. Only while flows wanted more than they got,
    /// `is_wanted`, unused capacity can be used later. Otherwise it is soon forgotten.
    pub(super) fn settle(&mut self, cap: Rate, elapsed: Duration, sent: f64, is_wanted: bool) {
        let cap = cap.0 as f64;
        let kept = (1.0 - elapsed.as_secs_f64() / FORGETTING.as_secs_f64()).max(0.0);
        let most = if is_wanted { cap * MAX_CREDIT.as_secs_f64() } else { self.balance.max(0.0) * kept };
        self.balance += cap * elapsed.as_secs_f64() - sent * 8.0;
        self.balance = self.balance.clamp(-cap * MAX_DEBT.as_secs_f64(), most);
        let excess = self.excess + sent * 8.0 - cap * elapsed.as_secs_f64();
        self.excess = excess.clamp(0.0, cap * MAX_EXCESS.as_secs_f64());
    }

    /// Returns the leniency, 0 to 1: the part of its usual limit that a silent flow may have. It is less than 1 if the flows
    /// have exceeded `cap` by more than single bursts do. Many flows that each send a segment now and then do not wait, so the
    /// capacity does not limit them.
    pub(super) fn leniency(&self, cap: Rate) -> f64 {
        let left = MAX_EXCESS.as_secs_f64() - self.excess / cap.0.max(1) as f64;
        (left / (MAX_EXCESS - FREE_EXCESS).as_secs_f64()).clamp(0.0, 1.0)
    }

    /// Returns the capacity that is to be divided among `flows`, so that the balance is even about a quarter of a second later:
    /// from `cap` / 4 to 3 `cap`. If one MSS of each flow would take longer than that time at `cap` / 4, it is at least the
    /// capacity at which it does not, up to 0.7 `cap`: a flow would pay for its segment at the low rate when the excess is long
    /// over. The 0.7 become a quarter as the leniency goes to 0. Otherwise, many short connections would exceed `cap` for ever.
    pub(super) fn capacity(&self, cap: Rate, flows: u64) -> Rate {
        let whole = cap.0.max(1) as f64;
        let horizon = HORIZON.as_secs_f64();
        let slow = MIN_CAPACITY + (MIN_SLOW_CAPACITY - MIN_CAPACITY) * self.leniency(cap);
        let part = (MSS_BITS * flows as f64 / (whole * horizon)).clamp(MIN_CAPACITY, slow);
        let capacity = whole + self.balance / horizon;
        Rate(capacity.clamp(whole * part, whole * MAX_CAPACITY) as u64)
    }
}

/// Time in which the balance is evened out. Much longer than the time that a new limit takes to show.
pub(super) const HORIZON: Duration = Duration::from_millis(250);
/// Unused capacity that can be used later, as time at the full cap: 5 % of 10 s.
const MAX_CREDIT: Duration = Duration::from_millis(500);
/// Time in which unused capacity is forgotten that nobody wants.
const FORGETTING: Duration = Duration::from_millis(250);
/// Largest negative balance, as time at the full cap.
const MAX_DEBT: Duration = Duration::from_secs(1);
/// Excess up to which silent flows have their usual limits, as time at the full cap.
const FREE_EXCESS: Duration = Duration::from_secs(2);
/// Largest excess, as time at the full cap. Silent flows then have only an equal share, and the capacity may be [`MIN_CAPACITY`].
const MAX_EXCESS: Duration = Duration::from_secs(6);
/// Least capacity, as a part of the cap. Flows must go on even while an excess is paid back.
const MIN_CAPACITY: f64 = 0.25;
/// The same for flows for which one MSS takes long, unless the cap stays exceeded.
const MIN_SLOW_CAPACITY: f64 = 0.7;
/// The payload of a packet on a link with an MTU of 1,500 bytes, in bits. The kernel sends two or more of them as one segment.
const MSS_BITS: f64 = 1_448.0 * 8.0;
/// Largest capacity, as a multiple of the cap.
const MAX_CAPACITY: f64 = 3.0;

#[cfg(test)]
mod tests {
    use super::*;

    const CAP: Rate = Rate(8_000_000);
    const TICK: Duration = Duration::from_millis(100);

    #[test]
    fn what_is_not_used_is_used_later_only_if_it_was_wanted() {
        let mut account = Account::default();
        account.settle(CAP, TICK, 50_000.0, false);
        assert_eq!(account.capacity(CAP, 1), CAP);
        account.settle(CAP, TICK, 50_000.0, true);
        assert_eq!(account.capacity(CAP, 1), Rate(9_600_000));
        for _ in 0..100 {
            account.settle(CAP, TICK, 0.0, true);
        }
        assert_eq!(account.capacity(CAP, 1), Rate(24_000_000));
        for _ in 0..10 {
            account.settle(CAP, TICK, 0.0, false);
        }
        assert!(account.capacity(CAP, 1).0 < 8_100_000, "an idle second");
    }

    #[test]
    fn silent_flows_get_less_after_a_long_excess_and_all_again_later() {
        let mut account = Account::default();
        let mut after = |seconds: u64, sent| {
            for _ in 0..seconds * 10 {
                account.settle(CAP, TICK, sent, false);
            }
            account.leniency(CAP)
        };
        // 100,000 bytes are what the cap allows in a tick.
        assert_eq!(after(1, 250_000.0), 1.0);
        assert!((0.6..0.65).contains(&after(2, 200_000.0)), "3.5 s");
        assert_eq!(after(60, 200_000.0), 0.0);
        assert_eq!(after(60, 100_000.0), 0.0, "the cap is used in full");
        assert_eq!(after(4, 0.0), 1.0);
    }

    #[test]
    fn an_excess_is_paid_back_and_never_stops_the_flows() {
        let mut account = Account::default();
        account.settle(CAP, TICK, 150_000.0, true);
        assert_eq!(account.capacity(CAP, 1), Rate(6_400_000));
        account.settle(CAP, TICK, 50_000.0, true);
        assert_eq!(account.capacity(CAP, 1), CAP);
        account.settle(CAP, TICK, f64::MAX, true);
        assert_eq!(account.capacity(CAP, 1), Rate(2_000_000));
        for _ in 0..10 {
            account.settle(CAP, TICK, 0.0, false);
        }
        assert_eq!(account.capacity(CAP, 1), CAP, "a second of silence pays back a second");
    }

    #[test]
    fn many_flows_have_more_while_an_excess_is_paid_back_but_not_for_ever() {
        let mut account = Account::default();
        // Two seconds' bytes in a tick, so the excess is below two seconds.
        account.settle(CAP, TICK, 2_000_000.0, true);
        assert_eq!(account.capacity(CAP, 1), Rate(2_000_000));
        assert_eq!(account.capacity(CAP, 100), Rate(4_633_600), "one MSS of each flow in 250 ms");
        assert_eq!(account.capacity(CAP, 1_000), Rate(5_600_000), "0.7 of the cap");
        account.settle(CAP, TICK, 2_000_000.0, true);
        let less = account.capacity(CAP, 1_000).0;
        assert!((3_500_000..4_500_000).contains(&less), "3.8 s: {less}");
        account.settle(CAP, TICK, f64::MAX, true);
        assert_eq!(account.capacity(CAP, 1_000), Rate(2_000_000));
    }
}
