//! Changes while the link runs: lines such as `at 10s down for 20s` or `at 30s loss 1%`. Times count from the link's
//! start, or from the call of `Link::begin`. Each key takes the same values as in a setting.

use crate::error::StageError;
use crate::row::Row;
use crate::stage::{KEYS, ROWS};
use std::fmt;
use std::time::Duration;

/// One line of a schedule: a stage and its value from one time on, optionally until another.
#[derive(Clone)]
pub struct Change {
    line: String,
    row: &'static Row,
    value: String,
    from: Duration,
    /// Time at which the earlier value returns; `Duration::MAX` if it never does.
    until: Duration,
}

/// All changes of a link.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    changes: Vec<Change>,
    /// Time at which the next change begins or ends.
    next: Duration,
    /// Origin of the times; `None` while the schedule is held.
    zero: Option<Duration>,
}

impl Change {
    /// Reads `at TIME KEY VALUE`, optionally followed by `for TIME`: `at 30s loss 1%`, `at 10s down for 20s`.
    ///
    /// # Errors
    /// The line has another form, no stage has that key, or the stage refuses the value.
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

    /// Reads an outage: `20s to 60s`.
    ///
    /// # Errors
    /// The text has another form, or the outage ends before it begins.
    pub fn outage(text: &str) -> Result<Change, StageError> {
        let (from, until) = text.split_once(" to ").ok_or(StageError::Form("20s to 60s"))?;
        let (from, until) = (longhaul_units::duration(from.trim())?, longhaul_units::duration(until.trim())?);
        let show = longhaul_units::show_duration;
        Change::read(&format!("at {} down for {}", show(from), show(until.saturating_sub(from))))
    }

    /// Returns the time at which the earlier value returns. `None` if it never does.
    pub fn end(&self) -> Option<Duration> {
        (self.until < Duration::MAX).then_some(self.until)
    }

    /// Returns the row of the stage that this line changes.
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
    /// Builds the schedule of `changes`; times count from zero.
    pub(super) fn new(changes: &[Change]) -> Schedule {
        let next = changes.iter().map(|change| change.from).min().unwrap_or(Duration::MAX);
        Schedule { changes: changes.to_vec(), next, zero: Some(Duration::ZERO) }
    }

    /// Counts times from `zero`; with `None` the schedule changes nothing.
    pub(super) fn count_from(&mut self, zero: Option<Duration>) {
        (self.zero, self.next) = (zero, Duration::ZERO);
    }

    /// Returns the rows of the stages that the schedule changes.
    pub(super) fn rows(&self) -> impl Iterator<Item = &'static Row> {
        self.changes.iter().map(|change| change.row)
    }

    /// Returns whether a change has begun or ended since the last call. If so, the caller looks up each value.
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

    /// Returns the scheduled value of `row` at `now`: the line in force that began last. `None` if no line is in force.
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
