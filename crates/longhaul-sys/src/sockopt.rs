//! Socket options as one table. A row is the whole feature: config key, `--set`, help, documentation, setting, reading
//! back and the test all come from it, so adding an option is adding a row to [`ROWS`] in `sockopt/table.rs`.

mod table;

use crate::Result;
use std::fmt;
use std::os::fd::BorrowedFd;

pub use table::ROWS;

/// What an option's value is measured in; decides how it is read from a config file and how it is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// `true` or `false`.
    Switch,
    /// A number of bytes.
    Bytes,
    /// A time, kept in milliseconds.
    Millis,
    /// A time, kept in whole seconds.
    Seconds,
    /// A bare number.
    Count,
    /// A rate, kept in bits per second.
    BitsPerSecond,
    /// A word.
    Name,
}

/// The value of an option, in the unit of its row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// For [`Unit::Switch`].
    Switch(bool),
    /// For every unit that is counted.
    Number(u64),
    /// For [`Unit::Name`].
    Name(String),
}

/// When an option takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// It chooses the protocol, so it is an argument of socket(2).
    Socket,
    /// Before listen(2) or connect(2). An accepted socket inherits it from its listener.
    Start,
    /// Only once the connection is up, on both legs.
    Connected,
    /// Never told to the kernel: the relay itself obeys it.
    Flow,
}

/// The legs on which an option makes sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Legs {
    /// Either leg.
    Both,
    /// Only the accept leg, that is, its listener.
    Accept,
    /// Only the dial leg.
    Dial,
}

/// One option: everything that longhaul knows of it.
#[derive(Debug)]
pub struct Row {
    /// Its name in a config file, after `--set accept.` and in documentation.
    pub key: &'static str,
    /// What its value is measured in.
    pub unit: Unit,
    /// The smallest and largest number allowed, both included; for [`Unit::Name`] and [`Unit::Switch`] unused.
    pub range: (u64, u64),
    /// When it takes effect.
    pub when: When,
    /// Where it makes sense.
    pub legs: Legs,
    /// What holds when it is not configured, in words, with its unit.
    pub default: &'static str,
    /// What it is for, one or two sentences.
    pub help: &'static str,
    /// The man page or RFC.
    pub source: &'static str,
    /// A value to show in documentation and to set in the test.
    pub sample: &'static str,
    /// Tells the kernel.
    pub set: fn(BorrowedFd<'_>, &Value) -> Result<()>,
    /// Asks the kernel.
    pub get: fn(BorrowedFd<'_>) -> Result<Value>,
    /// Whether what the kernel says agrees with what it was told: `agrees(asked, got)`. SO_SNDBUF, for one, doubles.
    pub agrees: fn(&Value, &Value) -> bool,
}

/// An option that somebody asked for.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Which.
    pub row: &'static Row,
    /// What it shall be.
    pub value: Value,
}

/// An option that did not take effect as asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The option's key.
    pub key: &'static str,
    /// What was asked for.
    pub asked: Value,
    /// What the kernel has instead.
    pub got: Value,
}

/// The row of `key`, or nothing when there is no such option.
pub fn row(key: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.key == key)
}

impl Setting {
    /// Sets the option on `socket` and reads it back: `Ok(None)` when the kernel has what was asked for.
    ///
    /// # Errors
    /// The kernel refused to set or to tell it.
    pub fn apply(&self, socket: BorrowedFd<'_>) -> Result<Option<Mismatch>> {
        (self.row.set)(socket, &self.value)?;
        let got = (self.row.get)(socket)?;
        let agrees = (self.row.agrees)(&self.value, &got);
        Ok((!agrees).then(|| Mismatch { key: self.row.key, asked: self.value.clone(), got }))
    }
}

impl PartialEq for Setting {
    fn eq(&self, other: &Setting) -> bool {
        self.row.key == other.row.key && self.value == other.value
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Switch(on) => write!(f, "{on}"),
            Value::Number(number) => write!(f, "{number}"),
            Value::Name(name) => f.write_str(name),
        }
    }
}
