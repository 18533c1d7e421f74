//! The systems whose pastes are read: a file and a row for each.

mod aix;
mod ibmi;
mod linux;
mod solaris;
mod values;
mod vios;
mod windows;

use super::reader::Reader;

/// A system, and what reads its pastes.
pub(super) struct Row {
    /// Name of the system, as in [`longhaul_core::advice::System::name`].
    pub(super) system: &'static str,
    /// Returns a reader that has read nothing.
    pub(super) reader: fn() -> Box<dyn Reader>,
}

/// All readers. If two understand as many lines of a paste, the first is the guess.
pub(super) const READERS: &[Row] = &[
    Row { system: "aix", reader: || Box::<aix::Aix>::default() },
    Row { system: "ibmi", reader: || Box::<ibmi::Ibmi>::default() },
    Row { system: "vios", reader: || Box::<vios::Vios>::default() },
    Row { system: "linux", reader: || Box::<linux::Linux>::default() },
    Row { system: "solaris", reader: || Box::<solaris::Solaris>::default() },
    Row { system: "windows", reader: || Box::<windows::Windows>::default() },
];
