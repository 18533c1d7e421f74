//! Permits for flows. Their number is limited by the descriptors and by `max_flows` of the process, and all tunnels share
//! them.
//!
//! A next hop that never answers keeps each flow of its tunnel until `connect_timeout`. So each tunnel has a reserve:
//! the other tunnels leave it as many permits as it still lacks of its reserve. A tunnel below its reserve always gets
//! a permit. A tunnel above it gets only permits that no other tunnel's reserve needs.
//!
//! A flow may take more permits for connections of its own, such as the data connections of FTP. These need descriptors, and do
//! not count in `max_flows`. A flow gets all of them when it begins, or it waits.
//!
//! A reload may leave fewer permits than there are flows. No flow is touched then. No tunnel gets another permit until
//! enough flows have ended.

use crate::loops::MAX_LOOPED;
use std::collections::BTreeMap;

/// Permits of the process, and the tunnels that share them.
#[derive(Clone, Debug)]
pub struct Permits {
    /// The smaller one of the next two.
    all: usize,
    by_descriptors: usize,
    max_flows: Option<usize>,
    used: usize,
    /// Number of permits that flows have for connections of their own, apart from `max_flows`.
    apart: usize,
    /// Number of flows that each served tunnel without `max_flows` can always have.
    reserve: usize,
    /// Number of permits that served tunnels lack of their reserve, in sum.
    owed: usize,
    next: u64,
    tunnels: BTreeMap<TunnelId, Share>,
}

/// Identifies a tunnel that shares the permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TunnelId(u64);

/// Permits that one tunnel has taken, and its limits.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    flows: usize,
    /// Number of flows whose clients are next hops of the tunnel.
    from_next_hops: usize,
    max_flows: Option<usize>,
    /// Whether it has a reserve. A removed tunnel has none.
    served: bool,
}

impl Share {
    /// Returns the number of flows that it can always have: `reserve`, but at most its `max_flows`, because no other
    /// tunnel could use the rest.
    fn reserve(&self, reserve: usize) -> usize {
        if self.served { self.max_flows.map_or(reserve, |max| reserve.min(max)) } else { 0 }
    }

    /// Returns the number of permits that it lacks of its reserve.
    fn owed(&self, reserve: usize) -> usize {
        self.reserve(reserve).saturating_sub(self.flows)
    }
}

/// Why a tunnel cannot have another flow now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// The tunnel has `max_flows` flows.
    MaxFlows,
    /// The process has `max_flows` flows, or the rest of them is reserved for other tunnels.
    AllFlows,
    /// The descriptors allow no further permit, or only those that are reserved for other tunnels.
    Permits,
}

impl Full {
    /// Returns the reason in words.
    pub fn why(self) -> &'static str {
        match self {
            Full::MaxFlows => "the tunnel has its `max_flows`",
            Full::AllFlows => "all tunnels together have the `max_flows` of the process",
            Full::Permits => "no descriptors are left for another flow",
        }
    }
}

/// Returns the number of flows that each of `tunnels` tunnels can always have when there are `all` permits: 16, or an
/// equal share of half the permits.
fn reserve(all: usize, tunnels: usize) -> usize {
    (all / 2 / tunnels.max(1)).min(RESERVE)
}

/// Whether a tunnel with `own` flows may have another one. `free` permits are left, and all tunnels together lack
/// `owed` permits of their reserves.
fn may_take(own: usize, reserve: usize, free: usize, owed: usize) -> bool {
    free > 0 && (own < reserve || free > owed)
}

impl Permits {
    /// Returns `all` permits without tunnels.
    pub fn new(all: usize) -> Permits {
        Permits {
            all,
            by_descriptors: all,
            max_flows: None,
            used: 0,
            apart: 0,
            reserve: 0,
            owed: 0,
            next: 0,
            tunnels: BTreeMap::new(),
        }
    }

    /// Returns the number of permits.
    pub fn all(&self) -> usize {
        self.all
    }

    /// Returns the number of flows, and of spare permits that are taken.
    pub fn used(&self) -> usize {
        self.used
    }

    /// Whether every permit was given back.
    pub fn are_unused(&self) -> bool {
        self.used + self.apart == 0
    }

    /// Returns the number of flows of `tunnel`.
    pub fn flows(&self, tunnel: TunnelId) -> usize {
        self.tunnels.get(&tunnel).map_or(0, |tunnel| tunnel.flows)
    }

