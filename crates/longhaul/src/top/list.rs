//! The list of flows on the screen: which ones, in which order, and the one that is selected. The selection belongs to a flow
//! and not to a line, so a flow that moves keeps it.

use super::column::Column;
use super::columns::FLOW_COLUMNS;
use super::keys::ListStep;
use crate::admin::figures::SortKey;
use crate::admin::snapshot::FlowState;
use std::ops::Range;

/// The order of the flows, the filter and the selection.
#[derive(Debug)]
pub(super) struct List {
    /// Place in [`FLOW_COLUMNS`] of the column that sorts.
    pub(super) column: usize,
    /// Whether the largest value comes first.
    pub(super) reversed: bool,
    /// A flow is shown if it contains each word of this text.
    pub(super) filter: String,
    /// Places of the shown flows in the rows, in their order on the screen.
    pub(super) order: Vec<usize>,
    /// Number of the selected flow, and its place in `order`.
    selected: Option<(u64, usize)>,
    /// Place in `order` of the first line on the screen.
    offset: usize,
    /// Number of lines on the screen.
    page: usize,
}

impl List {
    /// Returns an empty list, sorted by rate.
    pub(super) fn new() -> List {
        let column = FLOW_COLUMNS.iter().position(|column| column.place.rank.is_none()).unwrap_or(0);
        List { column, reversed: true, filter: String::new(), order: Vec::new(), selected: None, offset: 0, page: 1 }
    }

    /// Filters and sorts `rows` anew. A selected flow that is gone leaves the selection to the one in its place.
    pub(super) fn arrange(&mut self, rows: &[FlowState]) {
        let words: Vec<String> = self.filter.split_whitespace().map(str::to_lowercase).collect();
        let figure = FLOW_COLUMNS[self.column].figure;
        let shown = rows.iter().enumerate().filter(|(_, row)| words.iter().all(|word| contains(row, word)));
        let mut keyed: Vec<(SortKey<'_>, usize)> = shown.map(|(at, row)| (figure.key(row), at)).collect();
        // The sort is stable: of equal keys, the older flow comes first.
        keyed.sort_by(|(one, _), (two, _)| one.compare(two, self.reversed));
        self.order = keyed.into_iter().map(|(_, at)| at).collect();
        self.selected = self.selected.and_then(|(number, before)| {
            let place = self.order.iter().position(|at| rows[*at].flow == number);
            let place = place.unwrap_or_else(|| before.min(self.order.len().saturating_sub(1)));
            Some((rows[*self.order.get(place)?].flow, place))
        });
    }

    /// Sorts by the column at `column`: numbers with the largest first, texts from A to Z.
    pub(super) fn sort_by(&mut self, column: usize, rows: &[FlowState]) {
        self.column = column.min(FLOW_COLUMNS.len() - 1);
        self.reversed = self.column().figure.unit().is_some();
        self.arrange(rows);
    }

    /// Returns the column that sorts.
    pub(super) fn column(&self) -> &'static Column<FlowState> {
        &FLOW_COLUMNS[self.column]
    }

    /// Returns the number of the selected flow.
    pub(super) fn selected(&self) -> Option<u64> {
        self.selected.map(|(number, _)| number)
    }

    /// Selects the first flow on the screen, unless one is selected. Returns the number of the selected flow.
    pub(super) fn select(&mut self, rows: &[FlowState]) -> Option<u64> {
        if self.selected.is_none() {
            self.go_to(self.offset, rows);
        }
        self.selected()
    }

    /// Moves the selection. Without one, selects the first flow on the screen.
    pub(super) fn step(&mut self, step: ListStep, rows: &[FlowState]) {
        let Some((_, place)) = self.selected else {
            return match step {
                ListStep::Last => self.go_to(usize::MAX, rows),
                _ => self.go_to(self.offset, rows),
            };
        };
        self.go_to(moved(place, step, self.page), rows);
    }

    /// Sets the number of lines on the screen. Returns the places in `order` of the flows to show.
    pub(super) fn window(&mut self, page: usize) -> Range<usize> {
        self.page = page;
        if let Some((_, place)) = self.selected {
            self.offset = self.offset.clamp((place + 1).saturating_sub(page.max(1)), place);
        }
        self.offset = self.offset.min(self.order.len().saturating_sub(page));
        self.offset..self.order.len().min(self.offset + page)
    }

    fn go_to(&mut self, place: usize, rows: &[FlowState]) {
        let place = place.min(self.order.len().saturating_sub(1));
        self.selected = self.order.get(place).map(|at| (rows[*at].flow, place));
    }
}

/// Returns the line after a move from line `from`, without an upper limit.
pub(super) fn moved(from: usize, step: ListStep, page: usize) -> usize {
    let page = page.saturating_sub(1).max(1);
    match step {
        ListStep::Up => from.saturating_sub(1),
        ListStep::Down => from.saturating_add(1),
        ListStep::PageUp => from.saturating_sub(page),
        ListStep::PageDown => from.saturating_add(page),
        ListStep::First => 0,
        ListStep::Last => usize::MAX,
    }
}

