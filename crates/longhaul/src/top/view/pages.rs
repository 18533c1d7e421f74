//! The texts that open above the main screen. Each is a title and lines, which the view scrolls.

use super::curve;
use super::paper::wrap;
use crate::admin::figures::{Figure, HOPS, LEGS, saved, tunnel_state, verify_state};
use crate::admin::snapshot::{FindingState, FlowState, GainState, HopState, LegState, TunnelState, VerifyState};
use crate::admin::verdict::Words;
use crate::figures;
use crate::top::columns::FLOW_COLUMNS;
use crate::top::keys::BINDINGS;
use crate::top::model::{Model, Page, Pane};
use crate::top::verdict::{self, Said, Tone};

/// A text above the main screen.
pub(super) struct Text {
    /// Its first line, which is not scrolled.
    pub(super) title: String,
    /// Its lines.
    pub(super) lines: Vec<Said>,
    /// The marked line of a list.
    pub(super) mark: Option<usize>,
}

/// Returns the text of the pane at `at`, broken into lines of `width` characters.
pub(super) fn text(model: &Model, at: usize, width: usize) -> Text {
    let (title, said, mark) = match &model.panes[at] {
        Pane::Text(Page::Help, _) => ("KEYS AND COLUMNS".into(), help(), None),
        Pane::Text(Page::Problems, _) => ("PROBLEMS".into(), problems(model), None),
        Pane::Text(Page::Tunnels, _) => {
            let (now, next) = (model.span.words(), model.span.next().words());
            (format!("TUNNELS AND NEXT HOPS, the last {now} (c: {next})"), tunnels(model, width), None)
        }
        Pane::Text(Page::Details(row, lives), _) => {
            let ended = if *lives { "" } else { " HAS ENDED: this is what it was last" };
            (format!("FLOW {}{ended}", row.flow), details(row), None)
        }
        Pane::Sort(mark) => ("SORT THE FLOWS BY".into(), sorts(), Some(*mark)),
        Pane::Filter(_) | Pane::Confirm(_) => (String::new(), Vec::new(), None),
    };
    if mark.is_some() {
        return Text { title, lines: said, mark };
    }
    let broken = |(tone, text): Said| -> Vec<Said> {
        // Blanks at the beginning indent, and those in a line align. So a line that fits stays as it is.
        let indent = text.chars().take_while(|char| *char == ' ').count();
        if text.chars().count() <= width {
            return vec![(tone, text)];
        }
        let lines = wrap(&text, width.saturating_sub(indent));
        lines.into_iter().map(|line| (tone, " ".repeat(indent) + &line)).collect()
    };
    Text { title, lines: said.into_iter().flat_map(broken).collect(), mark }
}

fn plain(text: impl Into<String>) -> Said {
    (Tone::Plain, text.into())
}

fn help() -> Vec<Said> {
    let keys = BINDINGS.iter().filter(|binding| !binding.help.is_empty());
    let mut lines: Vec<Said> = keys.map(|binding| plain(format!("{:<11} {}", binding.key, binding.help))).collect();
    lines.push(plain(""));
    let shown = FLOW_COLUMNS.iter().filter(|column| column.place.rank.is_some());
    lines.extend(shown.map(|column| plain(format!("{:<11} {}", column.place.title, column.figure.name))));
    lines.push(plain(""));
    lines.extend(WORDS.map(plain));
    lines
}

fn problems(model: &Model) -> Vec<Said> {
    let reasons = verdict::reasons(model);
    if reasons.is_empty() { vec![plain("No problem is known.")] } else { reasons }
}

fn sorts() -> Vec<Said> {
    FLOW_COLUMNS.iter().map(|column| plain(column.figure.name.as_str())).collect()
}

fn tunnels(model: &Model, width: usize) -> Vec<Said> {
    let Some((picture, _)) = &model.picture else { return vec![plain("Nothing is known yet.")] };
    picture.tunnels.iter().flat_map(|row| tunnel(row, model, width)).collect()
}

/// Returns the lines of a tunnel: one about itself, one about its cap, one about the daemon's own probes, one for each of its next hops,
/// and its curves.
fn tunnel(tunnel: &TunnelState, model: &Model, width: usize) -> Vec<Said> {
    let flows = figures::count(tunnel.flows_now.try_into().unwrap_or(usize::MAX), "flow");
    let of_itself = format!(
        "{}: {} at {}, {flows}, up {}bit/s, down {}bit/s",
        tunnel.name,
        tunnel_state(tunnel),
        tunnel.listen,
        rate(tunnel.rates.up),
        rate(tunnel.rates.down)
    );
    let mut lines = vec![(Words::of(tunnel.health).tone, of_itself)];
    lines.extend(tunnel.cap.as_ref().map(|cap| plain(format!("  {cap}"))));
    lines.extend(saved(tunnel).map(|hours| plain(format!("  saved by the relays: {hours}"))));
    lines.extend(tunnel.verify.as_ref().map(|verify| plain(verified(verify, model))));
    lines.extend(tunnel.next_hops.iter().map(|hop| plain(next_hop(hop))));
    lines.extend(tunnel.curve.iter().flat_map(|curve| curve::lines(curve, model, width)));
    lines
}

