//! Bandwidth caps: the rate that each flow may send with, so that all flows together keep a cap.
//!
//! ```text
//! schedule  the cap that holds at a time of the week
//! in_force  the same in a sentence, with the time of the next one
//! share     max-min fair sharing of a capacity among demands
//! meter     the demand of one direction of a flow, from what it has sent and what waits
//! ahead     what the kernel has sent of a direction before its limit has paid for it
//! account   what a cap has been underused or exceeded so far, and the capacity that makes up for it
//! divider   all of these together: the limit of each flow, for one direction
//! path      the cap of a path, found by itself
//! ```
//!
//! A direction is divided by a [`Divider`] of its own, because a cap holds for each direction. The relay samples the
//! flows some times a second and sets the limits on their sockets; the kernel keeps them by pacing. So the limits must
//! be right on average only: the account makes up for what they missed.

mod account;
mod ahead;
mod divider;
mod in_force;
mod meter;
mod path;
mod schedule;
mod share;
#[cfg(test)]
mod simulation;

pub use divider::{Caps, Divider, Member, Offer};
pub use in_force::{InForce, Share, rate_in_words};
pub use meter::Sample;
pub use path::{PathCap, PathLook, PathState};
pub use schedule::{Bandwidth, MINUTES_OF_DAY, Weekday, Window};
