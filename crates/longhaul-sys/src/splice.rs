//! Pipes, and moving bytes between a socket and a pipe without copying them: splice(2).
//!
//! Surprises, handled here or by the caller:
//! - `EAGAIN` means "the socket is empty" or "the pipe is full". The caller fills only an empty pipe, so it means the
//!   first.
//! - A pipe's capacity counts slots of one page each, not bytes: 16 slots hold 16 segments of 1,448 bytes, or 16 chunks
//!   of 32 KiB from a local sender. Never take F_GETPIPE_SZ for a limit of the bytes.
//! - `SPLICE_F_MORE` on the last bytes corks the socket and costs 200 ms, so it is never set. Within one call the
//!   kernel sets MSG_MORE itself on all but the last piece (fs/splice.c, splice_to_socket).
//! - `SPLICE_F_NONBLOCK` applies to the pipe only. The socket must be O_NONBLOCK itself.
//! - Newer kernels refuse a length near `usize::MAX`, so the caller passes the length that it wants.
//! - Urgent data stops splice for good (net/ipv4/tcp.c, tcp_read_sock breaks at `urg_data`): splice returns `EAGAIN`,
//!   or 0 once FIN has come, even if bytes are left to read. [`has_ended`] tells whether they are, and [`urgent_byte`]
//!   steps over the urgent byte.

use crate::limits::{page_size, pages};
use crate::{Result, SysError};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use rustix::pipe::{PipeFlags, SpliceFlags};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// A pipe, both ends. A new pipe is empty. The user of the pipe counts the bytes in it.
#[derive(Debug)]
pub struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
    slots: u32,
}

impl Pipe {
    /// Creates a pipe of the kernel's default capacity: 16 slots, or 2 for an ordinary user who is above
    /// `fs.pipe-user-pages-soft` (pipe(7)).
    ///
    /// # Errors
    /// EMFILE, ENFILE: no more descriptors. ENFILE also above `fs.pipe-user-pages-hard`.
    pub fn new() -> Result<Pipe> {
        let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)
            .map_err(|errno| SysError::new("pipe2(O_CLOEXEC|O_NONBLOCK)", errno).hint("raise RLIMIT_NOFILE"))?;
        let bytes =
            rustix::pipe::fcntl_getpipe_size(&writer).map_err(|errno| SysError::new("fcntl(F_GETPIPE_SZ)", errno))?;
        Ok(Pipe { reader, writer, slots: pages(bytes, page_size()) })
    }

    /// Returns the number of slots. Each holds one piece of a segment. F_GETPIPE_SZ reports slots times the page size.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Changes the number of slots to `slots`, a power of two.
    ///
    /// # Errors
    /// EPERM: above `fs.pipe-max-size`, or above the user's `fs.pipe-user-pages-soft`. The pipe stays as it was.
    pub fn resize(&mut self, slots: u32) -> Result<()> {
        let bytes = slots as usize * page_size();
        let got = rustix::pipe::fcntl_setpipe_size(&self.writer, bytes)
            .map_err(|errno| SysError::new(format!("fcntl(F_SETPIPE_SZ, {bytes})"), errno))?;
        self.slots = pages(got, page_size());
        Ok(())
    }

    /// Moves up to `max` bytes from `socket` into this pipe, which must be empty. `Ok(0)` is the end of the stream, or
    /// urgent data before it; [`has_ended`] tells which.
    ///
    /// # Errors
    /// `WouldBlock`: the socket is empty. EINVAL: the socket cannot splice. Otherwise the socket's error (ECONNRESET,
    /// ...).
    pub fn fill_from(&self, socket: impl AsFd, max: usize) -> io::Result<usize> {
        splice(socket.as_fd(), self.writer.as_fd(), max)
    }

    /// Copies as many bytes out of this pipe as fit into `bytes`.
    ///
    /// # Errors
    /// read(2) failed, or the pipe holds fewer (`UnexpectedEof`).
    pub fn read(&self, bytes: &mut [u8]) -> io::Result<()> {
        let mut at = 0;
        while at < bytes.len() {
            match rustix::io::read(&self.reader, &mut bytes[at..])? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                more => at += more,
            }
        }
        Ok(())
    }

    /// Moves up to `bytes` from this pipe into `socket`. Bytes that the socket does not take stay in the pipe.
    ///
    /// # Errors
    /// `WouldBlock`: the socket's send buffer is full. Otherwise the socket's error (EPIPE, ECONNRESET, ETIMEDOUT,
    /// ...).
    pub fn drain_into(&self, socket: impl AsFd, bytes: usize) -> io::Result<usize> {
        splice(self.reader.as_fd(), socket.as_fd(), bytes)
    }
}

