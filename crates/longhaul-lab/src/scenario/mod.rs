//! A scenario: a TOML file with hosts, the link between them, the carriers to compare, the traffic, and the expectations.
//!
//! A `[[run]]` is one experiment: one published figure, or one question. The keys before the first run apply to all runs. A
//! run's own `link`, `host` and `relay` override them.
//!
//! [`model`] is the scenario as data, [`read`](mod@read) reads it by the tables of [`keys`], [`conflicts`] finds values
//! that conflict, and [`summary`] describes the result. [`library`] holds the built-in scenarios.

mod conflicts;
pub(crate) mod keys;
pub(crate) mod library;
pub(crate) mod model;
pub(crate) mod read;
mod summary;
