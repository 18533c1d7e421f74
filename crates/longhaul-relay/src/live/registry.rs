//! The live flows: their state, which other tasks may read, and the order to cut one.
//!
//! A flow is one allocation, made when its connection is accepted, and one entry in a map. Its task writes the flow by
//! plain atomics, so readers never stop it. The map is locked when a flow begins, when it ends, while a view takes
//! [`CHUNK`] flows from it, and while the bytes of all flows are summed.

use crate::leg::leg_state::{self, LegState};
use crate::leg::stream::Stream;
use crate::live::client::Client;
use crate::live::counters::Counters;
use crate::live::cut::{Cut, Order};
use crate::live::data_peer::{Met, Naming};
use crate::live::flow_state::{FlowState, FlowStateName};
use crate::live::how::How;
use crate::live::moment::Moment;
use crate::live::pulse::Pulse;
use crate::live::tally::Tally;
use crate::lock::lock;
use longhaul_config::options::Leg;
use longhaul_config::{NextHop, Tunnel};
use longhaul_core::ftp::Transfer;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak};

/// A live flow. Its task writes it, and every task may read it.
#[derive(Debug)]
pub(crate) struct Flow {
    /// Its number in this process, from 1. A later flow has a higher one.
    pub(crate) number: u64,
    /// Its tunnel, as it was when the flow began.
    pub(crate) tunnel: Arc<Tunnel>,
    /// The counters of its tunnel.
    pub(crate) counters: Arc<Counters>,
    client: Client,
    /// Time when it was accepted.
    pub(crate) began: Moment,
    /// The order to end it.
    pub(crate) cut: Cut,
    /// Whether it moves bytes.
    pub(crate) pulse: Pulse,
    /// Weak, so that the flow's task closes the sockets even while others look at the flow.
    accept: Weak<Stream>,
    dialled: OnceLock<Dialled>,
    /// Number of bytes that the sinks have taken, by direction.
    up: AtomicU64,
    down: AtomicU64,
    /// Whether the pump of each direction waits for its sink.
    up_blocked: AtomicBool,
    down_blocked: AtomicBool,
    /// The legs whose FIN was passed on: 1 is the accept leg's, 2 the dial leg's.
    fins: AtomicU8,
    how: OnceLock<How>,
}

/// The dial leg of a flow.
#[derive(Debug)]
struct Dialled {
    stream: Weak<Stream>,
    /// The next hop, as an index into the tunnel's `to`.
    hop: u32,
    /// Time from accept to the next hop's answer, in µs. At most 71 minutes.
    dial_us: u32,
    address: SocketAddr,
}

/// The live flows of the process.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    lists: Mutex<Lists>,
    /// Notified when the sweep has a new or woken flow to look at.
    added: Condvar,
}

#[derive(Debug, Default)]
struct Lists {
    /// By their numbers, so the oldest is first.
    flows: BTreeMap<u64, Arc<Flow>>,
    /// The number of the newest flow.
    last: u64,
    /// Number of bytes that the removed flows have carried.
    ended: Tally,
    /// Idle flows that have moved bytes again.
    woken: Vec<Weak<Flow>>,
    is_sweep_waiting: bool,
    /// Whether every flow is to be cut, including those that begin from now on.
    is_cut: bool,
}

impl Flow {
    fn new(tunnel: Arc<Tunnel>, counters: &Arc<Counters>, client: Client, accept: &Arc<Stream>) -> Flow {
        Flow {
            number: 0,
            tunnel,
            counters: counters.clone(),
            client,
            began: Moment::now(),
            cut: Cut::default(),
            pulse: Pulse::new(),
            accept: Arc::downgrade(accept),
            dialled: OnceLock::new(),
            up: AtomicU64::new(0),
            down: AtomicU64::new(0),
            up_blocked: AtomicBool::new(false),
            down_blocked: AtomicBool::new(false),
            fins: AtomicU8::new(0),
            how: OnceLock::new(),
        }
    }

    /// Records that next hop `hop` of the tunnel has answered from `address`. Only the first call has an effect.
    pub(crate) fn connected(&self, hop: usize, address: SocketAddr, dial: &Arc<Stream>) {
        // A tunnel never has more next hops than fit into a u32.
        let hop = u32::try_from(hop).unwrap_or(u32::MAX);
        let dial_us = u32::try_from(self.began.elapsed().as_micros()).unwrap_or(u32::MAX);
        if self.dialled.set(Dialled { stream: Arc::downgrade(dial), hop, dial_us, address }).is_ok() {
            self.counters.distributions.dialled(dial_us);
        }
        self.client.dialled();
    }

