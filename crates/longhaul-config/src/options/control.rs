//! Remedies for a congestion control that the kernel lacks or forbids: load a module, write another name, or allow it.

use super::row::Value;
use crate::suggest;
use longhaul_sys::sockopt::{allowed_congestion_controls, available_congestion_controls};

/// Returns the remedy for a congestion control `name` that is not in the kernel's list `offered`: `the kernel offers reno
/// cubic; did you mean cubic?`.
pub fn not_offered(name: &str, offered: &str) -> String {
    format!("the kernel offers {offered}; {}", instead(name, offered))
}

/// Returns the remedy for ENOENT.
pub(super) fn unknown(control: &Value) -> String {
    let name = control.to_string();
    match available_congestion_controls() {
        Some(offered) => not_offered(&name, &offered),
        None => instead(&name, ""),
    }
}

/// Returns the remedy for EPERM.
pub(super) fn forbidden(control: &Value) -> String {
    let allowed = allowed_congestion_controls().unwrap_or_default();
    format!(
        "without CAP_NET_ADMIN only {allowed} may be chosen: \
         sysctl -w net.ipv4.tcp_allowed_congestion_control='{allowed} {control}'"
    )
}

/// Returns `did you mean bbr?` or `try modprobe tcp_vegas` for a `name` that is not in `offered`.
fn instead(name: &str, offered: &str) -> String {
    let known = || offered.split(' ').chain(CONTROLS.iter().copied()).chain([AUTO]);
    match suggest::nearest(name, known()) {
        Some(near) if !known().any(|known| known == name) => format!("did you mean {near}?"),
        _ => format!("try modprobe tcp_{name}"),
    }
}

/// Value of `congestion` that lets the relay choose the congestion control.
pub const AUTO: &str = "auto";

/// The congestion controls of Linux (net/ipv4/Kconfig); all but Reno may be modules.
pub const CONTROLS: &[&str] = &[
    "reno", "bbr", "bic", "cdg", "cubic", "dctcp", "highspeed", "htcp", "hybla", "illinois", "lp", "nv", "scalable",
    "vegas", "veno", "westwood", "yeah",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_control_is_guessed_and_a_module_is_loaded() {
        let offered = "reno cubic bbr";
        assert_eq!(instead("bbrr", offered), "did you mean bbr?");
        assert_eq!(instead("BBR", offered), "did you mean bbr?");
        assert_eq!(instead("vegas", offered), "try modprobe tcp_vegas");
        assert_eq!(instead("mine", offered), "try modprobe tcp_mine");
    }
}
