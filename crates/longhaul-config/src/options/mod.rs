//! Socket options: a table of rows, and the options of one leg. A config file and `--set` both use [`LegOptions::set`], so
//! both accept and refuse the same values. The relay applies the options when a leg starts, and reads them back.
//!
//! Reading order: `row.rs` is one option, `need.rs` its needs on the machine, `table.rs` all options; `text.rs` parses and
//! shows a value; `setting.rs` sets a value in the kernel and reads it back; `control.rs` has remedies for a refused congestion
//! control; `leg_options.rs` is the options of one leg; `kernel.rs` is what
//! older kernels lack, and `since.rs` one such thing.

mod control;
mod kernel;
mod leg_options;
mod need;
mod row;
mod setting;
mod since;
mod table;
mod text;

pub use control::{AUTO, CONTROLS, not_offered};
pub use kernel::{features, missing};
pub use leg_options::{LegOptions, set};
pub use need::Need;
pub use row::{Kind, Leg, Preset, Remedy, Row, Unit, Value, When};
pub use setting::{Mismatch, Setting};
pub use since::Since;
pub use table::{ROWS, key, row};
pub use text::{expected, parse, show};
