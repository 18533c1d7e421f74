//! The admin part: a control socket and a read-only HTTP listener, both HTTP/1.1. The files, in the order in which a
//! request passes them:
//!
//! ```text
//! server       the thread and its runtime; opens and closes both listeners
//!   socket       the file of the control socket
//! connections  accepts, limits and closes connections
//! api          the routes: path, effect, function
//!   measure      the connections of a measurement through a tunnel
//!   host         the names by which the HTTP listener may be asked
//!   documents    the long documents, which a second thread writes
//!   answer       an answer and its body
//!   page/        the dashboard, a page in the binary
//! source       access to the daemon and to the live flows
//! collect      fills a Snapshot
//!   caps         the caps in force, in words
//!   health       the facts that its health follows from, and what follows
//! snapshot     the document that every view reads
//!   manual_tests  its tables in docs/admin.md
//! look         looks at the tunnels each second
//!   curves       the figures of each tunnel over time
//! figures/     what the Snapshot holds, one row each: the tables of every view
//! verdict      whether a Snapshot is whole, in one line
//! metrics      /metrics, for Prometheus
//! interface_tests  what other versions must have, too
//! client       the other end: `longhaul status`, `top`, `reload`, `drain`, `kill`
//! ```
//! Everything here runs on a thread of its own, so no request delays a byte, and the long documents on a second one, so that no health
//! check waits for them. It reaches the daemon by
//! [`Control`](crate::control::Control), and reads the live flows by a handle of the relay.

mod answer;
mod api;
mod caps;
pub mod client;
mod collect;
mod connections;
mod curves;
mod documents;
pub mod figures;
mod health;
mod host;
#[cfg(test)]
mod interface_tests;
mod look;
#[cfg(test)]
mod manual_tests;
mod measure;
mod metrics;
mod page;
mod server;
pub mod snapshot;
mod socket;
mod source;
pub mod verdict;

pub use answer::DrainProgress;
pub(crate) use connections::descriptors;
pub(crate) use server::{Admin, Thread};
pub use socket::default_path;
pub(crate) use source::Source;
