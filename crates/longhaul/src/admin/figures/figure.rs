//! What a figure is: its value, its name, its place in each view.

use crate::admin::snapshot::{HopState, LegState};
use crate::figures::{age, bytes, rate, rtt};
use std::borrow::Cow;
use std::cmp::Ordering;

/// A figure of a `T`.
pub struct Figure<T> {
    /// Its name in sentences.
    pub name: String,
    /// Its column in `top`.
    pub top: Option<TopColumn>,
    /// Its column in `status`.
    pub status: Option<StatusColumn>,
    /// Its column on the dashboard.
    pub page: Option<PageColumn>,
    /// The line of a leg's figure in the details of `top`: the label, and the unit behind the text.
    pub details: Option<[&'static str; 2]>,
    /// The metric of a next hop's figure: the name, and one sentence.
    pub metric: Option<[&'static str; 2]>,
    read: Read<T>,
}

/// A column of a table of `top`.
pub struct TopColumn {
    /// Its heading.
    pub title: String,
    /// Its width.
    pub width: Width,
    /// Place in the order of importance, from 0. A narrow screen drops the columns with the largest ranks. `None`: it is never
    /// shown, and only sorts.
    pub rank: Option<u8>,
}

/// Width of a column, in characters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Width {
    /// Numbers, aligned to the right. The column is at least this wide, and never cuts a number.
    Number(u16),
    /// Texts, as wide as the longest one. If the screen is too narrow, they are cut down to the first of these widths. They are
    /// never wider than the second.
    Text(u16, u16),
    /// Like `Text`. The column is left out while every cell is empty.
    Optional(u16, u16),
}

/// A column of a table of `status`.
pub struct StatusColumn {
    /// Its heading.
    pub heading: &'static str,
    /// Number of characters from which on a cell is cut. Such a column is left out while every cell is empty. `None`: neither.
    pub max_chars: Option<usize>,
}

/// A column of a table of the dashboard.
pub struct PageColumn {
    /// Its heading.
    pub heading: &'static str,
    /// Place of the value in the JSON of a `T`: field names with dots between them.
    pub path: String,
}

/// Unit of a number. It decides how views write the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// It counts things.
    Count,
    /// Bytes.
    Bytes,
    /// Bits per second.
    Rate,
    /// Milliseconds of a round trip.
    Milliseconds,
    /// Seconds of an age.
    Age,
}

type ReadText<T> = Box<dyn Fn(&T) -> Option<Cow<'_, str>> + Send + Sync>;
type ReadNumber<T> = Box<dyn Fn(&T) -> Option<f64> + Send + Sync>;

enum Read<T> {
    Text(ReadText<T>),
    Number(Unit, ReadNumber<T>),
}

/// Sort key of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum SortKey<'a> {
    /// A number. Nothing is less than every number.
    Number(Option<f64>),
    /// A text.
    Text(Cow<'a, str>),
}

impl<T> Figure<T> {
    fn new(name: impl Into<String>, read: Read<T>) -> Figure<T> {
        Figure { name: name.into(), top: None, status: None, page: None, details: None, metric: None, read }
    }

    /// Returns a figure that is a text.
    pub(crate) fn text(
        name: impl Into<String>,
        read: impl Fn(&T) -> Option<Cow<'_, str>> + Send + Sync + 'static,
    ) -> Figure<T> {
        Figure::new(name, Read::Text(Box::new(read)))
    }

    /// Returns a figure that is a number.
    pub(super) fn number(
        name: impl Into<String>,
        unit: Unit,
        read: impl Fn(&T) -> Option<f64> + Send + Sync + 'static,
    ) -> Figure<T> {
        Figure::new(name, Read::Number(unit, Box::new(read)))
    }

    pub(crate) fn top(self, title: impl Into<String>, width: Width, rank: impl Into<Option<u8>>) -> Figure<T> {
        Figure { top: Some(TopColumn { title: title.into(), width, rank: rank.into() }), ..self }
    }

    pub(super) fn status(self, heading: &'static str) -> Figure<T> {
        Figure { status: Some(StatusColumn { heading, max_chars: None }), ..self }
    }

    pub(super) fn short_status(self, heading: &'static str, max_chars: usize) -> Figure<T> {
        Figure { status: Some(StatusColumn { heading, max_chars: Some(max_chars) }), ..self }
    }

    pub(super) fn page(self, path: impl Into<String>, heading: &'static str) -> Figure<T> {
        Figure { page: Some(PageColumn { heading, path: path.into() }), ..self }
    }

