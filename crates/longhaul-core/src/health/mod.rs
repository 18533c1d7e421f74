//! Whether a next hop, a tunnel and the daemon are well. Every view is a table over the one [`Health`], so no two of them differ.
//!
//! ```text
//! problem  the health, and what shows it
//! stage    the part that a problem is about; where a probe ended, and how
//! facts    what the rules read, as plain values
//! hops     rules about the next hops of a tunnel
//! probes   rules about the daemon's own probes of a tunnel
//! tunnel   the other rules about a tunnel
//! daemon   rules about the process; the health of each
//! news     the problems that the log tells
//! ```
//! A rule about one hop is a row of `HOP_RULES` in `hops.rs`: when it applies, the health that follows, and what every view writes.
//! Any other rule is a function, which `RULES` in `tunnel.rs` or `problems` in `daemon.rs` calls in the order of the problems.

mod daemon;
mod facts;
mod hops;
mod news;
mod probes;
mod problem;
mod stage;
#[cfg(test)]
mod tests;
mod tunnel;

pub use daemon::{of_daemon, of_tunnel, problems};
pub use facts::{
    At, DaemonFacts, DataFacts, GoneAddress, HopFacts, NameFacts, NearLimit, Noted, Phase, ProbeFacts, ProbeResult,
    StalledClients, TunnelFacts, Wait, Whereabouts,
};
pub use hops::{failure, of_hop};
pub use news::{News, NewsLine};
pub use probes::lateness;
pub use problem::{Fault, Health, Party, Problem};
pub use stage::{Cause, Stage, Trouble};
