//! Dialling: tries the next hops in the policy's order, and the addresses of each in the resolver's order, until one
//! answers.
//!
//! ```text
//! first address    SYN ─────── no answer ──────────────────────────────── closed
//! second address              1 s  SYN ── refused
//! third address                           SYN ── answers: carries the flow
//! ```
//! An address that fails is followed by the next one at once. If none has answered for a second, the next one is tried
//! beside those under way (RFC 8305 5). A second, because by then a SYN would have been sent again. While a SYN is under
//! way that carries the client's first bytes, no other address is tried: only one server may get them.

use crate::leg::race::Race;
use crate::leg::stream::Stream;
use crate::live::failure_kind::FailureKind;
use crate::reach::connect::{self, Failure};
use crate::reach::fast_open::SynBytes;
use crate::reach::proxy_out::Header;
use crate::state::hops::{Chosen, Claim};
use crate::state::permits::Spare;
use crate::state::served_tunnel::ServedTunnel;
use crate::state::shared::Relay;
use longhaul_config::Tunnel;
use std::collections::VecDeque;
use std::fmt::Write;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::time::sleep_until;

/// A connection that was made. The peer may have reset it since. Bytes that came before the reset can still be read.
pub(crate) struct Dialled {
    pub(crate) stream: Stream,
    /// The next hop, as an index into the tunnel's `to`. It counts the flow until `Hops::ended`.
    pub(crate) hop: usize,
    pub(crate) address: SocketAddr,
    /// Number of bytes that `stream` took during connect. They were only peeked from the accept leg (`dial.fastopen`).
    pub(crate) early: usize,
}

/// Why no connection was made.
pub(crate) enum NotDialled {
    /// No address answered.
    NoAnswer(Unanswered),
    /// The accept leg failed first.
    Accept(io::Error),
}

/// The addresses that did not answer.
pub(crate) struct Unanswered {
    /// Names every address that was tried, and its error.
    pub(crate) why: String,
    /// Why the last one failed.
    pub(crate) kind: FailureKind,
    /// The last one.
    pub(crate) address: Option<SocketAddr>,
}

/// Dials the next hops of `chosen`, of `tunnel`, for the connection `accept`, until one answers. The dial leg has `header`
/// then.
///
/// # Errors
/// No next hop answered, or the accept leg failed.
pub(crate) async fn dial(
    relay: &Relay,
    served: &ServedTunnel,
    chosen: Chosen<'_>,
    accept: &Stream,
    header: &Header,
) -> Result<Dialled, NotDialled> {
    let tunnel = &*served.settings;
    let dial = Dial {
        relay,
        served,
        tunnel,
        first_bytes: SynBytes::of(tunnel, accept),
        header,
        has_sent: AtomicBool::new(false),
    };
    let mut attempts = Attempts::new(&dial, chosen);
    attempts.start_next();
    loop {
        // Dropping the wait loses no attempt, and the timer is set anew.
        let ended = tokio::select! {
            biased;
            ended = attempts.race.ended() => ended,
            () = sleep_until((attempts.last + BESIDE).into()), if attempts.may_start() => {
                attempts.start_next();
                continue;
            }
        };
        match ended {
            Ended::Accept(err) => return Err(NotDialled::Accept(err)),
            Ended::Connected { dialled, rtt } => return Ok(attempts.won(dialled, rtt)),
            Ended::Resolved { hop, addresses } => attempts.resolved(hop, addresses),
            Ended::Failed { hop, address, failure } => attempts.failed(hop, address, &failure),
        }
        attempts.start_next();
        if attempts.race.is_empty() {
            return Err(NotDialled::NoAnswer(attempts.unanswered));
        }
    }
}

/// The dial of one flow.
struct Dial<'a> {
    relay: &'a Relay,
    served: &'a ServedTunnel,
    tunnel: &'a Tunnel,
    first_bytes: SynBytes<'a>,
    header: &'a Header,
    /// Whether a SYN is under way that carries bytes of the client, or a PROXY header.
    has_sent: AtomicBool,
}