    /// Records that the sink of the direction out of `source` has taken `bytes` so far.
    pub(crate) fn carried(&self, source: Leg, bytes: u64) {
        match source {
            Leg::Accept => self.up.store(bytes, Relaxed),
            Leg::Dial => self.down.store(bytes, Relaxed),
        }
    }

    /// Records that the pump out of `source` begins or ends to wait for its sink.
    pub(crate) fn set_blocked(&self, source: Leg, is_blocked: bool) {
        self.blocked(source).store(is_blocked, Relaxed);
    }

    /// Whether the pump out of `source` waits for its sink.
    pub(crate) fn is_blocked(&self, source: Leg) -> bool {
        self.blocked(source).load(Relaxed)
    }

    fn blocked(&self, source: Leg) -> &AtomicBool {
        match source {
            Leg::Accept => &self.up_blocked,
            Leg::Dial => &self.down_blocked,
        }
    }

    /// Records that the FIN of `source` was passed on.
    pub(crate) fn passed_fin(&self, source: Leg) {
        self.fins.fetch_or(fin_of(source), Relaxed);
    }

    /// Records why the flow ended. Only the first call has an effect.
    pub(crate) fn ended(&self, how: How) {
        let _ = self.how.set(how);
        self.client.dialled();
    }

    /// Returns the address of the client.
    pub(crate) fn peer(&self) -> SocketAddr {
        self.client.address()
    }

    /// Returns the command that uses it, if it is an FTP data connection and the command is known.
    pub(crate) fn transfer(&self) -> Option<Transfer> {
        self.client.transfer()
    }

    /// Returns what the control connection knows of it, if it is an FTP data connection.
    pub(crate) fn naming(&self) -> Option<&Arc<Naming>> {
        self.client.naming()
    }

    /// Whether it is an FTP data connection.
    pub(crate) fn is_data(&self) -> bool {
        self.client.is_data()
    }

    /// Takes its dial leg and the address of the peer there, if that peer connected to us.
    pub(crate) fn take_met(&self) -> Option<Met> {
        self.client.take_met()
    }

    /// Whether it comes from the next hop of its tunnel, as an FTP data connection of a client in active mode does. Up is then towards
    /// the client.
    pub(crate) fn is_turned(&self) -> bool {
        self.client.is_turned()
    }

    /// Whether its first bytes may be a probe.
    pub(crate) fn may_be_probe(&self) -> bool {
        self.client.may_be_probe()
    }

    /// Whether it is a probe that this process makes of its own tunnel.
    pub(crate) fn is_own_probe(&self) -> bool {
        self.client.is_own()
    }

    /// Returns the address of the proxy that named the client. `None` for a client that connected to us.
    pub(crate) fn proxy(&self) -> Option<SocketAddr> {
        self.client.via().map(|via| via.proxy)
    }

    /// Returns the address that the client connected to: by the PROXY header, or our end of the accept leg. `None` when
    /// the accept leg is closed.
    pub(crate) fn client_to(&self) -> Option<SocketAddr> {
        match self.client.via() {
            Some(via) => Some(via.to),
            None => self.stream(Leg::Accept)?.local(),
        }
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.how.get().is_some()
    }

    /// Returns the number of bytes that it has carried so far.
    pub(crate) fn tally(&self) -> Tally {
        Tally { up: self.up.load(Relaxed), down: self.down.load(Relaxed) }
    }

    /// Returns the next hop that answered, and its address.
    pub(crate) fn next_hop(&self) -> Option<(&NextHop, SocketAddr)> {
        let Dialled { hop, address, .. } = self.dialled.get()?;
        Some((self.tunnel.to.get(*hop as usize)?, *address))
    }

    /// Returns the time from accept to the next hop's answer, in µs.
    pub(crate) fn dial_us(&self) -> Option<u32> {
        Some(self.dialled.get()?.dial_us)
    }

    /// Whether a next hop has answered.
    pub(crate) fn is_connected(&self) -> bool {
        self.dialled.get().is_some()
    }

    /// Returns the connection of `leg`, unless it is closed or not made yet.
    pub(crate) fn stream(&self, leg: Leg) -> Option<Arc<Stream>> {
        match leg {
            Leg::Accept => self.accept.upgrade(),
            Leg::Dial => self.dialled.get()?.stream.upgrade(),
        }
    }

