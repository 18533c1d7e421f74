//! A column of a table, and the choice of the columns that fit.

use std::borrow::Cow;
use std::cmp::Ordering;

/// A column of a table whose rows are `T`.
pub(super) struct Column<T> {
    /// Its heading.
    pub(super) title: &'static str,
    /// Its name in sentences.
    pub(super) name: &'static str,
    /// Its width.
    pub(super) width: Width,
    /// Place in the order of importance, from 0. A narrow screen drops the columns with the largest ranks. `None`: it is never
    /// shown, and only sorts.
    pub(super) rank: Option<u8>,
    /// Text of a cell.
    pub(super) cell: fn(&T) -> Cow<'_, str>,
    /// Sort key of a row.
    pub(super) key: fn(&T) -> Key<'_>,
}

/// Width of a column, in characters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Width {
    /// Numbers, aligned to the right. The column is at least this wide, and never cuts a number.
    Number(u16),
    /// Texts, as wide as the longest one. If the screen is too narrow, they are cut down to the first of these widths. They are
    /// never wider than the second.
    Text(u16, u16),
    /// Like `Text`. The column is left out while every cell is empty.
    Optional(u16, u16),
}

/// Sort key of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Key<'a> {
    /// A number. Nothing is less than every number.
    Number(Option<f64>),
    /// A text.
    Text(&'a str),
}

impl Key<'_> {
    /// Compares two keys of one column. Rows without a value come last, also in the reversed order.
    pub(super) fn compare(self, other: Key<'_>, reversed: bool) -> Ordering {
        let order = match (self, other) {
            (Key::Number(Some(one)), Key::Number(Some(two))) => one.total_cmp(&two),
            (Key::Number(one), Key::Number(two)) => return two.is_some().cmp(&one.is_some()),
            (Key::Text(one), Key::Text(two)) => one.cmp(two),
            (Key::Number(_), Key::Text(_)) => Ordering::Less,
            (Key::Text(_), Key::Number(_)) => Ordering::Greater,
        };
        if reversed { order.reverse() } else { order }
    }
}

impl<T> Column<T> {
    /// Returns the width that the column needs. Texts are those of all `rows`, so that scrolling does not move the columns.
    /// Numbers are those of the `visible` rows, because writing all of them would cost too much. 0: the column is left out.
    pub(super) fn needs<'a>(&self, rows: impl Iterator<Item = &'a T>, visible: impl Iterator<Item = &'a T>) -> u16
    where
        T: 'a,
    {
        let length = |row: &T| (self.cell)(row).chars().count();
        let (longest, most) = match self.width {
            Width::Number(least) => (visible.map(length).max().unwrap_or(0).max(least.into()), u16::MAX),
            Width::Text(_, most) => (rows.map(length).max().unwrap_or(0), most),
            Width::Optional(_, most) => match rows.map(length).max().unwrap_or(0) {
                0 => return 0,
                longest => (longest, most),
            },
        };
        u16::try_from(longest.max(self.title.len())).unwrap_or(u16::MAX).min(most)
    }

    /// Returns the width that the column gets if `left` characters are left and it needs `needs`. `None` if it does not fit.
    fn fits(&self, needs: u16, left: u16) -> Option<u16> {
        match self.width {
            Width::Number(_) => (needs <= left).then_some(needs),
            Width::Text(least, _) | Width::Optional(least, _) => (needs.min(least) <= left).then_some(needs.min(left)),
        }
    }
}

/// Chooses the columns for a screen of `width` characters, the most important ones first. `needs` are the widths that they
/// need. Returns the place in `columns` and the width of each, in the order of the table. A space precedes each column.
pub(super) fn choose<T>(columns: &[Column<T>], needs: &[u16], width: u16) -> Vec<(usize, u16)> {
    let mut ranked: Vec<(u8, usize)> =
        columns.iter().enumerate().filter_map(|(at, column)| Some((column.rank?, at))).collect();
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
        Column { title: "T", name: "t", width, rank, cell: |row| (*row).into(), key: |row| Key::Text(row) }
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

    #[test]
    fn rows_without_a_value_come_last_in_either_order() {
        let mut keys = [Key::Number(None), Key::Number(Some(1.0)), Key::Number(Some(f64::NAN)), Key::Number(Some(2.0))];
        keys.sort_by(|one, two| one.compare(*two, false));
        assert_eq!((keys[0], keys[3]), (Key::Number(Some(1.0)), Key::Number(None)));
        keys.sort_by(|one, two| one.compare(*two, true));
        assert_eq!((keys[2], keys[3]), (Key::Number(Some(1.0)), Key::Number(None)));
        assert_eq!(Key::Text("a").compare(Key::Text("b"), true), Ordering::Greater);
    }
}