    /// Adds a tunnel, without a reserve until it is [served](Permits::serve).
    pub fn open(&mut self) -> TunnelId {
        self.next += 1;
        let id = TunnelId(self.next);
        self.tunnels.insert(id, Share::default());
        id
    }

    /// Removes `tunnel`, which must have no flow left.
    pub fn close(&mut self, tunnel: TunnelId) {
        if self.tunnels.remove(&tunnel).is_some_and(|tunnel| tunnel.served) {
            self.settle();
        }
    }

    /// Serves these tunnels from now on, each with its `max_flows`. Only these have a reserve.
    pub fn serve(&mut self, served: impl IntoIterator<Item = (TunnelId, Option<usize>)>) {
        self.tunnels.values_mut().for_each(|tunnel| tunnel.served = false);
        for (id, max_flows) in served {
            if let Some(tunnel) = self.tunnels.get_mut(&id) {
                (tunnel.served, tunnel.max_flows) = (true, max_flows);
            }
        }
        self.settle();
    }

    /// Changes the number of permits that the descriptors allow to `all`. Existing flows keep theirs.
    pub fn set(&mut self, all: usize) {
        self.by_descriptors = all;
        self.settle();
    }

    /// Changes the `max_flows` of the process. Existing flows keep their permits.
    pub fn limit(&mut self, max_flows: Option<usize>) {
        self.max_flows = max_flows;
        self.settle();
    }

    /// Takes a permit for a flow of `tunnel`.
    ///
    /// # Errors
    /// The tunnel cannot have another flow now, or was [closed](Permits::close).
    pub fn take(&mut self, tunnel: TunnelId) -> Result<(), Full> {
        self.take_with(tunnel, 0)
    }

    /// Takes a permit for a flow of `tunnel`, and `apart` more for connections of its own, or nothing.
    ///
    /// # Errors
    /// The tunnel cannot have another flow now, or was [closed](Permits::close).
    pub fn take_with(&mut self, tunnel: TunnelId, apart: usize) -> Result<(), Full> {
        let (free, descriptors) = (self.free(), self.free_descriptors());
        let none_left = if free < descriptors { Full::AllFlows } else { Full::Permits };
        let Some(tunnel) = self.tunnels.get_mut(&tunnel) else { return Err(none_left) };
        if tunnel.max_flows.is_some_and(|max| tunnel.flows >= max) {
            return Err(Full::MaxFlows);
        }
        let reserve = tunnel.reserve(self.reserve);
        if !may_take(tunnel.flows, reserve, free, self.owed) {
            return Err(none_left);
        }
        let owed_to_others = self.owed - tunnel.owed(self.reserve);
        if apart > 0 && descriptors < 1 + apart + owed_to_others {
            return Err(Full::Permits);
        }
        self.owed -= usize::from(tunnel.flows < reserve);
        tunnel.flows += 1;
        self.used += 1;
        self.apart += apart;
        Ok(())
    }

    /// Gives back `count` permits of a flow's own connections.
    pub fn give_back_apart(&mut self, count: usize) {
        self.apart = self.apart.saturating_sub(count);
    }

    /// Returns the number of flows that there can be while flows keep the permits for connections of their own.
    pub fn room(&self) -> usize {
        self.all.min(self.by_descriptors.saturating_sub(self.apart))
    }

    /// Returns the number of permits that `max_flows` and the descriptors leave.
    fn free(&self) -> usize {
        self.room().saturating_sub(self.used)
    }

    /// Returns the number of permits that the descriptors leave.
    fn free_descriptors(&self) -> usize {
        self.by_descriptors.saturating_sub(self.used + self.apart)
    }

    /// Gives back the permit of a flow of `tunnel`.
    pub fn give_back(&mut self, tunnel: TunnelId) {
        let Some(tunnel) = self.tunnels.get_mut(&tunnel).filter(|tunnel| tunnel.flows > 0) else { return };
        tunnel.flows -= 1;
        self.used -= 1;
        self.owed += usize::from(tunnel.flows < tunnel.reserve(self.reserve));
    }

    /// Takes a permit that belongs to no tunnel, if no tunnel lacks it for its reserve. Returns whether it could.
    pub fn take_spare(&mut self) -> bool {
        let is_free = self.free() > self.owed;
        self.used += usize::from(is_free);
        is_free
    }

    /// Gives back a permit that was [taken as a spare](Permits::take_spare).
    pub fn give_back_spare(&mut self) {
        self.used = self.used.saturating_sub(1);
    }

