//! `longhaul --version --verbose`: what this program was made from. The build script finds it out.

use clap::error::ErrorKind;
use std::env;

/// Returns whether `err` is clap's answer to `--version`, and `--verbose` was given beside it.
pub(super) fn is_asked(err: &clap::Error) -> bool {
    err.kind() == ErrorKind::DisplayVersion && env::args_os().any(|argument| argument == "--verbose")
}

/// What the line of `--version` does not tell, one `name: value` a line.
pub(super) fn text() -> String {
    format!(
        "longhaul {}\n\
         commit: {}\n\
         toolchain: {}\n\
         target: {}\n\
         glibc of this host: {}\n\
         libraries: {}\n",
        env!("CARGO_PKG_VERSION"),
        env!("LONGHAUL_COMMIT"),
        env!("LONGHAUL_TOOLCHAIN"),
        env!("LONGHAUL_TARGET"),
        longhaul_sys::glibc_version().unwrap_or("none"),
        env!("LONGHAUL_LIBRARIES"),
    )
}
