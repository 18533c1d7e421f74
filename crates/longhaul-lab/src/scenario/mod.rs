//! A scenario: hosts, the link between them, the carriers to compare, the traffic, and what to expect, as a TOML file says
//! it.
//!
//! A `[[run]]` is one experiment: one figure of somebody's, or one question. What the file says before the first run holds
//! for all of them; a run's own `link`, `host` and `relay` come on top of it.
//!
//! [`model`] is the scenario as data, [`read`](mod@read) reads it by the tables of [`keys`], [`conflicts`] finds values
//! that do not go together, and [`summary`] describes the result. [`library`] holds the scenarios that are built in.

mod conflicts;
mod keys;
pub(crate) mod library;
mod model;
mod read;
mod summary;

pub(crate) use keys::read_window;
pub(crate) use model::{Expect, Published, Run, Scenario, Times};
pub use read::parse;
pub(crate) use read::{load, read};
