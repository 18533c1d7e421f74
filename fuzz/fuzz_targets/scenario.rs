//! Any text as a scenario of the lab: never a panic; understood, or refused with one line for each error that steers nobody's
//! terminal.

#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul_lab as lab;

fuzz_target!(|text: &str| {
    match lab::parse("scenario.toml", text) {
        Ok(said) => assert!(said.starts_with("good, ")),
        Err(lines) => {
            assert!(!lines.is_empty());
            for line in lines {
                assert!(line.starts_with("scenario.toml:") && !line.contains(['\n', '\u{1b}']), "{line:?}");
            }
        }
    }
});
