//! A [`Setting`]: a row of the table with a value.

use crate::error::StageError;
use crate::row::{Common, Row};
use crate::stage::{KEYS, ROWS, row};
use longhaul_units::Rate;
use std::fmt;

/// A stage of one direction of a link: its row and its value as written in the scenario.
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
    /// No stage has that key, or the stage refuses the value.
    pub fn read(key: &str, value: &str) -> Result<Setting, StageError> {
        let row = row(key).ok_or(StageError::UnknownStage { known: KEYS })?;
        (row.build)(value, 0)?;
        Ok(Setting { row, value: value.to_string() })
    }

    /// Builds the setting of the stage that overrides `common`; `None` if the stage refuses `value`.
    pub fn of_common(common: Common, value: &str) -> Option<Setting> {
        let row = ROWS.iter().find(|row| row.traits.common == Some(common))?;
        Setting::read(row.key, value).ok()
    }

    /// Returns the stage's row of the table.
    pub fn row(&self) -> &'static Row {
        self.row
    }

    /// Returns the value as written.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Returns whether the value has no effect, such as a loss of 0%.
    pub fn is_idle(&self) -> bool {
        matches!((self.row.build)(&self.value, 0), Ok(None))
    }

    /// Returns the long-run rate limit of the stage in IP bits a second; `None` if it has none.
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
    /// Writes `loss 0.1%`, the form used in a schedule line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(format!("{} {}", self.row.key, self.value).trim_end())
    }
}

impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
