//! The relay, in the order of a byte's way:
//!
//! ```text
//! activated  systemd's sockets; one that no tunnel has is reset
//! listener   permit, accept, allow-list          (one task a tunnel)
//! flow       one accepted connection to its end  (one task a flow)
//!   stream   a connection as the runtime sees it
//!   leg      a connection's socket options, and what they came to
//!   dial     resolve, connect, next address
//!     fast_open  the client's first bytes in the SYN
//!     circle whether a dial would come back
//!   carry    join(pump up, pump down): two directions, one task
//!     direction  one pump with its sockets
//!     buffer where its bytes are between them: scratch buffer, pipe or heap
//!     budget how many bytes may wait for sinks
//!     low_water  how many bytes a bulk flow waits for
//!     silence  when a silent peer is asked whether it is there
//!     pool   empty pipes that wait for bytes
//!     closing    a leg from its last FIN to its last acknowledgement
//!       hangups  wakes a flow when a peer sends FIN or a leg is closed
//! cut        the order that ends every flow
//! permits    how many flows there may be
//! end        how a flow ended: the log line
//! counters   what the process has done so far
//! ```
//! The accept leg is the connection that came to us, the dial leg the one that we made; up is from accept to dial.

mod activated;
mod budget;
mod buffer;
mod carry;
mod circle;
mod closing;
mod counters;
mod cut;
mod dial;
mod direction;
mod end;
mod fast_open;
mod flow;
#[cfg(test)]
mod half_open_tests;
mod hangups;
mod leg;
mod listener;
mod low_water;
mod permits;
mod pool;
mod silence;
mod stream;

pub use activated::Activated;
pub use carry::Tally;
pub use counters::Counters;
pub use dial::LOOKUPS;
pub use end::{FlowEnd, How};
pub use listener::{BindError, Handle, Listener, Route, Serving};
pub use permits::Gate;

use budget::Budget;
use circle::Served;
use counters::Throttles;
use cut::Cut;
use dial::LocalPorts;
use hangups::Hangups;
use longhaul_config::Tunnel;
use longhaul_sys::limits;
use low_water::Marks;
use permits::Permits;
use pool::Pool;
use silence::Sweep;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::Notify;
use tokio::time::sleep;
use tracing::warn;

/// What all tunnels of the process share.
///
/// Flows outlive their tunnels: one that was removed or changed by a reload goes on with what it began with.
#[derive(Debug)]
pub struct Relay {
    /// What happened so far.
    pub counters: Counters,
    pool: Pool,
    budget: Budget,
    marks: Arc<Marks>,
    hangups: Arc<Hangups>,
    sweep: Arc<Sweep>,
    permits: Arc<Permits>,
    /// The order to end every flow with RST.
    cut: Cut,
    next_flow: AtomicU64,
    served: Served,
    local_ports: LocalPorts,
    /// Whether the log has said that splice is refused.
    splice_refused: AtomicBool,
    refused_log: Throttles,
    accept_log: Throttles,
    limit_log: Throttles,
    full_log: Throttles,
    permit_log: Throttles,
    early_log: Throttles,
    dial_log: Throttles,
    /// Rung when one of these begins to hold lines back that are to be counted.
    held_back: Arc<Notify>,
}

impl Relay {
    /// A relay that shares out `descriptors` among flows and pipes. Pass what RLIMIT_NOFILE leaves after everything else
    /// that the process opens.
    pub fn new(descriptors: usize) -> Arc<Relay> {
        let flows = flows(descriptors);
        let held_back = Arc::default();
        let counted = |line| Throttles::counted(line, &held_back);
        Arc::new(Relay {
            counters: Counters::default(),
            pool: Pool::new(descriptors, limits::pipe_pages_soft()),
            budget: Budget::default(),
            marks: Arc::default(),
            hangups: Arc::default(),
            sweep: Arc::default(),
            permits: Permits::new(flows),
            cut: Cut::default(),
            next_flow: AtomicU64::new(1),
            served: Served::default(),
            local_ports: LocalPorts::unknown(),
            splice_refused: AtomicBool::new(false),
            refused_log: counted("refused"),
            accept_log: counted("cannot accept"),
            limit_log: Throttles::uncounted("a buffer limits this path"),
            full_log: Throttles::uncounted("tunnel is full"),
            permit_log: counted("no descriptors for another flow of this tunnel"),
            early_log: counted("a connection that came before longhaul lacks an option"),
            dial_log: counted("dial failed"),
            held_back,
        })
    }

    /// Shares out `descriptors` anew. Live flows keep what they have: where there are more than now fit, no other begins
    /// until enough of them have ended.
    pub fn share_out(&self, descriptors: usize) {
        self.permits.set(flows(descriptors));
        self.pool.share_out(descriptors);
    }

    /// The gate of a new tunnel.
    pub fn gate(&self) -> Arc<Gate> {
        Gate::new(&self.permits)
    }

    /// Tells which tunnels share the permits, by their gates, and the `max_flows` of each.
    pub fn permit<'a>(&self, served: impl IntoIterator<Item = (&'a Arc<Gate>, Option<usize>)>) {
        self.permits.serve(served);
    }

    /// Tries whether WAN legs may have BBR, and says what would help where they may not and some leg `wants` it.
    pub fn look_for_bbr(wants: bool) {
        if let (Err(err), true) = (leg::try_bbr(), wants) {
            warn!(%err, "WAN legs keep the kernel's congestion control; for BBR: modprobe tcp_bbr, and where it is not \
                allowed: sysctl -w net.ipv4.tcp_allowed_congestion_control='reno cubic bbr'; then reload (longhaul@ and \
                `longhaul relay`: restart), for only that looks again");
        }
    }

    /// Tells which tunnels are served, so that no dial comes back by one of them or to itself. Call it at start and at each
    /// reload.
    pub fn serves(&self, tunnels: impl IntoIterator<Item = Tunnel>) {
        self.local_ports.read();
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

    /// Writes how many lines the log has held back whenever no later line has said so. Never ends; it is safe to drop.
    pub async fn tell_held_back(&self) {
        loop {
            self.held_back.notified().await;
            loop {
                sleep(2 * counters::PERIOD).await;
                if !self.flush_log(Instant::now() - counters::PERIOD) {
                    break;
                }
            }
        }
    }

    /// Writes how many lines the log has held back so far. Call it before the process ends.
    pub fn tell_all_held_back(&self) {
        self.flush_log(Instant::now() + counters::PERIOD);
    }

    /// Returns whether some that have been due since `due` or later are left.
    fn flush_log(&self, due: Instant) -> bool {
        let counted = [&self.refused_log, &self.accept_log, &self.permit_log, &self.early_log, &self.dial_log];
        counted.into_iter().filter(|throttles| throttles.flush(due)).count() > 0
    }

    /// Cuts every flow that is still open, with RST on both legs.
    pub fn cut(&self) {
        self.cut.give();
    }
}

/// Locks `mutex`. Nothing in the relay panics half way under a lock, so a poisoned one is as good as any.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many flows `descriptors` are for, beside the pipes.
fn flows(descriptors: usize) -> usize {
    ((descriptors - 2 * Pool::share(descriptors)) / 2).clamp(1, u32::MAX as usize)
}
