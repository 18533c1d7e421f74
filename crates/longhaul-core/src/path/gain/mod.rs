//! Says what the relays are worth for one direction of a flow: its rate, and the rate that the same flow would have had at most without
//! them.
//!
//! ```text
//! sender ══ WAN, the source leg ══> relay ── LAN, the sink leg ──> host
//! ```
//! Alone, a receiving host gets one of its windows in each round trip of the whole way. [`HostWindow`] gathers the evidence that the window
//! cannot be larger, and [`Ledger`] adds up the time that the relays save. Where the window may still grow, there is no [`Gain`]: an
//! autotuned window stays small on a LAN, because nothing needs it to be larger there.

mod ceiling;
mod ledger;
mod window;

pub use ceiling::Gain;
pub use ledger::Ledger;
pub use window::HostWindow;