    /// Returns the flow at this moment, and asks the kernel about both legs: six system calls.
    fn state(&self) -> FlowState {
        let leg = |leg: Leg| Some(LegState::of(&*self.stream(leg)?, self.is_sink_blocked(leg)));
        let (next_hop, tally) = (self.next_hop(), self.tally());
        FlowState {
            flow: self.number,
            tunnel: self.tunnel.name.clone(),
            peer: self.peer().to_string(),
            proxy: self.proxy().map(|proxy| proxy.to_string()),
            transfer: self.transfer().map(|transfer| transfer.to_string()),
            next_hop: next_hop.map(|(hop, _)| hop.to_string()),
            next_hop_address: next_hop.map(|(_, address)| address),
            state: self.state_name(),
            age_seconds: self.began.elapsed().as_secs_f64(),
            up_bytes: tally.up,
            down_bytes: tally.down,
            accept: leg(Leg::Accept),
            dial: leg(Leg::Dial),
        }
    }

    fn state_name(&self) -> FlowStateName {
        match self.fins.load(Relaxed) {
            _ if self.has_ended() => FlowStateName::Ended,
            _ if !self.is_connected() => FlowStateName::Dialling,
            0 => FlowStateName::Open,
            ACCEPT_FIN => FlowStateName::AcceptHalfClosed,
            DIAL_FIN => FlowStateName::DialHalfClosed,
            _ => FlowStateName::Closing,
        }
    }

    /// Observes both legs for the distributions of the tunnel. One system call each.
    fn sample(&self) {
        for leg in Leg::ALL {
            let look = self.stream(leg).and_then(|stream| leg_state::look(&stream, self.is_sink_blocked(leg)));
            look.into_iter().for_each(|(info, limit)| self.counters.distributions.sample(leg, &info, limit));
        }
    }

    /// Whether the pump into `leg`, which is the one out of the other leg, waits for it.
    fn is_sink_blocked(&self, leg: Leg) -> bool {
        self.is_blocked(leg.other())
    }
}

impl Registry {
    /// Adds a flow of `tunnel` that begins now. `counters` are the tunnel's.
    pub(crate) fn add(
        &self,
        tunnel: Arc<Tunnel>,
        counters: &Arc<Counters>,
        client: impl Into<Client>,
        accept: &Arc<Stream>,
    ) -> Arc<Flow> {
        let mut flow = Flow::new(tunnel, counters, client.into(), accept);
        let mut lists = lock(&self.lists);
        // Numbered under the lock, because the sweep proceeds by number and must miss none.
        lists.last += 1;
        flow.number = lists.last;
        if lists.is_cut {
            flow.cut.give(Order::All);
        }
        let flow = Arc::new(flow);
        lists.flows.insert(flow.number, flow.clone());
        // Notifying is a system call, so it is done only while the sweep waits.
        if std::mem::take(&mut lists.is_sweep_waiting) {
            self.added.notify_one();
        }
        flow
    }

    /// Removes a flow that has ended.
    pub(crate) fn remove(&self, flow: &Flow) {
        let mut lists = lock(&self.lists);
        let removed = lists.flows.remove(&flow.number);
        if removed.is_some() {
            lists.ended += flow.tally();
            flow.counters.add_ended(flow.tally());
        }
        drop(lists);
        drop(removed); // after the lock is released
    }

    /// Returns the number of bytes that all flows have carried, live and ended. It never falls. The lock is kept for the
    /// whole sum, so that a flow that ends meanwhile is counted once: with 6,000 flows for less than 65 µs.
    pub(crate) fn carried(&self) -> Tally {
        let lists = lock(&self.lists);
        let mut sum = lists.ended;
        lists.flows.values().for_each(|flow| sum += flow.tally());
        sum
    }

    /// Returns the number of bytes that the flows of each of these tunnels have carried, live and ended. A tunnel is named
    /// by its counters. The lock is kept for the whole sum, as in [`carried`](Registry::carried).
    pub(crate) fn carried_by(&self, tunnels: &[&Arc<Counters>]) -> Vec<Tally> {
        let index: HashMap<_, _> = tunnels.iter().enumerate().map(|(at, of)| (Arc::as_ptr(of), at)).collect();
        let lists = lock(&self.lists);
        let mut sums: Vec<Tally> = tunnels.iter().map(|counters| counters.ended_tally()).collect();
        for flow in lists.flows.values() {
            // A flow of a removed tunnel is in no sum.
            if let Some(at) = index.get(&Arc::as_ptr(&flow.counters)) {
                sums[*at] += flow.tally();
            }
        }
        sums
    }

