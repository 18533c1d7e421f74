//! A leg's connection as the runtime sees it: a socket, and the readiness that the kernel last reported.
//!
//! tokio's TcpStream is not used, because it does not report urgent data (EPOLLPRI). Asking the kernel for it each time
//! that a socket is empty was a fifth of the system calls of a ping-pong.

use socket2::Socket;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU16, AtomicU32, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};

/// Readiness that the kernel has reported. The caller clears it when it finds it used up.
pub(super) type Ready<'a> = AsyncFdReadyGuard<'a, Socket>;

/// A connection, established or in progress.
#[derive(Debug)]
pub(crate) struct Stream {
    socket: AsyncFd<Socket>,
    /// The longest time between two retransmissions that `rto` has set on it, in ms, or a value of its own.
    pub(super) rto_max: AtomicU32,
    /// Number of bytes that were read from it beyond those that were passed on.
    received_beside: AtomicI32,
    /// Length in bytes of the PROXY header that was sent on it.
    header_sent: AtomicU16,
    /// Whether the peer had reset the connection by the time the handshake was checked.
    was_reset: AtomicBool,
    /// Whether FIN was sent on it before the pumps began.
    has_sent_fin: AtomicBool,
}

/// Registers `inner`, which owns its descriptor and must be O_NONBLOCK, with the runtime.
///
/// # Errors
/// ENOMEM, ENOSPC: the kernel has no room for it (epoll_ctl(2)).
#[allow(deprecated, reason = "sound for what owns its descriptor; the replacement is unsafe")]
pub(crate) fn watched<T: AsRawFd>(inner: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(inner, interest)
}

impl Stream {
    /// Registers `socket`, which must be O_NONBLOCK, with the runtime.
    ///
    /// # Errors
    /// ENOMEM, ENOSPC: the kernel has no room for it (epoll_ctl(2)).
    pub(crate) fn new(socket: Socket) -> io::Result<Stream> {
        let interest = Interest::READABLE | Interest::WRITABLE | Interest::PRIORITY;
        let socket = watched(socket, interest)?;
        Ok(Stream {
            socket,
            rto_max: AtomicU32::new(0),
            received_beside: AtomicI32::new(0),
            header_sent: AtomicU16::new(0),
            was_reset: AtomicBool::new(false),
            has_sent_fin: AtomicBool::new(false),
        })
    }

    /// Returns the socket, which the runtime no longer watches.
    pub(crate) fn into_socket(self) -> Socket {
        self.socket.into_inner()
    }

