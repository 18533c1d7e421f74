//! Draws the screen. The first line is the verdict, and stays in sight whatever is open. Then come the problems, the process,
//! the tunnels and the flows. Where there is little room, the flows shrink first, then the tunnels, then the problems. The
//! files:
//!
//! ```text
//! pages    the texts above the main screen: help, details, problems, tunnels
//!   curve    the figures of a tunnel over time, on some lines
//! prompt   the last line: the keys, the question before a kill, the filter being typed
//! table    a table whose columns fit
//! paper    lines on a part of the screen; breaks and cuts texts
//! palette  styles, with and without colours
//! ```

mod curve;
mod pages;
mod palette;
mod paper;
mod prompt;
mod table;

use super::columns::TUNNEL_COLUMNS;
use super::model::{Contact, Model, Pane};
use super::verdict::{self, Tone};
use crate::admin::snapshot::FlowState;
use crate::admin::verdict::Words;
use crate::figures;
use pages::Text;
pub(super) use palette::Palette;
use paper::{Paper, wrap};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use table::Table;

/// Draws `model` on `area` of `buffer`. Notes in `model` which flows and lines are in sight.
pub(super) fn draw(model: &mut Model, palette: Palette, buffer: &mut Buffer, area: Rect) {
    let mut paper = Paper::new(buffer, area);
    let height = paper.lines();
    write_verdict(model, palette, &mut paper);
    if height >= MIN_LINES_FOR_KEYS {
        let lines = prompt::lines(model, paper.width());
        let mut bottom = paper.bottom(lines.len());
        prompt::write(model, palette, &lines, &mut bottom);
    }
    match model.panes.iter().rposition(|pane| matches!(pane, Pane::Text(..) | Pane::Sort(_))) {
        Some(at) => write_pane(model, at, palette, &mut paper),
        None => write_main(model, palette, height, &mut paper),
    }
}

fn write_verdict(model: &Model, palette: Palette, paper: &mut Paper<'_>) {
    let (tone, text) = verdict::verdict(model);
    let clock = verdict::time(model.now, model);
    let (width, used) = (paper.width(), text.chars().count() + clock.len() + 2);
    let text = if used <= width { format!("{text}{}{clock}", " ".repeat(width - used + 2)) } else { text };
    let lines = wrap_or_keep(&text, width);
    for line in lines.iter().take(MAX_VERDICT_LINES.min(paper.lines())) {
        paper.write(line, palette.verdict(tone));
    }
}

/// Breaks a line only if it is too long, because the clock at its end stands apart.
fn wrap_or_keep(text: &str, width: usize) -> Vec<String> {
    if text.chars().count() <= width { vec![text.into()] } else { wrap(text, width) }
}

fn write_pane(model: &mut Model, at: usize, palette: Palette, paper: &mut Paper<'_>) {
    let text = pages::text(model, at, paper.width());
    let Text { title, lines, mark } = text;
    paper.write(&title, palette.heading());
    let room = paper.lines();
    let first = match &mut model.panes[at] {
        Pane::Text(_, first) => {
            *first = (*first).min(lines.len().saturating_sub(room));
            *first
        }
        // The marked line of a list stays in sight.
        _ => mark.unwrap_or(0).saturating_sub(room.saturating_sub(1)),
    };
    for (line, (tone, text)) in lines.iter().enumerate().skip(first).take(room) {
        let style = if mark == Some(line) { palette.selected() } else { palette.line(*tone) };
        paper.write(text, style);
    }
}

fn write_main(model: &mut Model, palette: Palette, height: usize, paper: &mut Paper<'_>) {
    write_reasons(model, palette, (height / 3).max(1), paper);
    if model.picture.is_none() {
        return;
    }
    let stale = matches!(model.contact, Contact::Gone { .. });
    let plain = if stale { palette.dim() } else { Style::new() };
    let process = verdict::process(model);
    let joined = process.join("; ");
    let process = if joined.chars().count() <= paper.width() { vec![joined] } else { process };
    process.iter().for_each(|line| paper.write(line, plain));
    let gaps = usize::from(paper.lines() >= MIN_LINES_FOR_GAPS);
    if paper.lines() >= MIN_LINES_FOR_TUNNELS {
        paper.skip(gaps);
        let room = (paper.lines() / 3).max(1);
        write_tunnels(model, palette, room, paper);
    }
    paper.skip(gaps);
    write_flows(model, palette, paper);
}

