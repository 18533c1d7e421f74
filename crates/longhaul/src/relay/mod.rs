//! The relay. The files, in the order in which a byte passes them:
//!
//! ```text
//! activated  systemd's sockets; resets connections to one that no tunnel uses
//! listener   permit, accept, allow-list                        (one task a tunnel)
//!   listen_addresses  whether the listeners' addresses are still of this host, for views
//! proxy_in   reads the PROXY header before the flow begins     (one task a connection)
//! source_limits  refuses a source that has too many flows
//! client     the client of a flow, and the proxy that named it
//!   data_peer  the peer of an FTP data connection
//! flow       one flow, from the accepted connection to its end (one task a flow)
//!   stream   a connection as the runtime sees it
//!   leg      sets a connection's socket options and reads back their values
//!     sample converts TCP_INFO for longhaul-core
//!   dial     addresses, connect, next address
//!     names    the addresses of a name, from the last answer
//!     hops     state of a tunnel's next hops
//!       checks active checks                                 (one task a tunnel)
//!     race     attempts beside each other
//!     connect  one address
//!       failure_kind  kinds of failed dials and checks
//!     fast_open  the client's first bytes in the SYN
//!     proxy_out  the PROXY header before them
//!     loop_guard  whether a dial would come back to this process
//!     local_ports  range of ports that the kernel chooses for dials
//!   legs     the two connections, and the state that the pumps share
//!   ftp      rewrites an FTP control connection, and runs its data connections as flows
//!   carry    join(pump up, pump down): two directions, one task
//!     direction  one pump with its sockets
//!     buffer holds a pump's bytes between its sockets: scratch buffer, pipe or heap
//!     budget counts the bytes that wait for sinks
//!     low_water  number of bytes that a bulk flow waits for
//!     silence  sets the keepalive of legs whose peers fell silent
//!     pool   empty pipes, kept for reuse
//!     closing    a leg from its last FIN to its last acknowledgement
//!       hangups  wakes a flow when a peer sends FIN or a leg is closed
//!   probe    answers a probe, or passes it on
//!     probes limits the probes that are answered
//!     host_answer  whether the host of a silent port answers otherwise, or rejects the dial itself
//!     proof  asks the prober for a proof of the shared key
//!       probe_key  the key
//!     talk   reads and writes a connection outside of the pumps
//! verifier   probes a tunnel through its own listener         (one task a tunnel)
//!   verified results of these probes
//!   own_probes  the announced ones, which a listener admits
//!   own_flow reads the preface of one before its flow begins
//! registry   the live flows, for views and for kill
//!   leg_view a leg as a view shows it
//!   load     use of the relay's own limits, for views
//!   cut      the order that ends a flow
//!   pulse    whether a flow moves bytes, for keepalive
//! caps       keeps the bandwidth caps: sets the pacing rates of the live flows
//! permits    limits the number of flows
//!   queue    clients that wait for a permit
//!   data_problem  the latest problem of FTP data connections
//! how        why a flow ended
//! tally      number of bytes that a flow carried
//! end        the log line of a flow's end
//! counters   counters of the process and of each tunnel
//! distributions  distributions over the flows of a tunnel
//! histogram  a histogram of atomics
//! moment     a moment in eight bytes
//! throttle   log lines that are written at most once a second
//! shared     state that all tunnels share
//! ```
//! A client connects to us on the accept leg. We connect to the next hop on the dial leg. "Up" is the direction from
//! the accept leg to the dial leg.

mod activated;
mod budget;
mod buffer;
mod caps;
mod carry;
mod checks;
mod client;
mod closing;
mod connect;
mod counters;
mod cut;
mod data_peer;
mod data_problem;
mod dial;
mod direction;
mod distributions;
mod end;
mod failure_kind;
mod fast_open;
mod flow;
mod ftp;
#[cfg(test)]
mod half_open_tests;
mod hangups;
mod histogram;
mod hops;
mod host_answer;
mod how;
mod leg;
mod leg_view;
mod legs;
mod listen_addresses;
mod listener;
mod load;
mod local_ports;
mod lock;
mod loop_guard;
mod low_water;
mod moment;
mod names;
mod own_flow;
mod own_probes;
mod permits;
mod pool;
mod probe;
mod probe_key;
mod probes;
mod proof;
mod proxy_in;
mod proxy_out;
mod pulse;
mod queue;
mod race;
mod registry;
mod sample;
mod shared;
mod silence;
mod source_limits;
mod stream;
mod talk;
mod tally;
mod throttle;
mod verified;
mod verifier;

pub use activated::Activated;
pub use checks::Checks;
pub use counters::{CounterValues, Counters};
pub use data_problem::DataProblemView;
pub use distributions::{Distributions, LegFigures};
pub use histogram::{Bucket, HistogramValues};
pub use hops::{CheckRefusal, FailureView, GroupView, HopsView, NextHopView};
pub use how::How;
pub use leg_view::LegView;
pub use listen_addresses::GoneAddress;
pub use listener::{BindError, Handle, Listener, Route, Serving};
pub use load::{AddressLoad, Load, TunnelLoad};
pub(crate) use lock::lock;
pub use names::{NameView, Unresolved, unresolved};
pub use permits::Gate;
pub use queue::WaitView;
pub use registry::{FlowView, State};
pub use shared::Relay;
pub use tally::Tally;
pub use verified::{Outcome, VerifyView, Whereabouts};
pub use verifier::Verifier;
