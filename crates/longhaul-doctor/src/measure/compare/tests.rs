//! Comparisons: a real one, and each bad input.

use super::comparison::Side;
use super::*;
use crate::measure::document::Document;
use crate::measure::page::tests::measured;
use crate::page::checks::{has_class, needs_nothing_from_elsewhere, parsed, text};
use longhaul_measure::message::Direction;
use std::path::PathBuf;

/// Returns a path before and after its receive window was enlarged.
fn enlarged() -> Comparison {
    let mut after = measured();
    after.runs[0].payload_mbps = 415.0;
    after.findings.remove(0);
    after.findings[0].direction = Direction::Up;
    after.loss.up = Some(0.001);
    after.path_mtu.up = None;
    compared(measured(), after)
}

fn compared(before: Document, after: Document) -> Comparison {
    let side = |file: &str, document| Side { file: file.into(), document };
    Comparison::new(side("a.json", before), side("b.json", after))
}

#[test]
fn it_says_what_limited_before_and_now() {
    let comparison = enlarged();
    let up = "Up, one connection carries 415 Mbit/s, 76.1 times the 5.45 Mbit/s before. Before, it was limited by the receive window \
        of the far host; now, it is limited by the send buffer of the far host.";
    let down = "Down, one connection carries 415 Mbit/s, as before. Before, it was limited by the send buffer of the far host; what limits it now \
        is not known.";
    assert_eq!(comparison.verdict(), [up, down]);
    assert_eq!(comparison.notes(), [""; 0]);
}

#[test]
fn the_text_fits_a_terminal() {
    let text = text::text(&enlarged());
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let line = |name: &str| {
        text.lines().find(|line| line.starts_with(name)).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("one connection, up"), "one connection, up 5.45 Mbit/s 415 Mbit/s x 76.1");
    assert_eq!(line("one connection, down"), "one connection, down 415 Mbit/s 415 Mbit/s same");
    assert_eq!(line("loss, up"), "loss, up 0 % 0.100 %");
    assert_eq!(line("loss, down"), "loss, down 0 % 0 % same");
    assert_eq!(line("path MTU, up"), "path MTU, up 1500 bytes unknown");
}

#[test]
fn the_document_has_the_ratios() {
    let json: serde_json::Value = serde_json::from_str(&json::json(&enlarged())).unwrap();
    assert_eq!((json["longhaul"].as_str(), json["format"].as_u64()), (Some("path --compare"), Some(1)));
    assert_eq!(json["before"]["limited_by"]["up"], "receiver-window");
    assert_eq!(json["after"]["limited_by"]["down"], serde_json::Value::Null);
    let change = |what: &str, direction: &str| {
        let found =
            json["changes"].as_array().unwrap().iter().find(|row| row["what"] == what && row["direction"] == direction);
        found.cloned().unwrap()
    };
    assert!((change("one_connection_mbps", "up")["ratio"].as_f64().unwrap() - 415.0 / 5.45).abs() < 1e-9);
    assert_eq!(change("loss", "up")["ratio"], serde_json::Value::Null);
}

#[test]
fn the_page_has_both() {
    let page = page::page(&enlarged());
    needs_nothing_from_elsewhere(&page);
    let document = parsed(&page);
    let headlines = document.descendants().filter(|node| has_class(node, "headline"));
    assert_eq!(headlines.count(), 2);
    let legends: Vec<String> = document.descendants().filter(|node| has_class(node, "key")).map(text).collect();
    assert!(legends.iter().any(|key| key.ends_with("before: 5.45 Mbit/s")), "{legends:?}");
}

#[test]
fn what_cannot_be_compared_is_a_note() {
    let mut other = measured();
    other.to = "10.9.9.9:7000".into();
    other.complete = false;
    other.ended = Some("interrupted".into());
    other.runs.clear();
    let comparison = compared(measured(), other);
    let notes = comparison.notes();
    assert_eq!(notes[0], "The far ends are different: before 10.20.20.10:7000, after 10.9.9.9:7000.");
    assert_eq!(
        notes[1],
        "b.json, after: The measurement was interrupted: this is only the part that was known by then."
    );
    assert!(
        comparison.verdict()[0].starts_with("Up, one connection carried 5.45 Mbit/s before; now, it was not measured.")
    );
    // Nothing at all is known.
    let empty = compared(Document::default(), Document::default());
    assert!(empty.verdict().is_empty() && empty.changes.is_empty());
    needs_nothing_from_elsewhere(&page::page(&empty));
    assert!(text::text(&empty).contains("note: "));
}

#[test]
fn bad_input_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &[u8]| {
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        file
    };
    let good = file("good.json", include_bytes!("../../../tests/page/path.json"));
    let refused = |file: &PathBuf| {
        for pair in [[good.clone(), file.clone()], [file.clone(), good.clone()]] {
            let why = Comparison::read(&pair).unwrap_err();
            assert!(why.starts_with(&format!("{}: ", file.display())), "{why}");
        }
        Comparison::read(&[good.clone(), file.clone()]).unwrap_err()
    };
    assert!(Comparison::read(&[good.clone(), good.clone()]).is_ok());
    assert!(refused(&folder.path().join("missing.json")).contains("No such file"));
    assert!(refused(&folder.path().to_path_buf()).contains("Is a directory"));
    assert!(refused(&file("empty", b"")).contains("it is no JSON"));
    assert!(
        refused(&file("cut", br#"{"longhaul": "path", "form"#))
            .contains("`longhaul path HOST:PORT --save FILE` writes one")
    );
    assert!(
        refused(&file("advice", br#"{"longhaul": "advise", "format": 1}"#)).contains("`longhaul advise --json` wrote")
    );
    let compared = file("compared", json::json(&enlarged()).as_bytes());
    assert!(refused(&compared).contains("`longhaul path --compare --json` wrote"));
    assert!(
        refused(&file("newer", br#"{"longhaul": "path", "format": 2}"#)).contains("use the longhaul that wrote it")
    );
    assert!(refused(&file("text", b"Path to 10.20.20.10:7000\n")).contains("it is no JSON"));
    assert!(refused(&file("value", br#"{"longhaul": "path", "format": 1, "loss": {"up": 2}}"#)).contains("loss is 2"));
    assert!(refused(&file("large", &vec![b' '; (16 << 20) + 1])).contains("larger than 16 MiB"));
    let stdin = || PathBuf::from("-");
    assert!(Comparison::read(&[stdin(), stdin()]).unwrap_err().contains("only one of the two"));
}

#[test]
fn no_released_field_of_the_document_is_gone() {
    let mut before = measured();
    (before.began, before.host) = (Some(String::new()), Some(String::new()));
    let after = Document { to: "another end".into(), ..before.clone() };
    let document = serde_json::from_str(&json::json(&compared(before, after))).unwrap();
    crate::interface::check("path-compare", crate::interface::fields(&[document]));
}
