//! Values of a paste by name, and what follows from one of them.

use crate::audit::reader::{Hint, Shown, WHOLE_SYSTEM, WindowLimit};
use longhaul_units::Bytes;

/// Keeps a value. The last one shown is in force: a paste may show the host before and after a change.
pub(super) fn keep(values: &mut Vec<Shown>, name: &str, value: &str, from: &str) {
    let shown = Shown { name: name.into(), value: value.into(), from: from.into() };
    match values.iter_mut().find(|known| known.name == shown.name && known.from == shown.from) {
        Some(known) => *known = shown,
        None => values.push(shown),
    }
}

/// Keeps the lowest limit of each setting.
pub(super) fn keep_lowest(limits: &mut Vec<WindowLimit>, limit: WindowLimit) {
    match limits.iter_mut().find(|known| known.setting == limit.setting) {
        Some(known) if limit.window < known.window => *known = limit,
        Some(_) => {}
        None => limits.push(limit),
    }
}

/// Returns the limit `window` that the value `value` sets for the whole system.
pub(super) fn system_limit(setting: &'static str, value: &str, window: u64) -> WindowLimit {
    WindowLimit { setting, value: value.into(), place: WHOLE_SYSTEM.into(), window: Bytes(window), what: "" }
}

/// A value that hurts, wherever it stands.
pub(super) struct Bad {
    /// The setting.
    pub(super) setting: &'static str,
    /// The value that hurts.
    pub(super) value: &'static str,
    /// What it does, in a sentence.
    pub(super) what: &'static str,
    /// As [`Hint::costs_rate`].
    pub(super) costs_rate: bool,
}

impl Bad {
    /// Returns the finding, for a value that is written `value`.
    pub(super) fn hint(&self, value: &str, place: &str) -> Hint {
        let Bad { setting, what, costs_rate, .. } = *self;
        Hint { setting, value: value.into(), place: place.into(), what, costs_rate }
    }
}

/// Returns the number that `text` is.
pub(super) fn number(text: &str) -> Option<u64> {
    // `parse` takes a plus sign, too.
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}
