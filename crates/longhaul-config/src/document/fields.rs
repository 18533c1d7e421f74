//! Reads tables key by key. A list of [`Field`]s defines the keys that a table may have. A wrong value is a [`Fault`] with its
//! place.
//!
//! Keys may be written with `-` or `_`, because flags have dashes, keys of a file have underscores, and users mix them up.

use super::problem::Findings;
use crate::suggest;
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value of the file and its place.
pub type Written<'t> = Spanned<DeValue<'t>>;

/// A mistake in one value.
pub struct Fault {
    /// Path from the row's key to the wrong key, such as `.mss`; empty if the row's own value is wrong.
    pub below: String,
    /// Byte range of the value.
    pub span: Range<usize>,
    /// Names the mistake and what to write instead.
    pub text: String,
}

/// One key that a table may have. Its value is stored in a `Model`.
pub trait Field {
    /// Type that stores the values of the table.
    type Model;

    /// Returns the key's name.
    fn name(&self) -> &'static str;

    /// Returns the line to write if the key is missing; `None` for an optional key.
    fn required(&self) -> Option<String>;

    /// Reads the key's value into `model`.
    ///
    /// # Errors
    /// All faults in the value.
    fn read(&self, model: &mut Self::Model, given: &Written<'_>) -> Result<(), Vec<Fault>>;
}

/// A [`Field`] that consists only of a name and a function that reads its value.
pub struct Key<T: 'static> {
    /// Name of the key.
    pub name: &'static str,
    /// The line to write if the key is missing; `None` for an optional key.
    pub required: Option<&'static str>,
    /// Reads the value into the model.
    pub read: fn(&mut T, &Written<'_>) -> Result<(), Vec<Fault>>,
}

impl<T> Field for Key<T> {
    type Model = T;

    fn name(&self) -> &'static str {
        self.name
    }

    fn required(&self) -> Option<String> {
        self.required.map(Into::into)
    }

    fn read(&self, model: &mut T, given: &Written<'_>) -> Result<(), Vec<Fault>> {
        (self.read)(model, given)
    }
}

/// Places of the valid values of a table, by key. Keys of inner tables are written as `dial.mss`.
pub struct KeyPlaces {
    /// By key; `_` is written as `-`.
    spans: HashMap<String, Range<usize>>,
}

impl KeyPlaces {
    /// Returns the byte range of the value of `key`.
    pub fn find(&self, key: &str) -> Option<Range<usize>> {
        self.spans.get(&key.replace('_', "-")).cloned()
    }

    /// Adds the place of the value `given` of the key `name`, and those of its inner table.
    fn add(&mut self, name: &str, given: &Written<'_>) {
        let plain = |key: &str| key.replace('_', "-");
        self.spans.insert(plain(name), given.span());
        if let DeValue::Table(inner) = given.get_ref() {
            let spans = inner.iter().map(|(key, value)| (plain(&format!("{name}.{}", key.get_ref())), value.span()));
            self.spans.extend(spans);
        }
    }
}

/// The keys and inner tables that a table may have.
pub struct Shape<K: 'static> {
    /// Text before the keys in messages.
    pub prefix: &'static str,
    /// Keys that are read here.
    pub keys: &'static [K],
    /// Inner tables that are read elsewhere: name, and form in the file.
    pub tables: &'static [(&'static str, &'static str)],
    /// Returns where a misplaced key belongs and what to write there; `None` for a word that is no key. Called with the key and
    /// the first line in brackets of the file, if it has one.
    pub elsewhere: fn(&str, Option<&str>) -> Option<String>,
}

/// Reads every key of `table` into `model`.
pub fn fields<K: Field>(
    findings: &mut Findings<'_>,
    shape: &Shape<K>,
    table: &DeTable<'_>,
    model: &mut K::Model,
) -> KeyPlaces {
    let mut places = KeyPlaces { spans: HashMap::new() };
    let entries = entries(shape, table);
    let spellings = Spellings::among(entries.iter().map(|(name, span, _)| (name.as_ref(), span.start)));
    for (name, span, given) in &entries {
        let (name, span) = (name.as_ref(), span.clone());
        if shape.tables.iter().any(|(table, _)| *table == name) {
            continue;
        }
        if let Some(first) = spellings.earlier(name, span.start) {
            findings.error(span, format!("{}{name}: {}", shape.prefix, twice(first)));
            continue;
        }
        let Some(key) = shape.keys.iter().find(|key| same_key(key.name(), name)) else {
            let text = (shape.elsewhere)(name, findings.first_header().as_deref())
                .map(|text| format!("{}{name}: {text}", shape.prefix));
            findings.error(span, text.unwrap_or_else(|| unknown(shape, name)));
            continue;
        };
        match key.read(model, given) {
            Ok(()) => places.add(name, given),
            Err(faults) => {
                for Fault { below, span, text } in faults {
                    let text = format!("{}{name}{below} = {}: {text}", shape.prefix, findings.written(&span));
                    findings.error(span, text);
                }
            }
        }
    }
    places
}

