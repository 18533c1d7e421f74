//! The last lines of the screen: the keys, the outcome of a kill, the question before it, or the filter being typed.

use super::palette::Palette;
use super::paper::{Paper, wrap};
use crate::top::keys::BINDINGS;
use crate::top::model::{Model, Page, Pane};
use ratatui::style::Style;

/// Returns the lines for a screen of `width` characters.
pub(super) fn lines(model: &Model, width: usize) -> Vec<String> {
    match (model.panes.last(), &model.note) {
        (Some(Pane::Confirm(flow)), _) => wrap(&question(model, *flow), width),
        (Some(Pane::Filter(_)), _) => {
            // The end of a long filter is what is being typed.
            let text = format!("filter: {}_", model.list.filter);
            let skipped = text.chars().count().saturating_sub(width);
            vec![text.chars().skip(skipped).collect(), "Enter: keep it   Esc: as before".into()]
        }
        (_, Some(note)) => wrap(note, width),
        (Some(Pane::Sort(_)), _) => vec!["Up, Down: choose   Enter: sort   Esc: close".into()],
        (Some(Pane::Text(Page::Details(..), _)), _) => vec!["Esc: close   k: kill   Up, Down: scroll   q: quit".into()],
        (Some(Pane::Text(..)), _) => vec!["Esc: close   Up, Down: scroll   q: quit".into()],
        (None, None) => vec![keys(width)],
    }
}

/// Writes the `lines`.
pub(super) fn write(model: &Model, palette: Palette, lines: &[String], paper: &mut Paper<'_>) {
    let style = match (model.panes.last(), &model.note) {
        (Some(Pane::Confirm(_) | Pane::Filter(_)), _) | (_, Some(_)) => palette.prompt(),
        _ => Style::new(),
    };
    lines.iter().for_each(|line| paper.write(line, style));
}

fn question(model: &Model, flow: u64) -> String {
    let row = model.flows().iter().find(|row| row.flow == flow);
    let which = row.map_or_else(String::new, |row| {
        let next_hop = row.next_hop.as_deref().unwrap_or("no next hop yet");
        format!(" (tunnel {}, {} -> {next_hop})", row.tunnel, row.peer)
    });
    format!("Kill flow {flow}{which}? Both hosts see a reset. y: kill it; any other key: keep it")
}

/// Returns as many keys as fit.
fn keys(width: usize) -> String {
    let mut line = String::new();
    for binding in BINDINGS.iter().filter(|binding| !binding.word.is_empty()) {
        let gap = if line.is_empty() { "" } else { GAP };
        let more = format!("{gap}{} {}", binding.key, binding.word);
        if line.len() + more.len() > width {
            break;
        }
        line += &more;
    }
    line
}

const GAP: &str = "  ";
