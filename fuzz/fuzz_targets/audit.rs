//! Reads any bytes as the paste of a host. Reading never panics. Where something is understood, the reports are whole: the text
//! has no control characters, the JSON document is one, the table has two lines, and the page ends.

#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul_doctor::audit_text;
use longhaul_units::Rate;
use serde_json::Value;
use std::time::Duration;

fuzz_target!(|paste: &[u8]| {
    let Some(reports) = audit_text(paste, Duration::from_millis(63), Rate(1_000_000_000)) else { return };
    assert!(!reports.text.contains(|char: char| char.is_control() && char != '\n'), "{}", reports.text);
    assert_eq!(reports.csv.lines().count(), 2, "{}", reports.csv);
    assert!(reports.html.ends_with("</html>\n"), "{}", reports.html);
    let document: Value = serde_json::from_str(&reports.json).expect("the document is JSON");
    let host = &document["hosts"][0];
    assert!(host["lines"]["understood"].as_u64() > Some(0));
    assert_eq!(host["mbps"].is_null(), host["window_bytes"].is_null());
    for finding in host["findings"].as_array().expect("a list of findings") {
        let effect = &finding["effect_mbps"];
        assert!(effect.is_null() || effect.as_f64() >= Some(0.0), "{finding}");
        // Every command that sets a value has one that undoes it.
        assert!(
            finding["set_permanent"] == "" || finding["set_permanent"].is_null() || finding["undo"] != "",
            "{finding}"
        );
    }
});