    /// Returns every live flow. A flow that begins or ends meanwhile may be in it or not.
    pub(crate) fn snapshot(&self) -> Vec<FlowState> {
        let mut states = Vec::new();
        self.each(0, usize::MAX, |flow| states.push(flow.state()));
        states
    }

    /// Observes the legs of up to `max` of the oldest flows from number `from` on, for the distributions of their tunnels. Returns
    /// the number from which to go on.
    pub(crate) fn sample(&self, from: u64, max: usize) -> u64 {
        self.each(from, max, Flow::sample)
    }

    /// Visits up to `max` of the oldest flows from number `from` on. Returns the number from which to go on: 0 after the last flow.
    fn each(&self, mut from: u64, max: usize, mut visit: impl FnMut(&Flow)) -> u64 {
        let mut left = max;
        while left > 0 {
            let mut chunk = self.chunk(from);
            chunk.truncate(left);
            let Some(last) = chunk.last() else { return 0 };
            (from, left) = (last.number + 1, left - chunk.len());
            chunk.iter().for_each(|flow| visit(flow));
        }
        from
    }

    /// Cuts one flow. Returns whether it exists.
    pub(crate) fn kill(&self, number: u64) -> bool {
        let flow = lock(&self.lists).flows.get(&number).cloned();
        flow.inspect(|flow| flow.cut.give(Order::One)).is_some()
    }

    /// Cuts every flow, including those that begin from now on.
    pub(crate) fn cut_all(&self) {
        lock(&self.lists).is_cut = true;
        self.each(0, usize::MAX, |flow| flow.cut.give(Order::All));
    }

    /// Returns up to [`CHUNK`] of the oldest flows from number `from` on.
    pub(crate) fn chunk(&self, from: u64) -> Vec<Arc<Flow>> {
        lock(&self.lists).flows.range(from..).take(CHUNK).map(|(_, flow)| flow.clone()).collect()
    }

    /// Tells the sweep that an idle flow moves bytes again.
    pub(crate) fn wake(&self, flow: &Arc<Flow>) {
        let mut lists = lock(&self.lists);
        lists.woken.push(Arc::downgrade(flow));
        if std::mem::take(&mut lists.is_sweep_waiting) {
            self.added.notify_one();
        }
    }

