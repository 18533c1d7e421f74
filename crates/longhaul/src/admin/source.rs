//! The admin part's access to the process: its commands, its live flows, its start.

use super::documents::Document;
use super::snapshot::AdminCounters;
use crate::control::Control;
use crate::resources::Resources;
use longhaul_relay::Relay;
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime};

/// Access to the daemon and to the live flows.
#[derive(Debug)]
pub(crate) struct Source {
    /// The channel of commands.
    pub(super) control: Control,
    /// For reading only. Commands go through `control`.
    pub(super) relay: Arc<Relay>,
    /// Start of the process, by the wall clock.
    pub(super) started: SystemTime,
    /// The same moment, by the monotonic clock.
    pub(super) began: Instant,
    /// The last sample of the resources.
    pub(super) resources: Arc<Resources>,
    /// Events of the admin part.
    pub(super) counters: Mutex<AdminCounters>,
    /// Names of this machine: by the configuration, and its own at the last reload.
    pub(super) hosts: Mutex<Arc<[String]>>,
    /// `/status.json`.
    pub(super) status: Document,
    /// `/metrics`, by the format.
    pub(super) metrics: [Document; 2],
}

impl Source {
    /// Returns a source for the process that starts now.
    pub(crate) fn new(control: Control, relay: Arc<Relay>) -> Arc<Source> {
        let (started, began) = (SystemTime::now(), Instant::now());
        let (counters, hosts) = (Mutex::default(), Mutex::default());
        let (status, metrics) = Default::default();
        Arc::new(Source { control, relay, started, began, resources: Arc::default(), counters, hosts, status, metrics })
    }
}
