//! One kind of stage as a [`Row`] of the table, and a [`Setting`]: a row with a value.

use crate::{ROWS, Stage, StageError, row};
use longhaul_units::Rate;
use std::fmt;

/// One kind of stage: everything that longhaul knows of it.
#[derive(Debug)]
pub struct Row {
    /// Its name in a scenario, on the command line and in counters.
    pub key: &'static str,
    /// Its effect on packets and the form of its value, on one line of Markdown.
    pub help: &'static str,
    /// A value to show in documentation and to build in the test.
    pub sample: &'static str,
    /// Name of its [`StageCounters::events`](crate::StageCounters::events), if it has any.
    pub events: Option<&'static str>,
    /// The key of a stage that must be there too; it is added with an empty value if it is not.
    pub needs: Option<&'static str>,
    /// Facts for laws and reports.
    pub traits: Traits,
    /// Makes the stage from its value as a person wrote it, and a seed for its randomness; `None` when the value asks
    /// for nothing (`0`), so that a packet need not pass it.
    pub build: fn(&str, u64) -> Built,
}

/// A stage, nothing when its value asks for nothing, or the reason why the value is refused.
pub type Built = Result<Option<Box<dyn Stage>>, StageError>;

/// Facts about a kind of stage, for those who compute or explain the speed of a transfer through it.
#[derive(Debug)]
pub struct Traits {
    /// Phrase for a report that packets were dropped here: "the outage" dropped 7 of 9 segments.
    pub dropped_by: &'static str,
    /// The long-run rate that it imposes, and on what.
    pub limit: Limit,
    /// Reads that rate from the stage's value; `None` without a limit.
    pub rate: Option<fn(&str) -> Option<Rate>>,
    /// Whether it changes when packets arrive: the round trip and the rate of a link are then not one number.
    pub changes_timing: bool,
    /// Whether the speed of a transfer through it can be computed.
    pub has_closed_form: bool,
    /// Whether it makes packets longer on the wire.
    pub adds_bytes: bool,
    /// The value of the whole link that it overrides in its direction.
    pub common: Option<Common>,
}

/// The kind of rate limit that a stage imposes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// It imposes none.
    None,
    /// A line: excess packets wait in its queue.
    Line,
    /// A policer: excess packets are dropped at once.
    Policer,
}

/// The values that a link has for both directions together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Common {
    /// The round trip, half of which is the delay of each direction.
    Rtt,
    /// The rate of the line, with its queue.
    Rate,
    /// The share of segments lost at random.
    Loss,
}

/// A stage of one direction of a link: its row, and its value as a person wrote it.
///
/// The value is valid: [`Setting::read`] has built the stage from it once.
#[derive(Clone)]
pub struct Setting {
    row: &'static Row,
    value: String,
}

impl Traits {
    /// A stage that drops nothing, limits nothing, and about which nothing can be computed.
    pub(crate) const NONE: Traits = Traits {
        dropped_by: "the link",
        limit: Limit::None,
        rate: None,
        changes_timing: false,
        has_closed_form: false,
        adds_bytes: false,
        common: None,
    };
}

impl Setting {
    /// Reads the value of the stage `key`.
    ///
    /// # Errors
    /// There is no such stage, or it refuses the value.
    pub fn read(key: &str, value: &str) -> Result<Setting, StageError> {
        let row = row(key).ok_or(StageError::UnknownStage)?;
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
