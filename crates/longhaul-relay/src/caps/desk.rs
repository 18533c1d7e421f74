//! Shared by the beginning flows, a reload and the thread: the rules, the flows that have begun, and the shares of those
//! that begin before the thread's next look.

use super::clock::WeekTime;
use super::paths::{PathView, address_of, sources};
use super::rules::Rules;
use crate::live::flow::Flow;
use crate::live::registry::Registry;
use crate::lock::lock;
use longhaul_config::Tunnel;
use longhaul_config::options::Leg;
use longhaul_core::caps::{Caps, Offer};
use longhaul_sys::sockopt;
use longhaul_units::Rate;
use std::collections::HashMap;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// State that the beginning flows share with the thread.
#[derive(Debug)]
pub(super) struct Shared {
    /// The live flows.
    pub(super) registry: Arc<Registry>,
    /// Whether any flow may be below a cap.
    pub(super) is_capped: AtomicBool,
    /// Locked by the thread for a moment in each look, and by each flow below a cap when it begins.
    pub(super) desk: Mutex<Desk>,
    /// Notified when the thread must look at the desk at once.
    pub(super) news: Condvar,
    /// Returns the time of the week.
    pub(super) clock: fn() -> WeekTime,
    /// The paths at the last look, for views.
    pub(super) paths: Mutex<Vec<PathView>>,
}

/// Content of the desk.
#[derive(Debug, Default)]
pub(super) struct Desk {
    /// The caps as configured now.
    pub(super) rules: Arc<Rules>,
    /// The rules before these that the thread has not followed yet. Live flows may have limits by any of them.
    pub(super) before: Vec<Arc<Rules>>,
    /// Flows that have begun since the thread's last look.
    pub(super) begun: Vec<Begun>,
    /// Shares for flows that begin before the thread's next look; `None` while it sleeps.
    pub(super) offers: Option<Offers>,
    /// Whether the thread waits longer than usual, so that a flow that begins must wake it.
    pub(super) is_drowsy: bool,
}

/// A flow that has begun, with the limits that its sockets have. The order is that of [`sources`].
#[derive(Debug)]
pub(super) struct Begun {
    /// The flow.
    pub(super) flow: Arc<Flow>,
    /// Index of its rule.
    pub(super) rule: usize,
    /// The limits of its sinks; `None` means no limit.
    pub(super) limits: [Option<Rate>; 2],
    /// Time when it began.
    pub(super) at: Instant,
}

/// Shares for new flows, for each direction.
#[derive(Debug, Default)]
pub(super) struct Offers {
    /// Those of the daemon's cap.
    pub(super) all: [Offer; 2],
    /// Those of each tunnel's cap, by the index of its rule.
    pub(super) tunnels: Vec<[Offer; 2]>,
    /// Those of each path's cap.
    pub(super) paths: [HashMap<IpAddr, Offer>; 2],
    /// The flows of the last look with the indices of their rules, if they are no more than [`FEW`]. With few flows,
    /// those that have ended since make a difference.
    pub(super) few: Vec<(usize, Arc<Flow>)>,
}

/// Changes that the thread finds on the desk.
#[derive(Debug)]
pub(super) struct News {
    /// The caps as configured now.
    pub(super) rules: Arc<Rules>,
    /// The rules before, if they have changed.
    pub(super) before: Vec<Arc<Rules>>,
    /// Flows that have begun since the last news.
    pub(super) begun: Vec<Begun>,
}

impl Shared {
    /// Gives `flow` its first share, and hands it over to the thread if that runs: `is_tracked`.
    pub(super) fn begin(&self, flow: &Arc<Flow>, is_tracked: bool) {
        let mut desk = lock(&self.desk);
        let Some(rule) = desk.rules.find(&flow.tunnel.name) else { return };
        let needs_looks = desk.rules.needs_looks(rule);
        let limits = if needs_looks { desk.offer(rule, flow, self.clock) } else { [desk.rules.flow_cap(rule); 2] };
        // Before the thread knows of the flow, so that a later limit is not overwritten.
        for (source, limit) in sources(flow).into_iter().zip(limits) {
            if limit.is_some() {
                pace(flow, source.other(), limit);
            }
        }
        if !(needs_looks && is_tracked) {
            return;
        }
        desk.begun.push(Begun { flow: flow.clone(), rule, limits, at: Instant::now() });
        let wakes = std::mem::take(&mut desk.is_drowsy);
        drop(desk);
        if wakes {
            self.news.notify_one();
        }
    }

