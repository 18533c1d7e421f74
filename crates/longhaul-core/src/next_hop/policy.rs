//! The form of a policy, and what policies share.

use super::hash::HopKey;
use std::net::IpAddr;
use std::time::Duration;

/// One way to order a group's next hops.
#[derive(Debug)]
pub struct Policy {
    /// Its name in a config file.
    pub name: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// Whether weights change the order.
    pub uses_weights: bool,
    /// Whether a client gets the same hop each time, as long as the hop can be dialled.
    pub is_sticky: bool,
    /// Returns the order in which to try the hops: each index into [`Choice::hops`] once.
    pub order: fn(&Choice<'_>) -> Vec<usize>,
}

/// The facts that a policy decides by.
#[derive(Clone, Copy, Debug)]
pub struct Choice<'a> {
    /// The hops to order.
    pub hops: &'a [Load],
    /// Address of the client.
    pub client: IpAddr,
    /// Number of dials of the tunnel before this one.
    pub turn: u64,
}

/// A hop as a policy sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Identifies the hop.
    pub key: HopKey,
    /// Its weight, 1 or more.
    pub weight: u32,
    /// Number of flows to it, including those that are being dialled.
    pub flows: u32,
    /// Smoothed time of its handshakes; `None` before the first one.
    pub rtt: Option<Duration>,
}

impl PartialEq for Policy {
    fn eq(&self, other: &Policy) -> bool {
        self.name == other.name
    }
}

/// Returns the indices `0..count`, beginning with `first` and wrapping round.
pub(super) fn rotated(count: usize, first: usize) -> Vec<usize> {
    (0..count).map(|index| (first + index) % count).collect()
}

/// Rotates the first `equals` of `order` by `turn`, so that equal hops take turns.
pub(super) fn take_turns(mut order: Vec<usize>, equals: usize, turn: u64) -> Vec<usize> {
    if equals > 0 {
        order[..equals].rotate_left((turn % equals as u64) as usize);
    }
    order
}