/// Reads the urgent byte, if it is the next byte on `socket`. The socket must have SO_OOBINLINE. splice never passes an
/// urgent byte: without this call a Telnet "abort output" or an FTP ABOR would stall the flow forever.
///
/// # Errors
/// The error of ioctl(SIOCATMARK) or recv(2). `WouldBlock` when there is nothing to read at the mark yet.
pub fn urgent_byte(socket: BorrowedFd<'_>) -> io::Result<Option<u8>> {
    if !is_at_urgent_byte(socket) {
        return Ok(None);
    }
    let mut byte = [0u8; 1];
    Ok((receive(socket, &mut byte)? == 1).then_some(byte[0]))
}

/// Whether the next byte to read from `socket` is urgent. Always false for a socket without urgent data, such as one of
/// Multipath TCP.
pub fn is_at_urgent_byte(socket: BorrowedFd<'_>) -> bool {
    let mut at_mark: libc::c_int = 0;
    // SAFETY: the descriptor is borrowed, so open; SIOCATMARK writes one int to the pointer (tcp(7)).
    let ret = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCATMARK, &mut at_mark) };
    ret == 0 && at_mark != 0
}

/// Whether nothing is left to read from `socket`, and nothing will come.
///
/// # Errors
/// The socket's error.
pub fn has_ended(socket: impl AsFd) -> io::Result<bool> {
    match peek(socket, &mut [0]) {
        Err(err) if err.kind() == io::ErrorKind::WouldBlock => Ok(false),
        peeked => peeked.map(|bytes| bytes == 0),
    }
}

/// Copies the bytes that `socket` has into `bytes`, without removing them. Returns their number. `Ok(0)` is the end of
/// the stream.
///
/// # Errors
/// `WouldBlock`: the socket is empty. Otherwise the socket's error.
pub fn peek(socket: impl AsFd, bytes: &mut [u8]) -> io::Result<usize> {
    recv(socket, bytes, RecvFlags::DONTWAIT | RecvFlags::PEEK)
}

/// Reads the bytes that `socket` has into `bytes`, by copying. Returns their number. `Ok(0)` is the end of the stream.
///
/// # Errors
/// `WouldBlock`: the socket is empty. Otherwise the socket's error.
pub fn receive(socket: impl AsFd, bytes: &mut [u8]) -> io::Result<usize> {
    recv(socket, bytes, RecvFlags::DONTWAIT)
}

/// Writes as many of `bytes` as `socket` takes, by copying, and returns their number.
///
/// # Errors
/// `WouldBlock`: the send buffer is full. Otherwise the socket's error. EPIPE comes without SIGPIPE.
pub fn send(socket: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    send_with(socket, bytes, SendFlags::empty())
}

/// Like [`send`], and sends the last byte as urgent data (tcp(7)).
///
/// # Errors
/// As [`send`].
pub fn send_urgent(socket: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    send_with(socket, bytes, SendFlags::OOB)
}

fn send_with(socket: impl AsFd, bytes: &[u8], flags: SendFlags) -> io::Result<usize> {
    loop {
        match rustix::net::send(&socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL | flags) {
            Err(Errno::INTR) => {}
            done => return Ok(done?),
        }
    }
}

fn recv(socket: impl AsFd, bytes: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
    loop {
        match rustix::net::recv(&socket, &mut *bytes, flags) {
            Err(Errno::INTR) => {}
            done => return Ok(done?.0),
        }
    }
}

fn splice(from: BorrowedFd<'_>, to: BorrowedFd<'_>, bytes: usize) -> io::Result<usize> {
    loop {
        match rustix::pipe::splice(from, None, to, None, bytes, SpliceFlags::MOVE | SpliceFlags::NONBLOCK) {
            Err(Errno::INTR) => {}
            done => return Ok(done?),
        }
    }
}

