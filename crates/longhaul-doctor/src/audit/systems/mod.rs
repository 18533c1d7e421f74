//! The systems whose pastes are read: a reader, a script and a row for each.

mod aix;
mod ibmi;
mod linux;
mod solaris;
mod values;
mod vios;
mod windows;

use super::reader::Reader;

/// A system, and what reads its pastes.
pub(super) struct SystemReader {
    /// Name of the system, as in [`longhaul_core::advice::System::name`].
    pub(super) system: &'static str,
    /// Returns a reader that has read nothing.
    pub(super) reader: fn() -> Box<dyn Reader>,
    /// The script that collects pastes. For IBM i it is comments that say what to type.
    pub(super) script: &'static str,
}

/// All systems. If the readers of two understand as many lines of a paste, the first is the guess.
pub(super) const READERS: &[SystemReader] = &[
    SystemReader { system: "aix", reader: || Box::<aix::Aix>::default(), script: include_str!("../collect/aix.sh") },
    SystemReader {
        system: "ibmi",
        reader: || Box::<ibmi::Ibmi>::default(),
        script: include_str!("../collect/ibmi.txt"),
    },
    SystemReader {
        system: "vios",
        reader: || Box::<vios::Vios>::default(),
        script: include_str!("../collect/vios.sh"),
    },
    SystemReader {
        system: "linux",
        reader: || Box::<linux::Linux>::default(),
        script: include_str!("../collect/linux.sh"),
    },
    SystemReader {
        system: "solaris",
        reader: || Box::<solaris::Solaris>::default(),
        script: include_str!("../collect/solaris.sh"),
    },
    SystemReader {
        system: "windows",
        reader: || Box::<windows::Windows>::default(),
        script: include_str!("../collect/windows.ps1"),
    },
];
