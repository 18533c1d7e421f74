//! A comparison as one JSON document. docs/path.md has its fields.

use super::comparison::{Change, Comparison, Side};
use longhaul_measure::message::Direction;
use serde_json::{Value, json};

/// Returns the document.
pub(crate) fn json(comparison: &Comparison) -> String {
    let limits = |at: usize| {
        let [up, down] = Direction::ALL.map(|direction| comparison.limited_by(direction)[at]);
        json!({"up": up, "down": down})
    };
    let side = |side: &Side, at: usize| {
        let document = &side.document;
        json!({
            "file": side.file,
            "to": document.to,
            "began": document.began,
            "host": document.host,
            "limited_by": limits(at),
        })
    };
    let document = json!({
        "longhaul": "path --compare",
        "format": 1,
        "before": side(&comparison.before, 0),
        "after": side(&comparison.after, 1),
        "verdict": comparison.verdict(),
        "changes": comparison.changes.iter().map(change).collect::<Vec<_>>(),
        "notes": comparison.notes(),
    });
    format!("{document:#}\n")
}

fn change(change: &Change) -> Value {
    let [before, after] = change.values();
    json!({
        "what": change.before.key,
        "direction": (!change.before.is_of_path).then(|| change.direction.name()),
        "before": before,
        "after": after,
        "ratio": change.ratio(),
    })
}
