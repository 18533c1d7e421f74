//! The stages, one file for each part of the path: [`entry`], [`line`](mod@line), [`way`], [`exit`]. To add a stage, add its
//! type and its row to one of them.

pub(crate) mod entry;
mod exit;
pub(crate) mod line;
mod way;

use crate::row::Row;

/// Rows of all stages, in the order in which a packet passes them.
pub const ROWS: &[&Row] = &in_order([entry::ROWS, line::ROWS, way::ROWS, exit::ROWS]);

/// Keys of all stages, in the same order.
pub(crate) const KEYS: &[&str] = &keys();

/// Returns the row of the stage `key`.
pub fn row(key: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.key == key).copied()
}

const COUNT: usize = entry::ROWS.len() + line::ROWS.len() + way::ROWS.len() + exit::ROWS.len();

/// Returns the rows of all `parts`, one after the other.
const fn in_order(parts: [&'static [Row]; 4]) -> [&'static Row; COUNT] {
    let mut rows = [&entry::ROWS[0]; COUNT];
    let mut count = 0;
    let mut part = 0;
    while part < parts.len() {
        let mut index = 0;
        while index < parts[part].len() {
            rows[count] = &parts[part][index];
            count += 1;
            index += 1;
        }
        part += 1;
    }
    rows
}

const fn keys() -> [&'static str; COUNT] {
    let mut keys = [""; COUNT];
    let mut index = 0;
    while index < COUNT {
        keys[index] = ROWS[index].key;
        index += 1;
    }
    keys
}
