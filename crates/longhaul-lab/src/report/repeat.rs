//! The command that repeats a scenario, and the date at which it ran.

use jiff::Timestamp;
use std::path::Path;
use std::time::SystemTime;

/// Returns the command line of this process. A file's name need not be UTF-8, and `std::env::args` would panic then.
pub(crate) fn arguments() -> Vec<String> {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Returns the command line `arguments` as typed in a shell.
pub(crate) fn command(arguments: impl IntoIterator<Item = String>) -> String {
    let mut words: Vec<String> = arguments.into_iter().map(|word| quoted(&word)).collect();
    if let Some(program) = words.first_mut() {
        let name = Path::new(&*program).file_name().map(|name| name.to_string_lossy().into_owned());
        *program = name.unwrap_or_else(|| "longhaul".into());
    }
    words.join(" ")
}

/// Returns the command line `arguments`, changed to continue at the run `id`.
pub(crate) fn continued(arguments: &[String], id: &str) -> String {
    let is_old = |index: usize| {
        let is_option = |index: usize| arguments.get(index).is_some_and(|word| word == START_AT);
        let has_value = arguments[index].starts_with(&format!("{START_AT}="));
        is_option(index) || has_value || index.checked_sub(1).is_some_and(is_option)
    };
    let mut rest: Vec<String> =
        (0..arguments.len()).filter(|index| !is_old(*index)).map(|index| arguments[index].clone()).collect();
    // After `--`, a flag would be a scenario.
    let end = rest.iter().position(|word| word == "--").unwrap_or(rest.len());
    rest.splice(end..end, [START_AT.to_string(), id.to_string()]);
    command(rest)
}

const START_AT: &str = "--start-at";

/// Returns `time` as `2026-11-21 15:10 UTC`; empty for a time outside the calendar's range.
pub(crate) fn date(time: SystemTime) -> String {
    Timestamp::try_from(time).map(|time| time.strftime("%Y-%m-%d %H:%M UTC").to_string()).unwrap_or_default()
}

/// Returns `word`, with quotes if a shell needs them.
fn quoted(word: &str) -> String {
    // Quoting fails only for a NUL byte, which no argument can contain.
    shlex::try_quote(word).unwrap_or_default().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn words_with_blanks_are_quoted() {
        let words = ["/usr/bin/longhaul", "lab", "run", "my file.toml", "--loss", "0.1%", "it's"];
        let said = command(words.map(String::from));
        assert_eq!(said, r#"longhaul lab run 'my file.toml' --loss '0.1%' "it's""#);
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
