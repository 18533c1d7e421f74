//! One operating system, as a row of data.

use super::goal::Goal;
use super::setting::{Effect, Setting};
use crate::path::laws::LossResponse;
use longhaul_units::Bytes;

/// One operating system.
#[derive(Debug)]
pub struct System {
    /// Name on the command line.
    pub name: &'static str,
    /// What it is, for people.
    pub title: &'static str,
    /// Name of an interface, for examples of `{interface}`.
    pub interface: &'static str,
    /// Window of a host that nobody has tuned.
    pub default_window: Bytes,
    /// What sets the default window, and the document that says so.
    pub default_source: &'static str,
    /// Largest window that can be set.
    pub max_window: Bytes,
    /// Response to random loss of its default congestion control.
    pub response: LossResponse,
    /// What its congestion control is, with `unverified` where no document says so.
    pub congestion: &'static str,
    /// Settings, in the order in which they are to be set.
    pub settings: &'static [Setting],
    /// What holds for every change on such a host; may be empty.
    pub note: &'static str,
}

impl System {
    /// Returns the setting called `name`, in capitals or small letters: netsh writes PowerShell's names in small ones.
    pub fn setting(&self, name: &str) -> Option<&'static Setting> {
        self.settings.iter().find(|setting| setting.name.eq_ignore_ascii_case(name))
    }

    /// Whether it is an end of TCP connections, and so has windows: a VIOS only forwards frames.
    pub fn has_window(&self) -> bool {
        self.settings.iter().any(|row| matches!(row.effect, Effect::ReceiveWindow | Effect::SendWindow))
    }

    /// Returns the setting that names the congestion control, if there is one.
    pub fn congestion_control(&self) -> Option<&'static Setting> {
        self.settings.iter().find(|row| row.effect == Effect::CongestionControl)
    }

    /// Returns the response to random loss of the control that the settings ask for, where it was `present`.
    pub fn tuned_response(&self, present: LossResponse, goal: &Goal) -> LossResponse {
        let wanted = self.congestion_control().and_then(|row| LossResponse::of(&(row.want)(goal)?));
        match present {
            LossResponse::Ignores => present,
            _ => wanted.unwrap_or(present),
        }
    }
}

/// What holds for every change of a window, on every system.
pub const EVERY_HOST: &str = "Change the hosts at both ends: the smaller window counts. Only new connections use the new values. A \
    window that a program sets itself (setsockopt) comes before the system's, and the program's protocol may have a smaller one. \
    Undo the changes in the reverse order.";