    /// Counts a flow of `tunnel`, which has its permit, as one whose client is a next hop of the tunnel. The tunnel
    /// itself may have caused such a flow. Returns false, and does not count it, when the tunnel has a quarter of the
    /// permits, or 1,024, in such flows already, and if they are limited as the tunnel's own (`is_limited`) at
    /// [`MAX_LOOPED`].
    pub fn take_from_next_hop(&mut self, tunnel: TunnelId, is_limited: bool) -> bool {
        let max = (self.all / 4).clamp(1, if is_limited { MAX_LOOPED } else { MAX_FROM_NEXT_HOPS });
        let Some(tunnel) = self.tunnels.get_mut(&tunnel).filter(|tunnel| tunnel.from_next_hops < max) else {
            return false;
        };
        tunnel.from_next_hops += 1;
        true
    }

    /// Gives back the permit of a flow of `tunnel` that was [counted](Permits::take_from_next_hop) as one from a next
    /// hop.
    pub fn give_back_from_next_hop(&mut self, tunnel: TunnelId) {
        if let Some(tunnel) = self.tunnels.get_mut(&tunnel) {
            tunnel.from_next_hops = tunnel.from_next_hops.saturating_sub(1);
        }
        self.give_back(tunnel);
    }

    /// Recomputes the number of permits and the reserves.
    fn settle(&mut self) {
        self.all = self.max_flows.map_or(self.by_descriptors, |max| max.min(self.by_descriptors));
        self.reserve = reserve(self.all, self.tunnels.values().filter(|tunnel| tunnel.served).count());
        self.owed = self.tunnels.values().map(|tunnel| tunnel.owed(self.reserve)).sum();
    }
}

/// Number of flows that a tunnel can always have, if there are enough permits.
const RESERVE: usize = 16;

