//! `longhaul top`: the state of a running daemon on a full screen. The files, in the order of the data:
//!
//! ```text
//! run        asks the daemon each second, waits for keys and signals, draws
//!   terminal   raw mode and the second screen, and back again in every case
//! rates      fills the rates of a snapshot: the difference to the one before
//! columns    the columns of the tables: those of the figures
//!   column     what a column is, and which ones fit
//! keys       the keys: one row each
//! model      the state of the screen; changes by events alone
//!   list       the flows on the screen: filter, order, selection
//! verdict    the first lines: whole or not
//! view       draws
//! ```
//! Only run and terminal do I/O.

mod column;
mod columns;
mod keys;
mod list;
mod model;
mod rates;
mod run;
mod terminal;
mod verdict;
mod view;

pub use run::{Failed, Options, once, run};
