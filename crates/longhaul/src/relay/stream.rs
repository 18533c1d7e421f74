//! A leg's connection as the runtime sees it: a socket, and what the kernel last said that it is ready for.
//!
//! Not tokio's TcpStream, because that is not told of urgent data (EPOLLPRI), and asking for it each time that a socket is
//! empty was a fifth of the system calls of a ping-pong.

use socket2::Socket;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::task::{Context, Poll};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A connection, or one that is being made.
#[derive(Debug)]
pub(super) struct Stream(AsyncFd<Socket>);

impl Stream {
    /// Registers `socket`, which must be O_NONBLOCK, with the runtime.
    ///
    /// # Errors
    /// ENOMEM, ENOSPC: the kernel has no room for it (epoll_ctl(2)).
    #[allow(deprecated, reason = "sound for a socket that owns its descriptor; what replaces it is unsafe")]
    pub(super) fn new(socket: Socket) -> io::Result<Stream> {
        let interest = Interest::READABLE | Interest::WRITABLE | Interest::PRIORITY;
        AsyncFd::with_interest(socket, interest).map(Stream)
    }

    pub(super) fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_read_ready(cx).map_ok(drop)
    }

    pub(super) fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_write_ready(cx).map_ok(drop)
    }

    /// Calls `io` when the socket is ready for `interest`; when `io` says `WouldBlock`, it is no more.
    ///
    /// # Errors
    /// `WouldBlock`: it is not ready. Else what `io` said.
    pub(super) fn try_io<R>(&self, interest: Interest, io: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        self.0.try_io(interest, |_| io())
    }

    /// Whether the kernel has announced urgent data (EPOLLPRI) since the socket was registered.
    pub(super) fn has_urgent(&self) -> bool {
        self.try_io(Interest::PRIORITY, || Ok(())).is_ok()
    }

    /// Waits until the socket has an error to tell.
    pub(super) async fn failed(&self) {
        // It fails only when the runtime ends, and every flow with it.
        let _ = self.0.ready(Interest::ERROR).await;
    }

    /// Waits until connect(2) has ended.
    ///
    /// # Errors
    /// Why there is no connection.
    pub(super) async fn connected(&self) -> io::Result<()> {
        let ready = self.0.ready(Interest::WRITABLE | Interest::ERROR).await?.ready();
        // net/ipv4/tcp.c, tcp_poll: a socket with an error is EPOLLERR, one that is closed again is EPOLLHUP. So a good
        // connection needs no SO_ERROR, and an error that comes later is still there for who carries the flow.
        match ready.is_error() || ready.is_write_closed() {
            true => self.take_error()?.map_or(Ok(()), Err),
            false => Ok(()),
        }
    }

    /// The socket's pending error, which is then gone (socket(7) SO_ERROR).
    pub(super) fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.0.get_ref().take_error()
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.get_ref().as_fd()
    }
}
