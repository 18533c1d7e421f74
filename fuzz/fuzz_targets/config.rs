//! Any text as a config file: never a panic; a configuration exactly when no error was found; and what is accepted is
//! complete and can be said in words.

#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul_config::Severity;

fuzz_target!(|text: &str| {
    let (config, problems) = longhaul_config::read(text);
    let errors = problems.iter().filter(|problem| problem.severity == Severity::Error).count();
    assert_eq!(config.is_none(), errors > 0);
    for problem in &problems {
        assert!(!problem.message("longhaul.toml").to_string().contains(['\n', '\u{1b}']), "{problem:?}");
    }
    if let Some(config) = config {
        assert!(!config.tunnels.is_empty());
        for tunnel in &config.tunnels {
            assert!(!tunnel.name.is_empty() && tunnel.listen.port() > 0 && !tunnel.to.is_empty());
        }
        assert!(longhaul_config::summary(&config).starts_with("good, "));
    }
});
