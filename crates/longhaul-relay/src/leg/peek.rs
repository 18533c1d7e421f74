//! Looks at the first bytes of a connection and leaves them in the kernel: for splice, or for another look.
//!
//! A wait for more bytes costs nothing, although the peeked bytes are still there: the runtime watches sockets edge-triggered,
//! so each arrival wakes the task once (epoll(7), Q&A 9).

use crate::leg::stream::Stream;
use longhaul_core::opening::{Asks, Found, Opening};
use longhaul_sys::splice;
use std::future::poll_fn;
use std::io;
use std::os::fd::AsFd;
use std::task::{Context, Poll, ready};
use tokio::time::{Instant, timeout_at};

/// Asks about first bytes, from now on.
pub(crate) fn ask(asks: Asks) -> Opening {
    Opening::new(asks, now())
}

/// Returns the time by the runtime's clock, which tests may stop.
pub(crate) fn now() -> std::time::Instant {
    Instant::now().into_std()
}

/// Waits until the first bytes on `socket` decide `opening`, or until its time is over. Peeks as many of them as `bytes` has room
/// for. Returns what they are, and their number.
///
/// # Errors
/// The socket's error. This call has taken it, so no later call sees it.
pub(crate) async fn peek(socket: &Stream, mut opening: Opening, bytes: &mut [u8]) -> io::Result<(Found, usize)> {
    let until = opening.until().unwrap_or_else(now);
    let peeked = timeout_at(until.into(), poll_fn(|cx| poll_peek(socket, &mut opening, bytes, cx))).await;
    peeked.unwrap_or_else(|_| Ok((opening.look(&[], false, until).unwrap_or(Found::Undecided), 0)))
}

/// Like [`peek`], but leaves the time to the caller.
pub(crate) fn poll_peek(
    socket: &Stream,
    opening: &mut Opening,
    bytes: &mut [u8],
    cx: &mut Context<'_>,
) -> Poll<io::Result<(Found, usize)>> {
    loop {
        let mut ready = ready!(socket.poll_read_ready(cx))?;
        // Asked before the peek, so that the peek sees every byte before the end.
        let is_closed = ready.ready().is_read_closed();
        let peeked = match splice::peek(socket, bytes) {
            Err(err) if err.kind() == io::ErrorKind::WouldBlock => {
                ready.clear_ready();
                continue;
            }
            peeked => peeked?,
        };
        let found = match opening.look(&bytes[..peeked], is_closed || peeked == 0, now()) {
            Some(found @ (Found::Payload | Found::Header(_) | Found::NoHeader(_))) => found,
            // Neither a preface nor a header has an urgent byte.
            _ if peeked > 0 && splice::is_at_urgent_byte(socket.as_fd()) => Found::Payload,
            Some(found) => found,
            None => {
                ready.clear_ready();
                continue;
            }
        };
        return Poll::Ready(Ok((found, peeked)));
    }
}

/// Reads `count` bytes from `socket` and drops them. They were peeked, so they are there.
///
/// # Errors
/// The socket's error.
pub(crate) fn consume(socket: &Stream, mut count: usize) -> io::Result<()> {
    let mut bytes = [0; MAX_PEEKED_BYTES];
    while count > 0 {
        match splice::receive(socket, &mut bytes[..count.min(MAX_PEEKED_BYTES)])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => count -= read,
        }
    }
    Ok(())
}

/// Maximum number of bytes that anybody peeks: more than a SYN carries with jumbo frames (an MTU of 9,000).
pub(crate) const MAX_PEEKED_BYTES: usize = 16 * 1024;
