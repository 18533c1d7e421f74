//! Applies packaging/90-longhaul.conf, the sysctls that longhaul ships for relays, to a host of the lab.

use crate::error::LabError;
use std::{fs, io};

/// The shipped file.
const SHIPPED: &str = include_str!("../../../../packaging/90-longhaul.conf");

/// Sets every line of the shipped file in this thread's network namespace.
///
/// # Errors
/// The kernel refused a line without a dash before it.
pub(crate) fn set_shipped() -> Result<(), LabError> {
    for SysctlLine { path, value, may_fail } in lines(SHIPPED) {
        match fs::write(&path, value) {
            // sysctl.d(5): with a dash before the name, failures are ignored.
            Err(_) if may_fail => {}
            // The kernel has this name in its first network namespace only.
            Err(err) if err.kind() == io::ErrorKind::NotFound => {}
            written => written.map_err(LabError::io(format!("setting {path} to {value:?}")))?,
        }
    }
    Ok(())
}

/// One line of a file for sysctl(8).
#[derive(Debug, PartialEq)]
struct SysctlLine<'t> {
    path: String,
    value: &'t str,
    may_fail: bool,
}

fn lines(text: &str) -> impl Iterator<Item = SysctlLine<'_>> {
    let settings = text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';']));
    settings.filter_map(|line| line.split_once('=')).map(|(name, value)| {
        let name = name.trim();
        let plain = name.trim_start_matches('-');
        SysctlLine {
            path: format!("/proc/sys/{}", plain.replace('.', "/")),
            value: value.trim(),
            may_fail: plain != name,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_file_is_read_as_sysctl_reads_it() {
        let shipped: Vec<_> = lines(SHIPPED).collect();
        let has = |path: &str, value: &str, may_fail| {
            let line = SysctlLine { path: format!("/proc/sys/net/{path}"), value, may_fail };
            assert!(shipped.contains(&line), "{line:?} is not in {shipped:?}");
        };
        has("ipv4/tcp_wmem", "4096 16384 268435456", false);
        has("ipv4/tcp_tw_reuse", "1", false);
        has("ipv4/tcp_migrate_req", "1", true);
        has("ipv4/tcp_tso_rtt_log", "0", true);
        has("core/somaxconn", "4096", false);
        // A misspelt name would be set nowhere, so each name must exist.
        for SysctlLine { path, .. } in shipped.iter().filter(|line| !line.may_fail) {
            assert!(fs::exists(path).unwrap(), "{path}");
        }
    }
}
