//! `longhaul options`: the table of socket options, for a terminal or as docs/options.md.

use clap::Args;
use longhaul::options::expected;
use longhaul_sys::sockopt::{Legs, Preset, ROWS, Row, Unit, When};

#[derive(Args)]
pub(super) struct Flags {
    /// Show one option only
    #[arg(value_name = "KEY")]
    key: Option<String>,
    /// As docs/options.md
    #[arg(long)]
    markdown: bool,
}

/// The whole text that the command prints.
pub(super) fn text(flags: &Flags) -> String {
    let rows: Vec<&Row> = ROWS.iter().filter(|row| flags.key.as_deref().is_none_or(|key| key == row.key)).collect();
    if rows.is_empty() {
        return format!("no option of this name; `longhaul options` lists all {}\n", ROWS.len());
    }
    let (head, entry): (&str, fn(&Row) -> String) =
        if flags.markdown { (MARKDOWN_HEAD, markdown) } else { ("", plain) };
    head.to_string() + &rows.into_iter().map(entry).collect::<Vec<_>>().join("\n")
}

fn plain(row: &Row) -> String {
    let mut text = format!("{}{}\n", row.key, leg(row));
    let mut add = |name: &str, value: &str| {
        for (nth, line) in wrapped(value, 64).into_iter().enumerate() {
            text += &format!("    {:<10} {line}\n", if nth == 0 { name } else { "" });
        }
    };
    add("", row.help);
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
        help = row.help,
        value = expected(row),
        default = default(row),
        when = when(row),
        sample = sample(row),
        source = row.source,
    )
}

fn default(row: &Row) -> String {
    match row.preset {
        Preset::Ours(value) => value.into(),
        Preset::Kernel(words) => format!("not set: {words}"),
    }
}

/// Which leg, where it is not both.
fn leg(row: &Row) -> &'static str {
    match row.legs {
        Legs::Both => "",
        Legs::Accept => " (accept leg)",
        Legs::Dial => " (dial leg)",
    }
}

fn when(row: &Row) -> &'static str {
    match row.when {
        When::Socket => "when the socket is made",
        When::Start => "before listen(2) or connect(2); an accepted connection inherits it",
        When::Connected => "once the connection is up",
        When::Flow => "in the relay, while the flow lives",
    }
}

/// The sample as TOML: numbers and switches bare, everything else in quotes.
fn sample(row: &Row) -> String {
    let bare =
        row.unit == Unit::Switch || row.unit == Unit::Count && row.sample.starts_with(|c: char| c.is_ascii_digit());
    if bare { row.sample.into() } else { format!("\"{}\"", row.sample) }
}

/// `text` in lines of up to `width` characters; no line at all for an empty text.
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

const MARKDOWN_HEAD: &str = "\
# Socket options

Written by `longhaul options --markdown`; a test holds this file to it.

Each leg of a flow has its own: `accept = { .. }` and `dial = { .. }` in a `[[tunnel]]`, or `--set accept.KEY=VALUE` and
`--set dial.KEY=VALUE`. longhaul sets an option, reads it back, and warns when the kernel has another value.

";
