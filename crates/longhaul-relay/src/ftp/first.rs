//! The client's first bytes on a control connection, which may be the preface of a probe.

use crate::leg::peek::poll_peek;
use crate::leg::stream::Stream;
use longhaul_core::opening::{Found, MAGIC_BYTES, Opening};
use std::io;
use std::task::{Context, Poll, ready};
use std::time::Instant;

/// Knowledge about the client's first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum First {
    /// They are not known yet.
    Awaited(Opening),
    /// They began like a preface, and the rest did not come in time.
    Late,
    /// They are no preface.
    Command,
    /// They are a preface.
    Preface,
}

impl First {
    /// Returns the time at which the first bytes are [`Late`](First::Late), if some have come.
    pub(super) fn until(&self) -> Option<Instant> {
        if let First::Awaited(opening) = self { opening.until() } else { None }
    }

    /// Looks at the first bytes on `socket` until it is known whether they are a preface. Pending while they may become one.
    pub(super) fn poll(&mut self, socket: &Stream, cx: &mut Context<'_>) -> Poll<io::Result<First>> {
        let First::Awaited(opening) = self else { return Poll::Ready(Ok(*self)) };
        let (found, _) = ready!(poll_peek(socket, opening, &mut [0; MAGIC_BYTES], cx))?;
        Poll::Ready(Ok(if found == Found::Payload { First::Command } else { First::Preface }))
    }
}
