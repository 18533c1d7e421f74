//! A bar for each carrier, with marks at the published and the computed figure.
//!
//! Each bar is a small SVG that stretches. Names and numbers are text of the page, so they keep their size.

use crate::report::columns::{range, shown};
use crate::report::page::group::{Group, Palette, verdict};
use crate::report::run::RunReport;
use longhaul_doctor::page::Html;

/// Writes the bars of `group`.
pub(crate) fn draw(html: &mut Html, group: &Group<'_>, palette: &Palette) {
    let scale = group.all().flat_map(values).fold(0.0, f64::max);
    html.node("div", &[("class", "bars")], |html| {
        for run in group.all() {
            let is_own = run.id == group.id;
            let carrier = run.carrier_name();
            let name = if is_own { carrier.to_string() } else { format!("{carrier} ({})", run.id) };
            if run.carrier.is_some() {
                html.leaf("div", &[("class", "name")], &name);
            }
            match run.measured {
                Some(measured) => bar(html, run, measured / scale.max(f64::MIN_POSITIVE), palette, is_own),
                None => {
                    let (word, class) = verdict(run);
                    let text = format!("{word}: {}", run.why);
                    html.leaf("div", &[("class", &format!("missing {class}"))], &text);
                }
            }
        }
    });
    marks(html, group);
}

/// Returns all values that the scale must include.
fn values(run: &RunReport) -> Vec<f64> {
    let spread = run.spread.get(MEASURED).map(|[_, max]| *max);
    let published = run.published.iter().flatten().copied();
    run.measured.into_iter().chain(run.computed).chain(spread).chain(published).filter(|v| v.is_finite()).collect()
}

fn bar(html: &mut Html, run: &RunReport, share: f64, palette: &Palette, is_own: bool) {
    let measured = run.measured.unwrap_or_default();
    let of = |value: f64| format!("{:.1}", WIDTH * share * value / measured.max(f64::MIN_POSITIVE));
    let class = palette.class(run);
    let label = format!("{}: {} MB/s", run.carrier_name(), shown(measured));
    let view = format!("0 0 {WIDTH} 20");
    let attributes = [
        ("class", "bar"),
        ("viewBox", view.as_str()),
        ("preserveAspectRatio", "none"),
        ("role", "img"),
        ("aria-label", &label),
    ];
    html.node("svg", &attributes, |html| {
        html.empty("rect", &[("class", "ground"), ("x", "0"), ("y", "0"), ("width", "1000"), ("height", "20")]);
        // A measured speed of 0 gets a visible bar too.
        let width = format!("{:.1}", (WIDTH * share).max(2.0));
        html.empty("rect", &[("class", &class), ("x", "0"), ("y", "2"), ("width", &width), ("height", "16")]);
        if let Some([min, max]) = run.spread.get(MEASURED) {
            html.empty(
                "line",
                &[("class", "spread"), ("x1", &of(*min)), ("x2", &of(*max)), ("y1", "10"), ("y2", "10")],
            );
        }
        let published = run.published.iter().flatten().map(|value| ("published", *value));
        // The marks of a run of another group are in that group.
        let marks = published.chain(run.computed.map(|value| ("computed", value)));
        for (class, value) in marks.filter(|_| is_own) {
            let x = of(value);
            html.empty("line", &[("class", class), ("x1", &x), ("x2", &x), ("y1", "0"), ("y2", "20")]);
        }
    });
    html.node("div", &[("class", "value")], |html| {
        html.leaf("b", &[], &shown(measured));
        html.text(" MB/s");
        if let Some(gain) = run.gain_over_direct.filter(|_| !run.is_direct()) {
            html.leaf("span", &[("class", "gain")], &format!(" · {gain:.1}×"));
        }
        let (word, class) = verdict(run);
        let mark: String = word.chars().take(1).collect();
        html.text(" ");
        html.leaf("span", &[("class", class), ("title", word)], &mark);
    });
}

/// Writes the legend of the marks on the bars.
fn marks(html: &mut Html, group: &Group<'_>) {
    let mut legend = Vec::new();
    let runs = || group.runs.iter().filter(|run| run.measured.is_some());
    if let Some(computed) = runs().find_map(|run| run.formula.filter(|_| run.computed.is_some())) {
        legend.push(("computed", UPRIGHT, format!("computed: {computed}")));
    }
    if runs().any(|run| run.published.is_some()) {
        legend.push(("published", UPRIGHT, "published".to_string()));
    }
    if let Some(gain) = runs().find_map(|run| run.published_gain.as_ref()) {
        legend.push(("", UPRIGHT, format!("published gain: {}×", range(gain))));
    }
    if runs().any(|run| run.spread.contains_key(MEASURED)) {
        legend.push(("spread", ACROSS, "lowest to highest round; the bar is the median".to_string()));
    }
    if legend.is_empty() {
        return;
    }
    html.node("p", &[("class", "legend")], |html| {
        for (class, ends, text) in legend {
            html.node("span", &[("class", "key")], |html| {
                if !class.is_empty() {
                    mark(html, class, ends);
                }
                html.text(&text);
            });
        }
    });
}

fn mark(html: &mut Html, class: &str, ends: Ends) {
    html.node("svg", &[("class", "mark"), ("viewBox", "0 0 20 12"), ("aria-hidden", "true")], |html| {
        let [x1, x2, y1, y2] = ends;
        html.empty("line", &[("class", class), ("x1", x1), ("x2", x2), ("y1", y1), ("y2", y2)]);
    });
}

/// The ends of a line in the legend: x1, x2, y1, y2.
type Ends = [&'static str; 4];
const ACROSS: Ends = ["0", "20", "6", "6"];
const UPRIGHT: Ends = ["10", "10", "0", "12"];
/// Key of the speed in [`RunReport::spread`].
const MEASURED: &str = "measured_MBps";
const WIDTH: f64 = 1000.0;
