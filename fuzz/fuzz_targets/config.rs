//! Reads any text as a config file. Reading never panics. It returns a configuration if and only if it found no error. An
//! accepted configuration is complete, and its summary can be written.

#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul_config::Severity;

fuzz_target!(|text: &str| {
    let read = longhaul_config::parse("longhaul.toml", text);
    let (config, messages) = match read {
        Ok(loaded) => (Some(loaded.config), loaded.warnings),
        Err(refused) => (None, refused.messages),
    };
    let errors = messages.iter().filter(|message| message.severity == Severity::Error).count();
    assert_eq!(config.is_none(), errors > 0);
    for message in &messages {
        assert!(!message.to_string().contains(['\n', '\u{1b}']), "{message:?}");
    }
    if let Some(config) = config {
        assert!(!config.tunnels.is_empty());
        for tunnel in &config.tunnels {
            assert!(!tunnel.name.is_empty() && tunnel.listen.port() > 0 && !tunnel.to.is_empty());
        }
        assert!(longhaul_config::summary(&config).starts_with("good, "));
    }
});
