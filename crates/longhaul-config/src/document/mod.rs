//! Reads a TOML file by hand, table by table. Every message thus names line, column, key and value, and one reading reports
//! every error of the file. Both the configuration and the lab's scenarios are read this way.

mod access;
mod fields;
mod problem;
mod syntax;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use toml::de::DeTable;

pub use fields::{
    Fault, Field, Key, KeyPlaces, Shape, Spellings, Written, bare_number, fault, fields, inner, key, kind, one,
    required, same_key, scalar, several, twice,
};
pub use problem::{Findings, Message, Refused, Severity};

/// Reads a file's text with `whole`; messages call the file `name`. Returns the result of `whole`, and the warnings and notes. Never
/// panics, whatever the text.
///
/// # Errors
/// The text has an error. [`Refused`] holds all errors, warnings and notes.
pub fn read<T>(
    name: &str,
    text: &str,
    whole: impl FnOnce(&mut Findings<'_>, &DeTable<'_>) -> T,
) -> Result<(T, Vec<Message>), Refused> {
    let mut findings = Findings::new(name, text);
    let (root, errors) = DeTable::parse_recoverable(text);
    for mistake in syntax::mistakes(text, &errors) {
        findings.error(mistake.at..mistake.at, mistake.text);
    }
    findings.find_first_header(root.get_ref());
    // The parser can only guess the meaning of a broken file. Errors in the guess would not be the writer's.
    let read = errors.is_empty().then(|| whole(&mut findings, root.get_ref()));
    let read = read.filter(|_| findings.errors() == 0);
    let messages = findings.in_order();
    match read {
        Some(read) => Ok((read, messages)),
        None => Err(Refused { messages }),
    }
}

/// Returns the text of the file at `path`. `hint` tells what to do if there is no such file.
///
/// # Errors
/// The file cannot be read. The message says what to do.
pub fn text(path: &Path, hint: &str) -> Result<String, Refused> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|err| match err.kind() {
        io::ErrorKind::NotFound => format!("{err}; {hint}"),
        io::ErrorKind::PermissionDenied => format!("{err}: {}", access::refused(path)),
        _ => err.to_string(),
    });
    text_from(&name, file.map_err(|why| unreadable(&name, why))?)
}

/// Returns the text of `source`, at most 1 MiB. Messages call it `name`.
///
/// # Errors
/// The source cannot be read. The message says what to do.
pub fn text_from(name: &str, source: impl Read) -> Result<String, Refused> {
    read_all(source).map_err(|why| unreadable(name, why))
}

fn unreadable(name: &str, why: String) -> Refused {
    Refused { messages: vec![Message { severity: Severity::Error, place: name.into(), text: why }] }
}

fn read_all(source: impl Read) -> Result<String, String> {
    let mut bytes = Vec::new();
    source.take(SIZE_MAX + 1).read_to_end(&mut bytes).map_err(|err| match err.kind() {
        io::ErrorKind::IsADirectory => format!("{err}; name the file in it, not the directory"),
        _ => err.to_string(),
    })?;
    if bytes.len() as u64 > SIZE_MAX {
        return Err("it is larger than 1MiB; is this the right file?".into());
    }
    String::from_utf8(bytes).map_err(|err| {
        let good = err.utf8_error().valid_up_to();
        let line = err.as_bytes()[..good].iter().filter(|byte| **byte == b'\n').count() + 1;
        format!("line {line} is not UTF-8; save the file as UTF-8")
    })
}

/// Maximum size of a file in bytes, enough for some 10,000 tunnels. A larger file is the wrong one, or a device that never
/// ends.
const SIZE_MAX: u64 = 1 << 20;
