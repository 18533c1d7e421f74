//! Linux: `sysctl`, files of /etc/sysctl.d, `ss -ti`, `ethtool -k`, `nstat`, `ip link`, `ip addr`, `ip route`, `tc qdisc`,
//! `uname`, and `systemctl show`.
//!
//! One file for each kind of output, each of which knows its own lines; this file says what follows from all of them.

mod counters;
mod flows;
mod links;
mod routes;
mod sysctls;
mod unit;

use crate::audit::reader::{Facts, Reader, Shown, WindowLimit};
use crate::audit::systems::values::{keep, number, system_limit};
use counters::Counters;
use flows::Flows;
use links::Links;
use longhaul_core::path::laws::MAX_UNSCALED_WINDOW;
use routes::Routes;
use sysctls::Sysctls;
use unit::Unit;

/// Reads the pastes of one Linux host.
#[derive(Default)]
pub(super) struct Linux {
    name: Option<String>,
    /// What `uname` shows.
    kernel: Vec<Shown>,
    unit: Unit,
    sysctls: Sysctls,
    flows: Flows,
    counters: Counters,
    links: Links,
    routes: Routes,
    output: Output,
}

/// The output that follows a command, where its lines do not say it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Output {
    #[default]
    Unknown,
    /// `uname -r`
    Release,
    /// A file of settings, which may not be in force.
    File,
}

impl Reader for Linux {
    fn read(&mut self, line: &str) -> bool {
        if self.flows.read(line) {
            return true;
        }
        self.flows.end();
        self.command(line)
            || self.sysctls.read(line, self.output == Output::File)
            || self.links.read(line)
            || self.routes.read(line)
            || self.counters.read(line)
            || self.uname(line)
            || self.unit.read(line)
    }

    fn facts(&self) -> Facts {
        let mut facts = Facts { name: self.name.clone(), settings: self.kernel.clone(), ..Facts::default() };
        self.sysctls.add_to(&mut facts);
        self.add_windows(&mut facts);
        self.flows.add_to(&mut facts, self.sysctls.triple("net.ipv4.tcp_wmem").map(|[.., largest]| largest));
        let is_counting = |device: &str| self.links.is_counting(device);
        self.routes.add_to(&mut facts, is_counting);
        self.links.add_to(&mut facts);
        self.counters.add_to(&mut facts);
        self.unit.add_to(&mut facts);
        facts
    }
}

/// The lines.
impl Linux {
    /// Reads a command, as a prompt or a script shows it.
    fn command(&mut self, line: &str) -> bool {
        let mut words = line.split_ascii_whitespace();
        let program = words.next().and_then(|word| word.rsplit('/').next()).unwrap_or_default();
        let rest: Vec<&str> = words.take(MAX_WORDS).collect();
        let has = |known: &[&str]| rest.iter().any(|word| known.contains(word));
        let is_option = rest.first().is_some_and(|word| word.starts_with('-'));
        let output = match program {
            "uname" if has(&["-r"]) => Output::Release,
            "cat" if rest.iter().any(|word| word.contains("sysctl")) => Output::File,
            "cat" | "sysctl" if has(&["-n"]) || rest.iter().any(|word| word.starts_with("/proc/sys/")) => {
                self.sysctls.expect(&rest);
                Output::Unknown
            }
            "ethtool" if has(&["-k"]) => {
                self.links.expect(&rest);
                Output::Unknown
            }
            "uname" | "ss" if is_option => Output::Unknown,
            "sysctl" if is_option || rest.iter().any(|word| word.starts_with("net.")) => Output::Unknown,
            "nstat" if rest.is_empty() || is_option => Output::Unknown,
            "ip" if has(&["link", "addr", "address", "route", "l", "a", "r", "ro", "rou"]) => {
                self.routes.begin(&rest);
                Output::Unknown
            }
            "tc" if has(&["qdisc", "q"]) => Output::Unknown,
            "systemctl" if has(&["show"]) => Output::Unknown,
            _ => return false,
        };
        self.output = output;
        true
    }

