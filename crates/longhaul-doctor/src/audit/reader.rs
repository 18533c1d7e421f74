//! The border between the readers of pastes and the audit: each system has a [`Reader`], and all readers give [`Facts`].
//!
//! A paste is read line by line, once, by the readers of all systems. The system whose reader understood most lines is the
//! guess. A reader keeps only values that it knows by name, so its memory does not grow with the paste.

use longhaul_core::path::laws::LossResponse;
use longhaul_units::Bytes;

/// Reads the pastes of one system.
pub(super) trait Reader {
    /// Reads one line without colours, prompts, frames and line ends. Returns whether it understood the line.
    fn read(&mut self, line: &str) -> bool;

    /// Returns what all lines together show.
    fn facts(&self) -> Facts;
}

/// What a host's pastes show.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// The host's name, if a paste shows it (a prompt, `uname -n`).
    pub(super) name: Option<String>,
    /// Every value that was understood, in the order of the paste.
    pub(super) settings: Vec<Shown>,
    /// The limits of the window that follow from them. The effective window is the smallest; without one it is unknown.
    pub(super) windows: Vec<WindowLimit>,
    /// Limits that a window cannot exceed, while it may well be smaller. They count where they limit below the path's rate, and
    /// say nothing of the window elsewhere.
    pub(super) bounds: Vec<WindowLimit>,
    /// The window of each interface, where a host has several with different ones.
    pub(super) interfaces: Vec<(String, Bytes)>,
    /// The congestion control in force.
    pub(super) control: Option<Control>,
    /// The command that shows it on this host, if there is one.
    pub(super) control_read: Option<&'static str>,
    /// Findings without a window: what hurts by an amount that cannot be computed, or costs no rate.
    pub(super) hints: Vec<Hint>,
    /// What else to paste, so that the window is known: `ifconfig -a`, `no -a` ..
    pub(super) missing: Vec<&'static str>,
}

impl Facts {
    /// Whether `setting` is the one that chooses the congestion control in force.
    pub(super) fn is_control(&self, setting: &str) -> bool {
        self.control.as_ref().is_some_and(|control| control.setting == setting)
    }
}

/// One value in a paste.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    /// Name of the setting, as in [`longhaul_core::advice::Setting::name`] where it has a row.
    pub(super) name: String,
    /// The value as it is written.
    pub(super) value: String,
    /// The command or screen that showed it, with the interface if there is one: `ifconfig en0`.
    pub(super) from: String,
}

/// A limit of the window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WindowLimit {
    /// The setting that sets the limit.
    pub(super) setting: &'static str,
    /// Its value as it is written, with the interface if there is one.
    pub(super) value: String,
    /// Where the value stands: the interface, or `whole system`.
    pub(super) place: String,
    /// The largest window that it allows.
    pub(super) window: Bytes,
    /// What to know of it, in a sentence, where the setting has no row that says it; may be empty.
    pub(super) what: &'static str,
}

/// The congestion control of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Control {
    /// The setting that chooses it.
    pub(super) setting: &'static str,
    /// Its name as it is written.
    pub(super) value: String,
    /// Where the value stands.
    pub(super) place: String,
    /// How it answers random loss; `None` if there is no law for it.
    pub(super) response: Option<LossResponse>,
}

impl Control {
    /// Returns the control that `setting` names in `place`.
    pub(super) fn new(setting: &'static str, value: &str, place: &str) -> Control {
        Control { setting, value: value.into(), place: place.into(), response: LossResponse::of(value) }
    }
}

/// A finding whose effect is not a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hint {
    /// The setting.
    pub(super) setting: &'static str,
    /// Its value as it is written.
    pub(super) value: String,
    /// Where the value stands.
    pub(super) place: String,
    /// What it does, in a sentence.
    pub(super) what: &'static str,
    /// Whether it costs rate by an amount that cannot be computed (`effect_mbps` is null), or none (it is 0).
    pub(super) costs_rate: bool,
}

/// The place of a value that belongs to no interface, route or template.
pub(super) const WHOLE_SYSTEM: &str = "whole system";
