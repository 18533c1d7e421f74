//! What stands between the hosts of a run: the link, and how hosts and relays are set.

use crate::plan::host::HostSpec;
use crate::plan::link::LinkSpec;
use crate::plan::profile::Profile;

/// What stands between the hosts.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// Whether one relay host joins two cables, without an emulated WAN.
    pub(crate) one_hop: bool,
    /// The emulated WAN.
    pub(crate) link: LinkSpec,
    /// Hosts A and B.
    pub(crate) host: HostSpec,
    /// The two relay hosts.
    pub(crate) relay: HostSpec,
    /// Socket options of the relays, as `longhaul relay --set` takes them.
    pub(crate) set: Vec<String>,
}

impl Setup {
    /// The relay hosts, whose buffers cover the path unless the scenario says otherwise.
    pub(crate) fn relay_spec(&self) -> HostSpec {
        let buffers = self.relay.buffers.or((!self.one_hop).then(|| Profile::relay_buffer(&self.link)));
        HostSpec { buffers, ..self.relay.clone() }
    }
}
