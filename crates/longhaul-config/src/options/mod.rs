//! The socket options: one table of rows, and the options of one leg, read from text by the table, applied and read back when the
//! leg comes up. A config file and `--set` come through the same [`LegOptions::set`], so both accept and refuse the same.
//!
//! In this order: `row.rs` is one option, `table.rs` all of them, `text.rs` a value as a person writes it, `setting.rs` tells the
//! kernel and reads back, `control.rs` helps with the name of a congestion control, `leg_options.rs` is what one leg has.

mod control;
mod leg_options;
mod row;
mod setting;
mod table;
mod text;

pub use control::{CONTROLS, instead as control_instead, remedied};
pub use leg_options::{LegOptions, set};
pub use row::{Kind, Leg, Legs, Preset, Row, Unit, Value, When};
pub use setting::{Mismatch, Setting};
pub use table::{ROWS, row};
pub use text::{expected, parse, show};
