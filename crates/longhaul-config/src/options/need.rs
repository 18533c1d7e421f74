//! Needs of an option: rights of the process, settings of the kernel, devices. `longhaul check` looks for them.

use longhaul_sys::limits::Capability;

/// Something that an option needs of the machine or of the rights of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The capability. Without it the kernel refuses the option.
    Capability(Capability),
    /// A number up to the value of `sysctl`. Only a process with `exempt` gets a larger one; for others the kernel reduces
    /// the number to the sysctl's.
    UpTo {
        /// Path of the sysctl below /proc/sys, such as `net/core/wmem_max`.
        sysctl: &'static str,
        /// Capability that lifts the limit.
        exempt: Capability,
    },
    /// Bits that must be set in the value of `sysctl`. Without them an option that is on has no effect.
    Bits {
        /// Path of the sysctl below /proc/sys.
        sysctl: &'static str,
        /// The bits; all of them are needed.
        bits: u32,
    },
    /// An interface with the name in the value. The kernel refuses the name of another one.
    Interface,
    /// The congestion control named by the value, unless that is `auto`. The kernel must offer it, and must allow
    /// it to a process without CAP_NET_ADMIN. Otherwise the kernel refuses it.
    CongestionControl,
}

impl Need {
    /// Returns whether a tunnel does not start without it, because the kernel refuses the option. Otherwise the tunnel
    /// starts, and the option has another value or no effect.
    pub fn stops_start(self) -> bool {
        match self {
            Need::Capability(_) | Need::Interface | Need::CongestionControl => true,
            Need::UpTo { .. } | Need::Bits { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::row::Unit;
    use super::super::table::ROWS;
    use super::*;

    #[test]
    fn the_unit_of_each_row_fits_its_needs() {
        for row in ROWS {
            let is_number = !matches!(row.unit, Unit::Name | Unit::Switch);
            let fits = |need: &Need| match need {
                Need::Capability(_) | Need::Bits { .. } => true,
                Need::UpTo { .. } => is_number,
                Need::Interface | Need::CongestionControl => row.unit == Unit::Name,
            };
            assert!(row.needs.iter().all(fits), "{}: {:?}", row.key, row.needs);
        }
    }
}
