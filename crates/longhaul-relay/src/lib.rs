//! The relay: carries connections from a tunnel's listener to its next hops, and knows of each what it does.
//!
//! A client connects to us on the accept leg. We connect to the next hop on the dial leg. "Up" is the direction from
//! the accept leg to the dial leg. A byte goes `accept`, `flow`, `reach`, `carry`. Each folder uses only those below it:
//!
//! ```text
//! serve    applies a configuration: listeners, checks and probes of each tunnel
//! accept   listening sockets, permits, the allow-list, the PROXY header   (one task a tunnel)
//! flow     one flow, from the accepted connection to its end              (one task a flow)
//! ftp      rewrites a control connection, runs its data connections as flows
//! carry    two pumps: bytes from each leg to the other
//! probe    answers probes, and makes the daemon's own
//! reach    addresses, connections, checks of next hops
//! state    what flows share: permits, next hops, memory
//! caps     bandwidth caps: sets the pacing rates of the live flows
//! names    the addresses of names
//! live     the live flows and the counters, for views
//! verify   the prober: goes through a tunnel as a client
//! leg      one TCP connection and its options
//! lock     locks mutexes
//! ```

#![forbid(unsafe_code)]

mod accept;
mod caps;
mod carry;
mod flow;
mod ftp;
#[cfg(test)]
mod half_open_tests;
#[cfg(test)]
#[path = "../../../interface/check.rs"]
mod interface;
mod leg;
mod live;
mod lock;
mod names;
#[cfg(test)]
mod outage_tests;
mod probe;
mod reach;
mod serve;
mod state;
pub mod verify;

pub use caps::{CapsNow, PathView};
pub use leg::LegState;
pub use live::{
    Bucket, COUNTERS, Counter, CounterValues, Counters, Distributions, FindingState, FlowState, FlowStateName,
    GainState, HistogramValues, How, LegFigures, Rates, SavedHours, Tally, VerifyView,
};
pub use lock::lock;
pub use names::{Unresolved, unresolved};
pub use probe::through::{Measurement, Socket};
pub use serve::{Applied, BindError, Refused};
pub use state::{AddressLoad, Load, Relay, TunnelLoad, TunnelView, Tunnels};
