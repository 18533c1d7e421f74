//! The range from which the kernel takes the local ports of connections.

use longhaul_sys::limits;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The range from which the kernel takes a port for a socket that names none, as it was when the configuration was last
/// applied. Only a dial to such a port can meet itself.
#[derive(Debug)]
pub(super) struct LocalPorts(AtomicU32);

impl LocalPorts {
    /// Every port, until the range is read.
    pub(super) fn unknown() -> LocalPorts {
        LocalPorts(AtomicU32::new(u32::from(u16::MAX)))
    }

    /// Reads the range.
    pub(super) fn read(&self) {
        let ports = limits::local_ports();
        self.0.store(u32::from(*ports.start()) << 16 | u32::from(*ports.end()), Relaxed);
    }

    /// Whether the kernel may take `port`.
    pub(super) fn contain(&self, port: u16) -> bool {
        let ports = self.0.load(Relaxed);
        (ports >> 16..=ports & 0xffff).contains(&port.into())
    }
}
