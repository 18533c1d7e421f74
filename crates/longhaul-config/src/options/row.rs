//! One socket option: the columns of the option table.

use longhaul_sys::Result;
use longhaul_sys::sockopt::Opt;
use std::fmt;
use std::os::fd::BorrowedFd;

/// One option: everything that longhaul knows of it.
#[derive(Debug)]
pub struct Row {
    /// Name in a config file, after `--set accept.` and in documentation. Unique on each leg.
    pub key: &'static str,
    /// Unit of its value.
    pub unit: Unit,
    /// The smallest and largest number allowed, both included; for [`Unit::Name`] and [`Unit::Switch`] unused.
    pub range: (u64, u64),
    /// Words that stand for a number, such as `off` or `ef`; allowed whatever the range.
    pub words: &'static [(&'static str, u64)],
    /// Legs on which it makes sense.
    pub legs: Legs,
    /// Its value when it is not configured.
    pub preset: Preset,
    /// Purpose in a few words, for a line in a table; without a full stop. The manual prints it before `help`.
    pub short: &'static str,
    /// The rest of the manual, in whole sentences; may be empty.
    pub help: &'static str,
    /// Harm that it can do when it is set; empty when none is known. `longhaul check` prints it.
    pub caution: &'static str,
    /// The man page or RFC.
    pub source: &'static str,
    /// A value to show in documentation and to set in the test.
    pub sample: &'static str,
    /// Kernel or relay: which of them obeys it, and by which calls.
    pub kind: Kind,
    /// Whether the value read back agrees with the value that was set: `agrees(asked, got)`. TCP_DEFER_ACCEPT, for one, rounds.
    pub agrees: fn(&Value, &Value) -> bool,
    /// Remedy when they do not agree; empty when none is known.
    pub clamped: &'static str,
    /// Whether the kernel refuses it on a socket of Multipath TCP (tried on Linux 6.18).
    pub mptcp_refuses: bool,
    /// Whether a socket that listens already takes this value, whatever it had, and hands it to what it accepts from then on.
    pub live: fn(&Value) -> bool,
    /// Remedy for an errno.
    pub remedies: &'static [(i32, &'static str)],
}

/// Kernel or relay: which of them obeys an option, and the calls that set it and read it back.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A kernel option whose value is one int, the same when read back.
    Int(Opt),
    /// A number with calls of its own, in the unit of the row.
    Number {
        /// Sets it.
        set: fn(BorrowedFd<'_>, u64) -> Result<()>,
        /// Reads it.
        get: fn(BorrowedFd<'_>) -> Result<u64>,
    },
    /// A word with calls of its own.
    Word {
        /// Sets it.
        set: fn(BorrowedFd<'_>, &str) -> Result<()>,
        /// Reads it.
        get: fn(BorrowedFd<'_>) -> Result<String>,
    },
    /// A switch that chooses the protocol: an argument of socket(2), so it can only be read.
    Protocol {
        /// Whether the socket was made with it.
        get: fn(BorrowedFd<'_>) -> Result<bool>,
    },
    /// The relay itself obeys it; the kernel is never told.
    Relay,
}

/// Unit of an option's value; decides how it is read from a config file and how it is printed.
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
    /// Value of [`Unit::Switch`].
    Switch(bool),
    /// Value of every unit that is counted.
    Number(u64),
    /// Value of [`Unit::Name`].
    Name(String),
}

/// When an option takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// When the socket is made: it is an argument of socket(2).
    Socket,
    /// Before listen(2) or connect(2). An accepted socket inherits it from its listener.
    Start,
    /// In the relay, while a flow lives.
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

/// Value of an option that is not configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// longhaul sets this value, written as in a config file.
    Ours(&'static str),
    /// longhaul leaves it alone; in words, what that means.
    Kernel(&'static str),
}

impl Row {
    /// Returns when the option takes effect.
    pub fn when(&self) -> When {
        match self.kind {
            Kind::Int(_) | Kind::Number { .. } | Kind::Word { .. } => When::Start,
            Kind::Protocol { .. } => When::Socket,
            Kind::Relay => When::Flow,
        }
    }

    /// Reads the option's value from `socket`; `None` for an option that the kernel does not know.
    ///
    /// # Errors
    /// getsockopt(2) failed.
    pub fn read(&self, socket: BorrowedFd<'_>) -> Result<Option<Value>> {
        let got = match self.kind {
            Kind::Int(opt) => opt.get(socket).map(|number| match self.unit {
                Unit::Switch => Value::Switch(number != 0),
                _ => Value::Number(number.into()),
            }),
            Kind::Number { get, .. } => get(socket).map(Value::Number),
            Kind::Word { get, .. } => get(socket).map(Value::Name),
            Kind::Protocol { get } => get(socket).map(Value::Switch),
            Kind::Relay => return Ok(None),
        };
        got.map(Some)
    }
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

    /// Returns `accept` or `dial`, as in a config file.
    pub fn name(self) -> &'static str {
        match self {
            Leg::Accept => "accept",
            Leg::Dial => "dial",
        }
    }

    /// Returns the flow's other leg.
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

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Switch(on) => write!(f, "{on}"),
            Value::Number(number) => write!(f, "{number}"),
            Value::Name(name) => f.write_str(name),
        }
    }
}
