//! The state of the screen. It changes by events alone: a key, an answer of the daemon, a tick of the clock. Nothing here
//! does I/O or reads a clock.

use super::columns::FLOW_COLUMNS;
use super::keys::{self, Command, ListStep};
use super::list::{self, List};
use super::rates;
use crate::admin::client::NoAnswer;
use crate::admin::snapshot::{FlowState, Snapshot};
use jiff::tz::TimeZone;
use longhaul_core::curve::Span;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// State of the screen.
#[derive(Debug)]
pub(super) struct Model {
    /// Path of the control socket.
    pub(super) socket: String,
    /// Time zone of the times of day.
    pub(super) zone: TimeZone,
    /// Time in seconds since 1970 (UTC).
    pub(super) now: f64,
    /// Contact with the daemon.
    pub(super) contact: Contact,
    /// The last snapshot, with its rates, and the time when it came.
    pub(super) picture: Option<(Snapshot, f64)>,
    /// The flows of the moment when the operator paused, and its time.
    pub(super) paused: Option<(Vec<FlowState>, f64)>,
    /// The list of flows.
    pub(super) list: List,
    /// The time that the curves of tunnels show.
    pub(super) span: Span,
    /// The texts, lists and questions above the main screen. The last one is on top.
    pub(super) panes: Vec<Pane>,
    /// A message for the last line of the screen, until the next key.
    pub(super) note: Option<String>,
}

/// Whether the daemon answers.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Contact {
    /// The first answer has not come yet.
    Asking,
    /// The last request was answered.
    Up,
    /// The last request was not answered.
    Gone {
        /// Time of the first request without an answer, in seconds since 1970 (UTC).
        since: f64,
        /// The reason.
        why: NoAnswer,
        /// State of the service, as systemd describes it.
        unit: Option<String>,
    },
}

/// Something above the main screen.
#[derive(Debug)]
pub(super) enum Pane {
    /// A text that can be scrolled: its subject, and its first visible line.
    Text(Page, usize),
    /// The list of what to sort by. The number is the place of the marked column.
    Sort(usize),
    /// The filter is being typed. The text is the filter before.
    Filter(String),
    /// The question whether to kill a flow.
    Confirm(u64),
}

/// Subject of a text.
#[derive(Debug)]
pub(super) enum Page {
    /// The keys and the columns.
    Help,
    /// The problems.
    Problems,
    /// The tunnels and their next hops.
    Tunnels,
    /// A flow, as it was seen last, and whether it still lives.
    Details(Box<FlowState>, bool),
}

/// Something that the model wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// End the program.
    Quit,
    /// Kill the flow with this number.
    Kill(u64),
}

impl Model {
    /// Returns the state before the first answer.
    pub(super) fn new(socket: String, zone: TimeZone, now: f64) -> Model {
        Model {
            socket,
            zone,
            now,
            contact: Contact::Asking,
            picture: None,
            paused: None,
            list: List::new(),
            span: Span::default(),
            panes: Vec::new(),
            note: None,
        }
    }

    /// Takes a snapshot, or the reason why there is none.
    pub(super) fn answered(&mut self, answer: Result<Snapshot, NoAnswer>) {
        match answer {
            Ok(mut snapshot) => {
                rates::fill(&mut snapshot, self.picture.as_ref().map(|(picture, _)| picture));
                self.picture = Some((snapshot, self.now));
                self.contact = Contact::Up;
                self.arrange();
            }
            Err(why) => {
                let (since, unit) = match &mut self.contact {
                    Contact::Gone { since, unit, .. } => (*since, unit.take()),
                    _ => (self.now, None),
                };
                self.contact = Contact::Gone { since, why, unit };
            }
        }
    }

    /// Takes what systemd says of the service while the daemon is gone.
    pub(super) fn systemd_said(&mut self, said: Option<String>) {
        if let Contact::Gone { unit, .. } = &mut self.contact {
            *unit = said;
        }
    }

    /// Takes the outcome of a kill.
    pub(super) fn killed(&mut self, flow: u64, outcome: Result<(), String>) {
        self.note = Some(match outcome {
            Ok(()) => format!("flow {flow}: killed"),
            Err(why) => format!("flow {flow}: not killed: {why}"),
        });
    }

