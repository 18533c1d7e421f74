//! Pipes, and moving bytes between a socket and a pipe without copying them: splice(2).
//!
//! Surprises, handled here or by the caller:
//! - `EAGAIN` means "the socket is empty" or "the pipe is full". The caller fills only an empty pipe, so it is the first.
//! - A pipe's capacity counts slots of one page each, not bytes: 16 slots hold 16 segments of 1,448 bytes, or 16 chunks
//!   of 32 KiB from a local sender. Never take F_GETPIPE_SZ for a bound on the bytes.
//! - `SPLICE_F_MORE` on the last bytes corks the socket and costs 200 ms: it is never set. Within one call the kernel
//!   sets MSG_MORE itself on all but the last piece (fs/splice.c, splice_to_socket).
//! - `SPLICE_F_NONBLOCK` is about the pipe only: a socket that shall not block has to be O_NONBLOCK itself.
//! - A length near `usize::MAX` is refused by newer kernels, so the caller says how much it wants.
//! - Urgent data stops splice for good (net/ipv4/tcp.c, tcp_read_sock breaks at `urg_data`) with `EAGAIN`, and with 0 once
//!   FIN has come, whatever is still to be read: [`has_ended`] tells, and [`urgent_byte`] steps over.

use crate::limits::page_size;
use crate::{Result, SysError};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use rustix::pipe::{PipeFlags, SpliceFlags};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// A pipe, both ends. Empty when it is made; who uses it keeps count of the bytes in it.
#[derive(Debug)]
pub struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
    slots: u32,
}

impl Pipe {
    /// A new pipe of the kernel's default capacity: 16 slots, or 2 for an ordinary user who is above
    /// `fs.pipe-user-pages-soft` (pipe(7)).
    ///
    /// # Errors
    /// EMFILE, ENFILE: no more descriptors. ENFILE also above `fs.pipe-user-pages-hard`.
    pub fn new() -> Result<Pipe> {
        let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)
            .map_err(|errno| SysError::new("pipe2(O_CLOEXEC|O_NONBLOCK)", errno).hint("raise RLIMIT_NOFILE"))?;
        let bytes =
            rustix::pipe::fcntl_getpipe_size(&writer).map_err(|errno| SysError::new("fcntl(F_GETPIPE_SZ)", errno))?;
        Ok(Pipe { reader, writer, slots: slots(bytes) })
    }

    /// Number of slots, each for one piece of a segment. F_GETPIPE_SZ says it as bytes: slots times the page size.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Asks for `slots`, a power of two.
    ///
    /// # Errors
    /// EPERM: above `fs.pipe-max-size`, or above the user's `fs.pipe-user-pages-soft`. The pipe stays as it was.
    pub fn resize(&mut self, slots: u32) -> Result<()> {
        let bytes = slots as usize * page_size();
        let got = rustix::pipe::fcntl_setpipe_size(&self.writer, bytes)
            .map_err(|errno| SysError::new(format!("fcntl(F_SETPIPE_SZ, {bytes})"), errno))?;
        self.slots = self::slots(got);
        Ok(())
    }

    /// Moves up to `max` bytes from `socket` into this pipe, which must be empty. `Ok(0)` is the end
    /// of the stream, or urgent data before it: ask [`has_ended`].
    ///
    /// # Errors
    /// `WouldBlock`: the socket is empty. EINVAL: the socket cannot splice. Else the socket's error (ECONNRESET, ...).
    pub fn fill_from(&self, socket: impl AsFd, max: usize) -> io::Result<usize> {
        splice(socket.as_fd(), self.writer.as_fd(), max)
    }

    /// Copies as many bytes out of this pipe as `bytes` is long.
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

    /// Moves up to `bytes` from this pipe into `socket`; what it did not take stays in the pipe.
    ///
    /// # Errors
    /// `WouldBlock`: the socket's send buffer is full. Else the socket's error (EPIPE, ECONNRESET, ETIMEDOUT, ...).
    pub fn drain_into(&self, socket: impl AsFd, bytes: usize) -> io::Result<usize> {
        splice(self.reader.as_fd(), socket.as_fd(), bytes)
    }
}

