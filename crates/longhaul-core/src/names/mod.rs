//! Host names: how long an answer serves, when a name is asked again, and in which order answers are tried.
//!
//! [`cached`] holds the last answer for one name. [`search`] lists the full names that a short name may mean. [`srv`]
//! orders the targets of an SRV name.

pub mod cached;
pub mod search;
pub mod srv;

pub use cached::{Absence, Answer, Ask, Cached, Outage, Outcome, Reply};