    /// Reads the output of `uname`: `Linux db1 5.14.0-427.el9.x86_64 #1 SMP .. GNU/Linux`, the release, or the name.
    fn uname(&mut self, line: &str) -> bool {
        let words: Vec<&str> = line.split_ascii_whitespace().take(4).collect();
        let (name, release) = match (words.as_slice(), self.output) {
            (["Linux", name, release, build, ..], _) if build.starts_with('#') => (Some(*name), Some(*release)),
            ([release], Output::Release) => (None, Some(*release)),
            ([release], _) if is_packaged_release(release) => (None, Some(*release)),
            _ => return false,
        };
        if name.is_some_and(|name| !is_host_name(name)) || release.is_some_and(|release| !is_release(release)) {
            return false;
        }
        self.output = Output::Unknown;
        self.name = name.map(str::to_string).or(self.name.take());
        if let Some(release) = release {
            keep(&mut self.kernel, "kernel", release, "uname -r");
        }
        true
    }
}

/// What follows from them.
impl Linux {
    /// Adds the limits of the window that the sysctls set, and what else to paste.
    fn add_windows(&self, facts: &mut Facts) {
        let [rmem, wmem] = ["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"].map(|name| self.sysctls.triple(name));
        let receive = rmem.and_then(|[_, first, largest]| Some((first, largest, self.scale()?)));
        if let Some((first, largest, scale)) = receive {
            // A scale that leaves less than the default is a limit of its own: the buffer may be large enough.
            let is_small = scale < -1;
            let fair = if is_small { DEFAULT_SCALE } else { scale };
            facts.windows.extend(self.sysctl_limit("net.ipv4.tcp_rmem", window_of(largest, fair)));
            let scaled = self.sysctl_limit(SCALE, window_of(largest, scale));
            facts.windows.extend(scaled.filter(|_| is_small));
            // ip-sysctl: without autotuning the buffer keeps the size that a socket begins with.
            let fixed = self.sysctl_limit("net.ipv4.tcp_moderate_rcvbuf", window_of(first, scale));
            facts.windows.extend(fixed.filter(|limit| limit.value == "0"));
        }
        if let Some([.., largest]) = wmem {
            facts.windows.extend(self.sysctl_limit("net.ipv4.tcp_wmem", largest));
        }
        let unscaled = self.sysctl_limit("net.ipv4.tcp_window_scaling", MAX_UNSCALED_WINDOW.0);
        facts.windows.extend(unscaled.filter(|limit| limit.value == "0"));
        facts.missing.extend(receive.is_none().then_some("sysctl net.ipv4.tcp_rmem net.ipv4.tcp_adv_win_scale"));
        facts.missing.extend(wmem.is_none().then_some("sysctl net.ipv4.tcp_wmem"));
    }

    /// Returns the limit that the sysctl `name` sets, if a paste shows it.
    fn sysctl_limit(&self, name: &'static str, window: u64) -> Option<WindowLimit> {
        let shown = self.sysctls.shown(name)?;
        Some(system_limit(name, &shown.value, window))
    }

    /// Returns the scale of windows; `None` if the paste has one that no kernel has.
    ///
    /// ip-sysctl, tcp_adv_win_scale: it is from -31 to 31. Its default is 1, and new kernels have done without it.
    fn scale(&self) -> Option<i32> {
        match self.sysctls.shown(SCALE) {
            Some(shown) => shown.value.parse().ok().filter(|scale| (-31..=31).contains(scale)),
            None => Some(DEFAULT_SCALE),
        }
    }
}

/// Returns the window that a receive buffer of `space` bytes gives with tcp_adv_win_scale (ip-sysctl): `space - space / 2^scale`,
/// or `space / 2^-scale` where the scale is not positive.
fn window_of(space: u64, scale: i32) -> u64 {
    let part = space >> scale.unsigned_abs();
    if scale > 0 { space - part } else { part }
}

/// Returns whether `text` is the release of a kernel as a distribution builds it, such as `6.1.0-18-amd64`. Without the part
/// behind the dash it might be the version of anything.
fn is_packaged_release(text: &str) -> bool {
    is_release(text) && text.split_once('-').is_some_and(|(version, _)| version.split('.').count() >= 3)
}

/// Returns whether `text` may be the release of a kernel: three numbers at least. `5.10` is one of Solaris.
fn is_release(text: &str) -> bool {
    let version = text.split(['-', '+']).next().unwrap_or_default();
    let numbers = version.split('.').take_while(|part| number(part).is_some_and(|_| !part.is_empty())).count();
    numbers >= 3 && text.len() <= MAX_NAME_BYTES
}

fn is_host_name(text: &str) -> bool {
    let is_word = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    is_word && !text.is_empty() && text.len() <= MAX_NAME_BYTES
}

const SCALE: &str = "net.ipv4.tcp_adv_win_scale";
const DEFAULT_SCALE: i32 = 1;
const MAX_NAME_BYTES: usize = 64;
const MAX_WORDS: usize = 32;