/// Returns the entries of `table`, each with the place of its key. Those of an inner table whose keys are of this `shape`, such
/// as `ftp.ports`, come under their whole names.
fn entries<'t, K: Field>(
    shape: &Shape<K>,
    table: &'t DeTable<'_>,
) -> Vec<(Cow<'t, str>, Range<usize>, &'t Written<'t>)> {
    let mut entries = Vec::new();
    for (name, given) in table {
        let (span, name) = (name.span(), name.get_ref().as_ref());
        let is_prefix = |key: &K| key.name().split_once('.').is_some_and(|(prefix, _)| same_key(prefix, name));
        match given.get_ref() {
            DeValue::Table(inner) if shape.keys.iter().any(is_prefix) => entries.extend(
                inner.iter().map(|(key, value)| (format!("{name}.{}", key.get_ref()).into(), key.span(), value)),
            ),
            _ => entries.push((name.into(), span, given)),
        }
    }
    entries
}

/// Returns whether two keys differ at most in `-` and `_`.
pub fn same_key(a: &str, b: &str) -> bool {
    let plain = |byte| if byte == b'_' { b'-' } else { byte };
    a.len() == b.len() && a.bytes().map(plain).eq(b.bytes().map(plain))
}

/// The first spelling of each key of a table; `-` and `_` count as equal.
pub struct Spellings<'t>(HashMap<String, (usize, &'t str)>);

impl<'t> Spellings<'t> {
    /// Returns the spellings of the keys of `table`.
    pub fn of(table: &'t DeTable<'_>) -> Spellings<'t> {
        Spellings::among(table.keys().map(|key| (key.get_ref().as_ref(), key.span().start)))
    }

    /// Returns the spellings among `keys`, each with the byte at which it begins.
    fn among(keys: impl Iterator<Item = (&'t str, usize)>) -> Spellings<'t> {
        let mut first: HashMap<String, (usize, &str)> = HashMap::new();
        for (name, start) in keys {
            let known = first.entry(name.replace('_', "-")).or_insert((start, name));
            if start < known.0 {
                *known = (start, name);
            }
        }
        Spellings(first)
    }

    /// Returns the spelling of `name` that begins before byte `start`, such as `max-flows` above `max_flows`.
    pub fn earlier(&self, name: &str, start: usize) -> Option<&'t str> {
        self.0.get(&name.replace('_', "-")).filter(|(first, _)| *first < start).map(|(_, name)| *name)
    }
}

/// Returns a clause about a key in a table that already has it, spelled `first`. Equal spellings are an error of TOML.
pub fn twice(first: &str) -> String {
    format!("this key is already set, as {first}; write it once")
}

fn unknown<K: Field>(shape: &Shape<K>, name: &str) -> String {
    let written = |key| shape.tables.iter().find(|(table, _)| *table == key).map_or(key, |(_, written)| *written);
    let known: Vec<&str> =
        shape.keys.iter().map(Field::name).chain(shape.tables.iter().map(|(table, _)| *table)).collect();
    let shown: String = name.chars().take(40).collect();
    format!("{}{shown}: {}", shape.prefix, no_such_key(name, &known, written))
}

/// Returns a clause about `name`, which is none of the keys `known`: the key that is probably meant, or all of them.
/// `written` returns the form of a key in the file.
fn no_such_key<'k>(name: &str, known: &[&'k str], written: impl Fn(&'k str) -> &'k str) -> String {
    let meant = match suggest::nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean {}?", written(near)),
        None => format!("the keys here are {}", known.iter().map(|key| written(key)).collect::<Vec<_>>().join(", ")),
    };
    format!("there is no such key; {meant}")
}

