//! The Chromium of this machine.

use std::process::Command;

/// Returns the name of the program, or why there is none.
pub(crate) fn program() -> Result<&'static str, &'static str> {
    let found = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|program| {
        let version = Command::new(program).arg("--version").output();
        version.is_ok_and(|output| output.status.success())
    });
    found.ok_or("chromium is not installed; it comes with the package chromium")
}
