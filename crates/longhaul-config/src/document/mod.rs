//! A file that somebody wrote in TOML, read by hand, table by table, so that every message names line, column, key and
//! value, and so that one reading reports every error of the file. The configuration and the lab's scenarios are such.

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

/// Reads a file's text with `whole`: what it says, or nothing when there is an error, and everything there is to say about
/// it in the order of the file. It never panics, whatever the text.
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

/// The text of the file at `path`; `hint` says what to do when there is none.
pub fn text(path: &Path, hint: &str) -> Result<String, String> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(SIZE_MAX + 1).read_to_end(&mut bytes));
    read.map_err(|err| match err.kind() {
        io::ErrorKind::NotFound => format!("{err}; {hint}"),
        io::ErrorKind::PermissionDenied => format!("{err}; read it as root, or make it readable with chmod"),
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
