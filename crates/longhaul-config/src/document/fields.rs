//! Reads tables key by key: which keys may stand there is a table of [`Key`]s, and a value that is wrong is a [`Fault`] with
//! its place.

use super::problem::Findings;
use crate::suggest;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value of the file, with its place.
pub type Written<'t> = Spanned<DeValue<'t>>;

/// What is wrong with one value: its key, its place, what to write instead.
pub struct Fault {
    /// The part of the key below the row's own, such as `.mss`; empty when it is the row's own.
    pub below: String,
    /// Where the value stands.
    pub span: Range<usize>,
    /// What is wrong and what to write.
    pub text: String,
}

/// One key that may stand in a `T`.
pub struct Key<T: 'static> {
    /// Its name.
    pub name: &'static str,
    /// What to write when it is missing, for keys that must be there.
    pub required: Option<&'static str>,
    /// Reads its value into the model.
    pub read: fn(&mut T, &Written<'_>) -> Result<(), Vec<Fault>>,
}

/// Where the values of a table stand, by key; those of inner tables as `dial.mss`. Only what was read well.
pub struct Places(Vec<(String, Range<usize>)>);

impl Places {
    /// Where the value of `key` stands.
    pub fn find(&self, key: &str) -> Option<Range<usize>> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, span)| span.clone())
    }
}

/// What may stand in a table.
pub struct Shape<T: 'static> {
    /// What stands before its keys in messages.
    pub prefix: &'static str,
    /// The keys that are read here.
    pub keys: &'static [Key<T>],
    /// Names of inner tables that somebody else reads, and how one writes them.
    pub tables: &'static [(&'static str, &'static str)],
}

/// Reads every key of `table` into `model`.
pub fn fields<T>(findings: &mut Findings<'_>, shape: &Shape<T>, table: &DeTable<'_>, model: &mut T) -> Places {
    fields_or(findings, shape, table, model, |_| None)
}

/// The same; of a key that does not belong here `elsewhere` says where it does and what to write there, where it knows.
pub fn fields_or<T>(
    findings: &mut Findings<'_>,
    shape: &Shape<T>,
    table: &DeTable<'_>,
    model: &mut T,
    elsewhere: impl Fn(&str) -> Option<String>,
) -> Places {
    let mut places = Places(Vec::new());
    for (name, given) in table {
        let (span, name) = (name.span(), name.get_ref().as_ref());
        if shape.tables.iter().any(|(table, _)| *table == name) {
            continue;
        }
        let Some(key) = shape.keys.iter().find(|key| key.name == name) else {
            let text = elsewhere(name).map(|text| format!("{}{name}: {text}", shape.prefix));
            findings.error(span, text.unwrap_or_else(|| unknown(shape, name)));
            continue;
        };
        match (key.read)(model, given) {
            Ok(()) => note(&mut places, name, given),
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

fn note(places: &mut Places, name: &str, given: &Written<'_>) {
    places.0.push((name.into(), given.span()));
    if let DeValue::Table(inner) = given.get_ref() {
        places.0.extend(inner.iter().map(|(key, value)| (format!("{name}.{}", key.get_ref()), value.span())));
    }
}

fn unknown<T>(shape: &Shape<T>, name: &str) -> String {
    let written = |key| shape.tables.iter().find(|(table, _)| *table == key).map_or(key, |(_, written)| *written);
    let known: Vec<&str> =
        shape.keys.iter().map(|key| key.name).chain(shape.tables.iter().map(|(table, _)| *table)).collect();
    let shown: String = name.chars().take(40).collect();
    format!("{}{shown}: {}", shape.prefix, no_such_key(name, &known, written))
}

/// That `name` is none of the keys `known`, and which one was probably meant; `written` shows a key as one writes it.
fn no_such_key<'k>(name: &str, known: &[&'k str], written: impl Fn(&'k str) -> &'k str) -> String {
    let meant = match suggest::nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean {}?", written(near)),
        None => format!("the keys here are {}", known.iter().map(|key| written(key)).collect::<Vec<_>>().join(", ")),
    };
    format!("there is no such key; {meant}")
}

/// Says which required keys the `table` named `title` at `span` lacks.
pub fn required<T>(
    findings: &mut Findings<'_>,
    keys: &[Key<T>],
    (title, table, span): (&str, &DeTable<'_>, Range<usize>),
) {
    for key in keys {
        if let (Some(example), false) = (key.required, table.contains_key(key.name)) {
            findings.error(span.clone(), format!("this {title} has no {}; write {example}", key.name));
        }
    }
}

/// Reads the keys of a table that stands as a value, such as `{ rtt = "63ms" }`, into `model`.
pub fn inner<T>(keys: &[Key<T>], given: &Written<'_>, model: &mut T) -> Result<(), Vec<Fault>> {
    let DeValue::Table(table) = given.get_ref() else {
        let example = keys.first().map_or("KEY", |key| key.name);
        return Err(fault(given, format!("it is {}; write {{ {example} = .. }}", kind(given.get_ref()))));
    };
    let mut faults = Vec::new();
    for (name, value) in table {
        let name = name.get_ref().as_ref();
        let Some(key) = keys.iter().find(|key| key.name == name) else {
            let known: Vec<&str> = keys.iter().map(|key| key.name).collect();
            let shown: String = name.chars().take(40).collect();
            faults.push(Fault {
                below: format!(".{shown}"),
                span: value.span(),
                text: no_such_key(name, &known, |key| key),
            });
            continue;
        };
        if let Err(wrong) = (key.read)(model, value) {
            faults.extend(wrong.into_iter().map(|fault| Fault { below: format!(".{name}{}", fault.below), ..fault }));
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

/// A key that may be left out.
pub const fn key<T>(name: &'static str, read: fn(&mut T, &Written<'_>) -> Result<(), Vec<Fault>>) -> Key<T> {
    Key { name, required: None, read }
}

/// A single value, read by `parse` whatever its TOML type: `listen = 6000` and `listen = "6000"` mean the same.
pub fn one<T>(given: &Written<'_>, parse: impl Fn(&str) -> Result<T, String>) -> Result<T, Vec<Fault>> {
    match scalar(given.get_ref()) {
        Some(text) => parse(&text).map_err(|text| fault(given, text)),
        None => Err(fault(given, format!("it is {}; write one value", kind(given.get_ref())))),
    }
}

/// One value, or a list of them.
pub fn several<T>(given: &Written<'_>, parse: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, Vec<Fault>> {
    let DeValue::Array(list) = given.get_ref() else { return one(given, parse).map(|value| vec![value]) };
    let mut values = Vec::new();
    let mut faults = Vec::new();
    for element in list {
        match one(element, &parse) {
            Ok(value) => values.push(value),
            Err(wrong) => faults.extend(wrong),
        }
    }
    if faults.is_empty() { Ok(values) } else { Err(faults) }
}

/// The text of a value that is neither list nor table.
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

/// What TOML calls it, with its article.
pub fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
        _ => "a single value",
    }
}

/// What is wrong with the whole of a value.
pub fn fault(given: &Written<'_>, text: impl Into<String>) -> Vec<Fault> {
    vec![Fault { below: String::new(), span: given.span(), text: text.into() }]
}
