//! A leg's connection as the runtime sees it: a socket, and what the kernel last said that it is ready for.
//!
//! Not tokio's TcpStream, because that is not told of urgent data (EPOLLPRI), and asking for it each time that a socket is
//! empty was a fifth of the system calls of a ping-pong.

use longhaul_core::path::findings;
use socket2::Socket;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};

/// Readiness that the kernel has announced; whoever finds that it is used up clears it.
pub(super) type Ready<'a> = AsyncFdReadyGuard<'a, Socket>;

/// A connection, or one that is being made.
#[derive(Debug)]
pub(super) struct Stream {
    socket: AsyncFd<Socket>,
    /// Number of samples taken while the send buffer was full, and of those in which every byte in it was under way.
    full: AtomicU32,
    full_under_way: AtomicU32,
    /// Whether the peer had reset the connection when the handshake was looked at.
    was_reset: AtomicBool,
}

impl Stream {
    /// Registers `socket`, which must be O_NONBLOCK, with the runtime.
    ///
    /// # Errors
    /// ENOMEM, ENOSPC: the kernel has no room for it (epoll_ctl(2)).
    #[allow(deprecated, reason = "sound for a socket that owns its descriptor; what replaces it is unsafe")]
    pub(super) fn new(socket: Socket) -> io::Result<Stream> {
        let interest = Interest::READABLE | Interest::WRITABLE | Interest::PRIORITY;
        let socket = AsyncFd::with_interest(socket, interest)?;
        Ok(Stream {
            socket,
            full: AtomicU32::new(0),
            full_under_way: AtomicU32::new(0),
            was_reset: AtomicBool::new(false),
        })
    }

    /// Waits until there may be something to read.
    pub(super) fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<Ready<'_>>> {
        self.socket.poll_read_ready(cx)
    }

    /// Waits until there may be room to write.
    pub(super) fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<Ready<'_>>> {
        self.socket.poll_write_ready(cx)
    }

    /// Calls `io` when the socket is ready for `interest`; when `io` says `WouldBlock`, it is no more.
    ///
    /// # Errors
    /// `WouldBlock`: it is not ready. Else what `io` said.
    pub(super) fn try_io<R>(&self, interest: Interest, io: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        self.socket.try_io(interest, |_| io())
    }

    /// Whether the kernel has announced urgent data (EPOLLPRI) since the socket was registered.
    pub(super) fn has_urgent(&self) -> bool {
        // The first question costs nothing and is answered with yes at the end of the stream too, as every wait for reading is.
        self.try_io(Interest::PRIORITY, || Ok(())).is_ok() && self.is_priority()
    }

    fn is_priority(&self) -> bool {
        let ready = pin!(self.socket.ready(Interest::PRIORITY));
        match ready.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(ready)) => ready.ready().is_priority(),
            Poll::Ready(Err(_)) | Poll::Pending => false,
        }
    }

    /// Waits until the socket has an error to tell.
    pub(super) async fn failed(&self) {
        // It fails only when the runtime ends, and every flow with it.
        let _ = self.socket.ready(Interest::ERROR).await;
    }

    /// Waits until connect(2) has ended. A peer that has answered and reset since is a peer that has answered: what it sent is
    /// still to be read, and it may have acted on what it got.
    ///
    /// # Errors
    /// Why there is no connection.
    pub(super) async fn connected(&self) -> io::Result<()> {
        let ready = self.socket.ready(Interest::WRITABLE | Interest::ERROR).await?.ready();
        // net/ipv4/tcp.c, tcp_poll: a socket with an error is EPOLLERR, one that is closed again is EPOLLHUP. So a good
        // connection needs no SO_ERROR, and an error that comes later is still there for who carries the flow.
        if !(ready.is_error() || ready.is_write_closed()) {
            return Ok(());
        }
        match self.take_error()? {
            // Before the handshake a RST is ECONNREFUSED (net/ipv4/tcp_input.c, tcp_reset).
            Some(err) if matches!(err.raw_os_error(), Some(libc::ECONNRESET | libc::EPIPE)) => {
                self.was_reset.store(true, Relaxed);
                Ok(())
            }
            Some(err) => Err(err),
            None => Ok(()),
        }
    }

    /// Whether [`connected`](Self::connected) has taken the error by which the kernel tells of a reset: from then on reading
    /// ends as it does after a FIN.
    pub(super) fn was_reset(&self) -> bool {
        self.was_reset.load(Relaxed)
    }

    /// Returns our address (getsockname(2)); `None` when the kernel does not say.
    pub(super) fn local(&self) -> Option<SocketAddr> {
        self.socket.get_ref().local_addr().ok()?.as_socket()
    }

    /// The socket's pending error, which is then gone (socket(7) SO_ERROR).
    pub(super) fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.socket.get_ref().take_error()
    }

    /// Takes note of a full send buffer, in which every byte is under way to the peer or not.
    pub(super) fn note_full(&self, is_under_way: bool) {
        // So many are sample enough, and neither count ever wraps.
        if self.full.load(Relaxed) > u32::MAX / 2 {
            return;
        }
        self.full.fetch_add(1, Relaxed);
        self.full_under_way.fetch_add(is_under_way.into(), Relaxed);
    }

    /// Whether a larger send buffer would have sent more, as far as [`note_full`](Self::note_full) has seen.
    pub(super) fn was_full_under_way(&self) -> bool {
        findings::is_full_under_way(self.full.load(Relaxed), self.full_under_way.load(Relaxed))
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.get_ref().as_fd()
    }
}