    /// Returns the time of which the curves of tunnels are shown. `None` while they are not.
    pub(super) fn wanted_curves(&self) -> Option<Span> {
        let is_open = self.panes.iter().any(|pane| matches!(pane, Pane::Text(Page::Tunnels, _)));
        is_open.then_some(self.span)
    }

    /// Returns the flows that the list is made of: those of the pause, or those of the last picture.
    pub(super) fn flows(&self) -> &[FlowState] {
        flows(&self.paused, &self.picture)
    }

    /// Obeys a key.
    pub(super) fn key(&mut self, key: KeyEvent) -> Option<Action> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        if keys::is_interrupt(key) {
            return Some(Action::Quit);
        }
        self.note = None;
        match self.panes.last() {
            Some(Pane::Filter(_)) => self.type_filter(key),
            Some(Pane::Confirm(flow)) => {
                let flow = *flow;
                self.panes.pop();
                return (key.code == KeyCode::Char('y')).then_some(Action::Kill(flow));
            }
            Some(Pane::Sort(_)) => return self.choose_sort(key),
            Some(Pane::Text(..)) | None => return keys::command(key).and_then(|command| self.obey(command)),
        }
        None
    }

    fn obey(&mut self, command: Command) -> Option<Action> {
        match command {
            Command::Quit => return Some(Action::Quit),
            Command::Close => return self.close(),
            Command::Move(step) => self.step(step),
            Command::Help => self.open(Page::Help),
            Command::Problems => self.open(Page::Problems),
            Command::Tunnels => self.open(Page::Tunnels),
            Command::Span => self.span = self.span.next(),
            Command::Kill => self.ask_to_kill(),
            // The others are about the list of flows, so they close the text above it.
            other => {
                let is_text = self.panes.pop().is_some();
                match other {
                    Command::Details if is_text => {}
                    Command::Details => self.show_details(),
                    Command::Filter => self.panes.push(Pane::Filter(self.list.filter.clone())),
                    Command::Sort => self.panes.push(Pane::Sort(self.list.column)),
                    Command::Reverse => {
                        self.list.reversed = !self.list.reversed;
                        self.arrange();
                    }
                    _ => self.pause(),
                }
            }
        }
        None
    }

    /// Opens a text, or closes it if it is open.
    fn open(&mut self, page: Page) {
        let same = |pane: &Pane| matches!(pane, Pane::Text(open, _) if std::mem::discriminant(open) == std::mem::discriminant(&page));
        match self.panes.iter().rposition(same) {
            Some(at) => self.panes.truncate(at),
            None => self.panes.push(Pane::Text(page, 0)),
        }
    }

    fn close(&mut self) -> Option<Action> {
        if self.panes.pop().is_some() {
            return None;
        }
        if self.list.filter.is_empty() {
            return Some(Action::Quit);
        }
        self.list.filter.clear();
        self.arrange();
        None
    }

    fn step(&mut self, step: ListStep) {
        match self.panes.last_mut() {
            // The view limits it, because it knows the number of lines.
            Some(Pane::Text(_, line)) => *line = list::moved(*line, step, PAGE_LINES),
            _ => self.list.step(step, flows(&self.paused, &self.picture)),
        }
    }

    fn show_details(&mut self) {
        let Some(number) = self.list.select(flows(&self.paused, &self.picture)) else { return };
        let row = self.flows().iter().find(|row| row.flow == number).cloned();
        self.panes.extend(row.map(|row| Pane::Text(Page::Details(Box::new(row), true), 0)));
    }

    /// Asks about the flow whose details are shown, or else about the selected one.
    fn ask_to_kill(&mut self) {
        let flow = match self.panes.last() {
            Some(Pane::Text(Page::Details(row, true), _)) => Some(row.flow),
            Some(_) => None,
            None => self.list.select(flows(&self.paused, &self.picture)),
        };
        match flow {
            Some(flow) if matches!(self.contact, Contact::Up) => self.panes.push(Pane::Confirm(flow)),
            Some(_) => self.note = Some("the daemon does not answer, so nothing can be killed".into()),
            None => self.note = Some("there is no flow to kill".into()),
        }
    }

    fn pause(&mut self) {
        self.paused = match self.paused.take() {
            Some(_) => None,
            None => self.picture.as_ref().map(|(picture, at)| (picture.flows.clone(), *at)),
        };
        self.arrange();
    }

    fn type_filter(&mut self, key: KeyEvent) {
        match key.code {
            KeyCode::Enter => drop(self.panes.pop()),
            KeyCode::Esc => {
                if let Some(Pane::Filter(before)) = self.panes.pop() {
                    self.list.filter = before;
                }
            }
            KeyCode::Backspace => drop(self.list.filter.pop()),
            KeyCode::Char('u') if key.modifiers.contains(KeyModifiers::CONTROL) => self.list.filter.clear(),
            KeyCode::Char(_) if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) => {}
            KeyCode::Char(typed) if self.list.filter.len() < MAX_FILTER_BYTES => self.list.filter.push(typed),
            KeyCode::Up => self.step(ListStep::Up),
            KeyCode::Down => self.step(ListStep::Down),
            _ => {}
        }
        self.arrange();
    }

    fn choose_sort(&mut self, key: KeyEvent) -> Option<Action> {
        let Some(Pane::Sort(at)) = self.panes.last_mut() else { return None };
        match keys::command(key)? {
            Command::Move(step) => *at = list::moved(*at, step, FLOW_COLUMNS.len()).min(FLOW_COLUMNS.len() - 1),
            Command::Details => {
                let at = *at;
                self.panes.pop();
                self.list.sort_by(at, flows(&self.paused, &self.picture));
            }
            Command::Quit => return Some(Action::Quit),
            _ => drop(self.panes.pop()),
        }
        None
    }

    /// Brings the list and the open details up to date.
    fn arrange(&mut self) {
        let rows = flows(&self.paused, &self.picture);
        self.list.arrange(rows);
        let live = self.picture.as_ref().map_or(&[][..], |(picture, _)| &picture.flows);
        for pane in &mut self.panes {
            if let Pane::Text(Page::Details(row, lives), _) = pane {
                let now = live.iter().find(|live| live.flow == row.flow);
                *lives = now.is_some();
                if let Some(now) = now {
                    **row = now.clone();
                }
            }
        }
    }
}

