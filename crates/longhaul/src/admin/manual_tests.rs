//! Tests the tables of docs/admin.md that describe /status.json, and lists the names of its states.

use super::snapshot::Snapshot;
use longhaul_core::path::diagnosis::Kind;
use longhaul_core::path::limit::Limit;
use serde::Deserialize;
use serde::de::value::{Error, MapAccessDeserializer, MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, Deserializer, IntoDeserializer, Visitor};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

const DOCUMENT: &str = include_str!("../../../../docs/admin.md");

/// Returns the names of the states in /status.json: those of the process, of tunnels, next hops and flows.
pub(super) fn states() -> BTreeSet<&'static str> {
    let words = RefCell::default();
    Snapshot::deserialize(Full { words: &words, variant: 0 }).unwrap();
    words.into_inner()
}

/// Returns a `T` in which every field has a value.
pub(super) fn full<T: DeserializeOwned>() -> T {
    variant(0)
}

/// Returns the same. Each enum in it has the variant of this number, and begins again behind its last one.
pub(super) fn variant<T: DeserializeOwned>(variant: usize) -> T {
    T::deserialize(Full { words: &RefCell::default(), variant }).unwrap()
}

/// A field that is added to the Snapshot needs a row in the table of its struct, and a new struct needs a table.
#[test]
fn the_manual_has_each_field_of_the_snapshot_and_no_other() {
    let snapshot: Snapshot = full();
    let mut fields = BTreeMap::new();
    collect("", &serde_json::to_value(&snapshot).unwrap(), &mut fields);
    let described = described();
    for (of, names) in &fields {
        let rows = described.get(of).unwrap_or_else(|| panic!("docs/admin.md has no table of `{of}`"));
        assert_eq!(names, rows, "the fields of `{of}`, and the rows of its table in docs/admin.md");
    }
    assert_eq!(fields.len(), described.len(), "docs/admin.md has a table of no struct: {:?}", described.keys());
    let missing: Vec<&str> = states().into_iter().filter(|word| !section().contains(&format!("`{word}`"))).collect();
    assert!(missing.is_empty(), "docs/admin.md lacks the states {missing:?}");
}

#[test]
fn the_manual_has_each_limit_of_a_leg_and_of_a_flow() {
    for limit in Limit::ALL {
        assert!(section().contains(&format!("\n| `{limit}` |")), "{limit}");
    }
    for kind in Kind::ALL {
        assert!(DOCUMENT.contains(&format!("`{kind}`")), "{kind}");
    }
}

/// Adds the names of the fields of each object in `value`, which is the value of the field `of`. docs/log.md describes the
/// counters, and a test in `longhaul-relay/src/live/counters.rs` compares them.
fn collect(of: &str, value: &Value, fields: &mut BTreeMap<String, BTreeSet<String>>) {
    match value {
        Value::Object(object) if of != "counters" => {
            object.iter().for_each(|(name, value)| collect(name, value, fields));
            let names: BTreeSet<String> = object.keys().cloned().collect();
            let others = fields.entry(of.into()).or_insert_with(|| names.clone());
            assert_eq!(*others, names, "two structs with different fields are called `{of}`");
        }
        Value::Array(values) => values.iter().for_each(|value| collect(of, value, fields)),
        _ => {}
    }
}

/// Returns the names in the first column of each table, by the fields that the line above the table names. The first table
/// describes the Snapshot itself, and that line names no field.
fn described() -> BTreeMap<String, BTreeSet<String>> {
    let mut tables: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let (mut above, mut of) = ("", Vec::new());
    for line in section().lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix("| ").and_then(|row| row.split_once(" |")) {
            Some(("field", _)) if quoted(above).is_empty() => of = vec![String::new()],
            Some(("field", _)) => of = quoted(above),
            Some((first, _)) => {
                of.iter().for_each(|of| tables.entry(of.clone()).or_default().extend(quoted(first)));
            }
            None => (above, of) = (line, Vec::new()),
        }
    }
    tables
}

/// Returns the part of the document about /status.json.
fn section() -> &'static str {
    let (_, section) = DOCUMENT.split_once("\n## /status.json\n").expect("a section about /status.json");
    section.split("\n## ").next().unwrap_or_default()
}

/// Returns the words between backquotes.
fn quoted(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(Into::into).collect()
}

/// Gives a value to every field that it is asked for: an option has one, a list has an entry, a text is an address.
#[derive(Clone, Copy)]
struct Full<'a> {
    /// Collects the names of the variants of each enum.
    words: &'a RefCell<BTreeSet<&'static str>>,
    /// Number of the variant that each enum gets.
    variant: usize,
}

impl<'de> Deserializer<'de> for Full<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str("192.0.2.1:22")
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bool(true)
    }

    fn deserialize_u8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_u8(1)
    }

    fn deserialize_u16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_u16(1)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_u32(1)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_u64(1)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_f64(1.0)
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(SeqDeserializer::new([self].into_iter()))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_map(MapDeserializer::new(fields.iter().map(|field| (*field, self))))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.words.borrow_mut().extend(variants);
        let chosen = [(variants[self.variant % variants.len()], self)].into_iter();
        visitor.visit_enum(MapAccessDeserializer::new(MapDeserializer::new(chosen)))
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i32 i64 f32 char str string bytes byte_buf unit_struct newtype_struct tuple tuple_struct map
        identifier ignored_any
    }
}

impl IntoDeserializer<'_> for Full<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}
