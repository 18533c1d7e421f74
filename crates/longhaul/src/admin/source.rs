//! The admin part's access to the process: its commands, its live flows, its start.

use super::curves::Curves;
use super::documents::Document;
use super::snapshot::AdminCounters;
use crate::control::{Command, Control, Status};
use crate::resources::Resources;
use longhaul_relay::Relay;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};
use tokio::time::timeout;

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
    /// The figures of the tunnels over time.
    pub(super) curves: Mutex<Curves>,
    /// `/status.json` without curves, and with those of each span.
    pub(super) status: [Document; 4],
    /// `/metrics`, by the format.
    pub(super) metrics: [Document; 2],
}

impl Source {
    /// Returns a source for the process that starts now.
    pub(crate) fn new(control: Control, relay: Arc<Relay>) -> Arc<Source> {
        let (started, began) = (SystemTime::now(), Instant::now());
        let (counters, hosts, curves, status, metrics) = Default::default();
        let resources = Arc::default();
        Arc::new(Source { control, relay, started, began, resources, counters, hosts, curves, status, metrics })
    }

    /// Returns the state of the daemon, or `None` if it does not answer in time.
    pub(super) async fn daemon(&self) -> Option<Status> {
        timeout(DAEMON_TIMEOUT, self.control.ask(Command::Status)).await.ok()?
    }
}

/// Time that the daemon has to answer. It answers at once unless it hangs.
const DAEMON_TIMEOUT: Duration = Duration::from_secs(2);