    /// Returns the same figure of a `U`, which has a `T` at `of`. It has no place in a view yet.
    pub(super) fn part<U: 'static>(&'static self, name: String, of: fn(&U) -> Option<&T>) -> Figure<U> {
        match &self.read {
            Read::Text(read) => Figure::text(name, move |whole| read(of(whole)?)),
            Read::Number(unit, read) => Figure::number(name, *unit, move |whole| read(of(whole)?)),
        }
    }

    /// Returns its text. `None` if `of` has no value for it.
    pub fn cell<'a>(&self, of: &'a T) -> Option<Cow<'a, str>> {
        let (unit, number) = match &self.read {
            Read::Text(read) => return read(of),
            Read::Number(unit, read) => (unit, read(of)?),
        };
        Some(Cow::Owned(match unit {
            Unit::Count => format!("{number:.0}"),
            Unit::Bytes => bytes(number as u64),
            Unit::Rate => rate(number),
            Unit::Milliseconds => rtt(number),
            Unit::Age => age(number),
        }))
    }

    /// Returns its text, or a dash without a value.
    pub fn cell_or_dash<'a>(&self, of: &'a T) -> Cow<'a, str> {
        self.cell(of).unwrap_or("-".into())
    }

    /// Returns its number. `None` if it is a text, or if `of` has no value for it.
    pub fn value(&self, of: &T) -> Option<f64> {
        match &self.read {
            Read::Text(_) => None,
            Read::Number(_, read) => read(of),
        }
    }

    /// Returns the unit of its number. `None` if it is a text.
    pub fn unit(&self) -> Option<Unit> {
        match &self.read {
            Read::Text(_) => None,
            Read::Number(unit, _) => Some(*unit),
        }
    }

    /// Returns the key that sorts `of` among others. Without a value, a text is the empty one.
    pub fn key<'a>(&self, of: &'a T) -> SortKey<'a> {
        match &self.read {
            Read::Text(read) => SortKey::Text(read(of).unwrap_or_default()),
            Read::Number(_, read) => SortKey::Number(read(of)),
        }
    }
}

/// The page of a flow in `top` lists the figures of its legs alone.
impl Figure<LegState> {
    pub(super) fn details(self, label: &'static str, unit: &'static str) -> Figure<LegState> {
        Figure { details: Some([label, unit]), ..self }
    }
}

/// Of these tables, `/metrics` has that of next hops alone.
impl Figure<HopState> {
    pub(super) fn metric(self, name: &'static str, help: &'static str) -> Figure<HopState> {
        Figure { metric: Some([name, help]), ..self }
    }
}

impl Unit {
    /// Returns the name of the function that writes such a number on the dashboard: page/text.js has them.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Count => "count",
            Unit::Bytes => "bytes",
            Unit::Rate => "rate",
            Unit::Milliseconds => "milliseconds",
            Unit::Age => "age",
        }
    }
}

impl SortKey<'_> {
    /// Compares two keys of one figure. Rows without a value come last, also in the reversed order.
    pub fn compare(&self, other: &SortKey<'_>, reversed: bool) -> Ordering {
        let order = match (self, other) {
            (SortKey::Number(Some(one)), SortKey::Number(Some(two))) => one.total_cmp(two),
            (SortKey::Number(one), SortKey::Number(two)) => return two.is_some().cmp(&one.is_some()),
            (SortKey::Text(one), SortKey::Text(two)) => one.cmp(two),
            (SortKey::Number(_), SortKey::Text(_)) => Ordering::Less,
            (SortKey::Text(_), SortKey::Number(_)) => Ordering::Greater,
        };
        if reversed { order.reverse() } else { order }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_without_a_value_come_last_in_either_order() {
        let mut keys = [
            SortKey::Number(None),
            SortKey::Number(Some(1.0)),
            SortKey::Number(Some(f64::NAN)),
            SortKey::Number(Some(2.0)),
        ];
        keys.sort_by(|one, two| one.compare(two, false));
        assert_eq!((&keys[0], &keys[3]), (&SortKey::Number(Some(1.0)), &SortKey::Number(None)));
        keys.sort_by(|one, two| one.compare(two, true));
        assert_eq!((&keys[2], &keys[3]), (&SortKey::Number(Some(1.0)), &SortKey::Number(None)));
        assert_eq!(SortKey::Text("a".into()).compare(&SortKey::Text("b".into()), true), Ordering::Greater);
    }
}
