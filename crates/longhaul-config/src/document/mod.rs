//! A file that somebody wrote in TOML, read by hand, table by table, so that every message names line, column, key and
//! value, and so that one reading reports every error of the file. The configuration and the lab's scenarios are such.

mod access;
mod fields;
mod problem;
mod syntax;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use toml::de::DeTable;

pub use fields::{
    Fault, Field, Key, Places, Shape, Spellings, Written, fault, fields, fields_or, inner, key, kind, one, required,
    same_key, scalar, several, twice,
};
pub use problem::{Findings, Message, Place, Problem, Severity};

/// Reads a file's text with `whole`. Returns its result, or `None` when there is an error, and every error, warning and note in
/// the order of the file. It never panics, whatever the text.
pub fn read<T>(text: &str, whole: impl FnOnce(&mut Findings<'_>, &DeTable<'_>) -> T) -> (Option<T>, Vec<Problem>) {
    let mut findings = Findings::new(text);
    let (root, errors) = DeTable::parse_recoverable(text);
    for mistake in syntax::mistakes(text, &errors) {
        findings.error(mistake.at..mistake.at, mistake.text);
    }
    // What a parser makes of a broken file is guesswork: errors found in that would be its, not the writer's.
    let read = if errors.is_empty() { Some(whole(&mut findings, root.get_ref())) } else { None };
    (read.filter(|_| findings.errors() == 0), findings.in_order())
}

/// Returns the text of the file at `path`; `hint` says what to do when there is none.
///
/// # Errors
/// Why it cannot be read, and what to do.
pub fn text(path: &Path, hint: &str) -> Result<String, String> {
    let file = File::open(path).map_err(|err| match err.kind() {
        io::ErrorKind::NotFound => format!("{err}; {hint}"),
        io::ErrorKind::PermissionDenied => format!("{err}: {}", access::refused(path)),
        _ => err.to_string(),
    })?;
    text_from(file)
}

/// Returns the text of `source`, which has at most 1 MiB.
///
/// # Errors
/// Why it cannot be read, and what to do.
pub fn text_from(source: impl Read) -> Result<String, String> {
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

/// Some 10,000 tunnels. What is larger is another file, or a device that never ends.
const SIZE_MAX: u64 = 1 << 20;