/// One step of a dial.
enum DialStep {
    Resolve { hop: usize },
    Connect { hop: usize, address: SocketAddr },
}

/// The end of a step.
enum Ended {
    Resolved {
        hop: usize,
        addresses: Result<Vec<SocketAddr>, String>,
    },
    /// `rtt` is the time of the handshake.
    Connected {
        dialled: Dialled,
        rtt: Duration,
    },
    Failed {
        hop: usize,
        address: SocketAddr,
        failure: Failure,
    },
    /// The accept leg failed.
    Accept(io::Error),
}

impl Dial<'_> {
    /// Takes one step. Only an attempt that `is_alone` may carry the client's first bytes. `spare` is the permit of an
    /// attempt beside another, whose socket is one more than the flow's own permit is for.
    async fn step(&self, step: DialStep, is_alone: bool, spare: Option<Spare>) -> Ended {
        let ended = match step {
            DialStep::Resolve { hop } => {
                let Tunnel { to, connect_timeout, .. } = self.tunnel;
                let addresses =
                    self.relay.tunnels.names.addresses(&to[hop], *connect_timeout, &self.served.counters).await;
                Ended::Resolved { hop, addresses }
            }
            DialStep::Connect { hop, address } => self.connect(hop, address, is_alone).await,
        };
        drop(spare);
        ended
    }

    async fn connect(&self, hop: usize, address: SocketAddr, is_alone: bool) -> Ended {
        // Beside another attempt the SYN carries nothing: only one server may get the client's first bytes.
        let bytes = match is_alone {
            true => self.first_bytes.peek().await.map(|bytes| self.header.before(bytes, self.tunnel)),
            false => Ok(Vec::new()),
        };
        let bytes = match bytes {
            Ok(bytes) => bytes,
            Err(err) => return Ended::Accept(err),
        };
        let began = Instant::now();
        let begun = connect::begin(self.relay, self.tunnel, address, &bytes);
        drop(bytes); // frees them while the next hop takes its time
        let (stream, taken) = match begun {
            Ok(begun) => begun,
            Err(failure) => return Ended::Failed { hop, address, failure },
        };
        if taken > 0 {
            self.has_sent.store(true, Relaxed);
        }
        let finished = connect::finish(self.relay, &stream, address, self.tunnel.connect_timeout).await;
        // Nothing is awaited between the answer and the end of this attempt, so only the winner gets the header.
        match finished.and_then(|()| self.header.send_rest(&stream, taken).map_err(Failure::here)) {
            Ok(early) => {
                let dialled = Dialled { stream, hop, address, early };
                Ended::Connected { dialled, rtt: began.elapsed() }
            }
            Err(failure) => Ended::Failed { hop, address, failure },
        }
    }
}

/// The steps of a dial: those to come, those under way, and those that failed.
struct Attempts<'a> {
    dial: &'a Dial<'a>,
    /// Steps to come, the first one first.
    steps: VecDeque<DialStep>,
    race: Race<'a, Ended>,
    /// The claim of the first hop, until it is dialled.
    first: Option<Claim<'a>>,
    /// The hops whose addresses are under way or to come.
    tries: Vec<Try<'a>>,
    /// Time of the last start.
    last: Instant,
    /// The addresses that failed so far.
    unanswered: Unanswered,
}

/// A hop that is being dialled.
struct Try<'a> {
    hop: usize,
    claim: Claim<'a>,
    began: Instant,
    /// Number of addresses that have not failed.
    left: usize,
    /// Why the last address failed that did so by the hop's fault. `None` without one.
    blame: Option<FailureKind>,
}

