//! The lines of a paste: without colours, prompts, frames and line ends, and with those that a terminal wrapped joined.
//!
//! A paste is read once, with memory that does not grow with it.

mod bytes;
mod prompt;
mod terminal;

use bytes::{Lines, MAX_LINE_BYTES};
use std::io::{self, Read};

/// One line of a paste.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PastedLine<'p> {
    /// The text: without a prompt, with the blanks at its beginning. May be empty.
    pub(super) text: &'p str,
    /// The host's name, if the line has a prompt with it.
    pub(super) host: Option<&'p str>,
    /// Number of the line in the paste, from 1; the first of those that were joined.
    pub(super) number: u64,
    /// Number of lines that were joined.
    pub(super) rows: u64,
}

/// Calls `each` with every line of `source`.
///
/// # Errors
/// The source cannot be read.
pub(super) fn read(source: impl Read, mut each: impl FnMut(&PastedLine<'_>)) -> io::Result<()> {
    let mut lines = Lines::of(source)?;
    let mut wrapped = Wrapped::default();
    let mut number = 0;
    while let Some(raw) = lines.next()? {
        number += 1;
        for mut seen in terminal::seen(&raw.text) {
            if raw.is_cut {
                drop_cut_number(&mut seen.text);
            }
            wrapped.add(seen, number, &mut each);
        }
    }
    wrapped.end(&mut each);
    Ok(())
}

/// Returns whether `word` can be the name of a host.
pub(super) fn is_name(word: &str) -> bool {
    prompt::name(word).is_some()
}

/// Joins the lines that a terminal of [`TERMINAL_COLUMNS`] wrapped.
///
/// A line that fills the terminal goes on in the next one, if that looks like it. If not, the line was cut there: a number at its
/// end may be half a number, and is dropped. A paste with a longer line was not wrapped.
#[derive(Default)]
struct Wrapped {
    /// A line that may go on, with its number and its rows.
    begun: Option<(String, u64, u64)>,
    is_wide: bool,
}

impl Wrapped {
    fn add(&mut self, seen: terminal::Seen, number: u64, each: &mut impl FnMut(&PastedLine<'_>)) {
        self.is_wide |= seen.columns > TERMINAL_COLUMNS;
        let is_full = !self.is_wide
            && seen.columns == TERMINAL_COLUMNS
            && seen.text.contains(char::is_alphanumeric)
            && !is_heading(&seen.text);
        let begun = self.begun.take();
        let (text, number, rows) = match begun {
            Some((text, number, rows)) if is_continuation(&seen.text) => (text + &seen.text, number, rows + 1),
            Some(_) => {
                self.begun = begun;
                self.end(each);
                (seen.text, number, 1)
            }
            None => (seen.text, number, 1),
        };
        match is_full && text.len() < MAX_LINE_BYTES {
            true => self.begun = Some((text, number, rows)),
            false => emit(&text, number, rows, each),
        }
    }

    /// Gives the line that was begun, and does not go on.
    fn end(&mut self, each: &mut impl FnMut(&PastedLine<'_>)) {
        if let Some((mut text, number, rows)) = self.begun.take() {
            if !self.is_wide {
                drop_cut_number(&mut text);
            }
            emit(&text, number, rows, each);
        }
    }
}

/// Returns whether a line can be the rest of a wrapped one: it is not indented, and begins with neither a prompt, a heading,
/// nor `name = value`.
fn is_continuation(text: &str) -> bool {
    let mut words = text.split_ascii_whitespace();
    let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let is_begin = first.ends_with(':') || ["=", ":"].contains(&second) || text.starts_with("  ");
    !first.is_empty() && !is_begin && prompt::prompt(text).is_none()
}

/// Drops the number at the end of a line that was cut: more digits may have followed.
fn drop_cut_number(text: &mut String) {
    if text.ends_with(|char: char| char.is_ascii_digit()) {
        let end = text.rfind([' ', ',']).map_or(0, |at| at + 1);
        text.truncate(end);
    }
}

/// Returns whether a line is the heading of a table, in capitals: that of `ipadm show-prop` has exactly 80 columns.
fn is_heading(text: &str) -> bool {
    text.chars().all(|char| char.is_ascii_uppercase() || char == ' ')
}

fn emit(text: &str, number: u64, rows: u64, each: &mut impl FnMut(&PastedLine<'_>)) {
    let line = match prompt::prompt(text) {
        Some(prompt) => PastedLine { text: prompt.command, host: prompt.host, number, rows },
        None => PastedLine { text, host: None, number, rows },
    };
    each(&line);
}

/// Columns of the terminals that wrap or cut lines.
const TERMINAL_COLUMNS: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(paste: &[u8]) -> Vec<(String, u64, u64)> {
        let mut lines = Vec::new();
        read(paste, |line| lines.push((line.text.to_string(), line.number, line.rows))).unwrap();
        lines
    }

    const FLAGS: &str = "en0: flags=1e084863,814c0<UP,BROADCAST,NOTRAILERS,RUNNING,SIMPLEX,MULTICAST,GROUPRT,64BIT,CHECKSUM_OFFLOAD(ACTIVE),LARGESEND,CHAIN>";

    #[test]
    fn a_wrapped_line_is_joined() {
        let paste = format!("# ifconfig -a\n{}\n{}\n\tinet 10.0.0.1\n", &FLAGS[..80], &FLAGS[80..]);
        let joined = ("  inet 10.0.0.1".into(), 4, 1);
        assert_eq!(lines(paste.as_bytes()), [("ifconfig -a".into(), 1, 1), (FLAGS.into(), 2, 2), joined]);
        let long = "word,".repeat(40);
        let paste = format!("{}\n{}\n{}", &long[..80], &long[80..160], &long[160..]);
        assert_eq!(lines(paste.as_bytes()), [(long, 1, 3)]);
    }

    #[test]
    fn a_cut_line_loses_a_number_at_its_end() {
        let line = format!("{:>66} = 262144", "tcp_sendspace");
        assert_eq!(line.len(), 75);
        let cut = format!("{:>73} = 26214", "tcp_sendspace");
        assert_eq!((cut.len(), lines(format!("{cut}\n   x = 1").as_bytes())[0].0.contains("26214")), (81, true));
        let cut = &cut[1..];
        for next in ["\n   x = 1", "\n\n", "", "\nroot@a:/ # no -a"] {
            assert_eq!(
                lines(format!("{cut}{next}").as_bytes())[0].0.split_ascii_whitespace().last(),
                Some("="),
                "{next}"
            );
        }
        // A name that is cut does no harm.
        let flags = &FLAGS[..80];
        assert_eq!(lines(format!("{flags}\n\tinet 10.0.0.1").as_bytes())[0].0, flags);
        // The rule below a heading is no wrapped line.
        assert_eq!(lines(format!("{}\nsb_max 1M", "-".repeat(80)).as_bytes())[1].0, "sb_max 1M");
    }

    #[test]
    fn a_heading_as_wide_as_the_terminal_is_not_joined_with_the_first_row() {
        let heading = "PROTO PROPERTY              PERM CURRENT      PERSISTENT   DEFAULT      POSSIBLE";
        let row = "tcp   max_buf               rw   4194304      --           1048576      8192-1073741824";
        assert_eq!(heading.len(), TERMINAL_COLUMNS);
        let found: Vec<String> =
            lines(format!("{heading}\n{row}\n").as_bytes()).into_iter().map(|line| line.0).collect();
        assert_eq!(found, [heading, row]);
    }

    #[test]
    fn a_wide_paste_is_not_wrapped() {
        let wide = "x".repeat(90);
        let full = "y ".repeat(39) + "zz";
        assert_eq!(lines(format!("{wide}\n{full}\n1").as_bytes())[1].0, full);
    }

    proptest! {
        #[test]
        fn every_text_has_bounded_lines_without_controls(paste in prop::collection::vec(any::<u8>(), 0..4000)) {
            read(paste.as_slice(), |line| {
                assert!(line.text.len() <= 8 * MAX_LINE_BYTES && !line.text.contains(char::is_control), "{line:?}");
            }).unwrap();
        }

        #[test]
        fn a_line_wrapped_anywhere_is_joined(words in prop::collection::vec("[a-z]{1,30}", 20..40)) {
            let line = words.join(",");
            let rows: Vec<&str> = line.as_bytes().chunks(80).map(|row| std::str::from_utf8(row).unwrap()).collect();
            let all = lines((rows.join("\r\n") + "\n\n").as_bytes());
            // A last row that fills the terminal looks cut.
            if line.len() % 80 != 0 {
                prop_assert_eq!(&all[0].0, &line);
            }
        }
    }
}
