//! The two legs of a carried flow, and the state that its two pumps share.

use crate::leg::stream::Stream;
use crate::live::flow::Flow;
use crate::state::shared::Relay;
use longhaul_config::Tunnel;
use longhaul_config::options::Leg;
use std::sync::Arc;

/// The legs of a carried flow, with the relay that carries it.
pub(crate) struct Legs<'a> {
    /// The state that all tunnels share.
    pub(crate) relay: &'a Relay,
    /// The flow. The pumps write their progress to it.
    pub(crate) flow: &'a Arc<Flow>,
    /// The connection that we accepted.
    pub(crate) accept: &'a Arc<Stream>,
    /// The connection that we dialled for it.
    pub(crate) dial: &'a Arc<Stream>,
}

impl<'a> Legs<'a> {
    /// Returns the flow's tunnel, as it was when the flow began.
    pub(crate) fn tunnel(&self) -> &'a Tunnel {
        &self.flow.tunnel
    }

    /// Returns the connection of `leg`.
    pub(crate) fn of(&self, leg: Leg) -> &'a Arc<Stream> {
        match leg {
            Leg::Accept => self.accept,
            Leg::Dial => self.dial,
        }
    }
}