/// Maximum number of a tunnel's flows whose client is a next hop of the tunnel. Two relays that point at each other
/// create flows until no descriptor is left. A host that is a client of its own service, or a gateway that stands for
/// both, seldom has so many.
const MAX_FROM_NEXT_HOPS: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns `all` permits, and `tunnels` tunnels that are served.
    fn permits(all: usize, tunnels: usize) -> (Permits, Vec<TunnelId>) {
        let mut permits = Permits::new(all);
        let ids: Vec<TunnelId> = (0..tunnels).map(|_| permits.open()).collect();
        permits.serve(ids.iter().map(|id| (*id, None)));
        (permits, ids)
    }

    /// Takes permits for `tunnel` until it gets no more, and returns their number.
    fn flood(permits: &mut Permits, tunnel: TunnelId) -> usize {
        std::iter::repeat_with(|| permits.take(tunnel)).take_while(Result::is_ok).count()
    }

    #[test]
    fn a_reserve_is_16_or_an_equal_share_of_half() {
        for (all, tunnels, want) in
            [(1000, 1, 16), (1000, 31, 16), (1000, 32, 15), (66, 3, 11), (10, 10, 0), (0, 1, 0), (10, 0, 5)]
        {
            assert_eq!(reserve(all, tunnels), want, "{all} permits, {tunnels} tunnels");
        }
    }

    #[test]
    fn tunnels_that_want_everything_leave_each_other_its_reserve() {
        let (mut some, ids) = permits(66, 3);
        assert_eq!([ids[0], ids[1], ids[2]].map(|id| flood(&mut some, id)), [44, 11, 11]);
        assert_eq!(ids.iter().map(|id| some.take(*id)).collect::<Vec<_>>(), [Err(Full::Permits); 3]);
        // A returned permit is kept for the tunnel that lacks it.
        some.give_back(ids[1]);
        assert_eq!([ids[0], ids[2], ids[1]].map(|id| flood(&mut some, id)), [0, 0, 1]);
        some.give_back(ids[0]);
        assert_eq!(some.take(ids[2]), Ok(()), "above the reserve, any tunnel may take it");
        let (mut alone, ids) = permits(66, 1);
        assert_eq!(flood(&mut alone, ids[0]), 66);
    }

    #[test]
    fn max_flows_binds_before_permits_and_follows_a_reload() {
        let (mut permits, ids) = permits(100, 2);
        permits.serve([(ids[0], Some(3)), (ids[1], None)]);
        assert_eq!(flood(&mut permits, ids[0]), 3);
        assert_eq!(permits.take(ids[0]), Err(Full::MaxFlows));
        permits.serve([(ids[0], Some(5)), (ids[1], None)]);
        assert_eq!(flood(&mut permits, ids[0]), 2);
    }

    #[test]
    fn max_flows_of_the_process_binds_all_tunnels_and_keeps_their_reserves() {
        let (mut permits, ids) = permits(100, 2);
        permits.limit(Some(20));
        assert_eq!((permits.all(), flood(&mut permits, ids[0])), (20, 15), "5 are the other tunnel's reserve");
        assert_eq!((permits.take(ids[0]), flood(&mut permits, ids[1])), (Err(Full::AllFlows), 5));
        permits.set(10);
        assert_eq!((permits.all(), permits.take(ids[1])), (10, Err(Full::Permits)), "the descriptors bind");
        permits.set(100);
        permits.limit(None);
        assert_eq!((permits.all(), flood(&mut permits, ids[0])), (100, 69));
    }

    #[test]
    fn no_permit_is_kept_that_max_flows_forbids() {
        let (mut permits, ids) = permits(100, 3);
        permits.serve([(ids[0], None), (ids[1], Some(2)), (ids[2], Some(0))]);
        assert_eq!([ids[0], ids[1], ids[2]].map(|id| flood(&mut permits, id)), [98, 2, 0]);
    }

    #[test]
    fn a_removed_tunnel_has_no_reserve_and_its_flows_count() {
        let (mut permits, ids) = permits(40, 2);
        assert_eq!(flood(&mut permits, ids[0]), 30);
        permits.serve([(ids[1], None)]);
        assert_eq!(permits.take(ids[0]), Err(Full::Permits), "what is left is the other's reserve");
        assert_eq!(flood(&mut permits, ids[1]), 10);
        (0..30).for_each(|_| permits.give_back(ids[0]));
        permits.close(ids[0]);
        assert_eq!((flood(&mut permits, ids[1]), permits.used()), (30, 40));
    }

    #[test]
    fn fewer_permits_than_flows_are_waited_for() {
        let (mut permits, ids) = permits(5, 1);
        assert_eq!(flood(&mut permits, ids[0]), 5);
        permits.set(2);
        for flows in [4, 3, 2] {
            assert_eq!(permits.take(ids[0]), Err(Full::Permits));
            permits.give_back(ids[0]);
            assert_eq!(permits.flows(ids[0]), flows);
        }
        permits.give_back(ids[0]);
        assert_eq!(flood(&mut permits, ids[0]), 1);
        permits.set(4);
        assert_eq!(flood(&mut permits, ids[0]), 2);
    }

    #[test]
    fn a_spare_permit_is_one_that_no_tunnel_lacks() {
        let (mut permits, ids) = permits(100, 2);
        assert!(permits.take(ids[0]).is_ok());
        // 16 of each tunnel's permits are its reserve, of which one is taken.
        let spares = (0..100).filter(|_| permits.take_spare()).count();
        assert_eq!((spares, permits.used()), (100 - 2 * RESERVE, 101 - 2 * RESERVE));
        assert_eq!((1..RESERVE).filter(|_| permits.take(ids[0]).is_ok()).count(), RESERVE - 1);
        assert!(permits.take(ids[0]).is_err());
        permits.give_back_spare();
        assert!(permits.take(ids[0]).is_ok());
    }

    #[test]
    fn a_quarter_of_the_permits_or_1024_are_for_clients_that_are_next_hops() {
        for (all, max) in [(0, 1), (3, 1), (375, 93), (7500, MAX_FROM_NEXT_HOPS)] {
            let (mut permits, ids) = permits(all, 2);
            flood(&mut permits, ids[0]);
            for round in 0..3 {
                let noted = (0..max + 2).filter(|_| permits.take_from_next_hop(ids[0], false)).count();
                assert_eq!(noted, max, "{all} permits, round {round}");
                assert!(permits.take_from_next_hop(ids[1], false), "each tunnel for itself");
                permits.give_back_from_next_hop(ids[1]);
                (0..max).for_each(|_| permits.give_back_from_next_hop(ids[0]));
            }
        }
    }

    #[test]
    fn a_loop_has_16_flows_and_those_from_before_count() {
        let (mut permits, ids) = permits(7500, 1);
        flood(&mut permits, ids[0]);
        assert_eq!((0..20).filter(|_| permits.take_from_next_hop(ids[0], true)).count(), MAX_LOOPED);
        assert!(permits.take_from_next_hop(ids[0], false), "it is not known any more");
        assert!(!permits.take_from_next_hop(ids[0], true));
    }

    #[test]
    fn connections_of_a_flows_own_need_descriptors_and_do_not_count_in_max_flows() {
        let (mut permits, ids) = permits(100, 1);
        permits.limit(Some(10));
        let controls = std::iter::repeat_with(|| permits.take_with(ids[0], 2)).take_while(Result::is_ok).count();
        assert_eq!((controls, permits.used(), permits.apart), (10, 10, 20));
        assert_eq!(permits.room(), 10);
        assert_eq!(permits.take_with(ids[0], 2), Err(Full::AllFlows));
        permits.limit(None);
        let controls = std::iter::repeat_with(|| permits.take_with(ids[0], 2)).take_while(Result::is_ok).count();
        assert_eq!((10 + controls, permits.take_with(ids[0], 2)), (33, Err(Full::Permits)), "three each of 100");
        assert_eq!(permits.room(), 34);
        permits.give_back(ids[0]);
        permits.give_back_apart(2);
        assert_eq!(permits.take_with(ids[0], 2), Ok(()));
        (0..33).for_each(|_| permits.give_back(ids[0]));
        permits.give_back_apart(65);
        assert!(!permits.are_unused());
        permits.give_back_apart(1);
        assert!(permits.are_unused());
    }

    #[test]
    fn flows_with_connections_of_their_own_leave_the_others_their_reserve() {
        let (mut permits, ids) = permits(66, 2);
        let begin = |permits: &mut Permits, id| {
            std::iter::repeat_with(|| permits.take_with(id, 2)).take_while(Result::is_ok).count()
        };
        assert_eq!(begin(&mut permits, ids[0]), 16);
        assert_eq!(flood(&mut permits, ids[1]), 18, "the reserve, and two more");
        assert_eq!((flood(&mut permits, ids[1]), permits.free_descriptors()), (0, 0));
        // And they have a reserve.
        let (mut permits, ids) = self::permits(66, 2);
        assert_eq!((flood(&mut permits, ids[1]), begin(&mut permits, ids[0])), (50, 5));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Take(usize),
        GiveBack(usize),
        Set(usize),
        /// For each tunnel, `None` if it is not served, otherwise its `max_flows`.
        Serve(Vec<Option<Option<usize>>>),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            8 => (0usize..5).prop_map(Step::Take),
            4 => (0usize..5).prop_map(Step::GiveBack),
            1 => (0usize..200).prop_map(Step::Set),
            1 => prop::collection::vec(prop::option::of(prop::option::of(0usize..40)), 5).prop_map(Step::Serve),
        ];
        prop::collection::vec(step, 0..400)
    }

    proptest! {
        #[test]
        fn the_books_are_right_after_every_step(all in 0usize..200, steps in steps()) {
            let (mut permits, ids) = permits(all, 5);
            let mut served = vec![Some(None); 5];
            let mut max_flows = [None; 5];
            for step in steps {
                match step {
                    Step::Take(index) => {
                        // The rule: a tunnel takes what it lacks of its reserve, or what no other tunnel lacks.
                        let lacks = |index: usize| {
                            let has = permits.flows(ids[index]);
                            let reserve = |max: Option<usize>| permits.reserve.min(max.unwrap_or(usize::MAX));
                            served[index].map_or(0, |max| reserve(max).saturating_sub(has))
                        };
                        let free = permits.all.saturating_sub(permits.used);
                        let others: usize = (0..5).filter(|other| *other != index).map(lacks).sum();
                        let is_full = max_flows[index].is_some_and(|max| permits.flows(ids[index]) >= max);
                        let may = !is_full && free > 0 && (lacks(index) > 0 || free > others);
                        prop_assert_eq!(permits.take(ids[index]).is_ok(), may);
                    }
                    Step::GiveBack(index) => permits.give_back(ids[index]),
                    Step::Set(all) => permits.set(all),
                    Step::Serve(new) => {
                        served = new;
                        for (last, max) in max_flows.iter_mut().zip(&served) {
                            *last = max.unwrap_or(*last);
                        }
                        permits.serve(ids.iter().zip(&served).filter_map(|(id, max)| Some((*id, (*max)?))));
                    }
                }
                let (reserve, owed) = (permits.reserve, permits.owed);
                prop_assert_eq!(permits.used, ids.iter().map(|id| permits.flows(*id)).sum::<usize>());
                permits.settle();
                prop_assert_eq!((reserve, owed), (permits.reserve, permits.owed));
            }
        }
    }
}