/// Writes the reasons of the verdict, on at most `room` lines.
fn write_reasons(model: &Model, palette: Palette, room: usize, paper: &mut Paper<'_>) {
    let reasons = verdict::reasons(model);
    let lines: Vec<(usize, Tone, String)> = reasons
        .iter()
        .enumerate()
        .flat_map(|(at, (tone, text))| wrap(text, paper.width()).into_iter().map(move |line| (at, *tone, line)))
        .collect();
    let shown = if lines.len() <= room { lines.len() } else { room - 1 };
    lines[..shown].iter().for_each(|(_, tone, line)| paper.write(line, palette.line(*tone)));
    if shown == lines.len() {
        return;
    }
    // A reason of which only a part is shown counts as missing.
    let missing = reasons.len() - lines[shown].0;
    paper.write(&format!("{missing} more: press w"), palette.line(Tone::Bad));
}

/// Writes the table of tunnels, on at most `room` lines and the headings.
fn write_tunnels(model: &Model, palette: Palette, room: usize, paper: &mut Paper<'_>) {
    let Some((picture, _)) = &model.picture else { return };
    let (tunnels, stale) = (&picture.tunnels, matches!(model.contact, Contact::Gone { .. }));
    let shown = if tunnels.len() <= room { tunnels.len() } else { room - 1 };
    let table = Table::new(&TUNNEL_COLUMNS, paper.width(), tunnels.iter(), tunnels[..shown].iter());
    paper.write(&table.headings(), palette.heading());
    for tunnel in &tunnels[..shown] {
        let tone = if tunnel.listening { Words::of(tunnel.health).tone } else { Tone::Bad };
        let style = if stale { palette.dim() } else { palette.line(tone) };
        paper.write(&table.row(tunnel, ' '), style);
    }
    if shown < tunnels.len() {
        paper.write(&format!(" {} more: press t", tunnels.len() - shown), palette.dim());
    }
}

fn write_flows(model: &mut Model, palette: Palette, paper: &mut Paper<'_>) {
    let stale = matches!(model.contact, Contact::Gone { .. });
    paper.write(&flows_title(model), if stale { palette.dim() } else { Style::new() });
    // Without a line for them, the headings leave their place to a flow.
    let room = if paper.lines() > 1 { paper.lines() - 1 } else { paper.lines() };
    let window = model.list.window(room);
    let flows = model.flows();
    let visible: Vec<&FlowState> = model.list.order[window].iter().map(|at| &flows[*at]).collect();
    let table = Table::new(&super::columns::FLOW_COLUMNS, paper.width(), flows.iter(), visible.iter().copied());
    if paper.lines() > 1 {
        paper.write(&table.headings(), palette.heading());
    }
    for row in visible {
        let selected = model.list.selected() == Some(row.flow);
        let style = if selected { palette.selected() } else { Style::new() };
        let style = if stale { style.patch(palette.dim()) } else { style };
        paper.write(&table.row(row, if selected { '>' } else { ' ' }), style);
    }
}

/// Returns the line above the table of flows: how many, which ones, in which order.
fn flows_title(model: &Model) -> String {
    let (list, all) = (&model.list, model.flows().len());
    let mut title = String::from("FLOWS ");
    if let Some((_, at)) = &model.paused {
        title += &format!("PAUSED at {}: ", verdict::time(*at, model));
    }
    if !list.filter.is_empty() {
        title += &format!("{} with \"{}\" of ", figures::thousands(list.order.len()), list.filter);
    }
    title += &figures::thousands(all);
    if all > 0 {
        title += &format!(", by {}, {}", list.column().figure.name, direction(model));
    }
    title
}

/// Returns the order of the flows in words.
fn direction(model: &Model) -> &'static str {
    match (model.list.column().figure.unit(), model.list.reversed) {
        (Some(_), true) => "largest first",
        (Some(_), false) => "smallest first",
        (None, true) => "Z to A",
        (None, false) => "A to Z",
    }
}

