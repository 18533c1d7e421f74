//! What it takes to do a run again: the command, as one types it, and when it was.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The command line `arguments` as one would type it into a shell.
pub(crate) fn command(arguments: impl IntoIterator<Item = String>) -> String {
    let mut words: Vec<String> = arguments.into_iter().map(|word| quoted(&word)).collect();
    if let Some(program) = words.first_mut() {
        let name = Path::new(&*program).file_name().map(|name| name.to_string_lossy().into_owned());
        *program = name.unwrap_or_else(|| "longhaul".into());
    }
    words.join(" ")
}

/// Returns the command line that continues that of `arguments` at the run `id`.
pub(crate) fn continued(arguments: &[String], id: &str) -> String {
    let is_old = |index: usize| {
        let is_option = |index: usize| arguments.get(index).is_some_and(|word| word == START_AT);
        let has_value = arguments[index].starts_with(&format!("{START_AT}="));
        is_option(index) || has_value || index.checked_sub(1).is_some_and(is_option)
    };
    let rest = (0..arguments.len()).filter(|index| !is_old(*index)).map(|index| arguments[index].clone());
    command(rest.chain([START_AT.to_string(), id.to_string()]))
}

const START_AT: &str = "--start-at";

/// `time` as `2026-11-21 15:10 UTC`.
pub(crate) fn date(time: SystemTime) -> String {
    let minutes = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / 60);
    let (day, minute) = (minutes / (24 * 60), minutes % (24 * 60));
    let (year, month, day) = civil(day);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", minute / 60, minute % 60)
}

/// A word that a shell reads as it is; any other in quotes.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Year, month and day of the Gregorian calendar, `days` after 1970-01-01.
fn civil(mut days: u64) -> (u64, u64, u64) {
    let is_leap = |year: u64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    for (month, length) in (1..).zip([31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30]) {
        if days < length {
            return (year, month, days + 1);
        }
        days -= length;
    }
    (year, 12, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn words_with_blanks_are_quoted() {
        let words = ["/usr/bin/longhaul", "lab", "run", "my file.toml", "--loss", "0.1%", "it's"];
        let said = command(words.map(String::from));
        assert_eq!(said, r"longhaul lab run 'my file.toml' --loss 0.1% 'it'\''s'");
    }

    #[test]
    fn a_command_is_continued_at_another_run() {
        let said = |line: &str| continued(&line.split(' ').map(String::from).collect::<Vec<_>>(), "b");
        assert_eq!(said("longhaul lab run all --quick"), "longhaul lab run all --quick --start-at b");
        assert_eq!(said("longhaul lab run --start-at a x --json"), "longhaul lab run x --json --start-at b");
        assert_eq!(said("longhaul lab run --start-at=a x"), "longhaul lab run x --start-at b");
    }

    #[test]
    fn dates_are_those_of_date_1() {
        // `date -u -d @SECONDS`
        for (seconds, said) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_827_696, "2000-02-29 12:34 UTC"),
            (1_798_761_599, "2026-12-31 23:59 UTC"),
            (1_709_251_200, "2024-03-01 00:00 UTC"),
        ] {
            assert_eq!(date(UNIX_EPOCH + Duration::from_secs(seconds)), said);
        }
    }
}
