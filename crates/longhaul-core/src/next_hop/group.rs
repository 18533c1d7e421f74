//! The state of a tunnel's next hops, and their order for a dial. `now` and randomness are arguments.
//!
//! A hop is known by its key, and its state is kept while it is in the tunnel or has flows. So a reload that keeps the
//! hop keeps its state. Order and weights come from the tunnel as the flow knows it.

use super::availability::{Change, DialRecord, HopView, RESETS_LAST, Rank, Resets, Thresholds};
use super::hash::HopKey;
use super::policy::{Choice, Load, Policy};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// The state of a tunnel's next hops.
#[derive(Clone, Debug, Default)]
pub struct Group {
    hops: Vec<Hop>,
    /// Number of dials so far.
    turn: u64,
}

/// A hop as the tunnel names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Identifies the hop.
    pub key: HopKey,
    /// Its weight, 1 or more.
    pub weight: u32,
}

#[derive(Clone, Copy, Debug)]
struct Hop {
    key: HopKey,
    flows: u32,
    rtt: Option<Duration>,
    record: DialRecord,
    /// Number of flows in a row that it has reset before a byte came from it, and the times of the first and the last one.
    resets: Option<(u32, Instant, Instant)>,
}

impl Group {
    /// Returns the order in which to try `members` for a flow of `client`, as indices. A hop that is down is not in it.
    /// The `stalled` hops come last, and so do ejected ones until their pause is over. `random` has random bits.
    pub fn order(
        &mut self,
        policy: &Policy,
        members: &[Member],
        stalled: &[(HopKey, Instant)],
        client: IpAddr,
        random: u64,
        now: Instant,
    ) -> Vec<usize> {
        let turn = self.turn;
        self.turn = turn.wrapping_add(1);
        if let [only] = members {
            return if self.hop(only.key, now).record.rank(0.0, now).is_some() { vec![0] } else { Vec::new() };
        }
        let ranks: Vec<Option<Rank>> = members
            .iter()
            .map(|member| {
                // A sticky policy moves each client once while a hop comes back, and not for each flow.
                let bits = if policy.is_sticky { member.key.of_client(client).rotate_left(32) } else { random };
                let hop = self.hop(member.key, now);
                let rank = hop.record.rank((bits >> 11) as f64 / (1u64 << 53) as f64, now);
                let is_stalled = stalled.iter().any(|(key, _)| *key == member.key);
                if is_stalled { rank.and(Some(Rank::Last)) } else { rank }
            })
            .collect();
        let mut order = Vec::with_capacity(members.len());
        for rank in [Rank::Usual, Rank::Spared, Rank::Last] {
            let of_rank: Vec<usize> = (0..members.len()).filter(|index| ranks[*index] == Some(rank)).collect();
            if of_rank.is_empty() {
                continue;
            }
            let hops: Vec<Load> = of_rank.iter().map(|index| self.load(members[*index], now)).collect();
            let chosen = (policy.order)(&Choice { hops: &hops, client, turn });
            order.extend(chosen.into_iter().filter_map(|index| of_rank.get(index).copied()));
        }
        order
    }

    /// Counts a dial to the hop `key`, which begins.
    pub fn began(&mut self, key: HopKey, now: Instant) {
        let hop = self.hop(key, now);
        hop.flows = hop.flows.saturating_add(1);
        hop.record.began(now);
    }

    /// Records that the dial was answered after `rtt`. The flow still counts.
    pub fn answered(&mut self, key: HopKey, rtt: Duration, now: Instant) -> Option<Change> {
        self.measured(key, rtt, now);
        self.hop(key, now).record.answered(now)
    }

    /// Records that the dial failed by the hop's fault, and counts it no more. `is_alone` tells whether the tunnel has
    /// no other hop.
    pub fn failed(&mut self, key: HopKey, is_alone: bool, now: Instant) -> Option<Change> {
        self.ended(key);
        self.hop(key, now).record.failed(is_alone, now)
    }

    /// Records that a flow or a dial to the hop has ended, not by the hop's fault.
    pub fn ended(&mut self, key: HopKey) {
        if let Some(hop) = self.hops.iter_mut().find(|hop| hop.key == key) {
            hop.flows = hop.flows.saturating_sub(1);
        }
    }