/// SIOCATMARK of asm-generic/sockios.h, the same on x86-64, arm64 and ppc64.
const SIOCATMARK: libc::Ioctl = 0x8905;

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    const LONG: Duration = Duration::from_secs(60);

    fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let two = listener.accept().unwrap().0;
        two.set_nonblocking(true).unwrap(); // SPLICE_F_NONBLOCK applies to the pipe; the socket needs O_NONBLOCK
        (one, two)
    }

    /// Waits until `bytes` can be read on `socket`, because a busy machine may deliver them after send(2) has returned.
    /// Urgent bytes count too, because the socket has SO_OOBINLINE (net/ipv4/tcp.c, tcp_inq).
    fn wait_for_bytes(socket: &TcpStream, bytes: u64) {
        let start = Instant::now();
        while rustix::io::ioctl_fionread(socket).unwrap() < bytes {
            assert!(start.elapsed() < LONG, "the bytes do not arrive");
            std::thread::yield_now();
        }
    }

    /// Waits until the peer's FIN has arrived.
    fn wait_for_fin(socket: &TcpStream) {
        let timeout = Timespec { tv_sec: LONG.as_secs() as i64, tv_nsec: 0 };
        let polled = poll(&mut [PollFd::new(socket, PollFlags::RDHUP)], Some(&timeout));
        assert_eq!(polled, Ok(1), "the FIN does not arrive");
    }

    #[test]
    fn bytes_go_through_and_the_end_is_zero() {
        let (mut sender, source) = connected();
        let (mut receiver, sink) = connected();
        source.set_nonblocking(false).unwrap(); // so that splice waits for bytes that a busy machine delivers late
        sender.write_all(b"hello").unwrap();
        let pipe = Pipe::new().unwrap();
        assert_eq!(pipe.fill_from(&source, 1 << 16).unwrap(), 5);
        assert_eq!(pipe.drain_into(&sink, 5).unwrap(), 5);
        let mut got = [0; 5];
        receiver.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"hello");
        drop(sender);
        assert_eq!(pipe.fill_from(&source, 1 << 16).unwrap(), 0);
    }

    #[test]
    fn an_empty_socket_is_would_block() {
        let (_sender, source) = connected();
        let err = Pipe::new().unwrap().fill_from(&source, 1 << 16).unwrap_err();
        assert_eq!(err.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn an_urgent_byte_stops_splice_and_is_stepped_over() {
        let (sender, source) = connected();
        rustix::net::sockopt::set_socket_oobinline(&source, true).unwrap();
        (&sender).write_all(b"ab").unwrap();
        rustix::net::send(&sender, b"!", rustix::net::SendFlags::OOB).unwrap();
        (&sender).write_all(b"cd").unwrap();
        wait_for_bytes(&source, 5);
        let pipe = Pipe::new().unwrap();
        assert_eq!(pipe.fill_from(&source, 1 << 16).unwrap(), 2);
        assert_eq!(
            pipe.fill_from(&source, 1 << 16).unwrap_err().kind(),
            io::ErrorKind::WouldBlock,
            "splice stops at the mark"
        );
        assert_eq!(urgent_byte(source.as_fd()).unwrap(), Some(b'!'));
        assert_eq!(urgent_byte(source.as_fd()).unwrap(), None);
        assert_eq!(Pipe::new().unwrap().fill_from(&source, 1 << 16).unwrap(), 2);
    }

    #[test]
    fn splice_says_zero_at_an_urgent_byte_before_the_end_and_has_ended_knows_better() {
        let (sender, source) = connected();
        rustix::net::sockopt::set_socket_oobinline(&source, true).unwrap();
        rustix::net::send(&sender, b"!", rustix::net::SendFlags::OOB).unwrap();
        drop(sender);
        wait_for_fin(&source);
        let pipe = Pipe::new().unwrap();
        assert_eq!(pipe.fill_from(&source, 1 << 16).unwrap(), 0);
        assert!(!has_ended(&source).unwrap());
        assert_eq!(urgent_byte(source.as_fd()).unwrap(), Some(b'!'));
        assert!(has_ended(&source).unwrap());
    }
}
