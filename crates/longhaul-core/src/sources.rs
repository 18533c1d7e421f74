//! Limits for each source of a tunnel: the number of its flows, and the number of new flows a second.
//!
//! New flows take tokens from a bucket that holds those of one second. So a source that was quiet may begin that many at
//! once. A refused flow takes none.
//!
//! The table has an entry for each source that has a flow. Where the rate is limited, an entry stays for a second after
//! the last flow, until its bucket is full again. At most [`MAX_IDLE`] entries have no flow.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

/// A source of flows: an IPv4 address, or the /64 of an IPv6 address, because one host usually has a whole /64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// An address.
    V4(Ipv4Addr),
    /// The first 64 bits of an address.
    V6(u64),
}

/// The limits of each source of a tunnel. `None` means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of flows at once.
    pub max_flows: Option<usize>,
    /// Maximum number of new flows a second, 1 to [`MAX_RATE`].
    pub new_per_second: Option<u32>,
}

/// The limit that forbids a source another flow now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crowded {
    /// It has [`Limits::max_flows`] flows.
    MaxFlows,
    /// It began [`Limits::new_per_second`] flows within the last second.
    Rate,
}

/// The sources of a tunnel that its limits concern.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    table: BTreeMap<Source, Entry>,
    /// Sources whose last flow has ended, each with the time from which on its bucket is full. The oldest is first. A
    /// source may be in it several times, and may have flows again.
    idle: VecDeque<(Instant, Source)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    flows: usize,
    /// Time from which on the bucket is full. `None` if it is full.
    full_at: Option<Instant>,
}

/// Largest value of [`Limits::new_per_second`].
pub const MAX_RATE: u32 = 10_000;

/// Maximum number of entries without a flow. Above it, the buckets that were used first are forgotten. An entry takes
/// some 100 bytes.
pub const MAX_IDLE: usize = 16_384;

impl Limits {
    /// Whether there is a limit.
    pub fn is_any(&self) -> bool {
        self.max_flows.is_some() || self.new_per_second.is_some()
    }
}

impl Sources {
    /// Counts a new flow of `source`, which begins at `now`.
    ///
    /// # Errors
    /// One of `limits` forbids the flow. Then nothing is counted.
    pub fn take(&mut self, source: Source, limits: Limits, now: Instant) -> Result<(), Crowded> {
        self.forget(now);
        let Entry { flows, full_at } = self.table.get(&source).copied().unwrap_or_default();
        if limits.max_flows.is_some_and(|max| flows >= max) {
            return Err(Crowded::MaxFlows);
        }
        let full_at = match limits.new_per_second {
            None => full_at,
            Some(rate) => Some(without_token(full_at, rate, now).ok_or(Crowded::Rate)?),
        };
        self.table.insert(source, Entry { flows: flows + 1, full_at });
        Ok(())
    }

    /// Records that a [counted](Sources::take) flow of `source` has ended at `now`.
    pub fn give_back(&mut self, source: Source, now: Instant) {
        if let Some(entry) = self.table.get_mut(&source) {
            entry.flows = entry.flows.saturating_sub(1);
            match (entry.flows, entry.full_at) {
                (0, Some(full_at)) if full_at > now => self.idle.push_back((now + SECOND, source)),
                (0, _) => drop(self.table.remove(&source)),
                _ => {}
            }
        }
        self.forget(now);
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Removes the entries without a flow whose buckets are full at `now`, and those above [`MAX_IDLE`].
    fn forget(&mut self, now: Instant) {
        while let Some((full_at, source)) = self.idle.front().copied() {
            let is_above = self.idle.len() > MAX_IDLE;
            if full_at > now && !is_above {
                break;
            }
            self.idle.pop_front();
            let is_over = |entry: &Entry| entry.flows == 0 && (is_above || entry.full_at.is_none_or(|at| at <= now));
            if self.table.get(&source).is_some_and(is_over) {
                self.table.remove(&source);
            }
        }
        if self.idle.is_empty() && self.idle.capacity() > MAX_IDLE / 16 {
            self.idle = VecDeque::new();
        }
    }
}

/// Takes a token at `now` from the bucket that is full from `full_at` on and gets `rate` tokens a second. Returns the
/// time from which on it is full again, or `None` if it is empty.
fn without_token(full_at: Option<Instant>, rate: u32, now: Instant) -> Option<Instant> {
    let token = SECOND / rate.clamp(1, MAX_RATE);
    let full_at = full_at.map_or(now, |at| at.max(now)) + token;
    // The bucket holds the tokens of one second.
    (full_at.duration_since(now) <= SECOND).then_some(full_at)
}

impl From<IpAddr> for Source {
    fn from(ip: IpAddr) -> Source {
        match ip.to_canonical() {
            IpAddr::V4(ip) => Source::V4(ip),
            IpAddr::V6(ip) => Source::V6((ip.to_bits() >> 64) as u64),
        }
    }
}

impl fmt::Display for Source {
    /// Writes `192.0.2.7` or `2001:db8::/64`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::V4(ip) => write!(f, "{ip}"),
            Source::V6(bits) => write!(f, "{}/64", Ipv6Addr::from_bits(u128::from(*bits) << 64)),
        }
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn source(ip: &str) -> Source {
        Source::from(ip.parse::<IpAddr>().unwrap())
    }