    /// Waits until the rules change or `pause` is over; with `is_drowsy` also until a flow begins. Without a pause,
    /// offers are not kept, because the caps may change meanwhile.
    pub(super) fn wait(&self, pause: Option<Duration>, is_drowsy: bool) -> News {
        let end = pause.map(|pause| Instant::now() + pause);
        let mut desk = lock(&self.desk);
        desk.is_drowsy = is_drowsy;
        while desk.before.is_empty() && (desk.begun.is_empty() || !is_drowsy) {
            desk = match end.map(|end| end.saturating_duration_since(Instant::now())) {
                Some(Duration::ZERO) => break,
                Some(left) => self.news.wait_timeout(desk, left).unwrap_or_else(PoisonError::into_inner).0,
                None => {
                    desk.offers = None;
                    self.news.wait(desk).unwrap_or_else(PoisonError::into_inner)
                }
            };
        }
        desk.is_drowsy = false;
        News {
            rules: desk.rules.clone(),
            before: std::mem::take(&mut desk.before),
            begun: std::mem::take(&mut desk.begun),
        }
    }

    /// Returns the tunnels of the live flows, by name; for each name that of the oldest flow.
    pub(super) fn tunnels_of_flows(&self) -> HashMap<String, Arc<Tunnel>> {
        let mut tunnels = HashMap::new();
        self.registry.visit_all(|flow| {
            if !tunnels.contains_key(&flow.tunnel.name) {
                tunnels.insert(flow.tunnel.name.clone(), flow.tunnel.clone());
            }
        });
        tunnels
    }
}

impl Desk {
    /// Returns the shares of a flow that begins now.
    fn offer(&mut self, rule: usize, flow: &Flow, clock: fn() -> WeekTime) -> [Option<Rate>; 2] {
        let own = self.rules.flow_cap(rule);
        let Desk { offers, rules, begun, .. } = self;
        let offers = offers.get_or_insert_with(|| Offers::first(&rules.caps(clock)));
        let Some(of_tunnel) = offers.tunnels.get(rule) else { return [own; 2] };
        let ended = count(&offers.few, |(_, flow)| flow.has_ended());
        let ended_here = count(&offers.few, |(of, flow)| *of == rule && flow.has_ended());
        // Those that are not looked at count as alive, so that a flood of flows does not exceed the cap.
        let (older, newest) = begun.split_at(begun.len().saturating_sub(FEW));
        let alive = count(newest, |begun| !begun.flow.has_ended()) + older.len() as u64;
        let alive_here = count(newest, |begun| begun.rule == rule && !begun.flow.has_ended()) + older.len() as u64;
        let share = |direction: usize| {
            let all = offers.all[direction].share(alive, ended);
            let of_path = || {
                let address = address_of(flow, sources(flow)[direction].other())?;
                offers.paths[direction].get(&address)?.share(alive, ended)
            };
            let of_path = if offers.paths[direction].is_empty() { None } else { of_path() };
            [all, of_tunnel[direction].share(alive_here, ended_here), of_path, own].into_iter().flatten().min()
        };
        [share(0), share(1)]
    }
}

fn count<T>(list: &[T], is_one: impl Fn(&T) -> bool) -> u64 {
    list.iter().filter(|item| is_one(item)).count() as u64
}

impl Offers {
    /// Returns the offers of `caps` below which no flow is alive.
    fn first(caps: &Caps) -> Offers {
        let tunnels = caps.tunnels.iter().map(|cap| [Offer::first(*cap); 2]).collect();
        Offers { all: [Offer::first(caps.all); 2], tunnels, paths: Default::default(), few: Vec::new() }
    }
}

/// Number of flows that a beginning flow looks at.
pub(super) const FEW: usize = 64;

/// Limits what `sink` of `flow` sends to `limit`, or to the leg's `max-pacing-rate` if that is less. `None` leaves only
/// the latter. Does nothing on a leg that is closed.
///
/// The kernel counts payload alone, since Linux 4.20: it computes the time of the next segment from the bytes of the
/// data segment in its queue (net/ipv4/tcp_output.c, tcp_update_skb_after_send). Older kernels count headers too.
pub(super) fn pace(flow: &Flow, sink: Leg, limit: Option<Rate>) {
    let Some(socket) = flow.stream(sink) else { return };
    let option = flow.tunnel.options(sink).max_pacing_rate();
    let rate = limit.into_iter().chain(option).min();
    // Fails on a leg of Multipath TCP, about which the configuration's check has warned.
    let _ = sockopt::set_pacing(socket.as_fd(), rate.map_or(UNLIMITED, |rate| rate.bytes_per_second().max(1)));
}

/// net/core/sock.c: all bits mean that there is no limit.
const UNLIMITED: u64 = u64::MAX;