/// Maximum number of lines of the verdict.
const MAX_VERDICT_LINES: usize = 2;
/// A smaller screen has no line for the keys.
const MIN_LINES_FOR_KEYS: usize = 4;
/// With fewer lines for both tables, only the flows are shown.
const MIN_LINES_FOR_TUNNELS: usize = 7;
/// With fewer lines for both tables, no empty line is above them.
const MIN_LINES_FOR_GAPS: usize = 14;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::client::NoAnswer;
    use crate::admin::snapshot::{
        FindingState, FlowState, GainState, Health, HopState, HopStateName, LegState, Problem, Snapshot, TunnelState,
        VerifyState, VerifyStateName,
    };
    use jiff::tz::TimeZone;
    use longhaul_relay::CounterValues;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent};
    use ratatui::style::{Color, Modifier};

    const NOW: f64 = 1_700_000_000.0; // 2023-11-14 22:13:20 UTC

    /// Returns a daemon with a broken tunnel, a whole one, and `flows` flows.
    fn snapshot(uptime_seconds: f64, flows: u64) -> Snapshot {
        let tunnel = |name: &str, next_hop: &str, state, health| TunnelState {
            name: name.into(),
            listen: "10.0.0.1:6000".into(),
            listening: true,
            health,
            flows_now: flows * u64::from(name == "ssh-to-b"),
            counters: CounterValues {
                bytes_up: (uptime_seconds * 125_000.0) as u64 * u64::from(name == "ssh-to-b"),
                ..CounterValues::default()
            },
            next_hops: vec![HopState { next_hop: next_hop.into(), state, ..HopState::default() }],
            ..TunnelState::default()
        };
        let leg = |ms| LegState {
            rtt_ms: Some(ms),
            cwnd_segments: 120,
            congestion: Some("bbr".into()),
            ..LegState::default()
        };
        let flow = |number| FlowState {
            flow: number,
            tunnel: "ssh-to-b".into(),
            peer: format!("10.0.0.9:{number}"),
            next_hop: Some("b1:6000".into()),
            age_seconds: uptime_seconds,
            up_bytes: (number as f64 * uptime_seconds * 125_000.0) as u64,
            accept: Some(leg(0.2)),
            dial: Some(leg(63.2)),
            ..FlowState::default()
        };
        let problem = Problem {
            tunnel: Some("web".into()),
            stage: "next hop".into(),
            what: "every next hop is down by its checks: b2:80".into(),
            since_unix_seconds: NOW - 656.0,
            health: Health::Broken,
            ..Problem::default()
        };
        Snapshot {
            version: "1.2.3".into(),
            pid: 42,
            uptime_seconds,
            problems: vec![problem],
            tunnels: vec![
                tunnel("ssh-to-b", "b1:6000", HopStateName::Up, Health::Good),
                tunnel("web", "b2:80", HopStateName::Down, Health::Broken),
            ],
            flows: (1..=flows).map(flow).collect(),
            ..Snapshot::default()
        }
    }

    fn model(flows: u64) -> Model {
        let mut model = Model::new("/run/admin.sock".into(), TimeZone::UTC, NOW);
        model.answered(Ok(snapshot(61.0, flows)));
        model.answered(Ok(snapshot(62.0, flows)));
        model
    }

    fn buffer(model: &mut Model, colour: bool, width: u16, height: u16) -> Buffer {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let draw = |frame: &mut ratatui::Frame<'_>| {
            let area = frame.area();
            super::draw(model, Palette { colour }, frame.buffer_mut(), area);
        };
        terminal.draw(draw).unwrap();
        terminal.backend().buffer().clone()
    }

    fn screen(model: &mut Model, width: u16, height: u16) -> Vec<String> {
        let buffer = buffer(model, false, width, height);
        let line = |row| (0..width).map(|column| buffer[(column, row)].symbol()).collect::<String>();
        (0..height).map(|row| line(row).trim_end().to_owned()).collect()
    }

    #[test]
    fn the_first_screen_says_what_is_broken_since_when() {
        let want = "\
NOT WHOLE since 22:02:24 (10m56s): tunnel web, next hop                 22:13:20
BROKEN since 22:02:24 (10m56s): tunnel web, next hop: every next hop is down by
  its checks: b2:80
longhaul 1.2.3, pid 42, serving, up 1m02s; 2 flows, up 0bit/s, down 0bit/s

 TUNNEL   STATE      FLOWS REFUSED UP b/s DN b/s VERIFY NEXT HOPS
 web      BROKEN         0       0      0      0 -      b2:80 down
 ssh-to-b listening      2       0  1.00M      0 -      b1:6000 up

FLOWS 2, by total rate, largest first
   FLOW TUNNEL   CLIENT     STATE       AGE UP b/s DN b/s LIMITED BY  D.RTT
      2 ssh-to-b 10.0.0.9:2 dialling  1m02s  2.00M      0 -          63.2ms
      1 ssh-to-b 10.0.0.9:1 dialling  1m02s  1.00M      0 -          63.2ms
";
        let shown = screen(&mut model(2), 80, 24).join("\n");
        let (main, keys) = shown.rsplit_once('\n').unwrap();
        // The counters of the process stand still here, so its rates are zero.
        assert_eq!(main.trim_end(), want.trim_end(), "{shown}");
        assert!(keys.starts_with("q quit  ? help  Enter details  k kill"), "{keys}");
    }

    #[test]
    fn a_result_of_verify_that_is_too_old_says_why() {
        let mut snapshot = snapshot(1000.0, 0);
        snapshot.started_unix_seconds = NOW - 1000.0;
        let verify = |why: &str| VerifyState {
            state: VerifyStateName::Whole,
            since_unix_seconds: NOW - 900.0,
            last_unix_seconds: Some(NOW - 310.0),
            overdue: true,
            no_newer: Some(why.into()),
            ..VerifyState::default()
        };
        snapshot.tunnels[0].verify = Some(verify("no flow of the tunnel is free"));
        snapshot.tunnels[1].verify = Some(verify("the next probe is overdue"));
        let mut model = Model::new("s".into(), TimeZone::UTC, NOW);
        model.answered(Ok(snapshot));
        let shown = screen(&mut model, 100, 24);
        let row = shown.iter().find(|line| line.starts_with(" ssh-to-b")).unwrap();
        assert!(row.contains(" overdue "), "{shown:#?}");
        model.key(KeyEvent::from(KeyCode::Char('t')));
        let shown = screen(&mut model, 120, 24);
        let said = "  verify: whole since 21:58:20; last result 5m10s ago, no newer one: ";
        for why in ["no flow of the tunnel is free", "the next probe is overdue"] {
            assert!(shown.contains(&format!("{said}{why}")), "{shown:#?}");
        }
    }

    #[test]
    fn a_broken_result_without_a_newer_one_is_overdue_at_once() {
        let mut snapshot = snapshot(1000.0, 0);
        let broken = VerifyState { state: VerifyStateName::Broken, health: Health::Broken, ..VerifyState::default() };
        let late = VerifyState { health: Health::Doubtful, ..broken.clone() };
        for tunnel in &mut snapshot.tunnels {
            tunnel.verify = Some(if tunnel.name == "web" { late.clone() } else { broken.clone() });
        }
        let mut model = Model::new("s".into(), TimeZone::UTC, NOW);
        model.answered(Ok(snapshot));
        let shown = screen(&mut model, 100, 24);
        for (name, word) in [(" ssh-to-b", " BROKEN "), (" web", " overdue ")] {
            let row = shown.iter().find(|line| line.starts_with(name) && line.contains(word));
            assert!(row.is_some(), "{name} {word}: {shown:#?}");
        }
    }

    #[test]
    fn the_details_say_what_limits_a_flow_what_to_do_and_the_gain() {
        let mut snapshot = snapshot(1000.0, 1);
        snapshot.flows[0].finding = Some(FindingState {
            kind: "receiver-window".into(),
            leg: Some("dial".into()),
            direction: "up".into(),
            evidence: "its window is full".into(),
            what_if_mbps: Some(120.0),
            then_limited_by: Some("link-rate".into()),
            advice: "Raise the receive buffer.".into(),
        });
        snapshot.flows[0].gain = Some(GainState {
            times: Some(7.23),
            direction: "down".into(),
            evidence: "the window cannot grow".into(),
            says: "30.0 MB/s; alone at most 4.1 MB/s".into(),
            ..GainState::default()
        });
        let mut model = Model::new("s".into(), TimeZone::UTC, NOW);
        model.answered(Ok(snapshot));
        model.key(KeyEvent::from(KeyCode::Enter));
        let shown = screen(&mut model, 100, 40).join("\n");
        let want = "
limited by    receiver-window of the dial leg, up
              its window is full
without it    120Mbit/s, then by link-rate
              to do: Raise the receive buffer.
gain          30.0 MB/s; alone at most 4.1 MB/s (7.2 times), down
              the window cannot grow
";
        assert!(shown.contains(want), "{shown}");
    }

    #[test]
    fn a_narrow_screen_keeps_what_matters_most() {
        let shown = screen(&mut model(30), 40, 20);
        assert_eq!(shown[0], "NOT WHOLE since 22:02:24 (10m56s):");
        assert!(shown.iter().any(|line| line.starts_with("   FLOW CLIENT")), "{shown:#?}");
        assert!(shown[19].starts_with("q quit"), "{shown:#?}");
        // One line is the verdict.
        assert!(screen(&mut model(3), 80, 1)[0].starts_with("NOT WHOLE since "));
    }

    #[test]
    fn no_size_and_no_text_is_too_much() {
        let mut model = model(200);
        let keys =
            [KeyCode::Char('?'), KeyCode::Char('w'), KeyCode::Char('t'), KeyCode::Esc, KeyCode::Esc, KeyCode::Esc];
        let more = [KeyCode::Enter, KeyCode::End, KeyCode::Char('k'), KeyCode::Esc, KeyCode::Char('s'), KeyCode::End];
        let last =
            [KeyCode::Esc, KeyCode::Char('/'), KeyCode::Char('9'), KeyCode::Enter, KeyCode::End, KeyCode::Char('p')];
        for key in keys.into_iter().chain(more).chain(last) {
            model.key(KeyEvent::from(key));
            for (width, height) in (0..50).map(|size| (size, size)).chain([(1, 1), (200, 1), (1, 60), (300, 100)]) {
                screen(&mut model, width, height);
            }
        }
        model.answered(Err(NoAnswer::Failed("x".repeat(1000))));
        (0..50).for_each(|size| drop(screen(&mut model, 2 * size, size)));
    }

    #[test]
    fn a_selected_row_stays_in_sight() {
        let mut model = model(200);
        screen(&mut model, 80, 24);
        for key in [KeyCode::End, KeyCode::Home, KeyCode::PageDown, KeyCode::PageDown, KeyCode::Up] {
            model.key(KeyEvent::from(key));
            let shown = screen(&mut model, 80, 24);
            let number = model.list.selected().unwrap();
            let marked: Vec<&String> = shown.iter().filter(|line| line.starts_with('>')).collect();
            assert!(marked.len() == 1 && marked[0].contains(&format!(" {number} ")), "{key}: {shown:#?}");
        }
    }

    #[test]
    fn a_picture_of_before_is_grey_and_says_so() {
        let mut model = model(2);
        model.now = NOW + 5.0;
        model.answered(Err(NoAnswer::NoDaemon("/run/admin.sock".into())));
        let shown = screen(&mut model, 80, 24);
        assert!(shown[0].starts_with("NOT WHOLE since 22:13:25 (0s): no daemon at /run/admin.sock"), "{shown:#?}");
        assert_eq!(shown[1], "Everything below is from 22:13:20, not from now. Asking again.");
        let row = shown.iter().position(|line| line.contains("10.0.0.9:2")).expect("the last picture stays");
        let buffer = buffer(&mut model, true, 80, 24);
        assert!(buffer[(10, row as u16)].modifier.contains(Modifier::DIM));
    }

    #[test]
    fn without_colour_no_cell_has_one() {
        let mut model = model(2);
        let has_colour =
            |buffer: &Buffer| buffer.content.iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset);
        assert!(has_colour(&buffer(&mut model, true, 80, 24)));
        for key in ["", "?", "?w", "wk"] {
            for key in key.chars() {
                model.key(KeyEvent::from(KeyCode::Char(key)));
            }
            assert!(!has_colour(&buffer(&mut model, false, 80, 24)), "{key}");
        }
    }

    #[test]
    fn a_full_screen_counts_what_it_leaves_out() {
        let mut snapshot = snapshot(1.0, 3);
        let problem = snapshot.problems[0].clone();
        snapshot.problems = vec![problem; 20];
        let tunnel = snapshot.tunnels[0].clone();
        snapshot.tunnels = vec![tunnel; 20];
        let mut model = Model::new("s".into(), TimeZone::UTC, NOW);
        model.answered(Ok(snapshot));
        let shown = screen(&mut model, 80, 24);
        assert!(shown.iter().any(|line| line == "17 more: press w"), "{shown:#?}");
        assert!(shown.iter().any(|line| line.ends_with(" more: press t")), "{shown:#?}");
        assert!(shown.iter().any(|line| line.contains("10.0.0.9:3")), "{shown:#?}");
    }
}
