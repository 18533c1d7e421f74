//! The two legs of a flow that is carried, and what its two pumps share.

use super::shared::Relay;
use super::silence::Member;
use super::stream::Stream;
use longhaul_config::Tunnel;
use longhaul_config::options::Leg;
use std::sync::Arc;

/// The legs of a carried flow, with the relay that carries it.
pub(super) struct Legs<'a> {
    /// What all tunnels share.
    pub(super) relay: &'a Relay,
    /// The flow's tunnel, as it was when the flow began.
    pub(super) tunnel: &'a Tunnel,
    /// The connection that came to us.
    pub(super) accept: &'a Arc<Stream>,
    /// The connection that was made for it.
    pub(super) dial: &'a Arc<Stream>,
    /// The flow's membership in the sweep.
    pub(super) member: Member<'a>,
}

impl<'a> Legs<'a> {
    /// Returns the connection of `leg`.
    pub(super) fn of(&self, leg: Leg) -> &'a Arc<Stream> {
        match leg {
            Leg::Accept => self.accept,
            Leg::Dial => self.dial,
        }
    }
}