fn flows<'a>(paused: &'a Option<(Vec<FlowState>, f64)>, picture: &'a Option<(Snapshot, f64)>) -> &'a [FlowState] {
    match (paused, picture) {
        (Some((flows, _)), _) => flows,
        (None, Some((picture, _))) => &picture.flows,
        (None, None) => &[],
    }
}

/// Number of lines that a text moves by a screen.
const PAGE_LINES: usize = 10;
/// Maximum length of a filter, in bytes.
const MAX_FILTER_BYTES: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(uptime_seconds: f64, numbers: &[u64]) -> Snapshot {
        let flow = |number: &u64| FlowState { flow: *number, peer: format!("client{number}"), ..FlowState::default() };
        Snapshot {
            pid: 1,
            ready: true,
            uptime_seconds,
            flows: numbers.iter().map(flow).collect(),
            ..Snapshot::default()
        }
    }

    fn model(numbers: &[u64]) -> Model {
        let mut model = Model::new("/run/admin.sock".into(), TimeZone::UTC, 0.0);
        model.answered(Ok(snapshot(1.0, numbers)));
        model
    }

    fn press(model: &mut Model, keys: &str) -> Option<Action> {
        keys.chars().map(|key| code(model, KeyCode::Char(key))).last().flatten()
    }

    fn code(model: &mut Model, code: KeyCode) -> Option<Action> {
        model.key(KeyEvent::from(code))
    }

    fn shown(model: &Model) -> Vec<u64> {
        model.list.order.iter().map(|at| model.flows()[*at].flow).collect()
    }

    #[test]
    fn a_kill_needs_a_second_key() {
        let mut model = model(&[1, 2]);
        assert_eq!(press(&mut model, "k"), None);
        assert!(matches!(model.panes.last(), Some(Pane::Confirm(1))));
        assert_eq!(press(&mut model, "n"), None);
        assert_eq!(press(&mut model, "y"), None, "the question is gone");
        code(&mut model, KeyCode::Down);
        // The flow of the question is killed, whatever comes in between.
        press(&mut model, "k");
        model.answered(Ok(snapshot(2.0, &[1, 2, 3])));
        assert_eq!(press(&mut model, "y"), Some(Action::Kill(2)));
        model.killed(2, Err("there is no such flow".into()));
        assert_eq!(model.note.as_deref(), Some("flow 2: not killed: there is no such flow"));
        // From the details.
        code(&mut model, KeyCode::Enter);
        assert_eq!(press(&mut model, "ky"), Some(Action::Kill(2)));
        assert!(matches!(model.panes.last(), Some(Pane::Text(Page::Details(..), _))));
        model.answered(Ok(snapshot(3.0, &[1])));
        assert_eq!(press(&mut model, "ky"), None, "it has ended");
        assert!(matches!(model.panes.last(), Some(Pane::Text(Page::Details(_, false), _))));
        // Without a flow, and without a daemon.
        code(&mut model, KeyCode::Esc);
        model.answered(Err(NoAnswer::Hangs("gone".into())));
        assert_eq!(press(&mut model, "ky"), None);
        model.answered(Ok(snapshot(4.0, &[])));
        assert_eq!(press(&mut model, "ky"), None);
    }

    #[test]
    fn escape_closes_one_thing_after_the_other() {
        let mut model = model(&[1, 2]);
        press(&mut model, "/client2");
        code(&mut model, KeyCode::Enter);
        press(&mut model, "?w");
        assert_eq!((model.panes.len(), shown(&model)), (2, vec![2]));
        for panes in [1, 0] {
            assert_eq!(code(&mut model, KeyCode::Esc), None);
            assert_eq!(model.panes.len(), panes);
        }
        assert_eq!((code(&mut model, KeyCode::Esc), shown(&model)), (None, vec![1, 2]));
        assert_eq!(code(&mut model, KeyCode::Esc), Some(Action::Quit));
        press(&mut model, "/q");
        assert_eq!(model.list.filter, "q", "while a filter is typed, letters are letters");
        code(&mut model, KeyCode::Backspace);
        code(&mut model, KeyCode::Backspace);
        press(&mut model, "1");
        assert_eq!(shown(&model), [1]);
        assert_eq!((code(&mut model, KeyCode::Esc), shown(&model)), (None, vec![1, 2]));
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        press(&mut model, "/");
        assert_eq!(model.key(interrupt), Some(Action::Quit));
        code(&mut model, KeyCode::Esc);
        assert_eq!(press(&mut model, "?q"), Some(Action::Quit));
    }

    #[test]
    fn a_key_that_opens_a_text_also_closes_it() {
        let mut model = model(&[1]);
        press(&mut model, "?t?");
        assert!(model.panes.is_empty(), "and what is above it");
        press(&mut model, "t");
        code(&mut model, KeyCode::PageDown);
        assert!(matches!(model.panes.last(), Some(Pane::Text(Page::Tunnels, line)) if *line > 0));
        press(&mut model, "/");
        assert!(matches!(model.panes[..], [Pane::Filter(_)]));
    }

    #[test]
    fn a_pause_freezes_the_flows_alone() {
        let mut model = model(&[1, 2]);
        press(&mut model, "p");
        model.answered(Ok(Snapshot { version: "next".into(), ..snapshot(2.0, &[2, 3]) }));
        assert_eq!(shown(&model), [1, 2]);
        assert_eq!(model.picture.as_ref().map(|(picture, _)| picture.version.as_str()), Some("next"));
        press(&mut model, "p");
        assert_eq!(shown(&model), [2, 3]);
    }

    #[test]
    fn the_order_is_chosen_from_a_list() {
        let mut model = model(&[3, 1, 2]);
        press(&mut model, "s");
        code(&mut model, KeyCode::Home);
        code(&mut model, KeyCode::Up);
        code(&mut model, KeyCode::Enter);
        assert_eq!((shown(&model), model.panes.len()), (vec![3, 2, 1], 0));
        press(&mut model, "r");
        assert_eq!(shown(&model), [1, 2, 3]);
        press(&mut model, "s");
        code(&mut model, KeyCode::End);
        code(&mut model, KeyCode::Esc);
        assert_eq!(shown(&model), [1, 2, 3]);
    }
}
