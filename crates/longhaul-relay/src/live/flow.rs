//! A live flow: its task writes its state, and other tasks read it.
//!
//! A flow is one allocation, made when its connection is accepted. Its task writes it by plain atomics, so readers never stop it.
//! [`FlowState`] is a copy of it, as every view shows it.

use crate::leg::leg_state::{self, LegState};
use crate::leg::stream::Stream;
use crate::live::client::Client;
use crate::live::counters::Counters;
use crate::live::cut::Cut;
use crate::live::distributions::is_current;
use crate::live::how::How;
use crate::live::moment::Moment;
use crate::live::pulse::Pulse;
use crate::live::tally::{Rates, Tally};
use longhaul_config::options::Leg;
use longhaul_config::{NextHop, Tunnel};
use longhaul_sys::tcp_info::TcpInfo;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

/// A live flow. Its task writes it, and every task may read it.
#[derive(Debug)]
pub(crate) struct Flow {
    /// Its number in this process, from 1. A later flow has a higher one.
    pub(crate) number: u64,
    /// Its tunnel, as it was when the flow began.
    pub(crate) tunnel: Arc<Tunnel>,
    /// The counters of its tunnel.
    pub(crate) counters: Arc<Counters>,
    /// Its client.
    pub(crate) client: Client,
    /// Time when it was accepted.
    pub(crate) began: Moment,
    /// The order to end it.
    pub(crate) cut: Cut,
    /// Whether it moves bytes.
    pub(crate) pulse: Pulse,
    /// Weak, so that the flow's task closes the sockets even while others look at the flow.
    accept: Weak<Stream>,
    dialled: OnceLock<Dialled>,
    /// Number of bytes that the sink of each direction has taken, by the direction's source.
    carried: [AtomicU64; 2],
    /// Whether the pump of each direction waits for its sink, by its source.
    blocked: [AtomicBool; 2],
    /// The legs whose FIN was passed on, one bit each, [`PROBE`], [`SSH`], and four bits of [`Flow::has_moved`].
    marks: AtomicU8,
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

/// A live flow at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlowState {
    /// Its number in this process, from 1.
    pub flow: u64,
    /// Name of its tunnel.
    pub tunnel: String,
    /// Address and port of the client.
    pub peer: String,
    /// Address and port of the sender of the PROXY header that named the client. Absent without a header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// The command that uses it, such as `RETR a.iso`, if it is an FTP data connection and the command is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfer: Option<String>,
    /// The next hop that answered, as configured. Absent until one has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_hop: Option<String>,
    /// The address that answered. Absent until one has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_hop_address: Option<SocketAddr>,
    /// Its state.
    pub state: FlowStateName,
    /// Time since it was accepted, in seconds.
    pub age_seconds: f64,
    /// Number of bytes from the client to the next hop.
    pub up_bytes: u64,
    /// Number of bytes from the next hop to the client.
    pub down_bytes: u64,
    /// The leg from the client. Absent when the flow has just ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accept: Option<LegState>,
    /// The leg to the next hop. Absent until one has answered, and when the flow has just ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dial: Option<LegState>,
    /// The cap of the direction that uses most of its own, in a sentence. Absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap: Option<String>,
    /// What limits it, in the direction that carries more. Absent where nobody has looked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finding: Option<FindingState>,
    /// What the relays are worth for it. Null while that is not known.
    pub gain: Option<GainState>,
    /// Rates since an earlier look. Only in a view that keeps that one; not in the JSON.
    #[serde(skip)]
    pub rates: Rates,
}

impl FlowState {
    /// Returns the number of bytes that it has carried so far.
    pub fn tally(&self) -> Tally {
        Tally { up: self.up_bytes, down: self.down_bytes }
    }
}

/// What limits a flow in the direction that carries more, as views show it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FindingState {
    /// The limit, by its name: [`longhaul_core::path::diagnosis::Kind`].
    pub kind: String,
    /// The leg that has it: `accept` or `dial`. Null if it is of both, or not known.
    pub leg: Option<String>,
    /// The direction: `up` or `down`.
    pub direction: String,
    /// What shows it.
    pub evidence: String,
    /// Rate in Mbit/s if this limit alone were lifted. Null if that is not known.
    pub what_if_mbps: Option<f64>,
    /// The limit at that rate.
    pub then_limited_by: Option<String>,
    /// What to change. Empty if there is nothing.
    pub advice: String,
}

/// What the relays are worth for a flow, in the direction that carries more, as views show it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GainState {
    /// Its rate, in Mbit/s of payload.
    pub mbps: f64,
    /// The most that the same flow would have without relays.
    pub alone_at_most_mbps: f64,
    /// The first as a multiple of the second. Null if the relays gain nothing, as far as the window of its host tells.
    pub times: Option<f64>,
    /// The direction: `up` or `down`.
    pub direction: String,
    /// What shows the ceiling.
    pub evidence: String,
    /// The rates in a few words, as views write them.
    pub says: String,
}

