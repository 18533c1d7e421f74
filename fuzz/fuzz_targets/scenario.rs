//! Parses any text as a scenario of the lab. Parsing never panics. A scenario is accepted, or refused with one line for each
//! error. No line contains control characters for the terminal.

#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul_lab as lab;

fuzz_target!(|text: &str| {
    match lab::parse("scenario.toml", text) {
        Ok(summary) => assert!(summary.starts_with("good, ")),
        Err(refused) => {
            assert!(!refused.messages.is_empty());
            for line in refused.lines() {
                assert!(line.starts_with("scenario.toml:") && !line.contains(['\n', '\u{1b}']), "{line:?}");
            }
        }
    }
});