    fn nth(n: u32) -> Source {
        Source::V4(Ipv4Addr::from_bits(n))
    }

    fn max_flows(max: usize) -> Limits {
        Limits { max_flows: Some(max), ..Limits::default() }
    }

    fn rate(rate: u32) -> Limits {
        Limits { new_per_second: Some(rate), ..Limits::default() }
    }

    #[test]
    fn a_source_is_an_ipv4_address_or_an_ipv6_slash_64() {
        assert_eq!(source("::ffff:192.0.2.7"), source("192.0.2.7"));
        assert_ne!(source("192.0.2.8"), source("192.0.2.7"));
        assert_eq!(source("2001:db8:0:1::7"), source("2001:db8:0:1:ffff:ffff:ffff:ffff"));
        assert_ne!(source("2001:db8:0:1::7"), source("2001:db8:0:2::7"));
        assert_eq!(source("192.0.2.7").to_string(), "192.0.2.7");
        assert_eq!(source("2001:db8:0:1::7").to_string(), "2001:db8:0:1::/64");
    }

    #[test]
    fn each_source_has_its_own_number_of_flows() {
        let (mut sources, now) = (Sources::default(), Instant::now());
        let (one, two) = (nth(1), nth(2));
        let take = |sources: &mut Sources, source| sources.take(source, max_flows(2), now);
        assert_eq!([take(&mut sources, one), take(&mut sources, one)], [Ok(()), Ok(())]);
        assert_eq!((take(&mut sources, one), take(&mut sources, two)), (Err(Crowded::MaxFlows), Ok(())));
        assert_eq!(sources.take(one, max_flows(3), now), Ok(()), "a reload has raised the limit");
        sources.give_back(one, now);
        assert_eq!(take(&mut sources, one), Err(Crowded::MaxFlows));
        sources.give_back(one, now);
        assert_eq!(take(&mut sources, one), Ok(()));
        [one, one, two].into_iter().for_each(|source| sources.give_back(source, now));
        assert!(sources.is_empty(), "no flow, no entry");
    }

    /// In virtual time.
    #[test]
    fn a_bucket_holds_the_flows_of_one_second_and_refills_evenly() {
        for rate_of in [1, 2, 3, 7, 10, 100, MAX_RATE] {
            let (mut sources, start) = (Sources::default(), Instant::now());
            let mut begin_at = |at: Instant| {
                let took = sources.take(nth(1), rate(rate_of), at);
                if took.is_ok() {
                    sources.give_back(nth(1), at);
                }
                took
            };
            let burst = |begin_at: &mut dyn FnMut(Instant) -> Result<(), Crowded>, at| {
                (0..=rate_of).take_while(|_| begin_at(at).is_ok()).count() as u32
            };
            assert_eq!(burst(&mut begin_at, start), rate_of, "at once");
            assert_eq!(begin_at(start), Err(Crowded::Rate));
            // A refused flow takes no token, however many there are.
            let token = SECOND / rate_of;
            assert_eq!(begin_at(start + token - Duration::from_nanos(10)), Err(Crowded::Rate));
            let mut at = start + token;
            for _ in 0..20 {
                assert_eq!((begin_at(at), begin_at(at)), (Ok(()), Err(Crowded::Rate)), "{rate_of} a second");
                at += token;
            }
            assert_eq!(burst(&mut begin_at, at + SECOND), rate_of, "after a quiet second");
        }
    }