    /// Waits until there is a flow whose number is `from` or more, or one that was [woken](Registry::wake).
    pub(crate) fn wait(&self, from: u64) {
        let mut lists = lock(&self.lists);
        while lists.last < from && lists.woken.is_empty() {
            lists.is_sweep_waiting = true;
            lists = self.added.wait(lists).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes the [woken](Registry::wake) flows, and the flows from number `from` on up to the first for which `is_old`
    /// is false. Raises `from` above them.
    pub(crate) fn take(&self, from: &mut u64, is_old: impl Fn(&Flow) -> bool) -> Vec<Weak<Flow>> {
        let mut lists = lock(&self.lists);
        let mut taken = std::mem::take(&mut lists.woken);
        let first_young = lists.flows.range(*from..).find(|(_, flow)| !is_old(flow)).map(|(number, _)| *number);
        let end = first_young.unwrap_or(lists.last + 1).max(*from);
        taken.extend(lists.flows.range(*from..end).map(|(_, flow)| Arc::downgrade(flow)));
        *from = end;
        taken
    }
}

/// Returns the bit of a leg's FIN in [`Flow::fins`].
fn fin_of(leg: Leg) -> u8 {
    match leg {
        Leg::Accept => ACCEPT_FIN,
        Leg::Dial => DIAL_FIN,
    }
}

const ACCEPT_FIN: u8 = 1;
const DIAL_FIN: u8 = 2;

/// Number of flows that a view takes from the map under one lock, which lasts some microseconds.
const CHUNK: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leg::stream::pair;

    /// Returns a connection that nobody reads.
    fn stream() -> Arc<Stream> {
        Arc::new(pair().0)
    }

    fn tunnel() -> Arc<Tunnel> {
        Arc::new(Tunnel::new("one", "127.0.0.1:1".parse().unwrap(), Vec::new()))
    }

    #[tokio::test]
    async fn a_flow_tells_how_far_it_has_come() {
        let (registry, tunnel, leg) = (Registry::default(), tunnel(), stream());
        let flow = registry.add(tunnel.clone(), &Arc::default(), tunnel.listen, &leg);
        flow.passed_fin(Leg::Dial);
        assert_eq!(flow.state_name(), FlowStateName::Dialling);
        flow.connected(0, tunnel.listen, &leg);
        assert_eq!(flow.state_name(), FlowStateName::DialHalfClosed);
        flow.passed_fin(Leg::Accept);
        assert_eq!(flow.state_name(), FlowStateName::Closing);
        flow.ended(How::Finished);
        assert_eq!(flow.state_name(), FlowStateName::Ended);
        drop(leg);
        assert!(flow.state().accept.is_none() && flow.state().dial.is_none(), "the sockets are closed");
    }

    #[tokio::test]
    async fn a_snapshot_has_each_flow_once_and_a_cut_reaches_each() {
        const FLOWS: u64 = 2 * CHUNK as u64 + 10;
        let (registry, tunnel, leg) = (Registry::default(), tunnel(), stream());
        let flows: Vec<Arc<Flow>> =
            (0..FLOWS).map(|_| registry.add(tunnel.clone(), &Arc::default(), tunnel.listen, &leg)).collect();
        registry.remove(&flows[0]);
        let numbers: Vec<u64> = registry.snapshot().iter().map(|state| state.flow).collect();
        assert_eq!(numbers, (2..=FLOWS).collect::<Vec<u64>>());
        let mut some = Vec::new();
        assert_eq!(registry.each(3, 300, |flow| some.push(flow.number)), 303);
        assert_eq!(some, (3..303).collect::<Vec<u64>>());
        assert_eq!(registry.each(303, usize::MAX, |_| {}), 0, "the last flow was visited");
        assert!(!registry.kill(1) && registry.kill(2));
        registry.cut_all();
        assert_eq!(flows[1].cut.given().await, How::Killed);
        for flow in &flows[2..] {
            assert_eq!(flow.cut.given().await, How::Cut);
        }
        let later = registry.add(tunnel.clone(), &Arc::default(), tunnel.listen, &leg);
        assert_eq!(later.cut.given().await, How::Cut, "it began after the order");
    }

    #[tokio::test]
    async fn every_byte_is_counted_once_before_and_after_its_flow_ends() {
        let (registry, tunnel, leg) = (Registry::default(), tunnel(), stream());
        let (counters, other) = (Arc::<Counters>::default(), Arc::default());
        let flows = [1, 2].map(|bytes| {
            let flow = registry.add(tunnel.clone(), &counters, tunnel.listen, &leg);
            flow.carried(Leg::Accept, bytes);
            flow.carried(Leg::Dial, 10 * bytes);
            flow
        });
        let all = Tally { up: 3, down: 30 };
        let by_tunnel = || registry.carried_by(&[&other, &counters]);
        let of_tunnel = [Tally::default(), all];
        assert_eq!(registry.carried(), all, "both are live");
        assert_eq!(by_tunnel(), of_tunnel);
        for flow in &flows {
            flow.ended(How::Finished);
            assert_eq!(registry.carried(), all, "one is just ending");
            assert_eq!(by_tunnel(), of_tunnel);
            registry.remove(flow);
            assert_eq!(registry.carried(), all, "and has ended");
            assert_eq!(by_tunnel(), of_tunnel);
        }
        registry.remove(&flows[0]);
        assert_eq!(registry.carried(), all);
    }

    #[tokio::test]
    async fn the_sweep_takes_each_flow_once() {
        let (registry, tunnel, leg) = (Registry::default(), tunnel(), stream());
        let add = || registry.add(tunnel.clone(), &Arc::default(), tunnel.listen, &leg);
        let flows = [add(), add(), add()];
        let mut from = 1;
        assert_eq!(registry.take(&mut from, |flow| flow.number < 3).len(), 2);
        assert_eq!((registry.take(&mut from, |flow| flow.number < 3).len(), from), (0, 3));
        registry.wake(&flows[0]);
        registry.wait(from);
        assert_eq!((registry.take(&mut from, |_| true).len(), from), (2, 4));
        registry.remove(&flows[2]);
        assert_eq!((registry.take(&mut from, |_| true).len(), from), (0, 4));
    }
}
