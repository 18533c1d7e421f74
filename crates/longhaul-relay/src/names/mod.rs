//! Resolves the names of next hops, off the data path: one query at a time for each name, and an answer for its TTL.
//! [`longhaul_core::names`] decides; this module asks.
//!
//! Enters: a name or SRV record of a tunnel. Leaves: its addresses, from the last answer or a new one, or why there are none.
//! May use: `live`, `leg` and what is below them. The files, in the order of a question:
//!
//! ```text
//! cache      the names of the configuration, and the last answer for each
//! resolver   one query: getaddrinfo(3), or /etc/hosts and DNS
//!   files    /etc/resolv.conf, /etc/hosts, /etc/nsswitch.conf
//!   dns      the nameservers: which one is asked, and for how long
//!     heard  the answer of a nameserver
//!   system   getaddrinfo(3)
//!   order    the order of a name's addresses
//! target     the question and its answer
//! unresolved the names that cannot be resolved now, for `longhaul check`
//! ```

mod cache;
mod dns;
mod files;
mod heard;
mod order;
mod resolver;
mod system;
mod target;
mod unresolved;

pub(super) use cache::Names;
pub use unresolved::{Unresolved, unresolved};
