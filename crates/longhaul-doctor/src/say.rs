//! What the subcommands say, and their exit codes.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

/// Exit code of wrong usage.
pub(crate) const WRONG: u8 = 2;

/// Writes `text` to stdout. A reader who has seen enough, such as `head`, is no failure.
pub(crate) fn print(text: &str) -> ExitCode {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(err) if err.kind() != io::ErrorKind::BrokenPipe => failed(&format!("stdout: {err}")),
        _ => ExitCode::SUCCESS,
    }
}

/// Writes a message to stderr, without what is invisible in a file's name or text. Nobody is left to tell when stderr is closed.
pub(crate) fn note(line: impl Display) {
    let line: String = line.to_string().chars().filter(|char| *char == '\n' || !is_invisible(*char)).collect();
    drop(writeln!(io::stderr(), "{line}"));
}

/// Whether a character shows nothing, but may change what a terminal shows of the others: control characters, and Unicode's marks
/// of direction, of width zero, and of lines.
pub(crate) fn is_invisible(char: char) -> bool {
    matches!(char,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}')
        || char.is_control()
}

/// Says why the command failed. Returns 1.
pub(crate) fn failed(why: &str) -> ExitCode {
    note(format_args!("error: {why}"));
    ExitCode::FAILURE
}

/// Says what is wrong with the command line or a file named there. Returns 2.
pub(crate) fn wrong(why: &str) -> ExitCode {
    note(format_args!("error: {why}"));
    ExitCode::from(WRONG)
}
