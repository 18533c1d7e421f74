//! Reads any text as a config file. Reading never panics. It returns a configuration if and only if it found no error. An
//! accepted configuration is complete, and its summary can be written.

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
