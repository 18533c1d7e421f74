//! Remedies for a congestion control that the kernel lacks: load a module, or write another name.

use super::row::Value;
use super::setting::Setting;
use super::table::{AUTO, key};
use crate::suggest;
use longhaul_sys::SysError;
use longhaul_sys::sockopt::congestion_controls;

/// Returns the remedy for a congestion control `name` that is not in the kernel's list `offered`: `did you mean bbr?`.
pub fn instead(name: &str, offered: &str) -> String {
    let known = || offered.split(' ').chain(CONTROLS.iter().copied()).chain([AUTO]);
    match suggest::nearest(name, known()) {
        Some(near) if !known().any(|known| known == name) => format!("did you mean {near}?"),
        _ => format!("try modprobe tcp_{name}"),
    }
}

/// Adds a hint to `err`, the kernel's refusal of one of `settings`, if the reason is an unknown congestion control. The hint
/// names the control that is probably meant.
pub fn remedied<'s>(err: SysError, mut settings: impl Iterator<Item = &'s Setting>) -> SysError {
    let Some(Value::Name(name)) =
        settings.find(|setting| setting.row.key == key::CONGESTION).map(|setting| &setting.value)
    else {
        return err;
    };
    let is_unknown = err.errno == libc::ENOENT && err.call.contains("TCP_CONGESTION");
    match congestion_controls("available").filter(|_| is_unknown) {
        Some(offered) => {
            let hint = format!("the kernel offers {offered}; {}", instead(name, &offered));
            err.hint(hint)
        }
        None => err,
    }
}

/// The congestion controls of Linux (net/ipv4/Kconfig); all but Reno may be modules.
pub const CONTROLS: &[&str] = &[
    "reno",
    "bbr",
    "bic",
    "cdg",
    "cubic",
    "dctcp",
    "highspeed",
    "htcp",
    "hybla",
    "illinois",
    "lp",
    "nv",
    "scalable",
    "vegas",
    "veno",
    "westwood",
    "yeah",
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
