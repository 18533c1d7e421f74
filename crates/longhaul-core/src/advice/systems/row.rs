//! What the rows of all systems share: a row to start from, and the values that a path needs.

use crate::advice::goal::Goal;
use crate::advice::setting::{Effect, Fit, Setting};
use crate::path::laws::MAX_UNSCALED_WINDOW;

/// A row with nothing in it. Each row gives the fields that it has.
pub(super) const EMPTY: Setting = Setting {
    name: "",
    place: "",
    unit: "",
    default: "",
    other_defaults: "",
    limits: "",
    effect: Effect::Other,
    want: never,
    fit: Fit::Exactly,
    read: "",
    set_now: "",
    set_permanent: "",
    elsewhere: None,
    undo: "",
    caveat: "",
    source: "",
    verified: false,
};

/// No path needs another value.
pub(super) fn never(_: &Goal) -> Option<String> {
    None
}

/// The window.
pub(super) fn window(goal: &Goal) -> Option<String> {
    Some(goal.window.0.to_string())
}

/// `value`, if the window needs scaling.
pub(super) fn with_scaling(goal: &Goal, value: &str) -> Option<String> {
    (goal.window > MAX_UNSCALED_WINDOW).then(|| value.to_string())
}

/// The largest packet, if a host on Ethernet would send larger ones.
pub(super) fn short_packet(goal: &Goal) -> Option<String> {
    goal.is_packet_short.then(|| goal.packet.to_string())
}

/// 1 on every path.
pub(super) fn one(_: &Goal) -> Option<String> {
    Some("1".into())
}

/// 0 on every path.
pub(super) fn zero(_: &Goal) -> Option<String> {
    Some("0".into())
}

/// `on` on every path.
pub(super) fn on(_: &Goal) -> Option<String> {
    Some("on".into())
}
