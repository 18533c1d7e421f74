//! A row: one key of a configuration file, with everything that belongs to the key.

use crate::document::{Fault, Field, Spellings, Written, bare_number, fault, kind, one, scalar, several, twice};
use crate::options::{self, Leg, LegOptions, Unit};
use crate::remark::{Remark, Syntax};
use toml::de::DeValue;

/// One key of a table whose values are stored in an `M`.
pub struct Row<M: 'static> {
    /// Name in the file, with underscores.
    pub name: &'static str,
    /// The value without the key.
    pub default: KeyDefault,
    /// A value as written in a file, with its quotes.
    pub example: &'static str,
    /// The flag of `longhaul relay`, where there is one.
    pub flag: Option<Flag>,
    /// Parses a value and stores it.
    pub value: KeyValue<M>,
    /// Returns the line of `longhaul check` about the value, where there is something to say.
    pub show: fn(&M) -> Option<String>,
    /// Returns the errors and warnings about the value, alone or beside the others, once all are read.
    pub check: fn(&M, Syntax) -> Vec<Remark>,
    /// Description in docs/configuration.md, in Markdown, without default and example.
    pub doc: &'static str,
}

/// The value of a key that is not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyDefault {
    /// The key must be written.
    Required,
    /// The key must be written in a file. Its flag has this default.
    RequiredInFile(&'static str),
    /// This value, as written in a file.
    Value(&'static str),
    /// No value; the words say what holds instead: `no limit`.
    Words(&'static str),
}

/// A flag of `longhaul relay`.
#[derive(Clone, Copy)]
pub struct Flag {
    /// Name without dashes in front.
    pub name: &'static str,
    /// The argument after it.
    pub argument: Argument,
    /// Description in one line for `-h`: up to 47 characters, with the default.
    pub short: &'static str,
    /// More for `--help` and the manual page; may be empty.
    pub long: &'static str,
}

/// The argument of a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// A value; the text stands for it in the help: `COUNT`.
    Named(&'static str),
    /// None: the flag sets the key to this value.
    Means(&'static str),
}

/// Parser of a value. For a bad value, each function returns one clause: the mistake, and what to write.
pub enum KeyValue<M: 'static> {
    /// One value.
    One(fn(&mut M, &str) -> Result<(), String>),
    /// One number, which has no quotes in a file.
    Number(fn(&mut M, &str) -> Result<(), String>),
    /// One value or a list.
    Several {
        /// Adds one element.
        add: fn(&mut M, &str) -> Result<(), String>,
        /// Error for an empty list.
        empty: &'static str,
    },
    /// A table of socket options.
    Options {
        /// The leg that has the options.
        leg: Leg,
        /// Returns the leg's options.
        of: fn(&mut M) -> &mut LegOptions,
    },
}

// Derived, they would need an `M` that can be copied.
impl<M> Copy for Row<M> {}
impl<M> Copy for KeyValue<M> {}

impl<M> Clone for Row<M> {
    fn clone(&self) -> Row<M> {
        *self
    }
}

impl<M> Clone for KeyValue<M> {
    fn clone(&self) -> KeyValue<M> {
        *self
    }
}

impl<M> Row<M> {
    /// Returns the default that the flag of this row has: a value without quotes.
    pub fn flag_default(&self) -> Option<&'static str> {
        match self.default {
            KeyDefault::Value(value) | KeyDefault::RequiredInFile(value) => Some(value.trim_matches('"')),
            KeyDefault::Required | KeyDefault::Words(_) => None,
        }
    }

    /// Parses `text`, one value from the command line, and stores it in `model`.
    ///
    /// # Errors
    /// The fault in the value and what to write instead.
    pub fn set(&self, model: &mut M, text: &str) -> Result<(), String> {
        match self.value {
            KeyValue::One(set) | KeyValue::Number(set) => set(model, text),
            KeyValue::Several { add, .. } => add(model, text),
            KeyValue::Options { .. } => Err("write a table of socket options".into()),
        }
    }
}

impl<M> Field for Row<M> {
    type Model = M;

    fn name(&self) -> &'static str {
        self.name
    }

    fn required(&self) -> Option<String> {
        let is_required = matches!(self.default, KeyDefault::Required | KeyDefault::RequiredInFile(_));
        is_required.then(|| format!("{} = {}", self.name, self.example))
    }

    fn read(&self, model: &mut M, given: &Written<'_>) -> Result<(), Vec<Fault>> {
        match self.value {
            KeyValue::One(set) => one(given, |text| set(model, text)),
            KeyValue::Number(set) => {
                bare_number(given).map_err(|text| fault(given, text))?;
                one(given, |text| set(model, text))
            }
            KeyValue::Several { add, empty } => {
                let added = several(given, |text| add(model, text))?;
                if added.is_empty() { Err(fault(given, empty)) } else { Ok(()) }
            }
            KeyValue::Options { leg, of } => read_options(of(model), leg, given),
        }
    }
}

/// Reads the options of `leg` into `options`.
///
/// # Errors
/// All faults in the table.
fn read_options(options: &mut LegOptions, leg: Leg, given: &Written<'_>) -> Result<(), Vec<Fault>> {
    let DeValue::Table(table) = given.get_ref() else {
        let text = format!("it is {}; write {} = {{ nodelay = true }}", kind(given.get_ref()), leg.name());
        return Err(fault(given, text));
    };
    let mut faults = Vec::new();
    let spellings = Spellings::of(table);
    for (key, value) in table {
        let name = key.get_ref();
        let set = match (spellings.earlier(name, key.span().start), scalar(value.get_ref())) {
            (Some(first), _) => Err(twice(first)),
            (None, Some(text)) => {
                let is_count = options::row(leg, &name.replace('_', "-")).is_some_and(|row| row.unit == Unit::Count);
                let bare = if is_count { bare_number(value) } else { Ok(()) };
                bare.and_then(|()| options.set(leg, name, &text))
            }
            (None, None) => Err(format!("it is {}; write one value", kind(value.get_ref()))),
        };
        faults.extend(set.err().map(|text| Fault { below: format!(".{name}"), span: value.span(), text }));
    }
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

/// For [`Row::show`]: there is no line.
pub(crate) fn no_line<M>(_: &M) -> Option<String> {
    None
}

/// For [`Row::show`]: the values of a list.
pub(crate) fn list(values: &[impl ToString]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