/// Returns a line about the daemon's own probes of a tunnel: the state, the age of the last result, and why there is no newer
/// one.
fn verified(verify: &VerifyState, model: &Model) -> String {
    let mut text = format!("  verify: {}", verify_state(verify));
    if let Some(at) = verify.last_unix_seconds {
        text += &format!(" since {}", verdict::time(verify.since_unix_seconds, model));
        if verify.no_newer.is_none() {
            text += &format!(", last result {} ago", figures::age(model.now - at));
        }
    }
    if let Some(ms) = verify.history.last().and_then(|last| last.rtt_ms) {
        text += &format!(", RTT {}", figures::rtt(ms));
    }
    if let Some(why) = &verify.why {
        text += &format!(": {why}");
    }
    text + &verify.lateness(model.now)
}

/// Returns the line of a next hop: its figures, as `status` has them, each behind its heading.
fn next_hop(hop: &HopState) -> String {
    let figure = |figure: &Figure<HopState>| Some(format!("{} {}", figure.status.as_ref()?.heading, figure.cell(hop)?));
    let mut figures: Vec<String> = HOPS.iter().filter_map(figure).collect();
    figures.extend((hop.weight > 1).then(|| format!("weight {}", hop.weight)));
    format!("  {}", figures.join("; "))
}

fn details(flow: &FlowState) -> Vec<Said> {
    let mut lines = vec![format!("tunnel        {}", flow.tunnel), format!("client        {}", flow.peer)];
    lines.extend(flow.transfer.as_ref().map(|transfer| format!("FTP           {transfer}")));
    lines.extend(flow.proxy.as_ref().map(|proxy| format!("PROXY header  from {proxy}")));
    let address = flow.next_hop_address.map_or_else(|| "-".into(), |address| address.to_string());
    lines.push(match &flow.next_hop {
        Some(name) if *name != address => format!("next hop      {name} ({address})"),
        _ => format!("next hop      {address}"),
    });
    lines.extend([
        format!("state         {}", flow.state.text()),
        format!("age           {}", figures::age(flow.age_seconds)),
        format!("up            {}bit/s, {} in all", rate(flow.rates.up), figures::bytes(flow.up_bytes)),
        format!("down          {}bit/s, {} in all", rate(flow.rates.down), figures::bytes(flow.down_bytes)),
    ]);
    lines.extend(flow.cap.as_ref().map(|cap| format!("cap           {}", cap.trim_start_matches("cap "))));
    lines.extend(flow.finding.iter().flat_map(limited_by));
    lines.extend(flow.gain.iter().flat_map(gain));
    lines.push(String::new());
    lines.extend(leg("ACCEPT LEG, to the client", flow.accept.as_ref()));
    lines.push(String::new());
    lines.extend(leg("DIAL LEG, to the next hop", flow.dial.as_ref()));
    lines.into_iter().map(plain).collect()
}

/// Returns what limits a flow, what shows it, the next limit, and what to change.
fn limited_by(finding: &FindingState) -> Vec<String> {
    let FindingState { kind, leg, direction, evidence, what_if_mbps, then_limited_by, advice } = finding;
    let of = leg.as_ref().map(|leg| format!(" of the {leg} leg")).unwrap_or_default();
    let mut lines = vec![format!("limited by    {kind}{of}, {direction}"), format!("              {evidence}")];
    let then = then_limited_by.as_ref().map(|then| format!(", then by {then}")).unwrap_or_default();
    lines.extend(what_if_mbps.map(|rate| format!("without it    {}bit/s{then}", figures::rate(rate * 1e6))));
    lines.extend(
        Some(advice).filter(|advice| !advice.is_empty()).map(|advice| format!("              to do: {advice}")),
    );
    lines
}

/// Returns what the relays are worth for a flow, and what shows it.
fn gain(gain: &GainState) -> Vec<String> {
    let times = gain.times.map(|times| format!(" ({times:.1} times)")).unwrap_or_default();
    vec![format!("gain          {}{times}, {}", gain.says, gain.direction), format!("              {}", gain.evidence)]
}

fn leg(title: &str, leg: Option<&LegState>) -> Vec<String> {
    let Some(leg) = leg else { return vec![title.into(), "  not connected".into()] };
    let line = |figure: &Figure<LegState>| {
        let [label, unit] = figure.details?;
        let text = figure.cell(leg).map_or("-".into(), |text| format!("{text}{unit}"));
        Some(format!("  {label:<19} {text}"))
    };
    std::iter::once(title.into()).chain(LEGS.iter().filter_map(line)).collect()
}

/// Returns a rate, or a dash while it is not known.
fn rate(bits_per_second: Option<f64>) -> String {
    bits_per_second.map_or("-".into(), figures::rate)
}

/// Explanations of the words on the screen, for the help.
const WORDS: [&str; 9] = [
    "UP is from the client to the next hop, DN is back. b/s are bits per second, of payload.",
    "A. is the accept leg, to the client. D. is the dial leg, to the next hop.",
    "LIMITED BY is what limits the flow in the direction that carries more. Enter shows why, and what to change.",
    "VERIFY is the result of the daemon's own probes through the tunnel. overdue: there should be a newer one, and t says why. \
     away: another host has the address. - : the tunnel has no `verify`.",
    "A narrow screen leaves columns out. Enter shows everything about a flow.",
    "WHOLE: no problem is fatal. A warning is a problem that does not stop new flows, as far as the daemon knows.",
    "DOUBTFUL: new flows of a tunnel may not be served: its last dials failed, its names do not exist, a broken result has no \
     newer one, or its clients wait for the end of other flows.",
    "NOT WHOLE: new flows of a tunnel are not served, or the daemon does not answer.",
    "CANNOT TELL: the daemon cannot be asked, for example because of a missing right.",
];
