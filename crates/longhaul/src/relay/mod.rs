//! The relay, in the order of a byte's way:
//!
//! ```text
//! activated  systemd's sockets; one that no tunnel has is reset
//! listener   permit, accept, allow-list          (one task a tunnel)
//! flow       one accepted connection to its end  (one task a flow)
//!   stream   a connection as the runtime sees it
//!   leg      a connection's socket options, and what they came to
//!     sample TCP_INFO as longhaul-core takes it
//!   dial     resolve, connect, next address
//!     fast_open  the client's first bytes in the SYN
//!     loop_guard  whether a dial would come back
//!     local_ports  which ports the kernel takes for dials
//!   legs     the two connections, and what the pumps share
//!   carry    join(pump up, pump down): two directions, one task
//!     direction  one pump with its sockets
//!     buffer where its bytes are between them: scratch buffer, pipe or heap
//!     budget how many bytes may wait for sinks
//!     low_water  how many bytes a bulk flow waits for
//!     silence  when a silent peer is asked whether it is there
//!     pool   empty pipes that wait for bytes
//!     closing    a leg from its last FIN to its last acknowledgement
//!       hangups  wakes a flow when a peer sends FIN or a leg is closed
//! registry   the live flows, for whoever looks at them or cuts one
//!   cut      the order that ends a flow
//!   pulse    whether it moves bytes, for keepalive
//! permits    how many flows there may be
//! how        why a flow ended
//! tally      how many bytes it carried
//! end        the log line of a flow's end
//! counters   what the process has done so far
//! throttle   log lines that come at most once a second
//! shared     what all tunnels share
//! ```
//! The accept leg is the connection that came to us, the dial leg the one that we made; up is from accept to dial.

mod activated;
mod budget;
mod buffer;
mod carry;
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
mod how;
mod leg;
mod legs;
mod listener;
mod local_ports;
mod lock;
mod loop_guard;
mod low_water;
mod permits;
mod pool;
mod pulse;
mod registry;
mod sample;
mod shared;
mod silence;
mod stream;
mod tally;
mod throttle;

pub use activated::Activated;
pub use counters::Counters;
pub use how::How;
pub use listener::{BindError, Handle, Listener, Route, Serving};
pub use permits::{Gate, LOOKUPS};
pub use registry::{FlowView, State};
pub use shared::Relay;
pub use tally::Tally;
