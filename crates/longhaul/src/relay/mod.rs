//! The relay, in the order of a byte's way:
//!
//! ```text
//! activated  systemd's sockets; one that no tunnel has is reset
//! listener   permit, accept, allow-list          (one task a tunnel)
//! flow       one accepted connection to its end  (one task a flow)
//!   stream   a connection as the runtime sees it
//!   leg      a connection's socket options, and what they came to
//!   dial     resolve, connect, next address
//!     circle whether a dial would come back
//!   carry    join(pump up, pump down): two directions, one task
//!     direction  one pump with its sockets
//!     vessel what holds bytes between two sockets: a pipe, or a buffer where splice is refused
//!     low_water  how many bytes a bulk flow waits for
//!     silence  when a silent peer is asked whether it is there
//!     pool   empty pipes that wait for bytes
//!     closing    a leg from its last FIN to its last acknowledgement
//!       hangups  wakes a flow when a peer sends FIN or a leg is closed
//! permits    how many flows there may be
//! end        how a flow ended: the log line
//! counters   what the process has done so far
//! ```
//! The accept leg is the connection that came to us, the dial leg the one that we made; up is from accept to dial.

mod activated;
mod carry;
mod circle;
mod closing;
mod counters;
mod dial;
mod direction;
mod end;
mod flow;
mod hangups;
mod leg;
mod listener;
mod low_water;
mod permits;
mod pool;
mod silence;
mod stream;
mod vessel;

pub use activated::Activated;
pub use carry::Tally;
pub use counters::Counters;
pub use dial::LOOKUPS;
pub use end::{FlowEnd, How};
pub use listener::{BindError, Handle, Listener};

use crate::config::Tunnel;
use circle::Served;
use counters::Throttles;
use hangups::Hangups;
use longhaul_sys::limits;
use low_water::Marks;
use permits::Permits;
use pool::Pool;
use silence::Sweep;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use tokio::sync::watch;
use tracing::warn;

/// What all tunnels of the process share.
///
/// Flows outlive their tunnels: one that was removed or changed by a reload goes on with what it began with.
#[derive(Debug)]
pub struct Relay {
    /// What happened so far.
    pub counters: Counters,
    pool: Pool,
    marks: Arc<Marks>,
    hangups: Arc<Hangups>,
    sweep: Arc<Sweep>,
    permits: Arc<Permits>,
    /// How many of the permits one tunnel may have.
    most_of_one: AtomicUsize,
    /// True once every flow that is still open shall be cut with RST.
    cut: watch::Sender<bool>,
    next_flow: AtomicU64,
    served: Served,
    /// Whether the log has said that splice is refused.
    splice_refused: AtomicBool,
    refused_log: Throttles,
    accept_log: Throttles,
    limit_log: Throttles,
    full_log: Throttles,
    early_log: Throttles,
}

impl Relay {
    /// A relay that shares out `descriptors` among flows and pipes, and the flows among `tunnels`. Pass what RLIMIT_NOFILE
    /// leaves after everything else that the process opens.
    pub fn new(descriptors: usize, tunnels: usize) -> Arc<Relay> {
        let flows = flows(descriptors);
        Arc::new(Relay {
            counters: Counters::default(),
            pool: Pool::new(descriptors, limits::pipe_pages_soft()),
            marks: Arc::default(),
            hangups: Arc::default(),
            sweep: Arc::default(),
            permits: Permits::new(flows),
            most_of_one: most_of_one(flows, tunnels).into(),
            cut: watch::Sender::new(false),
            next_flow: AtomicU64::new(1),
            served: Served::default(),
            splice_refused: AtomicBool::new(false),
            refused_log: Throttles::default(),
            accept_log: Throttles::default(),
            limit_log: Throttles::default(),
            full_log: Throttles::default(),
            early_log: Throttles::default(),
        })
    }

    /// Shares out `descriptors` anew, among `tunnels`. Live flows keep what they have: where there are more than now fit, no
    /// other begins until enough of them have ended.
    pub fn share_out(&self, descriptors: usize, tunnels: usize) {
        let flows = flows(descriptors);
        self.permits.set(flows);
        self.most_of_one.store(most_of_one(flows, tunnels), Relaxed);
        self.pool.share_out(descriptors);
    }

    /// Tries whether WAN legs may have BBR, and says what would help where they may not and some leg `wants` it.
    pub fn look_for_bbr(wants: bool) {
        if let (Err(err), true) = (leg::try_bbr(), wants) {
            warn!(%err, "WAN legs keep the kernel's congestion control; for BBR: modprobe tcp_bbr, and where it is not \
                allowed: sysctl -w net.ipv4.tcp_allowed_congestion_control='reno cubic bbr'; then reload (longhaul@ and \
                `longhaul relay`: restart), for only that looks again");
        }
    }

    /// Tells which tunnels are served, so that no dial comes back by one of them.
    pub fn serves(&self, tunnels: impl IntoIterator<Item = Tunnel>) {
        self.served.set(tunnels.into_iter().collect());
    }

    /// How many flows there may be at once, for want of descriptors.
    pub fn most_flows(&self) -> usize {
        self.permits.all()
    }

    /// How many pipes there may be at once, for want of descriptors or of the user's pipe pages.
    pub fn most_pipes(&self) -> usize {
        self.pool.most()
    }

    /// Waits until no flow is left. Whoever wants none to begin waits for the listeners first.
    pub async fn ended(&self) {
        self.permits.returned().await;
    }

    /// Cuts every flow that is still open, with RST on both legs.
    pub fn cut(&self) {
        self.cut.send_replace(true);
    }
}

/// How many flows `descriptors` are for, beside the pipes.
fn flows(descriptors: usize) -> usize {
    ((descriptors - 2 * Pool::share(descriptors)) / 2).clamp(1, u32::MAX as usize)
}

/// How many of `flows` one of `tunnels` may have: a next hop that answers nothing keeps each flow until `connect_timeout`, and
/// the tunnels beside it must not wait for that. Never less than half, where there is little to share.
fn most_of_one(flows: usize, tunnels: usize) -> usize {
    flows - (tunnels.saturating_sub(1) * KEPT).min(flows / 2)
}

/// How many flows a tunnel leaves for each of the others.
const KEPT: usize = 16;
