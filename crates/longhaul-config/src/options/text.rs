//! Parses and shows written values of options, and describes the valid values for errors.

use super::row::{Row, Unit, Value};
use longhaul_units::{Bytes, Rate};
use std::time::Duration;

/// Parses a written value of `row`.
///
/// # Errors
/// The fault in the value and what to write instead.
pub fn parse(row: &Row, text: &str) -> Result<Value, String> {
    let text = text.trim();
    if let Some((_, number)) = row.words.iter().find(|(word, _)| word.eq_ignore_ascii_case(text)) {
        return Ok(Value::Number(*number));
    }
    let read = match row.unit {
        Unit::Switch => return text.parse().map(Value::Switch).map_err(|_| format!("write {}", expected(row))),
        Unit::Name => return name(text).ok_or_else(|| format!("write {}", expected(row))),
        Unit::Bytes => text.parse().map(|Bytes(bytes)| bytes).map_err(|err| err.to_string()),
        Unit::BitsPerSecond => text.parse().map(|Rate(bits)| bits).map_err(|err| err.to_string()),
        Unit::Millis => whole(text, Duration::from_millis(1), "milliseconds"),
        Unit::Seconds => whole(text, Duration::from_secs(1), "seconds"),
        Unit::Count => count(text),
    };
    let number = read.map_err(|why| format!("{why}; write {}", expected(row)))?;
    match &row.range {
        range if number < *range.start() => Err(format!("it is too small; write {}", expected(row))),
        range if number > *range.end() => Err(format!("it is too large; write {}", expected(row))),
        _ => Ok(Value::Number(number)),
    }
}

/// Formats `value` with its unit, as in a config file.
pub fn show(row: &Row, value: &Value) -> String {
    let Value::Number(number) = *value else { return value.to_string() };
    if let Some((word, _)) = row.words.iter().find(|(_, known)| *known == number) {
        return word.to_string();
    }
    match row.unit {
        Unit::Bytes => Bytes(number).to_string(),
        Unit::BitsPerSecond => Rate(number).to_string(),
        Unit::Millis => longhaul_units::show_duration(Duration::from_millis(number)),
        Unit::Seconds => longhaul_units::show_duration(Duration::from_secs(number)),
        Unit::Switch | Unit::Count | Unit::Name => number.to_string(),
    }
}

/// Describes the valid values of `row`: `a size from 88B to 32767B, such as "1254B"`.
pub fn expected(row: &Row) -> String {
    let (first, last) = (*row.range.start(), *row.range.end());
    let (min, max) = (show(row, &Value::Number(first)), show(row, &Value::Number(last)));
    let kind = match row.unit {
        Unit::Switch => return "true or false".into(),
        Unit::Name => return format!("one word of up to {NAME_MAX} characters, such as \"{}\"", row.sample),
        Unit::Bytes => "a size",
        Unit::BitsPerSecond => "a rate",
        Unit::Millis | Unit::Seconds => "a time",
        Unit::Count if row.words.is_empty() => return format!("a number from {first} to {last}"),
        Unit::Count => {
            let words: Vec<&str> = row.words.iter().map(|(word, _)| *word).collect();
            return format!("a number from {first} to {last}, or one of {}", words.join(" "));
        }
    };
    let words: String = row.words.iter().map(|(word, _)| format!(", or \"{word}\"")).collect();
    format!("{kind} from {min} to {max}, such as \"{}\"{words}", row.sample)
}

/// Parses the name of a congestion control or of an interface. The kernel limits both to 15 bytes.
fn name(text: &str) -> Option<Value> {
    let fits = !text.is_empty() && text.len() <= NAME_MAX;
    let plain = text.chars().all(|c| c.is_ascii_graphic() && c != '/');
    (fits && plain).then(|| Value::Name(text.into()))
}

fn count(text: &str) -> Result<u64, String> {
    let read = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.replace('_', "").parse(),
    };
    read.map_err(|_| "it is not a number".into())
}

fn whole(text: &str, step: Duration, name: &str) -> Result<u64, String> {
    let nanos = longhaul_units::duration(text).map_err(|err| err.to_string())?.as_nanos();
    let count = nanos / step.as_nanos();
    if count * step.as_nanos() != nanos {
        return Err(format!("it is not a whole number of {name}"));
    }
    u64::try_from(count).map_err(|_| "it is too large".into())
}

const NAME_MAX: usize = 15;

#[cfg(test)]
mod tests {
    use super::super::row::{Leg, Preset};
    use super::super::table::{self, ROWS};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_sample_and_preset_is_parsed_and_its_shown_form_too() {
        for row in ROWS {
            let ours = if let Preset::Ours(text) = row.preset { Some(text) } else { None };
            for text in ours.into_iter().chain([row.sample]) {
                let value = parse(row, text).unwrap_or_else(|err| panic!("{} = {text}: {err}", row.key));
                assert_eq!(parse(row, &show(row, &value)), Ok(value), "{}", row.key);
            }
        }
    }

    #[test]
    fn words_are_read_in_either_case() {
        let dscp = table::row(Leg::Dial, "dscp").unwrap();
        assert_eq!(parse(dscp, "EF"), parse(dscp, "ef"));
        assert_eq!(parse(dscp, "Ef"), Ok(Value::Number(46)));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC*") {
            for row in ROWS {
                let _ = parse(row, &text);
            }
        }
    }
}