    /// Waits until there may be something to read.
    pub(crate) fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<Ready<'_>>> {
        self.socket.poll_read_ready(cx)
    }

    /// Waits until there may be room to write.
    pub(crate) fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<Ready<'_>>> {
        self.socket.poll_write_ready(cx)
    }

    /// Calls `io` when the socket is ready for `interest`. If `io` returns `WouldBlock`, clears the readiness.
    ///
    /// # Errors
    /// `WouldBlock`: it is not ready. Otherwise the error of `io`.
    pub(crate) fn try_io<R>(&self, interest: Interest, io: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        self.socket.try_io(interest, |_| io())
    }

    /// Whether the kernel has reported urgent data (EPOLLPRI) since the socket was registered.
    pub(crate) fn has_urgent(&self) -> bool {
        // `try_io` costs nothing, but it also succeeds at the end of the stream, which sets every kind of read
        // readiness. `is_priority` decides.
        self.try_io(Interest::PRIORITY, || Ok(())).is_ok() && self.is_priority()
    }

    fn is_priority(&self) -> bool {
        let ready = pin!(self.socket.ready(Interest::PRIORITY));
        match ready.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(ready)) => ready.ready().is_priority(),
            Poll::Ready(Err(_)) | Poll::Pending => false,
        }
    }

    /// Waits until the socket has a pending error.
    pub(crate) async fn failed(&self) {
        // This fails only when the runtime ends, and every flow with it.
        let _ = self.socket.ready(Interest::ERROR).await;
    }

    /// Waits until connect(2) has ended. A peer that answered and then reset the connection has answered: its bytes are
    /// still to be read, and it may have acted on ours.
    ///
    /// # Errors
    /// The reason why there is no connection.
    pub(crate) async fn connected(&self) -> io::Result<()> {
        let ready = self.socket.ready(Interest::WRITABLE | Interest::ERROR).await?.ready();
        // net/ipv4/tcp.c, tcp_poll: a socket with an error is EPOLLERR, a socket that is closed again is EPOLLHUP. So a
        // good connection needs no SO_ERROR, and a later error is left for the task that carries the flow.
        if !(ready.is_error() || ready.is_write_closed()) {
            return Ok(());
        }
        match self.take_error()? {
            // A RST before the handshake would be ECONNREFUSED (net/ipv4/tcp_input.c, tcp_reset).
            Some(err) if matches!(err.raw_os_error(), Some(libc::ECONNRESET | libc::EPIPE)) => {
                self.was_reset.store(true, Relaxed);
                Ok(())
            }
            Some(err) => Err(err),
            None => Ok(()),
        }
    }

    /// Whether [`connected`](Self::connected) or the caller has taken the error that reports a reset. If so, the end of
    /// the stream looks as it does after a FIN.
    pub(crate) fn was_reset(&self) -> bool {
        self.was_reset.load(Relaxed)
    }

    /// Records that the caller has taken the error that reports a reset.
    pub(crate) fn note_reset(&self) {
        self.was_reset.store(true, Relaxed);
    }

    /// Whether FIN was sent on it before the pumps began.
    pub(crate) fn has_sent_fin(&self) -> bool {
        self.has_sent_fin.load(Relaxed)
    }

    /// Records that FIN was sent on it before the pumps began.
    pub(crate) fn note_fin_sent(&self) {
        self.has_sent_fin.store(true, Relaxed);
    }

    /// Records that `bytes` more were read than passed on: a PROXY header, or what rewriting has made shorter. Negative if it
    /// has made them longer. The kernel's count of received bytes includes them, and the flow's does not.
    pub(crate) fn note_received_beside(&self, bytes: i64) {
        let sum = self.received_beside().saturating_add(bytes);
        let bounded = sum.clamp(i32::MIN.into(), i32::MAX.into());
        self.received_beside.store(bounded as i32, Relaxed);
    }

    /// Records that a PROXY header of `bytes` was sent. The kernel's count of acknowledged bytes includes it, and the
    /// flow's does not.
    pub(crate) fn note_header_sent(&self, bytes: usize) {
        self.header_sent.store(u16::try_from(bytes).unwrap_or(u16::MAX), Relaxed);
    }

    /// Returns the number of bytes that were read beyond those that were passed on.
    pub(crate) fn received_beside(&self) -> i64 {
        self.received_beside.load(Relaxed).into()
    }

    /// Returns the length in bytes of the PROXY header that was sent.
    pub(crate) fn header_sent(&self) -> u64 {
        self.header_sent.load(Relaxed).into()
    }

    /// Returns our address (getsockname(2)), or `None` when the kernel does not report it.
    pub(crate) fn local(&self) -> Option<SocketAddr> {
        self.socket.get_ref().local_addr().ok()?.as_socket()
    }

    /// Takes the socket's pending error, which clears it (socket(7) SO_ERROR).
    pub(crate) fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.socket.get_ref().take_error()
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.get_ref().as_fd()
    }
}

/// Returns a stream on loopback and the socket of its peer.
#[cfg(test)]
pub(crate) fn pair() -> (Stream, std::net::TcpStream) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let ours = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    ours.set_nonblocking(true).unwrap();
    (Stream::new(ours.into()).unwrap(), listener.accept().unwrap().0)
}

/// Bound of every wait of a test.
#[cfg(test)]
pub(crate) const BOUND: std::time::Duration = std::time::Duration::from_secs(60);

/// Waits for `what`, and fails after [`BOUND`]. A thread measures it: a timer of the runtime would be due at once while a test has
/// stopped the clock, because that clock jumps to the next timer whenever every task waits.
#[cfg(test)]
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    let (over, is_over) = tokio::sync::oneshot::channel();
    let (_running, ended) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || match ended.recv_timeout(BOUND) {
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => over.send(()),
        _ => Ok(()),
    });
    tokio::select! {
        biased;
        done = what => done,
        Ok(()) = is_over => panic!("it takes longer than {BOUND:?}"),
    }
}

/// Keeps a clock that is paused from moving by itself, until the sender is dropped or [`BOUND`] is over: it does not move while a
/// blocking task runs (tokio::time::pause).
#[cfg(test)]
pub(crate) fn stand_still() -> (std::sync::mpsc::Sender<()>, tokio::task::JoinHandle<()>) {
    let (done, waits) = std::sync::mpsc::channel();
    let still = tokio::task::spawn_blocking(move || {
        let waited = waits.recv_timeout(BOUND);
        assert_eq!(waited, Err(std::sync::mpsc::RecvTimeoutError::Disconnected), "a wait took too long");
    });
    (done, still)
}
