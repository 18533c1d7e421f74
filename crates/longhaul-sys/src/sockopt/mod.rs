//! Socket options as one table. A row is the whole feature: config key, `--set`, help, documentation, setting, reading
//! back and the test all come from it, so adding an option is adding a row to [`ROWS`] in `sockopt/table.rs`.
//!
//! This file is what a row is made of and how a row is told to the kernel; `raw.rs` is the two system calls.

mod raw;
mod table;

use crate::{Result, SysError};
use std::borrow::Cow;
use std::fmt;
use std::os::fd::BorrowedFd;

pub use raw::{Opt, congestion_controls, receive_low_water, set_bind_address_no_port, set_receive_low_water};
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
    /// Never told to the kernel: the relay itself obeys it.
    Flow,
}

/// One of a flow's two TCP connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leg {
    /// Toward whoever connected to us; its options are set on the listener.
    Accept,
    /// Toward the next hop.
    Dial,
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

/// What holds when an option is not configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// longhaul sets this value, written as in a config file.
    Ours(&'static str),
    /// longhaul leaves it alone; in words, what that means.
    Kernel(&'static str),
}

/// How the kernel is told, and asked.
#[derive(Clone, Copy, Debug)]
pub enum Kernel {
    /// An option whose value is one int, the same when read back.
    Int(Opt),
    /// An option with a call sequence of its own.
    Calls {
        /// Tells the kernel.
        set: fn(BorrowedFd<'_>, &Value) -> Result<()>,
        /// Asks the kernel.
        get: fn(BorrowedFd<'_>) -> Result<Value>,
    },
    /// The kernel knows nothing of it: the relay obeys it.
    Nothing,
}

/// One option: everything that longhaul knows of it.
#[derive(Debug)]
pub struct Row {
    /// Its name in a config file, after `--set accept.` and in documentation. Unique on each leg.
    pub key: &'static str,
    /// What its value is measured in.
    pub unit: Unit,
    /// The smallest and largest number allowed, both included; for [`Unit::Name`] and [`Unit::Switch`] unused.
    pub range: (u64, u64),
    /// Words that stand for a number, such as `off` or `ef`; allowed whatever the range.
    pub words: &'static [(&'static str, u64)],
    /// When it takes effect.
    pub when: When,
    /// Where it makes sense.
    pub legs: Legs,
    /// What holds when it is not configured.
    pub preset: Preset,
    /// What it is for: the first sentence is a line in a table, all of it the manual.
    pub help: &'static str,
    /// What can go wrong for who sets it; empty when nothing is known. `longhaul check` prints it.
    pub caution: &'static str,
    /// The man page or RFC.
    pub source: &'static str,
    /// A value to show in documentation and to set in the test.
    pub sample: &'static str,
    /// How the kernel is told.
    pub kernel: Kernel,
    /// Whether what the kernel says agrees with what it was told: `agrees(asked, got)`. TCP_DEFER_ACCEPT, for one, rounds.
    pub agrees: fn(&Value, &Value) -> bool,
    /// What to do when they do not; empty when nothing is known.
    pub clamped: &'static str,
    /// Whether the kernel refuses it on a socket of Multipath TCP (tried on Linux 6.18).
    pub mptcp_refuses: bool,
    /// Whether a socket that listens already takes this value, whatever it had, and hands it to what it accepts from then on.
    pub live: fn(&Value) -> bool,
    /// What to do about an errno.
    pub remedies: &'static [(i32, &'static str)],
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
    /// What the kernel has instead, in the same unit.
    pub got: Value,
    /// What to do about it; empty when nothing is known.
    pub remedy: &'static str,
}

/// The row of `key` on `leg`, or nothing when that leg has no such option.
pub fn row(leg: Leg, key: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.key == key && row.legs.covers(leg))
}

impl Legs {
    /// Whether the option makes sense on `leg`.
    pub fn covers(self, leg: Leg) -> bool {
        matches!((self, leg), (Legs::Both, _) | (Legs::Accept, Leg::Accept) | (Legs::Dial, Leg::Dial))
    }
}

impl Leg {
    /// Both, in the order in which a flow gets them.
    pub const ALL: [Leg; 2] = [Leg::Accept, Leg::Dial];

    /// `accept` or `dial`, as in a config file.
    pub fn name(self) -> &'static str {
        match self {
            Leg::Accept => "accept",
            Leg::Dial => "dial",
        }
    }

    /// The flow's other leg.
    pub fn other(self) -> Leg {
        match self {
            Leg::Accept => Leg::Dial,
            Leg::Dial => Leg::Accept,
        }
    }
}

impl fmt::Display for Leg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Setting {
    /// Sets the option on `socket` and reads it back: `Ok(None)` when the kernel has what was asked for.
    ///
    /// # Errors
    /// The kernel refused to set or to tell it; the hint says what would help.
    pub fn apply(&self, socket: BorrowedFd<'_>) -> Result<Option<Mismatch>> {
        self.tell(socket)?;
        let got = match self.row.read(socket)? {
            Some(got) if !(self.row.agrees)(&self.value, &got) => got,
            _ => return Ok(None),
        };
        Ok(Some(Mismatch { key: self.row.key, asked: self.value.clone(), got, remedy: self.row.clamped }))
    }

    /// Sets the option on `socket` without reading it back: for every connection after the first of its kind.
    ///
    /// # Errors
    /// The kernel refused; the hint says what would help.
    pub fn tell(&self, socket: BorrowedFd<'_>) -> Result<()> {
        let told = match self.row.kernel {
            Kernel::Int(opt) => raw::set(socket, opt, &self.value),
            Kernel::Calls { set, .. } => set(socket, &self.value),
            Kernel::Nothing => Ok(()),
        };
        told.map_err(|err| self.remedied(err))
    }

    /// `err` with what to do about it, unless it says so already.
    fn remedied(&self, err: SysError) -> SysError {
        if !err.hint.is_empty() {
            return err;
        }
        let (least, most) = self.row.range;
        match self.row.remedies.iter().find(|(errno, _)| *errno == err.errno) {
            Some((_, remedy)) => err.hint(*remedy),
            None if err.errno == libc::EINVAL && most > 0 => {
                let hint = format!("{} takes {least} to {most}", self.row.key);
                err.hint(Cow::Owned(hint))
            }
            None => err,
        }
    }
}

impl Row {
    /// What the kernel says now; `None` for an option that it does not know.
    ///
    /// # Errors
    /// getsockopt(2) failed.
    pub fn read(&self, socket: BorrowedFd<'_>) -> Result<Option<Value>> {
        match self.kernel {
            Kernel::Int(opt) => raw::get(socket, opt).map(|number| match self.unit {
                Unit::Switch => Some(Value::Switch(number != 0)),
                _ => Some(Value::Number(number.into())),
            }),
            Kernel::Calls { get, .. } => get(socket).map(Some),
            Kernel::Nothing => Ok(None),
        }
    }
}

impl PartialEq for Setting {
    fn eq(&self, other: &Setting) -> bool {
        std::ptr::eq(self.row, other.row) && self.value == other.value
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: asked {}, got {}", self.key, self.asked, self.got)
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
