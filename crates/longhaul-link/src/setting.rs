//! A [`Setting`]: a row of the table with a value.

use crate::error::StageError;
use crate::row::{Common, Row};
use crate::stage::{KEYS, ROWS, row};
use longhaul_units::Rate;
use std::fmt;

/// A stage of one direction of a link: its row, and its value as a person wrote it.
///
/// The value is valid: [`Setting::read`] has built the stage from it once.
#[derive(Clone)]
pub struct Setting {
    row: &'static Row,
    value: String,
}

impl Setting {
    /// Reads the value of the stage `key`.
    ///
    /// # Errors
    /// There is no such stage, or it refuses the value.
    pub fn read(key: &str, value: &str) -> Result<Setting, StageError> {
        let row = row(key).ok_or(StageError::UnknownStage { known: KEYS })?;
        (row.build)(value, 0)?;
        Ok(Setting { row, value: value.to_string() })
    }

    /// The stage that overrides `common`, with `value`; `None` if it refuses the value.
    pub fn of_common(common: Common, value: &str) -> Option<Setting> {
        let row = ROWS.iter().find(|row| row.traits.common == Some(common))?;
        Setting::read(row.key, value).ok()
    }

    /// Its row of the table.
    pub fn row(&self) -> &'static Row {
        self.row
    }

    /// Its value.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Whether its value asks for nothing, such as a loss of 0%.
    pub fn is_idle(&self) -> bool {
        matches!((self.row.build)(&self.value, 0), Ok(None))
    }

    /// The rate that it imposes in the long run, in IP bits a second; `None` if it imposes none.
    pub fn rate(&self) -> Option<Rate> {
        self.row.traits.rate.and_then(|rate| rate(&self.value))
    }
}

impl PartialEq for Setting {
    fn eq(&self, other: &Setting) -> bool {
        self.row.key == other.row.key && self.value == other.value
    }
}

impl fmt::Display for Setting {
    /// `loss 0.1%`, as a line of a schedule has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(format!("{} {}", self.row.key, self.value).trim_end())
    }
}

impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
