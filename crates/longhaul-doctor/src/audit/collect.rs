//! `--collect`: the commands to run on a host whose settings are to be audited, as one script for each system.
//!
//! No script changes anything: a test compares each line with the commands that only show.

use super::systems::READERS;
use longhaul_core::advice::System;

/// Returns the script for `system`.
pub(super) fn script(system: &System) -> &'static str {
    // A test looks for the row of each system.
    READERS.iter().find(|row| row.system == system.name).map_or("", |row| row.script)
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::advice::SYSTEMS;

    /// The commands that the scripts may have. A word in capitals stands for any word without blanks.
    const SHOWING: &[&str] = &[
        "cat /proc/sys/net/NAME",
        "ethtool -k INTERFACE",
        "Get-NetOffloadGlobalSetting | Format-List",
        "Get-NetTCPSetting | Format-List",
        "hostname",
        "ifconfig -a",
        "ioslevel",
        "ip link",
        "ip route",
        "ipadm show-prop -p PROPERTIES tcp",
        "lsattr -El INTERFACE",
        "lsdev -dev ADAPTER -attr",
        "ndd -get /dev/tcp NAME",
        "netsh interface tcp show heuristics",
        "netsh interface tcp show global",
        "netsh interface tcp show supplemental",
        "netstat -s",
        "no -a",
        "nstat -azs",
        "oslevel -s",
        "ss -tinm",
        "systemctl show longhaul.service -p LoadState -p LimitNOFILE -p MemoryMax -p TasksMax",
        "tc qdisc",
        "uname -n",
        "uname -r",
    ];
    /// The other lines that they may have, without blanks at both ends.
    const FRAME: &[&str] = &[
        "PATH=$PATH:/usr/sbin:/sbin",
        "PATH=$PATH:/usr/sbin:/etc",
        "LC_ALL=C",
        "export PATH LC_ALL",
        "show() {",
        "echo \"\\$ $*\"",
        "if command -v \"$1\" >/dev/null; then",
        "\"$@\" 2>/dev/null || :",
        "\"$@\"",
        "else",
        "echo \"missing: $1\"",
        "fi",
        "}",
        "for path in /sys/class/net/*; do",
        "for interface in $(ifconfig -l); do",
        "for adapter in $(lsdev -type adapter -field name -fmt :); do",
        "if [ -r \"/proc/sys/net/$name\" ]; then",
        "done",
        "case $adapter in",
        "esac",
        "function Show($Command) {",
        "\"PS> $Command\"",
        "Invoke-Expression $Command | Out-String -Width 200",
    ];

    #[test]
    fn each_system_has_a_script_that_changes_nothing() {
        for system in SYSTEMS {
            let script = script(system);
            assert!(script.lines().count() >= 5, "{}", system.name);
            let joined = script.replace("\\\n", " ");
            for line in joined.lines().map(str::trim) {
                assert!(is_harmless(line), "{}: {line}", system.name);
            }
        }
    }

    /// A test that cannot fail is none.
    #[test]
    fn what_changes_something_is_found() {
        for line in [
            "show no -o sb_max=1",
            "show sysctl -w net.ipv4.tcp_sack=1",
            "show ip route add default via 10.0.0.1",
            "show nstat -az",
            "show ifconfig -a; reboot",
            "show cat /proc/sys/net/$name >/etc/x",
            "show ethtool -K \"$interface\"",
            "Show 'netsh interface tcp set global autotuninglevel=normal'",
            "no -a",
            "CHGTCPA TCPRCVBUF(65535)",
            "for name in core/rmem_max; do reboot; done",
            "/* */ CHGTCPA /* */",
        ] {
            assert!(!is_harmless(line), "{line}");
        }
    }

    fn is_harmless(line: &str) -> bool {
        let is_comment = line.is_empty()
            || line.starts_with('#')
            || line.starts_with("/*") && line.find("*/") == Some(line.len() - 2);
        let names = line.strip_prefix("for name in ").and_then(|rest| rest.strip_suffix("; do"));
        let is_list =
            names.is_some_and(|names| names.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/_ ".contains(&byte)));
        let line = line.strip_prefix("ent*) ").and_then(|line| line.strip_suffix(" ;;")).unwrap_or(line);
        let unix = line.strip_prefix("show ");
        let windows = line.strip_prefix("Show '").and_then(|line| line.strip_suffix('\''));
        is_comment || is_list || FRAME.contains(&line) || unix.or(windows).is_some_and(is_showing)
    }

    fn is_showing(command: &str) -> bool {
        let fits = |word: &str, allowed: &str| match allowed.rsplit_once('/').map_or(allowed, |(_, last)| last) {
            any if any.bytes().all(|byte| byte.is_ascii_uppercase()) => {
                let folder = allowed.len() - any.len();
                word.trim_matches('"').get(..folder) == Some(&allowed[..folder])
                    && !word.contains([';', '&', '|', '>', '`'])
            }
            _ => word == allowed,
        };
        SHOWING.iter().any(|showing| {
            let (words, allowed) = (command.split(' '), showing.split(' '));
            words.clone().count() == allowed.clone().count()
                && words.zip(allowed).all(|(word, allowed)| fits(word, allowed))
        })
    }
}
