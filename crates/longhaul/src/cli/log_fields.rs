//! The message and the fields of a line of the text log.
//!
//! An empty value, or one with a blank, `=`, a quote, a backslash or a character that cannot be printed, is in double quotes, with
//! escapes as in Rust.
//! In quotes, a `=` right behind a letter or digit is `\x3d`, so that no text of a client looks like a field: `grep how=finished`
//! finds only fields. The fields `remedy` and `err` keep their `=`, because they have commands to be pasted. Their texts are the daemon's own,
//! the kernel's or the administrator's: nothing that a client says is in them.

use longhaul_core::text::is_printable;
use std::fmt::{self, Debug, Write};
use tracing::field::{Field, Visit};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::Writer;

/// Writes fields as `NAME=VALUE`.
pub(super) struct Fields;

impl<'w> FormatFields<'w> for Fields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut line = FieldsLine { writer, is_empty: true, value: String::new(), result: Ok(()) };
        fields.record(&mut line);
        line.result
    }
}

struct FieldsLine<'w> {
    writer: Writer<'w>,
    is_empty: bool,
    /// Memory for one value at a time: the line of a flow has some 15.
    value: String,
    result: fmt::Result,
}

impl FieldsLine<'_> {
    fn write(&mut self, field: &Field, value: &str) -> fmt::Result {
        if !std::mem::take(&mut self.is_empty) {
            self.writer.write_char(' ')?;
        }
        match (field.name(), self.writer.has_ansi_escapes()) {
            // Its text is fixed in the code, or names what stands in the configuration file.
            ("message", _) => return write_printable(&mut self.writer, value),
            (name, true) => write!(self.writer, "\x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m")?,
            (name, false) => self.writer.write_str(name).and_then(|()| self.writer.write_char('='))?,
        }
        match value.is_empty() || value.chars().any(needs_quotes) {
            true => write_quoted(&mut self.writer, value, OWN.contains(&field.name())),
            false => self.writer.write_str(value),
        }
    }
}

impl Visit for FieldsLine<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.result = self.result.and_then(|()| self.write(field, value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let mut text = std::mem::take(&mut self.value);
        text.clear();
        let written = write!(text, "{value:?}");
        self.result = self.result.and(written).and_then(|()| self.write(field, &text));
        self.value = text;
    }
}

fn needs_quotes(character: char) -> bool {
    matches!(character, ' ' | '=' | '"' | '\'' | '\\') || !is_printable(character)
}

fn write_printable(writer: &mut Writer<'_>, text: &str) -> fmt::Result {
    text.chars().try_for_each(|character| match is_printable(character) {
        true => writer.write_char(character),
        false => write!(writer, "{}", character.escape_debug()),
    })
}

fn write_quoted(writer: &mut Writer<'_>, value: &str, is_own: bool) -> fmt::Result {
    writer.write_char('"')?;
    let mut before = ' ';
    for character in value.chars() {
        match character {
            '=' if before.is_alphanumeric() && !is_own => writer.write_str("\\x3d")?,
            '"' | '\\' => write!(writer, "\\{character}")?,
            _ if is_printable(character) => writer.write_char(character)?,
            _ => write!(writer, "{}", character.escape_debug())?,
        }
        before = character;
    }
    writer.write_char('"')
}

/// The fields with commands of the daemon's own.
const OWN: [&str; 2] = ["remedy", "err"];

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, read_to_string};
    use std::sync::Mutex;

    /// Returns the lines of the text log that `log` writes.
    fn written(log: impl FnOnce()) -> String {
        let mut file = tempfile::tempfile().unwrap();
        let lines = tracing_subscriber::fmt().without_time().with_ansi(false).with_target(false).fmt_fields(Fields);
        let lines = lines.with_writer(Mutex::new(file.try_clone().unwrap())).finish();
        tracing::subscriber::with_default(lines, log);
        file.rewind().unwrap();
        read_to_string(file).unwrap()
    }

    #[test]
    fn a_message_is_one_line_and_moves_no_cursor() {
        let mut text = String::new();
        write_printable(&mut Writer::new(&mut text), "key \"a\u{1b}[2J\nb\" is 'unknown'").unwrap();
        assert_eq!(text, r#"key "a\u{1b}[2J\nb" is 'unknown'"#);
    }

    /// Whether the code gives a text or something that it formats makes no difference.
    #[test]
    fn a_value_has_quotes_if_it_needs_them() {
        let text = written(|| {
            tracing::info!(tunnel = "ssh-to-b", other = %"ssh-to-b", how = "dial failed", why = %"dial failed", none = "", "flow");
        });
        let want = " INFO flow tunnel=ssh-to-b other=ssh-to-b how=\"dial failed\" why=\"dial failed\" none=\"\"\n";
        assert_eq!(text, want);
    }

    #[test]
    fn the_command_of_a_remedy_can_be_pasted() {
        let command = "sysctl -w net.ipv4.tcp_tw_reuse='1'; to keep it: LimitNOFILE=4096";
        let text = written(|| tracing::warn!(remedy = command, err = command, why = command, "a limit is low"));
        let escaped = command.replace('=', r"\x3d");
        let want = format!(" WARN a limit is low remedy=\"{command}\" err=\"{command}\" why=\"{escaped}\"\n");
        assert_eq!(text, want);
    }

    #[test]
    fn no_value_looks_like_a_field_or_like_a_line() {
        let quoted = |value: &str| {
            let mut text = String::new();
            write_quoted(&mut Writer::new(&mut text), value, false).map(|()| text)
        };
        for (value, shown) in [
            ("RETR pub/a=b how=finished flow=1", r#""RETR pub/a\x3db how\x3dfinished flow\x3d1""#),
            ("net.ipv4.tcp_tw_reuse = 1", r#""net.ipv4.tcp_tw_reuse = 1""#),
            ("x\" how=finished y=\"", r#""x\" how\x3dfinished y\x3d\"""#),
            ("a\u{202e}b\u{2028}c\r\n\u{1b}[0m", r#""a\u{202e}b\u{2028}c\r\n\u{1b}[0m""#),
            ("it's the client's Grüße", r#""it's the client's Grüße""#),
        ] {
            assert_eq!(quoted(value).as_deref(), Ok(shown));
            assert!(value.chars().any(needs_quotes), "{value}");
        }
        for plain in
            ["10.10.10.10:58748", "[2001:db8::1]:22", "finished", "ssh-to-b", "0.025", "true", "a.far.example:22/x"]
        {
            assert!(!plain.chars().any(needs_quotes), "{plain}");
        }
    }
}