impl<'a> Attempts<'a> {
    fn new(dial: &'a Dial<'a>, Chosen { order, first }: Chosen<'a>) -> Attempts<'a> {
        let steps = order.into_iter().map(|hop| DialStep::Resolve { hop }).collect();
        let last = Instant::now();
        Attempts {
            dial,
            steps,
            race: Race::new(),
            first,
            tries: Vec::new(),
            last,
            unanswered: Unanswered { why: String::new(), kind: FailureKind::Other, address: None },
        }
    }

    /// Whether another step may begin now.
    fn may_start(&self) -> bool {
        !self.steps.is_empty() && !self.dial.has_sent.load(Relaxed)
    }

    /// Begins the next step, if there is one and it may begin. An attempt beside another needs a spare permit. Without
    /// one, it begins later or when it is the only one.
    fn start_next(&mut self) {
        if !self.may_start() {
            return;
        }
        let Dial { served, tunnel, .. } = *self.dial;
        let now = Instant::now();
        self.last = now;
        let is_alone = self.race.is_empty();
        let needs_spare = !is_alone && matches!(self.steps.front(), Some(DialStep::Connect { .. }));
        let spare = if needs_spare { served.spare() } else { None };
        if needs_spare && spare.is_none() {
            return;
        }
        let Some(step) = self.steps.pop_front() else { return };
        if let DialStep::Resolve { hop } = step {
            let first = self.first.take();
            let claim = first.unwrap_or_else(|| served.hops.claim(&served.counters, tunnel, hop));
            self.tries.push(Try { hop, claim, began: now, left: 1, blame: None });
        }
        self.race.start(self.dial.step(step, is_alone, spare));
    }

    fn resolved(&mut self, hop: usize, addresses: Result<Vec<SocketAddr>, String>) {
        let next_hop = &self.dial.tunnel.to[hop];
        match addresses {
            Ok(addresses) if !addresses.is_empty() => {
                self.dial.relay.tunnels.loop_guard.resolved(next_hop, &addresses);
                if let Some(tried) = self.tries.iter_mut().find(|tried| tried.hop == hop) {
                    tried.left = addresses.len();
                }
                addresses.into_iter().rev().for_each(|address| {
                    self.steps.push_front(DialStep::Connect { hop, address });
                });
            }
            unresolved => {
                let why = unresolved.err().unwrap_or_else(|| "it has no address".into());
                note(&mut self.unanswered.why, &next_hop.to_string(), &format!("cannot be resolved: {why}"));
                self.unanswered.kind = FailureKind::Unresolved;
                self.lost(hop, Some(FailureKind::Unresolved));
            }
        }
    }

    fn failed(&mut self, hop: usize, address: SocketAddr, failure: &Failure) {
        self.dial.has_sent.store(false, Relaxed);
        note(&mut self.unanswered.why, &address.to_string(), &failure.to_string());
        self.unanswered.kind = failure.kind;
        self.unanswered.address = Some(address);
        self.lost(hop, failure.is_of_hop().then_some(failure.kind));
    }

    /// Records that an address of `hop` failed, or its name. `blame` says why, if it is the hop's fault.
    fn lost(&mut self, hop: usize, blame: Option<FailureKind>) {
        let Some(index) = self.tries.iter().position(|tried| tried.hop == hop) else { return };
        let tried = &mut self.tries[index];
        tried.left = tried.left.saturating_sub(1);
        tried.blame = blame.or(tried.blame);
        if tried.left == 0 {
            let Try { claim, blame, .. } = self.tries.swap_remove(index);
            if let Some(kind) = blame {
                claim.failed(kind);
            }
        }
    }

    /// Ends the dial: one address has answered. The others are closed. A hop that had its second has failed.
    fn won(self, dialled: Dialled, rtt: Duration) -> Dialled {
        for Try { hop, claim, began, .. } in self.tries {
            if hop == dialled.hop {
                claim.answered(rtt);
            } else if began.elapsed() >= BESIDE {
                claim.failed(FailureKind::NoAnswer);
            }
        }
        dialled
    }
}

fn note(said: &mut String, what: &str, why: &str) {
    let comma = if said.is_empty() { "" } else { "; " };
    // Writing to a String cannot fail.
    let _ = write!(said, "{comma}{what}: {why}");
}

/// Time that an address has to itself before the next one is tried beside it. The kernel sends a SYN again after this time
/// (RFC 6298 2.1), so a longer wait is a sign of a lost packet or a dead hop, on any path.
const BESIDE: Duration = Duration::from_secs(1);
