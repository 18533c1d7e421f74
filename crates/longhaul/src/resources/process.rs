//! Use of the machine by this process.

use longhaul_sys::{limits, process};
use std::time::Duration;

/// Use of the machine by this process at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessFigures {
    /// Processor time of all threads since the process began.
    pub(crate) cpu: Duration,
    /// Resident memory in bytes. `None` if /proc does not show it.
    pub(crate) resident: Option<u64>,
    /// Number of open descriptors. `None` if /proc does not show it.
    pub(crate) descriptors: Option<u64>,
}

impl ProcessFigures {
    /// Returns the figures of this moment.
    pub(crate) fn now() -> ProcessFigures {
        ProcessFigures {
            cpu: process::cpu_time(),
            resident: process::resident_bytes(),
            descriptors: limits::open_descriptors().ok().map(|number| number as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_the_machine() {
        let ProcessFigures { cpu, resident, descriptors } = ProcessFigures::now();
        assert!(!cpu.is_zero() && resident.is_some_and(|bytes| bytes > 0) && descriptors.is_some_and(|open| open >= 3));
    }
}
