//! The range from which the kernel chooses local ports.

use longhaul_sys::limits;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The range from which the kernel chooses a port for a socket that names none, as of the last start or reload. Only a
/// dial to a port of this range can connect to itself.
#[derive(Debug)]
pub(crate) struct LocalPorts(AtomicU32);

impl LocalPorts {
    /// Returns a range of every port, for use until the range is read.
    pub(crate) fn unknown() -> LocalPorts {
        LocalPorts(AtomicU32::new(u32::from(u16::MAX)))
    }

    /// Reads the range from the kernel.
    pub(crate) fn read(&self) {
        let ports = limits::local_ports();
        self.0.store(u32::from(*ports.start()) << 16 | u32::from(*ports.end()), Relaxed);
    }

    /// Whether the kernel may choose `port`.
    pub(crate) fn contain(&self, port: u16) -> bool {
        let ports = self.0.load(Relaxed);
        (ports >> 16..=ports & 0xffff).contains(&port.into())
    }
}
