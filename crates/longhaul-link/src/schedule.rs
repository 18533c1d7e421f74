//! Changes while the link runs: lines such as `at 10s down for 20s` or `at 30s loss 1%`. Times count from the link's
//! start, or from when it is told to begin; the value is any that the key may have as a setting.

use crate::error::StageError;
use crate::row::Row;
use crate::stage::{KEYS, ROWS};
use std::fmt;
use std::time::Duration;

/// One line of a schedule: a stage that has another value from some moment on, and perhaps until another.
#[derive(Clone)]
pub struct Change {
    line: String,
    row: &'static Row,
    value: String,
    from: Duration,
    /// The time at which the earlier value comes back.
    until: Duration,
}

/// All changes of a link.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    changes: Vec<Change>,
    /// The time at which the next change begins or ends.
    next: Duration,
    /// Zero of the times; `None` while the schedule is held.
    zero: Option<Duration>,
}

impl Change {
    /// Reads `at TIME KEY VALUE`, and `for TIME` behind it if it is to end: `at 10s down for 20s`, `at 30s loss 1%`.
    ///
    /// # Errors
    /// It has another form, there is no such stage, or the stage refuses the value.
    pub fn read(line: &str) -> Result<Change, StageError> {
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        let rest = line.strip_prefix("at ").ok_or(FORM)?.trim_start();
        let (from, rest) = rest.split_once(' ').ok_or(FORM)?;
        let from = longhaul_units::duration(from)?;
        let (what, time) = match format!(" {rest} ").rsplit_once(" for ") {
            Some((what, time)) => (what.to_string(), Some(longhaul_units::duration(time)?)),
            None => (rest.to_string(), None),
        };
        let (key, value) = what.trim().split_once(' ').unwrap_or((what.trim(), ""));
        if time.is_some_and(|time| time.is_zero()) {
            return Err(StageError::NoTime);
        }
        let row = ROWS.iter().find(|row| row.key == key).ok_or(StageError::UnknownStage { known: KEYS })?;
        let value = value.trim().to_string();
        (row.build)(&value, 0)?;
        let until = time.map_or(Duration::MAX, |time| from.saturating_add(time));
        Ok(Change { line, row, value, from, until })
    }

    /// The row of the stage that it changes.
    pub fn row(&self) -> &'static Row {
        self.row
    }
}

impl PartialEq for Change {
    fn eq(&self, other: &Change) -> bool {
        self.line == other.line
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)
    }
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)
    }
}

impl Schedule {
    /// The schedule of `changes`, whose times count from zero.
    pub(super) fn new(changes: &[Change]) -> Schedule {
        let next = changes.iter().map(|change| change.from).min().unwrap_or(Duration::MAX);
        Schedule { changes: changes.to_vec(), next, zero: Some(Duration::ZERO) }
    }

    /// Counts its times from `zero` on; nothing changes while that is `None`.
    pub(super) fn count_from(&mut self, zero: Option<Duration>) {
        (self.zero, self.next) = (zero, Duration::ZERO);
    }

    /// The rows that it changes.
    pub(super) fn rows(&self) -> impl Iterator<Item = &'static Row> {
        self.changes.iter().map(|change| change.row)
    }

    /// Whether something has changed by `now` that was not asked for yet; then look up each value.
    pub(super) fn is_due(&mut self, now: Duration) -> bool {
        let now = now.saturating_sub(self.zero.unwrap_or_default());
        if now < self.next {
            return false;
        }
        let times = self.changes.iter().flat_map(|change| [change.from, change.until]);
        let next = times.filter(|time| *time > now && self.zero.is_some()).min();
        self.next = next.unwrap_or(Duration::MAX);
        true
    }

    /// The value that `row` has at `now`: of the lines in force the one that began last; nothing when none is.
    pub(super) fn value(&self, row: &Row, now: Duration) -> Option<&str> {
        let now = now.saturating_sub(self.zero?);
        let mut of_row = self.changes.iter().filter(|change| change.row.key == row.key);
        let mut found: Option<&Change> = None;
        for change in of_row.by_ref().filter(|change| (change.from..change.until).contains(&now)) {
            found = found.filter(|before| before.from > change.from).or(Some(change));
        }
        found.map(|change| change.value.as_str())
    }
}

const FORM: StageError = StageError::Form("at 10s down for 20s, or at 30s loss 1%");
