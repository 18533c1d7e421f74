//! Reads and writes a connection outside of the pumps: the frames of probes and their payload.

use crate::leg::stream::{Ready, Stream};
use longhaul_sys::splice;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};

/// Waits for bytes on `socket` and reads them. 0 is the end of the stream.
///
/// # Errors
/// The socket's error.
pub(crate) fn poll_receive(socket: &Stream, cx: &mut Context<'_>, bytes: &mut [u8]) -> Poll<io::Result<usize>> {
    poll_read(socket, cx, || splice::receive(socket, bytes))
}

/// Calls `read` on `socket` when that can be read, until it does not block.
///
/// # Errors
/// The socket's error.
pub(crate) fn poll_read(
    socket: &Stream,
    cx: &mut Context<'_>,
    read: impl FnMut() -> io::Result<usize>,
) -> Poll<io::Result<usize>> {
    poll_io(|| socket.poll_read_ready(cx), read)
}

/// Waits for a byte on `socket`, and leaves it there. Returns 0 at the end of the stream.
///
/// # Errors
/// The socket's error. This call has taken it, so no later call sees it.
pub(crate) fn poll_look(socket: &Stream, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
    poll_read(socket, cx, || splice::peek(socket, &mut [0]))
}

/// Sends all of `bytes`.
///
/// # Errors
/// The socket's error.
pub(crate) async fn send_all(socket: &Stream, mut bytes: &[u8]) -> io::Result<()> {
    // At once: the kernel reports room only when a third of the send buffer is free (sk_stream_write_space), and `bytes` may be few.
    match splice::send(socket, bytes) {
        Ok(sent) => bytes = &bytes[sent..],
        Err(err) if err.kind() == io::ErrorKind::WouldBlock => {}
        Err(err) => return Err(err),
    }
    while !bytes.is_empty() {
        let sent = poll_fn(|cx| poll_write(socket, cx, || splice::send(socket, bytes))).await?;
        bytes = &bytes[sent..];
    }
    Ok(())
}

/// Calls `write` on `socket` when that takes bytes, until it does not block.
///
/// # Errors
/// The socket's error.
pub(crate) fn poll_write(
    socket: &Stream,
    cx: &mut Context<'_>,
    write: impl FnMut() -> io::Result<usize>,
) -> Poll<io::Result<usize>> {
    poll_io(|| socket.poll_write_ready(cx), write)
}

fn poll_io<'a>(
    mut poll_ready: impl FnMut() -> Poll<io::Result<Ready<'a>>>,
    mut io: impl FnMut() -> io::Result<usize>,
) -> Poll<io::Result<usize>> {
    loop {
        let mut ready = ready!(poll_ready())?;
        match io() {
            Err(err) if err.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
            done => return Poll::Ready(done),
        }
    }
}
