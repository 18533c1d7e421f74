//! Writes a table: a line of headings, and one line a row.

use super::paper::clip;
use crate::admin::figures::Width;
use crate::top::column::{Column, choose};
use std::borrow::Cow;

/// A table whose columns fit the screen.
pub(super) struct Table<T: 'static> {
    columns: &'static [Column<T>],
    /// The columns on the screen and their widths.
    chosen: Vec<(usize, u16)>,
}

impl<T> Table<T> {
    /// Returns the table for lines of `width` characters. `visible` are those of the `rows` that will be written.
    pub(super) fn new<'a>(
        columns: &'static [Column<T>],
        width: usize,
        rows: impl Iterator<Item = &'a T> + Clone,
        visible: impl Iterator<Item = &'a T> + Clone,
    ) -> Table<T> {
        let needs: Vec<u16> = columns.iter().map(|column| column.needs(rows.clone(), visible.clone())).collect();
        // The first character of a line is the mark of the selected row.
        let width = u16::try_from(width).unwrap_or(u16::MAX);
        Table { columns, chosen: choose(columns, &needs, width) }
    }

    /// Returns the line of headings.
    pub(super) fn headings(&self) -> String {
        self.line(' ', |column| column.place.title.as_str().into())
    }

    /// Returns the line of a row. `mark` is its first character.
    pub(super) fn row(&self, row: &T, mark: char) -> String {
        self.line(mark, |column| column.cell(row))
    }

    fn line<'a>(&self, mark: char, cell: impl Fn(&Column<T>) -> Cow<'a, str>) -> String {
        let mut line = String::new();
        for (at, width) in &self.chosen {
            let (column, width) = (&self.columns[*at], usize::from(*width));
            let text = clip(&cell(column), width);
            line.push(if line.is_empty() { mark } else { ' ' });
            match column.place.width {
                Width::Number(_) => line.extend([format!("{text:>width$}")]),
                Width::Text(..) | Width::Optional(..) => line.extend([format!("{text:<width$}")]),
            }
        }
        if line.is_empty() { mark.into() } else { line }
    }
}
