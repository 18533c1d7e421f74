//! The names that users' files and programs contain. Each text beside this file lists those of one kind, one a line, with the release in
//! which it came. docs/compatibility.md says what is promised of them.
//!
//! Only tests include this file: the one beside each table or document calls [`check`]. `make texts` writes the texts; read the diff.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// Compares the names of today with those of `interface/KIND.txt`. Writes that file instead if UPDATE is set.
///
/// # Panics
/// The file is another one, or a released name is gone and this version may not do that.
pub(crate) fn check(kind: &str, names: impl IntoIterator<Item = String>) {
    const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let file = format!("{ROOT}/interface/{kind}.txt");
    let before = fs::read_to_string(&file).unwrap_or_default();
    let changelog = fs::read_to_string(format!("{ROOT}/CHANGELOG.md")).expect("CHANGELOG.md");
    let names = names.into_iter().collect();
    let gone = gone(&before, &names);
    assert!(
        gone.is_empty() || may_break(last_release(&changelog), env!("CARGO_PKG_VERSION")),
        "{kind}: a release has these names, so this version must have them, too: {gone:#?}; see docs/compatibility.md"
    );
    let text = text(&before, &names);
    if std::env::var_os("UPDATE").is_some() {
        return fs::write(&file, text).expect("a text");
    }
    assert!(text == before, "interface/{kind}.txt is not that of today: run `make texts`, and read the diff");
}

/// Returns a name for each field of a kind of JSON document: its path, and its type. One of several types has several names.
///
/// # Panics
/// None of `documents` tells the type of a field: it is null, or an empty list, in all of them.
#[allow(dead_code, reason = "not every test has a document")]
pub(crate) fn fields(documents: &[Value]) -> BTreeSet<String> {
    fn collect(path: &str, value: &Value, told: &mut BTreeSet<String>, untold: &mut BTreeSet<String>) {
        let kind = match value {
            Value::Object(object) => {
                let dot = if path.is_empty() { "" } else { "." };
                return object
                    .iter()
                    .for_each(|(name, value)| collect(&format!("{path}{dot}{name}"), value, told, untold));
            }
            Value::Array(values) if !values.is_empty() => {
                return values.iter().for_each(|value| collect(&format!("{path}[]"), value, told, untold));
            }
            Value::Array(_) | Value::Null => {
                untold.insert(path.into());
                return;
            }
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "string",
        };
        told.insert(format!("{path} {kind}"));
    }
    let (mut told, mut untold) = (BTreeSet::new(), BTreeSet::new());
    documents.iter().for_each(|document| collect("", document, &mut told, &mut untold));
    let is_of = |name: &str, path: &str| name.strip_prefix(path).is_some_and(|rest| rest.starts_with([' ', '.', '[']));
    untold.retain(|path| !told.iter().any(|name| is_of(name, path)));
    assert!(untold.is_empty(), "no document tells the type of {untold:?}");
    told
}

/// Returns the text about `names`. Those of `before` keep their release.
fn text(before: &str, names: &BTreeSet<String>) -> String {
    let since: BTreeMap<&str, &str> = lines(before).map(|(since, name)| (name, since)).collect();
    names.iter().map(|name| format!("{} {name}\n", since.get(name.as_str()).unwrap_or(&NEXT))).collect()
}

/// Returns the released names of `before` that are not among `names`.
fn gone(before: &str, names: &BTreeSet<String>) -> Vec<String> {
    let released = lines(before).filter(|(since, _)| *since != NEXT);
    released.filter(|(_, name)| !names.contains(*name)).map(|(_, name)| name.into()).collect()
}

fn lines(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| line.split_once(' '))
}

/// Whether names of `last`, the last release, may go away in `version`. SemVer 4, 8: below 1.0.0 the minor version decides, otherwise
/// the major one.
fn may_break(last: Option<&str>, version: &str) -> bool {
    let numbers = |version: &str| -> Vec<u64> {
        version.split(['.', '-', '+']).take(3).map(|part| part.parse().expect(NUMBERS)).collect()
    };
    let significant = |version: &str| match numbers(version)[..] {
        [0, minor, _] => [0, minor],
        [major, _, _] => [major, 0],
        _ => panic!("{NUMBERS}"),
    };
    last.is_none_or(|last| significant(version) > significant(last))
}

/// Returns the version of the newest release in a changelog, whose heading is `## [0.1.0] - 2026-12-24`.
fn last_release(changelog: &str) -> Option<&str> {
    let mut headings = changelog.lines().filter_map(|line| line.strip_prefix("## [")?.split(']').next());
    headings.find(|version| *version != "Unreleased")
}

/// Stands for the release of a name that is not released yet.
const NEXT: &str = "next";
const NUMBERS: &str = "a version has three numbers";

mod tests {
    use super::*;

    const BEFORE: &str = "0.1.0 tunnel.listen value\nnext tunnel.new value\n0.2.0 tunnel.to list\n";

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_released_name_that_is_gone_or_has_another_type_is_found() {
        assert_eq!(gone(BEFORE, &names(&["tunnel.listen value"])), ["tunnel.to list"]);
        assert_eq!(gone(BEFORE, &names(&["tunnel.listen number", "tunnel.to list"])), ["tunnel.listen value"]);
    }

    #[test]
    fn a_new_name_is_no_fault_nor_is_one_that_goes_before_its_release() {
        let today = names(&["tunnel.also value", "tunnel.listen value", "tunnel.to list"]);
        assert!(gone(BEFORE, &today).is_empty());
        assert_eq!(text(BEFORE, &today), "next tunnel.also value\n0.1.0 tunnel.listen value\n0.2.0 tunnel.to list\n");
    }

    #[test]
    fn names_may_go_with_a_new_minor_version_before_1_0_and_a_new_major_one_after_it() {
        let changelog = "## [Unreleased]\n\n## [0.2.3] - 2027-01-01\n\n## [0.1.0] - 2026-12-24\n";
        assert_eq!((last_release(changelog), last_release("## [Unreleased]\n")), (Some("0.2.3"), None));
        for (last, version, may) in [
            (None, "0.1.0", true),
            (Some("0.2.3"), "0.2.4", false),
            (Some("0.2.3"), "0.2.3", false),
            (Some("0.2.3"), "0.3.0", true),
            (Some("0.2.3"), "1.0.0", true),
            (Some("1.2.3"), "1.3.0", false),
            (Some("1.2.3"), "2.0.0", true),
        ] {
            assert_eq!(may_break(last, version), may, "{last:?} {version}");
        }
    }

    #[test]
    fn a_document_has_a_name_for_each_field() {
        let document = serde_json::json!({"a": {"b": [{"c": 1}, {"c": null}], "d": null}, "f": [[], [true, "x"]]});
        let other = serde_json::json!({"a": {"d": {"e": "x"}}});
        assert_eq!(
            fields(&[document, other]),
            names(&["a.b[].c number", "a.d.e string", "f[][] bool", "f[][] string"])
        );
    }

    #[test]
    #[should_panic(expected = "no document tells the type of {\"a.b\"}")]
    fn a_document_that_does_not_tell_a_type_is_not_enough() {
        fields(&[serde_json::json!({"a": {"b": null, "bb": 1}})]);
    }
}
