//! `/metrics`: the state of the process for Prometheus, in the text formats of OpenMetrics and of Prometheus. The files:
//!
//! ```text
//! sampler   observes the legs of live flows, on the admin thread
//! scrape    gathers what a scrape shows: the Snapshot, the distributions, the process
//! row       a row of the table, and its samples
//! table     every metric: name, type, unit, labels, help, how it is read
//! text      writes the table's samples as text
//! manual_tests  the tables of docs/metrics.md
//! ```

#[cfg(test)]
mod manual_tests;
mod row;
mod sampler;
mod scrape;
mod table;
mod text;

pub(super) use sampler::{diagnose as diagnose_for_ever, run as sample_for_ever};
pub(super) use scrape::gather;
pub(super) use text::{Format, write};