/// Takes the one urgent byte that `socket` has come to, when it has come to one. The socket must have SO_OOBINLINE.
/// splice never passes an urgent byte: without this a Telnet "abort output" or an FTP ABOR stalls the flow for ever.
///
/// # Errors
/// The error of ioctl(SIOCATMARK) or recv(2); `WouldBlock` when there is nothing to read at the mark yet.
pub fn urgent_byte(socket: BorrowedFd<'_>) -> io::Result<Option<u8>> {
    if !is_at_urgent_byte(socket) {
        return Ok(None);
    }
    let mut byte = [0u8; 1];
    Ok((receive(socket, &mut byte)? == 1).then_some(byte[0]))
}

/// Whether the next byte to read from `socket` is an urgent one. A socket without urgent data, of Multipath TCP, never
/// comes to one.
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

/// Copies into `bytes` what `socket` has, and leaves it there to be read. `Ok(0)` is the end of the stream.
///
/// # Errors
/// `WouldBlock`: the socket is empty. Else the socket's error.
pub fn peek(socket: impl AsFd, bytes: &mut [u8]) -> io::Result<usize> {
    recv(socket, bytes, RecvFlags::DONTWAIT | RecvFlags::PEEK)
}

/// Reads into `bytes` what `socket` has, by copying. `Ok(0)` is the end of the stream.
///
/// # Errors
/// `WouldBlock`: the socket is empty. Else the socket's error.
pub fn receive(socket: impl AsFd, bytes: &mut [u8]) -> io::Result<usize> {
    recv(socket, bytes, RecvFlags::DONTWAIT)
}

/// Writes of `bytes` what `socket` takes, by copying; the byte of an urgent message goes out as `urgent` (tcp(7)).
///
/// # Errors
/// `WouldBlock`: the send buffer is full. Else the socket's error; EPIPE comes without SIGPIPE.
pub fn send(socket: impl AsFd, bytes: &[u8], urgent: bool) -> io::Result<usize> {
    let urgent = if urgent { SendFlags::OOB } else { SendFlags::empty() };
    loop {
        match rustix::net::send(&socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL | urgent) {
            Err(Errno::INTR) => {}
            done => return Ok(done?),
        }
    }
}

fn slots(bytes: usize) -> u32 {
    u32::try_from(bytes / page_size()).unwrap_or(u32::MAX)
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

/// asm-generic/sockios.h; the same on x86-64, arm64 and ppc64.
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
        two.set_nonblocking(true).unwrap(); // SPLICE_F_NONBLOCK is about the pipe; the socket wants O_NONBLOCK
        (one, two)
    }

    /// Waits until `bytes` are there to read on `socket`: a busy machine delivers later than send(2) returns. Urgent bytes
    /// count too, since the socket has SO_OOBINLINE (net/ipv4/tcp.c, tcp_inq).
    fn wait_for_bytes(socket: &TcpStream, bytes: u64) {
        let start = Instant::now();
        while rustix::io::ioctl_fionread(socket).unwrap() < bytes {
            assert!(start.elapsed() < LONG, "the bytes do not arrive");
            std::thread::yield_now();
        }
    }

    /// Waits until the peer's FIN is there.
    fn wait_for_fin(socket: &TcpStream) {
        let timeout = Timespec { tv_sec: LONG.as_secs() as i64, tv_nsec: 0 };
        let polled = poll(&mut [PollFd::new(socket, PollFlags::RDHUP)], Some(&timeout));
        assert_eq!(polled, Ok(1), "the FIN does not arrive");
    }

    #[test]
    fn bytes_go_through_and_the_end_is_zero() {
        let (mut sender, source) = connected();
        let (mut receiver, sink) = connected();
        source.set_nonblocking(false).unwrap(); // so that it waits for what a busy machine delivers later
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
