//! The set-up of a run: the link, and the settings of hosts and relays.

use crate::plan::host::HostSpec;
use crate::plan::link::LinkSpec;
use crate::plan::profile::Profile;

/// The order of hosts and cables between A and B.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Topology {
    /// Two relay hosts and the emulated WAN between them.
    #[default]
    Wan,
    /// One relay host between two cables, without a WAN.
    OneHop,
}

/// The link, and the settings of hosts and relays.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// The order of hosts and cables.
    pub(crate) topology: Topology,
    /// The emulated WAN; unused with one hop.
    pub(crate) link: LinkSpec,
    /// Hosts A and B.
    pub(crate) host: HostSpec,
    /// The two relay hosts.
    pub(crate) relay: HostSpec,
    /// Socket options of the relays, in the syntax of `longhaul relay --set`.
    pub(crate) set: Vec<String>,
    /// Further options of the relays, as the words of `longhaul relay`.
    pub(crate) options: Vec<String>,
}

impl Setup {
    /// Whether there is an emulated WAN.
    pub(crate) fn has_wan(&self) -> bool {
        self.topology == Topology::Wan
    }

    /// Returns the relay hosts. Their buffers cover the path unless the scenario sets them.
    pub(crate) fn relay_spec(&self) -> HostSpec {
        let buffers = self.relay.buffers.or(self.has_wan().then(|| Profile::relay_buffer(&self.link)));
        HostSpec { buffers, ..self.relay.clone() }
    }
}
