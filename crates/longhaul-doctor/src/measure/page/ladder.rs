//! The sizes of datagrams that were tried, as a ladder: a filled step arrived, and a hollow one did not.

use crate::measure::document::Document;
use crate::measure::words::start;
use crate::page::Html;
use crate::page::paragraph;
use longhaul_measure::message::Direction;

/// Whether sizes were tried in `direction`.
pub(super) fn is_known(path: &Document, direction: Direction) -> bool {
    path.mtu_ladder.of(direction).is_some_and(|steps| !steps.is_empty())
}

/// Draws the ladder of each direction.
pub(super) fn draw(html: &mut Html, path: &Document) {
    html.node("p", &[("class", "legend")], |html| {
        for (class, name) in [("arrived", "arrived"), ("lost", "did not arrive")] {
            html.node("span", &[("class", "key")], |html| {
                html.node("svg", &[("class", "mark"), ("viewBox", "0 0 28 12"), ("aria-hidden", "true")], |html| {
                    let class = format!("step {class}");
                    html.empty("rect", &[("class", &class), ("x", "9"), ("y", "1"), ("width", "10"), ("height", "10")]);
                });
                html.text(name);
            });
        }
    });
    html.node("div", &[("class", "curves")], |html| {
        for direction in Direction::ALL.into_iter().filter(|direction| is_known(path, *direction)) {
            html.node("div", &[], |html| ladder(html, path, direction));
        }
    });
    paragraph(html, "source", "Datagrams that no box may cut into fragments (DF), of these sizes of the IP packet.");
}

fn ladder(html: &mut Html, path: &Document, direction: Direction) {
    let mut steps = path.mtu_ladder.of(direction).cloned().unwrap_or_default();
    steps.sort_unstable();
    let mtu = path.path_mtu.of(direction).copied();
    let title = match mtu {
        Some(mtu) => format!("{}: path MTU {mtu} bytes", start(direction)),
        None => format!("{}: path MTU not known", start(direction)),
    };
    html.node("figure", &[], |html| {
        html.leaf("figcaption", &[], &title);
        let view = format!("0 0 {WIDTH} {HEIGHT}");
        html.node("svg", &[("class", "chart"), ("viewBox", &view), ("role", "img"), ("aria-label", &title)], |html| {
            steps.iter().enumerate().for_each(|(index, step)| rung(html, index, steps.len(), *step));
            labels(html, &steps, mtu);
        });
    });
    for (has_arrived, name) in [(true, "Arrived"), (false, "Did not arrive")] {
        let ranges = ranges(&steps, has_arrived);
        if !ranges.is_empty() {
            paragraph(html, "note", &format!("{name}: {} bytes.", ranges.join(", ")));
        }
    }
    if let Some(share) = path.fragments_arrive.of(direction) {
        paragraph(
            html,
            "note",
            &format!("Larger datagrams that may be cut into fragments: {:.0} % arrive.", share.min(1.0) * 100.0),
        );
    }
}

/// Draws one size. A larger one is higher.
fn rung(html: &mut Html, index: usize, count: usize, (size, has_arrived): (u32, bool)) {
    let each = WIDTH / count as f64;
    let height = LOWEST + (BASE - LOWEST - 2.0) * (index + 1) as f64 / count as f64;
    let (class, what) = if has_arrived { ("step arrived", "arrived") } else { ("step lost", "did not arrive") };
    let [x, y, width, height] =
        [index as f64 * each + 1.0, BASE - height, (each - 2.0).clamp(0.5, 40.0), height].map(tenth);
    html.node("rect", &[("class", class), ("x", &x), ("y", &y), ("width", &width), ("height", &height)], |html| {
        html.leaf("title", &[], &format!("{size} bytes: {what}"));
    });
}

/// Writes the smallest size, the path MTU and the largest size below their steps, as far as there is room.
fn labels(html: &mut Html, steps: &[(u32, bool)], mtu: Option<u32>) {
    let each = WIDTH / steps.len() as f64;
    let middle = |size: u32| steps.iter().position(|(step, _)| *step == size).map(|index| (index as f64 + 0.5) * each);
    let mut label = |x: f64, anchor: &str, size: u32| {
        let y = tenth(BASE + 20.0);
        html.leaf("text", &[("x", &tenth(x)), ("y", &y), ("text-anchor", anchor)], &size.to_string());
    };
    let (Some((first, _)), Some((last, _))) = (steps.first(), steps.last()) else { return };
    label(0.0, "start", *first);
    if steps.len() > 1 {
        label(WIDTH, "end", *last);
    }
    let has_room = |x: &f64| (LABEL_ROOM..=WIDTH - LABEL_ROOM).contains(x);
    if let Some((mtu, x)) = mtu.and_then(|mtu| Some((mtu, middle(mtu)?))).filter(|(_, x)| has_room(x)) {
        label(x, "middle", mtu);
    }
}

/// Returns the ranges of neighbouring sizes that arrived or did not: `576 to 1500`.
fn ranges(steps: &[(u32, bool)], has_arrived: bool) -> Vec<String> {
    let stretches = steps.chunk_by(|one, next| one.1 == next.1).filter(|stretch| stretch[0].1 == has_arrived);
    let range = |stretch: &[(u32, bool)]| match stretch {
        [(only, _)] => only.to_string(),
        [(first, _), .., (last, _)] => format!("{first} to {last}"),
        [] => String::new(),
    };
    stretches.map(range).collect()
}

fn tenth(value: f64) -> String {
    format!("{value:.1}")
}

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 150.0;
/// Lower end of the steps, and the height of the lowest one.
const BASE: f64 = 122.0;
const LOWEST: f64 = 24.0;
/// Half of the widths of two labels, also with the large letters of a narrow screen.
const LABEL_ROOM: f64 = 90.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_a_range() {
        let steps = [(576, true), (1000, true), (1254, false), (1255, true), (1500, false), (9000, false)];
        assert_eq!(ranges(&steps, true), ["576 to 1000", "1255"]);
        assert_eq!(ranges(&steps, false), ["1254", "1500 to 9000"]);
        assert!(ranges(&[], true).is_empty());
    }
}
