//! `longhaul options`: the table of socket options, for a terminal or as docs/options.md.

use clap::Args;
use longhaul_config::options::{Leg, Preset, ROWS, Row, Unit, When, expected};
use longhaul_config::suggest;

#[derive(Args)]
pub(super) struct OptionsFlags {
    /// Option to describe in full [default: list all]
    #[arg(value_name = "KEY")]
    key: Option<String>,
    /// Describe all options in Markdown, as docs/options.md
    #[arg(long, conflicts_with = "key")]
    markdown: bool,
}

/// Returns the text that the command prints.
///
/// # Errors
/// There is no such option.
pub(super) fn text(flags: &OptionsFlags) -> Result<String, String> {
    // As in a file, `_` is read as `-`.
    match flags.key.as_ref().map(|key| key.replace('_', "-")) {
        _ if flags.markdown => Ok(MARKDOWN_HEAD.to_string() + &join(ROWS.iter(), markdown)),
        None => Ok(TABLE_HEAD.to_string() + &ROWS.iter().map(line).collect::<String>() + TABLE_FOOT),
        Some(key) if ROWS.iter().any(|row| row.key == key) => Ok(join(ROWS.iter().filter(|row| row.key == key), plain)),
        Some(key) => {
            let near =
                suggest::nearest(&key, ROWS.iter().map(|row| row.key)).map(|near| format!("did you mean {near}?"));
            let tip = near.or_else(|| suggest::advice(&key).map(Into::into));
            let tip = tip.unwrap_or_else(|| "`longhaul options` lists them all".into());
            Err(format!("error: there is no option {key}; {tip}"))
        }
    }
}

fn join<'r>(rows: impl Iterator<Item = &'r Row>, show: fn(&Row) -> String) -> String {
    rows.map(show).collect::<Vec<_>>().join("\n")
}

/// Returns the row as one line of at most 80 columns.
fn line(row: &Row) -> String {
    let legs = only_leg(row).map_or("both", Leg::name);
    let value = word(row.unit);
    let default = if let Preset::Ours(value) = row.preset { value } else { "-" };
    format!("{:<19} {legs:<6} {value:<6} {default:<7} {}\n", row.key, row.short)
}

/// Returns the kind of an option's value.
pub(super) fn word(unit: Unit) -> &'static str {
    match unit {
        Unit::Switch => "switch",
        Unit::Bytes => "size",
        Unit::Millis | Unit::Seconds => "time",
        Unit::Count => "number",
        Unit::BitsPerSecond => "rate",
        Unit::Name => "word",
    }
}

fn plain(row: &Row) -> String {
    let mut text = format!("{}{}\n", row.key, leg(row));
    let mut add = |name: &str, value: &str| {
        for (nth, line) in wrapped(value, 64).into_iter().enumerate() {
            text += &format!("    {:<10} {line}\n", if nth == 0 { name } else { "" });
        }
    };
    add("", &manual(row));
    add("value", &expected(row));
    add("default", &default(row));
    add("caution", row.caution);
    add("source", row.source);
    text
}

fn markdown(row: &Row) -> String {
    let caution = if row.caution.is_empty() { String::new() } else { format!("\nCaution: {}.\n", row.caution) };
    format!(
        "## {key}{leg}\n\n{help}\n{caution}\n- value: {value}\n- default: {default}\n- takes effect: {when}\n\
         - example: `{key} = {sample}`\n- source: {source}\n",
        key = row.key,
        leg = leg(row),
        help = manual(row),
        value = expected(row),
        default = default(row),
        when = when(row),
        sample = sample(row),
        source = row.source,
    )
}

/// The short text as a sentence, and the rest of the manual.
fn manual(row: &Row) -> String {
    format!("{}. {}", row.short, row.help).trim_end().to_string()
}

fn default(row: &Row) -> String {
    match row.preset {
        Preset::Ours(value) => value.into(),
        Preset::Kernel(words) => format!("not set: {words}"),
    }
}

/// Returns the only leg that can have the option. `None` if both can.
fn only_leg(row: &Row) -> Option<Leg> {
    if let [leg] = row.legs { Some(*leg) } else { None }
}

/// Returns the same as headings write it: ` (accept leg)`, or nothing.
fn leg(row: &Row) -> String {
    only_leg(row).map(|leg| format!(" ({leg} leg)")).unwrap_or_default()
}

fn when(row: &Row) -> &'static str {
    match row.when() {
        When::Socket => "when the socket is made",
        When::Start => "before listen(2) or connect(2); an accepted connection inherits it",
        When::Flow => "in the relay, for flows that begin after the change",
    }
}

/// Returns the sample as TOML: numbers and switches bare, everything else in quotes.
fn sample(row: &Row) -> String {
    let bare =
        row.unit == Unit::Switch || row.unit == Unit::Count && row.sample.starts_with(|c: char| c.is_ascii_digit());
    if bare { row.sample.into() } else { format!("\"{}\"", row.sample) }
}

/// Returns `text` in lines of up to `width` characters; no line for an empty text.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => *line += &format!(" {word}"),
            _ => lines.push(word.into()),
        }
    }
    lines
}

const TABLE_HEAD: &str = "OPTION              LEG    VALUE  DEFAULT MEANING\n";

const TABLE_FOOT: &str = "\nThe default - means: not set. `longhaul options KEY` describes one option.\n";

const MARKDOWN_HEAD: &str = "\
# Socket options

Written by `longhaul options --markdown`; a test holds this file to it.

A flow has two connections, its legs. The accept leg comes from the client, and the dial leg goes to the next hop. Each leg has
options of its own: `accept = { .. }` and `dial = { .. }` in a `[[tunnel]]`, or `--set accept.KEY=VALUE` and
`--set dial.KEY=VALUE` on the command line.

When a tunnel starts or is reloaded, longhaul sets its options on a test socket and reads them back. If the kernel has another
value, the log has a warning. If the kernel refuses an option, the start or the reload fails. Each connection then gets the same
values, without reading them back.

";
