//! `--local`: this Linux machine, by the script that `--collect linux` prints, without its connections: a relay has some on the
//! LAN, whose windows are no limit of the path.

use super::collect;
use longhaul_core::advice::LINUX;
use std::io;
use std::process::{Command, Stdio};

/// What the script shows here.
pub(super) struct Local {
    /// Its output, which the reader of Linux reads.
    pub(super) text: Vec<u8>,
    /// The programs that it did not find.
    pub(super) missing: Vec<String>,
}

/// Runs the script. It changes nothing.
///
/// # Errors
/// There is no `sh`.
pub(super) fn read() -> io::Result<Local> {
    let output = shell(&without_connections(collect::script(&LINUX))).output();
    Ok(Local::of(output.map_err(|err| io::Error::new(err.kind(), format!("sh: {err}")))?.stdout))
}

impl Local {
    fn of(text: Vec<u8>) -> Local {
        let shown = String::from_utf8_lossy(&text);
        let missing = shown.lines().filter_map(|line| line.strip_prefix(MISSING));
        let mut missing: Vec<String> = missing.map(str::to_string).collect();
        // ethtool is called for each interface.
        missing.dedup();
        Local { text, missing }
    }
}

fn without_connections(script: &str) -> String {
    script.lines().filter(|line| !line.starts_with("show ss ")).fold(String::new(), |text, line| text + line + "\n")
}

/// Returns the command that runs `script`.
fn shell(script: &str) -> Command {
    let mut sh = Command::new("sh");
    sh.arg("-c").arg(script).stdin(Stdio::null()).stderr(Stdio::null());
    sh
}

/// How the script names a program that it does not find.
const MISSING: &str = "missing: ";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::host;
    use std::fs;
    use std::os::unix::process::CommandExt;

    /// Runs the script as an ordinary user, with the programs of this machine, and gives its output to the reader.
    #[test]
    fn the_script_shows_this_machine_to_an_ordinary_user() {
        let mut sh = shell(collect::script(&LINUX));
        sh.current_dir("/");
        if fs::metadata("/proc/self").is_ok_and(|about| std::os::unix::fs::MetadataExt::uid(&about) == 0) {
            // nobody
            sh.uid(65_534).gid(65_534);
        }
        let text = sh.output().unwrap().stdout;
        let host = host::read(text.as_slice(), "", None).unwrap().unwrap();
        assert_eq!(host.system.name, "linux");
        let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        assert_eq!(host.name, name.trim());
        for sysctl in ["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem", "net.ipv4.tcp_sack", "net.ipv4.tcp_congestion_control"]
        {
            let value = fs::read_to_string(format!("/proc/sys/{}", sysctl.replace('.', "/"))).unwrap();
            let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
            let shown = host.facts.settings.iter().find(|shown| shown.name == sysctl).map(|shown| shown.value.as_str());
            assert_eq!(shown, Some(value.as_str()), "{sysctl}");
        }
        assert!(host.facts.missing.is_empty() && host.facts.windows.len() >= 2, "{:?}", host.facts);
    }

    #[test]
    fn the_rest_of_the_script_stays() {
        let script = without_connections(collect::script(&LINUX));
        assert_eq!(script.lines().count() + 1, collect::script(&LINUX).lines().count());
        assert!(!script.contains("show ss"));
    }

    #[test]
    fn a_missing_program_is_named_and_the_rest_goes_on() {
        let script = collect::script(&LINUX).replace("show ethtool", "show no-such-program");
        let local = Local::of(shell(&script).output().unwrap().stdout);
        assert!(local.missing.contains(&"no-such-program".to_string()), "{:?}", local.missing);
        assert!(String::from_utf8(local.text).unwrap().contains("$ systemctl show"));
    }
}
