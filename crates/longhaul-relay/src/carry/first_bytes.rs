//! The client's first bytes, before the pump has them: payload, or a preface.
//!
//! ```text
//! first read ──> scratch ──look──> payload ────────────> the pump's first fill, in the same turn
//!                   │        └───> preface ────────────> probe: answers it, or returns what the pump sends instead
//!                   └── may become a preface ──> heap ──── more bytes, or no more in time ──> look
//! ```
//! The read is the pump's own, so an ordinary flow pays for one comparison of a byte, and the dial and the server's bytes wait for
//! nothing. Only a FIN of the next hop before any byte waits a moment: behind it, no report could be sent to a prober.

use crate::carry::buffer::Buffer;
use crate::carry::direction::Direction;
use crate::leg::peek::{ask, now};
use crate::leg::talk::poll_receive;
use crate::live::flow::Flow;
use longhaul_core::opening::{Asks, DIAL_TIME, Found, Opening};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::time::{Sleep, sleep, sleep_until};

/// How far the client's first bytes are known.
pub(super) enum FirstBytes {
    /// None has come.
    Awaited,
    /// None has come, and the next hop has ended without a byte. Its FIN waits for so long.
    Ending(Pin<Box<Sleep>>),
    /// They may become a preface.
    Held(Box<Held>),
    /// They are a preface, and so many bytes.
    Preface(Box<(Found, usize)>),
    /// The pump has them.
    Passed,
}

/// First bytes that are held back.
pub(super) struct Held {
    bytes: Box<[u8]>,
    opening: Opening,
    /// Runs until the opening decides without more bytes.
    timer: Pin<Box<Sleep>>,
}

impl FirstBytes {
    /// Returns those of `flow`, whose dial leg has taken `early` bytes already.
    pub(super) fn of(flow: &Flow, early: u64) -> FirstBytes {
        if early == 0 && flow.client.may_be_probe() { FirstBytes::Awaited } else { FirstBytes::Passed }
    }

    /// Whether none has come, and the client may still be a prober.
    pub(super) fn are_awaited(&self) -> bool {
        matches!(self, FirstBytes::Awaited | FirstBytes::Ending(_))
    }

    /// Whether they may be a preface, as far as it is known.
    pub(super) fn may_be_preface(&self) -> bool {
        self.are_awaited() || matches!(self, FirstBytes::Held(_))
    }

    /// Waits [`DIAL_TIME`] for them while a FIN of the next hop is held back. Ready when that is over. Those that are held have a timer of
    /// their own.
    pub(super) fn poll_before_fin(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let FirstBytes::Awaited = self {
            *self = FirstBytes::Ending(Box::pin(sleep(DIAL_TIME)));
        }
        match self {
            FirstBytes::Ending(timer) => timer.as_mut().poll(cx),
            _ => Poll::Pending,
        }
    }

    /// Takes a preface. Then the next bytes are payload.
    pub(super) fn take_preface(&mut self) -> Option<(Found, usize)> {
        let FirstBytes::Preface(preface) = self else { return None };
        let preface = **preface;
        *self = FirstBytes::Passed;
        Some(preface)
    }

    /// Reads into `scratch` until the first bytes are known to be payload. Returns their number, 0 at the end of the stream. Pending
    /// also if they are a preface.
    ///
    /// # Errors
    /// The error of the accept leg, which `up` reads.
    pub(super) fn poll(
        &mut self,
        up: &mut Direction<'_>,
        cx: &mut Context<'_>,
        scratch: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            let (mut opening, bytes, has_ended) = match self {
                FirstBytes::Awaited | FirstBytes::Ending(_) => {
                    let bytes = ready!(up.poll_fill(cx, scratch))?;
                    // A preface has no urgent byte.
                    let is_urgent = matches!(up.buffer, Buffer::Scratch { urgent: true, .. });
                    (ask(Asks::Flow), bytes, bytes == 0 || is_urgent)
                }
                FirstBytes::Held(held) => ready!(held.poll_more(up, cx, scratch))?,
                FirstBytes::Preface(_) | FirstBytes::Passed => return Poll::Pending,
            };
            let found = opening.look(&scratch[..bytes], has_ended, now());
            *self = match found {
                Some(Found::Payload) => FirstBytes::Passed,
                Some(found) => FirstBytes::Preface(Box::new((found, bytes))),
                None => FirstBytes::Held(Box::new(Held::new(&scratch[..bytes], opening))),
            };
            if found == Some(Found::Payload) {
                return Poll::Ready(Ok(bytes));
            }
            up.buffer = Buffer::Empty;
        }
    }
}

impl Held {
    fn new(bytes: &[u8], opening: Opening) -> Held {
        let until = opening.until().unwrap_or_else(now);
        Held { bytes: bytes.into(), opening, timer: Box::pin(sleep_until(until.into())) }
    }

    /// Copies the bytes into `scratch` and reads on behind them. Returns the number of all, and whether no more will come in time.
    fn poll_more(
        &mut self,
        up: &mut Direction<'_>,
        cx: &mut Context<'_>,
        scratch: &mut [u8],
    ) -> Poll<io::Result<(Opening, usize, bool)>> {
        let held = self.bytes.len();
        scratch[..held].copy_from_slice(&self.bytes);
        let is_late = self.timer.as_mut().poll(cx).is_ready();
        // A reset is reported behind the bytes before it. Urgent data is not part of a preface.
        let more = match is_late || up.source_is_broken || up.source().has_urgent() {
            true => 0,
            false => ready!(poll_receive(up.source(), cx, &mut scratch[held..]))?,
        };
        up.buffer = Buffer::Scratch { from: 0, to: (held + more) as u32, urgent: false };
        Poll::Ready(Ok((self.opening, held + more, more == 0)))
    }
}
