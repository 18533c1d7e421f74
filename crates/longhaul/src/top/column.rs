//! A column of a table, and the choice of the columns that fit.

use crate::admin::figures::{Figure, TopColumn, Width};
use std::borrow::Cow;

/// A column of a table whose rows are `T`.
pub(super) struct Column<T: 'static> {
    /// The figure in its cells.
    pub(super) figure: &'static Figure<T>,
    /// Its heading, its width and its rank.
    pub(super) place: &'static TopColumn,
}

impl<T> Column<T> {
    /// Returns the columns that `figures` have, in their order.
    pub(super) fn of(figures: &'static [Figure<T>]) -> impl Iterator<Item = Column<T>> {
        figures.iter().filter_map(|figure| Some(Column { figure, place: figure.top.as_ref()? }))
    }

    /// Returns the text of a cell.
    pub(super) fn cell<'a>(&self, row: &'a T) -> Cow<'a, str> {
        let empty = if matches!(self.place.width, Width::Optional(..)) { "" } else { "-" };
        self.figure.cell(row).unwrap_or(empty.into())
    }

    /// Returns the width that the column needs. Texts are those of all `rows`, so that scrolling does not move the columns.
    /// Numbers are those of the `visible` rows, because writing all of them would cost too much. 0: the column is left out.
    pub(super) fn needs<'a>(&self, rows: impl Iterator<Item = &'a T>, visible: impl Iterator<Item = &'a T>) -> u16
    where
        T: 'a,
    {
        let length = |row: &T| self.cell(row).chars().count();
        let (longest, most) = match self.place.width {
            Width::Number(least) => (visible.map(length).max().unwrap_or(0).max(least.into()), u16::MAX),
            Width::Text(_, most) => (rows.map(length).max().unwrap_or(0), most),
            Width::Optional(_, most) => match rows.map(length).max().unwrap_or(0) {
                0 => return 0,
                longest => (longest, most),
            },
        };
        u16::try_from(longest.max(self.place.title.len())).unwrap_or(u16::MAX).min(most)
    }

    /// Returns the width that the column gets if `left` characters are left and it needs `needs`. `None` if it does not fit.
    fn fits(&self, needs: u16, left: u16) -> Option<u16> {
        match self.place.width {
            Width::Number(_) => (needs <= left).then_some(needs),
            Width::Text(least, _) | Width::Optional(least, _) => (needs.min(least) <= left).then_some(needs.min(left)),
        }
    }
}

/// Chooses the columns for a screen of `width` characters, the most important ones first. `needs` are the widths that they
/// need. Returns the place in `columns` and the width of each, in the order of the table. A space precedes each column.
pub(super) fn choose<T>(columns: &[Column<T>], needs: &[u16], width: u16) -> Vec<(usize, u16)> {
    let mut ranked: Vec<(u8, usize)> =
        columns.iter().enumerate().filter_map(|(at, column)| Some((column.place.rank?, at))).collect();
    ranked.sort_unstable();
    let (mut left, mut chosen) = (width, Vec::new());
    for (_, at) in ranked {
        let needs = needs.get(at).copied().unwrap_or(0);
        if needs == 0 {
            continue;
        }
        let Some(wide) = columns[at].fits(needs, left.saturating_sub(1)) else { break };
        left -= wide + 1;
        chosen.push((at, wide));
    }
    chosen.sort_unstable();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(width: Width, rank: Option<u8>) -> Column<&'static str> {
        let figure = Figure::text("t", |row: &&'static str| Some((*row).into())).top("T", width, rank);
        Column::of(Box::leak(Box::new([figure]))).next().unwrap()
    }

    #[test]
    fn a_narrow_screen_drops_the_least_important_columns() {
        let columns = [
            column(Width::Text(3, 10), Some(1)),
            column(Width::Number(5), Some(2)),
            column(Width::Number(4), Some(0)),
            column(Width::Number(4), None),
        ];
        let rows = ["12345678"];
        let needs: Vec<u16> = columns.iter().map(|column| column.needs(rows.iter(), [].iter())).collect();
        assert_eq!(needs, [8, 5, 4, 4]);
        let chosen = |width| choose(&columns, &needs, width);
        assert_eq!(chosen(20), [(0, 8), (1, 5), (2, 4)]);
        assert_eq!(chosen(19), [(0, 8), (2, 4)]);
        assert_eq!(chosen(11), [(0, 5), (2, 4)]);
        assert_eq!(chosen(8), [(2, 4)]);
        assert_eq!(chosen(4), []);
        assert_eq!(chosen(0), []);
        let needs = |width, row: &'static str| column(width, None).needs([row].iter(), [row].iter());
        assert_eq!(needs(Width::Text(3, 10), "a long text of many"), 10);
        assert_eq!(needs(Width::Text(3, 10), "ab"), 2);
        assert_eq!(needs(Width::Number(3), "1234567"), 7);
    }
}