    #[test]
    fn an_entry_without_a_flow_goes_once_its_bucket_is_full() {
        let (mut sources, start) = (Sources::default(), Instant::now());
        let at = |millis| start + Duration::from_millis(millis);
        let mut pass = |source, time| {
            sources.take(source, rate(1), time).unwrap();
            sources.give_back(source, time);
            sources.table.len()
        };
        assert_eq!((pass(nth(1), at(0)), pass(nth(2), at(500))), (1, 2));
        assert_eq!(pass(nth(3), at(1100)), 2, "the first has gone");
        assert_eq!(pass(nth(2), at(1500)), 2, "the second came again");
        assert_eq!(pass(nth(4), at(2200)), 2, "the third has gone, the second has not");
        assert_eq!(pass(nth(5), at(9000)), 1);
    }

    #[test]
    fn entries_without_a_flow_are_bounded() {
        let (mut sources, now) = (Sources::default(), Instant::now());
        const FLOWS: u32 = 100;
        (0..FLOWS).for_each(|n| sources.take(nth(n), rate(1), now).unwrap());
        for n in 0..2 * MAX_IDLE as u32 {
            sources.take(nth(FLOWS + n), rate(1), now).unwrap();
            sources.give_back(nth(FLOWS + n), now);
        }
        assert_eq!(sources.table.len(), FLOWS as usize + MAX_IDLE);
        assert_eq!(sources.take(nth(0), rate(1), now), Err(Crowded::Rate), "an entry with a flow stays");
        sources.forget(now + SECOND);
        assert_eq!((sources.table.len(), sources.idle.capacity()), (FLOWS as usize, 0));
    }

    proptest! {
        /// Any mix of flows that begin and end: no source is above its limits, and no entry is lost or left over.
        #[test]
        fn the_table_is_right_after_every_step(
            steps in prop::collection::vec((0u32..4, any::<bool>(), 0u64..400), 0..300),
            max in 1usize..5,
            per_second in 1u32..6,
        ) {
            let limits = Limits { max_flows: Some(max), new_per_second: Some(per_second) };
            let (mut sources, mut now) = (Sources::default(), Instant::now());
            let mut flows = [0usize; 4];
            let mut begun: [Vec<Instant>; 4] = Default::default();
            for (n, begins, pause) in steps {
                now += Duration::from_millis(pause);
                let index = n as usize;
                if !begins {
                    if flows[index] > 0 {
                        flows[index] -= 1;
                        sources.give_back(nth(n), now);
                    }
                    continue;
                }
                match sources.take(nth(n), limits, now) {
                    Ok(()) => {
                        flows[index] += 1;
                        begun[index].push(now);
                    }
                    Err(Crowded::MaxFlows) => prop_assert_eq!(flows[index], max),
                    Err(Crowded::Rate) => prop_assert!(flows[index] < max),
                }
                prop_assert!(flows[index] <= max);
                // A bucket that was full gives the tokens of two seconds within one second.
                let recent = begun[index].iter().filter(|at| now.duration_since(**at) < SECOND).count();
                prop_assert!(recent <= 2 * per_second as usize);
                let counted = |n| sources.table.get(&nth(n)).map_or(0, |entry| entry.flows);
                prop_assert_eq!(flows, [counted(0), counted(1), counted(2), counted(3)]);
            }
            let now = now + 2 * SECOND;
            for (n, flows) in flows.into_iter().enumerate() {
                (0..flows).for_each(|_| sources.give_back(nth(n as u32), now));
            }
            sources.forget(now);
            prop_assert!(sources.is_empty() && sources.idle.is_empty());
        }
    }
}
