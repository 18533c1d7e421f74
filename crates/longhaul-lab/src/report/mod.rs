//! The results of a scenario:
//!
//! - [`run`]: one run over one carrier, with its [`verdict`] and the [`reason`] for its speed;
//! - [`path`](mod@path): hosts, relays and link of a run;
//! - [`repeat`]: the command that repeats a run;
//! - [`json`]: the whole report;
//! - [`columns`]: the columns of the table of runs;
//! - [`table`]: prints the report as a table;
//! - [`page`]: makes an HTML page of it.

pub(crate) mod columns;
pub(crate) mod json;
pub(crate) mod page;
pub(crate) mod path;
pub(crate) mod reason;
pub(crate) mod repeat;
pub(crate) mod run;
pub(crate) mod table;
pub(crate) mod verdict;