/// State of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlowStateName {
    /// No next hop has answered yet.
    #[default]
    Dialling,
    /// Both directions are open.
    Open,
    /// The client has sent FIN. The other direction is open.
    AcceptHalfClosed,
    /// The next hop has sent FIN. The other direction is open.
    DialHalfClosed,
    /// Both have sent FIN, and the last bytes are not yet acknowledged.
    Closing,
    /// It has just ended.
    Ended,
}

impl FlowStateName {
    /// Returns the state as every view writes it.
    pub fn text(self) -> &'static str {
        match self {
            FlowStateName::Dialling => "dialling",
            FlowStateName::Open => "open",
            FlowStateName::AcceptHalfClosed => "client done",
            FlowStateName::DialHalfClosed => "next hop done",
            FlowStateName::Closing => "closing",
            FlowStateName::Ended => "ended",
        }
    }
}

impl Flow {
    pub(super) fn new(tunnel: Arc<Tunnel>, counters: &Arc<Counters>, client: Client, accept: &Arc<Stream>) -> Flow {
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
            carried: Default::default(),
            blocked: Default::default(),
            marks: AtomicU8::new(0),
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
    pub(crate) fn set_carried(&self, source: Leg, bytes: u64) {
        self.carried[source.index()].store(bytes, Relaxed);
    }

    /// Returns the number of bytes that the sink of the direction out of `source` has taken so far.
    pub(crate) fn carried(&self, source: Leg) -> u64 {
        self.carried[source.index()].load(Relaxed)
    }

    /// Records that the pump out of `source` begins or ends to wait for its sink.
    pub(crate) fn set_blocked(&self, source: Leg, is_blocked: bool) {
        self.blocked[source.index()].store(is_blocked, Relaxed);
    }

    /// Whether the pump out of `source` waits for its sink.
    pub(crate) fn is_blocked(&self, source: Leg) -> bool {
        self.blocked[source.index()].load(Relaxed)
    }

    /// Records that the FIN of `source` was passed on.
    pub(crate) fn passed_fin(&self, source: Leg) {
        self.marks.fetch_or(1 << source.index(), Relaxed);
    }

    /// Records that its first bytes were a preface.
    pub(crate) fn note_probe(&self) {
        self.marks.fetch_or(PROBE, Relaxed);
    }

    /// Whether its first bytes were a preface.
    pub(crate) fn is_probe(&self) -> bool {
        self.marks.load(Relaxed) & PROBE != 0
    }

    /// Records that its client's first bytes are those of SSH.
    pub(crate) fn note_ssh(&self) {
        self.marks.fetch_or(SSH, Relaxed);
    }

    /// Whether its client's first bytes are those of SSH.
    pub(crate) fn is_ssh(&self) -> bool {
        self.marks.load(Relaxed) & SSH != 0
    }

    /// Whether `count`, which grows with its bytes, is another one than at the last call. It remembers four bits of a hash, so that it misses one
    /// difference of 16, whatever the size of the program's writes.
    pub(super) fn has_moved(&self, count: u64) -> bool {
        let hash = count.wrapping_mul(0x9e37_79b9_7f4a_7c15); // Fibonacci hashing: the high bits depend on all
        let bits = ((hash >> 60) as u8) << 4;
        let change = |marks: u8| Some(marks & 0xf | bits);
        self.marks.fetch_update(Relaxed, Relaxed, change).is_ok_and(|before| before & 0xf0 != bits)
    }

    /// Records why the flow ended. Only the first call has an effect.
    pub(crate) fn ended(&self, how: How) {
        let _ = self.how.set(how);
        self.client.dialled();
    }

    /// Returns the address of the proxy that named the client. `None` for a client that connected to us.
    pub(crate) fn proxy(&self) -> Option<SocketAddr> {
        self.client.via().map(|via| via.proxy)
    }

    /// Whether its PROXY header names no client.
    pub(crate) fn has_no_client(&self) -> bool {
        self.tunnel.proxy_in.is_some() && self.client.is_nobody()
    }

    /// Returns the address at the far end of the accept leg.
    pub(crate) fn peer(&self) -> SocketAddr {
        self.proxy().unwrap_or(self.client.address())
    }

    /// Returns the host at the far end of the accept leg. An IPv4 client of an IPv6 listener has its IPv4 address.
    pub(crate) fn source(&self) -> IpAddr {
        self.peer().ip().to_canonical()
    }

    /// Whether `from` connected to the tunnel's listener for it. No own probe and no FTP data connection is such a flow.
    pub(crate) fn began_by(&self, from: IpAddr) -> bool {
        !self.client.is_own() && !self.client.is_data() && self.source() == from
    }

    /// Whether its client has had bytes from the next hop, other than the answers to a probe.
    pub(crate) fn is_answered(&self) -> bool {
        self.carried(Leg::Dial) > 0 && !self.is_probe()
    }

    /// Whether the FIN of `source` was passed on.
    pub(crate) fn has_passed_fin(&self, source: Leg) -> bool {
        self.marks.load(Relaxed) & (1 << source.index()) != 0
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
        self.how().is_some()
    }

    /// Returns why it has ended.
    pub(crate) fn how(&self) -> Option<How> {
        self.how.get().copied()
    }

    /// Returns the number of bytes that it has carried so far.
    pub(crate) fn tally(&self) -> Tally {
        Tally { up: self.carried(Leg::Accept), down: self.carried(Leg::Dial) }
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
    pub(crate) fn state(&self) -> FlowState {
        let leg = |leg: Leg| Some(LegState::of(&*self.stream(leg)?, self.is_sink_blocked(leg)));
        let (next_hop, tally) = (self.next_hop(), self.tally());
        FlowState {
            flow: self.number,
            tunnel: self.tunnel.name.clone(),
            peer: self.client.address().to_string(),
            proxy: self.proxy().map(|proxy| proxy.to_string()),
            transfer: self.client.transfer().map(|transfer| transfer.to_string()),
            next_hop: next_hop.map(|(hop, _)| hop.to_string()),
            next_hop_address: next_hop.map(|(_, address)| address),
            state: self.state_name(),
            age_seconds: self.began.elapsed().as_secs_f64(),
            up_bytes: tally.up,
            down_bytes: tally.down,
            accept: leg(Leg::Accept),
            dial: leg(Leg::Dial),
            cap: None,
            finding: None,
            gain: None,
            rates: Rates::default(),
        }
    }

    fn state_name(&self) -> FlowStateName {
        match self.marks.load(Relaxed) & (ACCEPT_FIN | DIAL_FIN) {
            _ if self.has_ended() => FlowStateName::Ended,
            _ if !self.is_connected() => FlowStateName::Dialling,
            0 => FlowStateName::Open,
            ACCEPT_FIN => FlowStateName::AcceptHalfClosed,
            DIAL_FIN => FlowStateName::DialHalfClosed,
            _ => FlowStateName::Closing,
        }
    }

    /// Observes both legs for the distributions of the tunnel. One system call each.
    pub(crate) fn sample(&self) {
        for leg in Leg::ALL {
            let look = self.stream(leg).and_then(|stream| leg_state::look(&stream, self.is_sink_blocked(leg)));
            look.into_iter().for_each(|(info, limit)| self.counters.distributions.sample(leg, &info, limit));
        }
    }

    /// Returns the round-trip time of the WAN leg, which is the longer one. `None` if neither leg has sent anything lately. One system
    /// call each.
    pub(crate) fn wan_rtt(&self) -> Option<Duration> {
        let infos = Leg::ALL.iter().filter_map(|leg| TcpInfo::of(self.stream(*leg)?.as_fd()).ok());
        infos.filter(is_current).map(|info| info.rtt).max().filter(|rtt| !rtt.is_zero())
    }

    /// Whether the pump into `leg`, which is the one out of the other leg, waits for it.
    fn is_sink_blocked(&self, leg: Leg) -> bool {
        self.is_blocked(leg.other())
    }
}

/// The bits of the legs in [`Flow::marks`].
const ACCEPT_FIN: u8 = 1 << Leg::Accept.index();
const DIAL_FIN: u8 = 1 << Leg::Dial.index();
/// The bit of a flow whose first bytes were a preface.
const PROBE: u8 = 1 << 2;
/// The bit of a flow whose first bytes were those of SSH.
const SSH: u8 = 1 << 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leg::stream::pair;

    #[tokio::test]
    async fn a_flow_tells_how_far_it_has_come() {
        let leg = Arc::new(pair().0);
        let listen = SocketAddr::from(([127, 0, 0, 1], 1));
        let tunnel = Arc::new(Tunnel::new("one", listen, Vec::new()));
        let flow = Flow::new(tunnel, &Arc::default(), listen.into(), &leg);
        flow.passed_fin(Leg::Dial);
        assert_eq!(flow.state_name(), FlowStateName::Dialling);
        flow.connected(0, listen, &leg);
        assert_eq!(flow.state_name(), FlowStateName::DialHalfClosed);
        flow.passed_fin(Leg::Accept);
        assert_eq!(flow.state_name(), FlowStateName::Closing);
        flow.ended(How::Finished);
        assert_eq!(flow.state_name(), FlowStateName::Ended);
        drop(leg);
        assert!(flow.state().accept.is_none() && flow.state().dial.is_none(), "the sockets are closed");
    }
}
