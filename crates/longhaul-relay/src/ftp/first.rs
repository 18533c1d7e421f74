//! The client's first bytes on a control connection, which may be the preface of a probe.

use crate::leg::stream::Stream;
use longhaul_core::wire::probe::{Look, MAGIC, look};
use longhaul_sys::splice;
use std::io;
use std::os::fd::AsFd;
use std::task::{Context, Poll, ready};
use tokio::time::Instant;

/// Knowledge about the client's first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum First {
    /// None has come.
    Awaited,
    /// They may become a preface. The first of them came at this time.
    Held(Instant),
    /// They began like a preface, and the rest did not come in time.
    Late,
    /// They are no preface.
    Command,
    /// They are a preface.
    Preface,
}

impl First {
    /// Looks at the first bytes on `socket` until it is known whether they are a preface. Pending while they may become one.
    pub(super) fn poll(&mut self, socket: &Stream, cx: &mut Context<'_>) -> Poll<io::Result<First>> {
        let mut first = [0; MAGIC.len()];
        loop {
            let mut ready = ready!(socket.poll_read_ready(cx))?;
            match splice::peek(socket.as_fd(), &mut first) {
                Err(err) if err.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                Err(err) => return Poll::Ready(Err(err)),
                // As for every flow: a preface has no urgent byte, and `carry` would take it for payload.
                Ok(_) if splice::is_at_urgent_byte(socket.as_fd()) => return Poll::Ready(Ok(First::Command)),
                Ok(peeked) => match look(&first[..peeked]) {
                    Look::Maybe if peeked > 0 && !ready.ready().is_read_closed() => {
                        if *self == First::Awaited {
                            *self = First::Held(Instant::now());
                        }
                        ready.clear_ready();
                    }
                    Look::Maybe | Look::Payload => return Poll::Ready(Ok(First::Command)),
                    Look::Begun | Look::Preface(_) | Look::Bad(_) => return Poll::Ready(Ok(First::Preface)),
                },
            }
        }
    }
}
