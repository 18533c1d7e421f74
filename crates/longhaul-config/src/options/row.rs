//! One socket option: the columns of the option table.

use super::need::Need;
use super::since::Since;
use longhaul_sys::Result;
use longhaul_sys::sockopt::Opt;
use std::borrow::Cow;
use std::fmt;
use std::ops::RangeInclusive;
use std::os::fd::BorrowedFd;

/// Everything that longhaul knows of one option.
#[derive(Debug)]
pub struct Row {
    /// Name in a config file, after `--set accept.` and in documentation. Unique on each leg.
    pub key: &'static str,
    /// Unit of the value.
    pub unit: Unit,
    /// Valid numbers; not used for [`Unit::Name`] and [`Unit::Switch`].
    pub range: RangeInclusive<u64>,
    /// Words that stand for a number, such as `off` or `ef`; their numbers may be outside the range.
    pub words: &'static [(&'static str, u64)],
    /// Legs that can have the option.
    pub legs: &'static [Leg],
    /// Value if the option is not configured.
    pub preset: Preset,
    /// Purpose in a few words, for a line in a table; without a full stop. The manual prints it before `help`.
    pub short: &'static str,
    /// The rest of the manual, in whole sentences; may be empty.
    pub help: &'static str,
    /// Harm that the option can do; empty if none is known. `longhaul check` prints it unless the option is off.
    pub caution: &'static str,
    /// Returns a warning about a value that is probably a mistake. `longhaul check` prints it instead of `caution`.
    pub warning: fn(&Value) -> Option<String>,
    /// Needs of the option on this machine; `longhaul check` warns of those that are not met.
    pub needs: &'static [Need],
    /// The kernel that brought the option. `None` if Linux 3.10 has it.
    pub since: Option<Since>,
    /// The man page or RFC.
    pub source: &'static str,
    /// Sample value for the documentation; a test sets it.
    pub sample: &'static str,
    /// Whether kernel or relay implements the option, and the calls for it.
    pub kind: Kind,
    /// Returns whether the value read back agrees with the value set: `agrees(asked, got)`. They may differ: TCP_DEFER_ACCEPT
    /// rounds.
    pub agrees: fn(&Value, &Value) -> bool,
    /// Remedy if the values do not agree; empty if none is known.
    pub clamped: &'static str,
    /// Whether the kernel refuses the option on a Multipath TCP socket (tried on Linux 6.18).
    pub mptcp_refuses: bool,
    /// Returns whether a socket that already listens takes this value, whatever value it had, and gives it to the connections
    /// that it accepts from then on.
    pub live: fn(&Value) -> bool,
    /// Remedies for errors of the kernel; at most one for each errno.
    pub remedies: &'static [Remedy],
}

/// The remedy if the kernel refuses an option with `errno`.
#[derive(Clone, Copy, Debug)]
pub struct Remedy {
    /// The errno of setsockopt(2).
    pub errno: i32,
    /// Returns the remedy for the refused value: a clause or two.
    pub text: fn(&Value) -> Cow<'static, str>,
}

/// Implementation of an option: by the kernel, with the calls that set and read it, or by the relay.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A kernel option whose value is one int, the same when read back.
    Int(Opt),
    /// A number in the unit of the row, with its own calls.
    Number {
        /// Sets the option.
        set: fn(BorrowedFd<'_>, u64) -> Result<()>,
        /// Reads the option.
        get: fn(BorrowedFd<'_>) -> Result<u64>,
    },
    /// A word, with its own calls.
    Word {
        /// Sets the option.
        set: fn(BorrowedFd<'_>, &str) -> Result<()>,
        /// Reads the option.
        get: fn(BorrowedFd<'_>) -> Result<String>,
    },
    /// A switch that chooses the protocol. It is an argument of socket(2), so an existing socket only allows reading it.
    Protocol {
        /// Returns whether the socket was created with this protocol.
        get: fn(BorrowedFd<'_>) -> Result<bool>,
    },
    /// The relay itself implements the option; the kernel does not know it.
    Relay,
}

/// Unit of an option's value. It decides how the value is parsed and printed.
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
    /// Value of all other units.
    Number(u64),
    /// Value of [`Unit::Name`].
    Name(String),
}

/// Time at which an option takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At the creation of the socket: the option is an argument of socket(2).
    Socket,
    /// Before listen(2) or connect(2). An accepted socket inherits the option from its listener.
    Start,
    /// In the relay, during a flow.
    Flow,
}

/// One of a flow's two TCP connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leg {
    /// Connection from the client. Its options are set on the listener.
    Accept,
    /// Connection to the next hop.
    Dial,
}

/// Value of an option that is not configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// longhaul sets this value, written as in a config file.
    Ours(&'static str),
    /// longhaul does not set the option. The text describes the kernel's own behaviour.
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

impl Value {
    /// Returns whether the value turns its option off: `false` or 0.
    pub fn is_off(&self) -> bool {
        matches!(self, Value::Switch(false) | Value::Number(0))
    }
}

impl Leg {
    /// Both legs, in the order in which a flow gets them.
    pub const ALL: [Leg; 2] = [Leg::Accept, Leg::Dial];

    /// Returns its place in an array by leg, as in [`Leg::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

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