/// Adds an error for each required key missing in `table`. Messages call the table `title`; it is at `span`.
pub fn required<K: Field>(
    findings: &mut Findings<'_>,
    keys: &[K],
    title: &str,
    table: &DeTable<'_>,
    span: Range<usize>,
) {
    for key in keys {
        let is_there = table.keys().any(|name| same_key(name.get_ref(), key.name()));
        if let (Some(example), false) = (key.required(), is_there) {
            findings.error(span.clone(), format!("this {title} has no {}; write {example}", key.name()));
        }
    }
}

/// Reads the keys of an inline table such as `{ rtt = "63ms" }` into `model`.
///
/// # Errors
/// All faults in the table.
pub fn inner<K: Field>(keys: &[K], given: &Written<'_>, model: &mut K::Model) -> Result<(), Vec<Fault>> {
    let DeValue::Table(table) = given.get_ref() else {
        let example = keys.first().map_or("KEY", Field::name);
        return Err(fault(given, format!("it is {}; write {{ {example} = .. }}", kind(given.get_ref()))));
    };
    let mut faults = Vec::new();
    let spellings = Spellings::of(table);
    for (key, value) in table {
        let name = key.get_ref().as_ref();
        let shown: String = name.chars().take(40).collect();
        let wrong = |text: String| Fault { below: format!(".{shown}"), span: value.span(), text };
        if let Some(first) = spellings.earlier(name, key.span().start) {
            faults.push(wrong(twice(first)));
            continue;
        }
        let Some(key) = keys.iter().find(|key| same_key(key.name(), name)) else {
            let known: Vec<&str> = keys.iter().map(Field::name).collect();
            faults.push(wrong(no_such_key(name, &known, |key| key)));
            continue;
        };
        if let Err(wrong) = key.read(model, value) {
            faults.extend(wrong.into_iter().map(|fault| Fault { below: format!(".{name}{}", fault.below), ..fault }));
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

/// Returns an optional key.
pub const fn key<T>(name: &'static str, read: fn(&mut T, &Written<'_>) -> Result<(), Vec<Fault>>) -> Key<T> {
    Key { name, required: None, read }
}

/// Parses a single value of any TOML type: `listen = 6000` and `listen = "6000"` mean the same.
///
/// # Errors
/// The value is a list or a table, or `parse` refuses it.
pub fn one<T>(given: &Written<'_>, mut parse: impl FnMut(&str) -> Result<T, String>) -> Result<T, Vec<Fault>> {
    match scalar(given.get_ref()) {
        Some(text) => parse(&text).map_err(|text| fault(given, text)),
        None => Err(fault(given, format!("it is {}; write one value", kind(given.get_ref())))),
    }
}

/// Checks that the value of a key whose values are digits is not a text of digits.
///
/// # Errors
/// It is one. The clause says what to write.
pub fn bare_number(given: &Written<'_>) -> Result<(), String> {
    match given.get_ref() {
        DeValue::String(text) if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Err(format!("a number has no quotes; write {text}"))
        }
        _ => Ok(()),
    }
}

/// Parses one value or a list of values.
///
/// # Errors
/// All faults in the list.
pub fn several<T>(given: &Written<'_>, mut parse: impl FnMut(&str) -> Result<T, String>) -> Result<Vec<T>, Vec<Fault>> {
    let DeValue::Array(list) = given.get_ref() else { return one(given, parse).map(|value| vec![value]) };
    let mut values = Vec::new();
    let mut faults = Vec::new();
    for element in list {
        match one(element, &mut parse) {
            Ok(value) => values.push(value),
            Err(wrong) => faults.extend(wrong),
        }
    }
    if faults.is_empty() { Ok(values) } else { Err(faults) }
}

/// Returns the text of a single value; `None` for a list or a table.
pub fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.to_string()),
        DeValue::Float(number) => Some(number.to_string()),
        DeValue::Boolean(on) => Some(on.to_string()),
        DeValue::Datetime(time) => Some(time.to_string()),
        DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

/// Returns the kind of `value` with its article: `a list`, `a table` or `a single value`.
pub fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
        _ => "a single value",
    }
}

/// Returns one fault about the whole value.
pub fn fault(given: &Written<'_>, text: impl Into<String>) -> Vec<Fault> {
    vec![Fault { below: String::new(), span: given.span(), text: text.into() }]
}
