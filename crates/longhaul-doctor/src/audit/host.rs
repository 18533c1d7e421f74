//! One host: which system it is, and what its paste shows.

use super::paste;
use super::reader::{Facts, Reader};
use super::systems::READERS;
use crate::say;
use longhaul_core::advice::System;
use std::io::{self, Read};

/// A host whose paste was understood.
pub(super) struct Host {
    /// The name that the paste shows, else that of the file.
    pub(super) name: String,
    /// The system.
    pub(super) system: &'static System,
    /// Whether the system is a guess; otherwise it was given.
    pub(super) is_guess: bool,
    /// What the paste shows.
    pub(super) facts: Facts,
    /// Its lines.
    pub(super) lines: Count,
}

/// The lines of a paste.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    /// Number of lines that were understood.
    pub(super) understood: u64,
    /// Number of lines that were not, without empty ones.
    pub(super) ignored: u64,
    /// The lines that were understood, as first and last numbers, from 1; at most [`MAX_RANGES`].
    pub(super) ranges: Vec<(u64, u64)>,
}

/// Reads a paste. Returns `None` if nothing in it is understood.
///
/// # Errors
/// The paste cannot be read.
pub(super) fn read(source: impl Read, name: &str, given: Option<&'static System>) -> io::Result<Option<Host>> {
    let rows = READERS.iter().filter(|row| given.is_none_or(|system| system.name == row.system));
    let mut candidates: Vec<Candidate> = rows.filter_map(|row| Candidate::new(row.system, (row.reader)())).collect();
    let mut names = Names::default();
    paste::read(source, |line| {
        names.read(line);
        candidates.iter_mut().for_each(|candidate| candidate.read(line));
    })?;
    // The first of those with most lines. A command without its output shows nothing.
    let shown = candidates.into_iter().rev().map(|candidate| (candidate.reader.facts(), candidate));
    let best = shown.filter(|(facts, _)| !facts.settings.is_empty()).max_by_key(|(_, shown)| shown.lines.understood);
    let Some((mut facts, Candidate { system, lines, .. })) = best else { return Ok(None) };
    if let (Some(first), Some(other)) = (&names.found, &names.other) {
        say::note(format_args!(
            "note: {name}: prompts of two hosts, {first} and {other}: put each host into a file of its own"
        ));
    }
    let name = facts.name.take().or(names.found).unwrap_or_else(|| name.to_string());
    Ok(Some(Host { name, system, is_guess: given.is_none(), facts, lines }))
}

/// A system that the host may be.
struct Candidate {
    system: &'static System,
    reader: Box<dyn Reader>,
    lines: Count,
}

impl Candidate {
    fn new(system: &str, reader: Box<dyn Reader>) -> Option<Candidate> {
        Some(Candidate { system: System::named(system)?, reader, lines: Count::default() })
    }

    fn read(&mut self, line: &paste::PastedLine<'_>) {
        let is_understood = self.reader.read(line.text);
        match is_understood {
            true => self.lines.add(line.number, line.rows),
            false if line.text.trim().is_empty() => {}
            false => self.lines.ignored += line.rows,
        }
    }
}

impl Count {
    fn add(&mut self, first: u64, rows: u64) {
        self.understood += rows;
        let last = first + rows.max(1) - 1;
        let is_room = self.ranges.len() < MAX_RANGES;
        match self.ranges.last_mut() {
            Some(range) if range.1 + 1 >= first => range.1 = range.1.max(last),
            _ if is_room => self.ranges.push((first, last)),
            _ => {}
        }
    }
}

/// Finds the host's name: in a prompt, or in the output of `hostname` and `uname -n`.
#[derive(Default)]
struct Names {
    found: Option<String>,
    /// Another name in a later prompt.
    other: Option<String>,
    /// The last line was a command that prints the name.
    is_next: bool,
}

impl Names {
    fn read(&mut self, line: &paste::PastedLine<'_>) {
        let text = line.text.trim();
        if let Some(host) = line.host {
            let first = self.found.get_or_insert_with(|| host.to_string());
            if first != host && self.other.is_none() {
                self.other = Some(host.to_string());
            }
        }
        if std::mem::take(&mut self.is_next) && paste::is_name(text) {
            self.found = Some(text.to_string());
        }
        self.is_next = ["hostname", "uname -n"].contains(&text);
    }
}

/// Ranges of lines that are kept.
pub(super) const MAX_RANGES: usize = 12;
