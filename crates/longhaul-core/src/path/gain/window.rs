//! Gathers the evidence that a host's receive window cannot grow.

use crate::path::sample::Sample;
use longhaul_units::Bytes;
use std::time::Duration;

/// The receive window of a host, as the relay beside it has seen it.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostWindow {
    /// The window when the evidence began, and the largest one since, in bytes.
    first: u64,
    largest: u64,
    /// The largest window that its scale can express; 0 if that is not known.
    max: u64,
    /// Number of looks at which it had been full since the look before, and had not grown.
    full: u32,
    /// At the last look: whether it was near the largest one, and the time during which it has limited the sender so far.
    last: Option<(bool, Duration)>,
}

/// The reason why a window cannot be larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// Its field in the header has 16 bits, shifted by the scale of the handshake (RFC 7323 2.2).
    Scale,
    /// It was full again and again, and the host, which autotunes a window that is full, did not enlarge it.
    Full,
}

impl HostWindow {
    /// Takes a look at the leg to the host.
    pub fn look(&mut self, leg: &Sample) {
        let window = leg.peer_window;
        if window > self.first + self.first / GROWN {
            *self = HostWindow { first: window, ..HostWindow::default() };
        }
        self.max = leg.max_peer_window;
        self.largest = self.largest.max(window);
        let is_near = is_near(window, self.largest);
        // In between the window may close: Linux offers what the buffer has room for, and a slow reader leaves little.
        let was_full = self.last.is_some_and(|(was_near, limited)| was_near && leg.limited_by_peer > limited);
        if is_near && was_full {
            self.full = self.full.saturating_add(1);
        } else if window * 2 < self.largest && self.full < FULL_LOOKS {
            self.full = 0;
        }
        self.last = Some((is_near, leg.limited_by_peer));
    }

    /// Notes a pause: no look comes for a while.
    pub fn rest(&mut self) {
        self.last = None;
    }

    /// Returns the window that the host's cannot exceed, and the reason; `None` if it may grow. `is_exceeded` returns whether the flow
    /// carries more than a window allows without relays.
    pub(super) fn bound(&self, is_exceeded: impl FnOnce(Bytes) -> bool) -> Option<(Bytes, Proof)> {
        if self.largest == 0 {
            return None; // a kernel before 5.4 does not report it
        }
        let is_at_max = self.max > 0 && is_near(self.largest, self.max);
        if self.full >= FULL_LOOKS && !is_at_max {
            return Some((Bytes(self.largest), Proof::Full));
        }
        let is_proven = is_at_max || self.max > 0 && is_exceeded(Bytes(self.max));
        is_proven.then_some((Bytes(self.max), Proof::Scale))
    }
}

/// Whether `window` is 90 % or more of `largest`.
fn is_near(window: u64, largest: u64) -> bool {
    window > 0 && window >= largest - largest / GROWN
}

/// A window that grows by more than one part in so many is no constant one.
const GROWN: u64 = 10;
/// Number of looks with a full window from which on the host had reason enough to enlarge it. Linux does so within a round trip or two.
const FULL_LOOKS: u32 = 3;