/// Whether a flow contains a word in lower case.
fn contains(flow: &FlowState, word: &str) -> bool {
    let named = [&flow.next_hop, &flow.proxy, &flow.transfer].map(Option::as_deref);
    let texts = [Some(flow.tunnel.as_str()), Some(flow.peer.as_str())].into_iter().chain(named);
    let controls = [&flow.accept, &flow.dial].map(|leg| leg.as_ref().and_then(|leg| leg.congestion.as_deref()));
    let mut all = texts.into_iter().chain(controls).flatten().chain([flow.state.text()]);
    all.any(|text| text.contains(word) || text.to_lowercase().contains(word))
        || flow.flow.to_string() == word
        || flow.next_hop_address.is_some_and(|address| address.to_string().contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::snapshot::Rates;

    fn rows(numbers: &[(u64, &str, f64)]) -> Vec<FlowState> {
        let row = |(number, tunnel, up): &(u64, &str, f64)| {
            let mut row = FlowState::default();
            (row.flow, row.tunnel) = (*number, (*tunnel).into());
            row.rates = Rates { up: Some(*up), down: Some(0.0) };
            row
        };
        numbers.iter().map(row).collect()
    }

    fn shown(list: &List, rows: &[FlowState]) -> Vec<u64> {
        list.order.iter().map(|at| rows[*at].flow).collect()
    }

    fn by(name: &str) -> usize {
        FLOW_COLUMNS.iter().position(|column| column.figure.name == name).unwrap()
    }

    #[test]
    fn flows_are_sorted_and_filtered() {
        let rows = rows(&[(1, "alpha", 5.0), (2, "beta", 9.0), (3, "Alpha", 9.0), (14, "gamma", 0.0)]);
        let mut list = List::new();
        list.arrange(&rows);
        assert_eq!(shown(&list, &rows), [2, 3, 1, 14], "the busiest first, the older one of two equals first");
        list.sort_by(by("tunnel"), &rows);
        assert_eq!(shown(&list, &rows), [3, 1, 2, 14]);
        list.sort_by(by("number"), &rows);
        assert_eq!(shown(&list, &rows), [14, 3, 2, 1]);
        for (filter, want) in
            [("ALPHA", &[3, 1][..]), ("alpha dial", &[3, 1]), ("a b", &[2]), ("1", &[1]), ("none", &[])]
        {
            list.filter = filter.into();
            list.arrange(&rows);
            assert_eq!(shown(&list, &rows), want, "{filter}");
        }
    }

    #[test]
    fn the_selection_stays_with_its_flow() {
        let before = rows(&[(1, "t", 3.0), (2, "t", 2.0), (3, "t", 1.0)]);
        let mut list = List::new();
        list.arrange(&before);
        assert_eq!((list.selected(), list.window(2)), (None, 0..2));
        list.step(ListStep::Down, &before);
        list.step(ListStep::Down, &before);
        assert_eq!(list.selected(), Some(2));
        let after = rows(&[(1, "t", 3.0), (2, "t", 0.0), (3, "t", 1.0), (4, "t", 7.0)]);
        list.arrange(&after);
        assert_eq!((list.selected(), list.window(2)), (Some(2), 2..4), "it moved down, and the screen with it");
        let gone = rows(&[(1, "t", 3.0), (3, "t", 1.0)]);
        list.arrange(&gone);
        assert_eq!((list.selected(), list.window(2)), (Some(3), 0..2));
        list.arrange(&[]);
        assert_eq!((list.selected(), list.window(2)), (None, 0..0));
        for step in
            [ListStep::Up, ListStep::Down, ListStep::PageUp, ListStep::PageDown, ListStep::First, ListStep::Last]
        {
            list.step(step, &[]);
            assert_eq!((list.selected(), list.window(0)), (None, 0..0));
        }
    }

    #[test]
    fn every_step_stays_in_the_list() {
        let many: Vec<(u64, &str, f64)> = (1..=100).map(|number| (number, "t", -(number as f64))).collect();
        let rows = rows(&many);
        let mut list = List::new();
        list.arrange(&rows);
        list.window(10);
        let mut after = |step| {
            list.step(step, &rows);
            (list.selected().unwrap(), list.window(10))
        };
        assert_eq!(after(ListStep::Down), (1, 0..10));
        assert_eq!(after(ListStep::PageDown), (10, 0..10));
        assert_eq!(after(ListStep::PageDown), (19, 9..19));
        assert_eq!(after(ListStep::Last), (100, 90..100));
        assert_eq!(after(ListStep::Down), (100, 90..100));
        assert_eq!(after(ListStep::First), (1, 0..10));
        assert_eq!(after(ListStep::Up), (1, 0..10));
        assert_eq!(list.window(0).len(), 0);
    }
}