    /// Records that a flow to the hop, which `began` then, had an answer, or that the hop reset it before one. An answer to a flow from
    /// before the first reset changes nothing.
    pub fn used(&mut self, key: HopKey, has_answered: bool, began: Instant, now: Instant) {
        let Some(hop) = self.hops.iter_mut().find(|hop| hop.key == key) else { return };
        // It says nothing about a hop that has reset newer ones.
        if has_answered && hop.resets.is_some_and(|(_, first, _)| began < first) {
            return;
        }
        // Old resets say nothing about this one.
        let before = hop.resets.filter(|(.., last)| now.saturating_duration_since(*last) < RESETS_LAST);
        let (count, first, _) = before.unwrap_or((0, now, now));
        hop.resets = (!has_answered).then_some((count.saturating_add(1), first, now));
    }

    /// Returns the flows in a row that the hop has reset. `None` without one.
    pub fn resets(&self, key: HopKey, now: Instant) -> Option<Resets> {
        let (count, first, last) = self.hops.iter().find(|hop| hop.key == key)?.resets?;
        let age = |since| now.saturating_duration_since(since);
        Some(Resets { count, age: age(first), last: age(last) })
    }

    /// Records that a handshake with the hop took `rtt`. A SYN was lost if it took a second or more (RFC 6298 2.1), so
    /// such a time is no measurement (Karn's rule, RFC 6298 3).
    pub fn measured(&mut self, key: HopKey, rtt: Duration, now: Instant) {
        let hop = self.hop(key, now);
        if rtt < FIRST_RTO {
            // RFC 6298 2.3: alpha is 1/8.
            hop.rtt = Some(hop.rtt.map_or(rtt, |smoothed| smoothed * 7 / 8 + rtt / 8));
        }
    }

    /// Records the result of an active check of the hop.
    pub fn checked(&mut self, key: HopKey, passed: bool, thresholds: Thresholds, now: Instant) -> Option<Change> {
        self.hop(key, now).record.checked(passed, thresholds, now)
    }

    /// Ends the effect of active checks, because the tunnel no longer has any.
    pub fn unchecked(&mut self, now: Instant) {
        self.hops.iter_mut().for_each(|hop| hop.record.unchecked(now));
    }

    /// Forgets the hops that are not in `members`, except those that have flows. New ones are up from `now` on.
    pub fn keep(&mut self, members: &[Member], now: Instant) {
        self.hops.retain(|hop| hop.flows > 0 || members.iter().any(|member| member.key == hop.key));
        for member in members {
            self.hop(member.key, now);
        }
    }

    /// Returns the state of the hop `key`. `stalled` are the hops whose flows that carry bytes all wait for an answer, and since when.
    pub fn view(&self, key: HopKey, stalled: &[(HopKey, Instant)], now: Instant) -> HopView {
        let unknown = Hop::new(key, now);
        let hop = self.hops.iter().find(|hop| hop.key == key).unwrap_or(&unknown);
        let stalled = stalled.iter().find(|(stalled, _)| *stalled == key);
        let stalled_for = stalled.map(|(_, since)| now.saturating_duration_since(*since));
        HopView { stalled_for, resets: self.resets(key, now), ..hop.record.view(hop.flows, hop.rtt, now) }
    }

    fn load(&mut self, member: Member, now: Instant) -> Load {
        let Hop { key, flows, rtt, .. } = *self.hop(member.key, now);
        Load { key, weight: member.weight, flows, rtt }
    }

    /// Returns the hop `key`, and adds it if it is new.
    fn hop(&mut self, key: HopKey, now: Instant) -> &mut Hop {
        let index = self.hops.iter().position(|hop| hop.key == key).unwrap_or_else(|| {
            self.hops.push(Hop::new(key, now));
            self.hops.len() - 1
        });
        &mut self.hops[index]
    }
}

impl Hop {
    fn new(key: HopKey, now: Instant) -> Hop {
        Hop { key, flows: 0, rtt: None, record: DialRecord::new(now), resets: None }
    }
}

/// The first retransmission timeout of a SYN (RFC 6298 2.1).
const FIRST_RTO: Duration = Duration::from_secs(1);
