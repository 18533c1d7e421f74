//! The bytes of a pump between its two sockets. They are in the worker's scratch buffer or in a pipe. Bytes that the
//! sink does not take from the scratch buffer move to the heap. An idle pump has none of the three.
//!
//! ```text
//!             recv                        send
//!  source ───────────> scratch ───────────────────────> sink
//!    │                    └─ bytes not taken ──────> heap ─┤
//!    └── splice ────────> pipe ──────────── splice ────────┘
//! ```

use crate::leg::stream::Stream;
use crate::state::pool::Pool;
use longhaul_sys::splice::{self, Pipe};
use std::cell::RefCell;
use std::io;
use std::os::fd::AsFd;

/// The bytes that a pump holds.
#[derive(Debug)]
pub(super) enum Buffer {
    /// No bytes.
    Empty,
    /// Bytes `from..to` of the worker's scratch buffer, which belongs to the pump only until its task yields. With
    /// `urgent` they are the single byte at the urgent mark.
    Scratch { from: u32, to: u32, urgent: bool },
    /// `bytes` from index `from` on. `urgent` as in `Scratch`.
    Heap { bytes: Box<[u8]>, from: u32, urgent: bool },
    /// Bytes that never leave the kernel. The pipe may be empty.
    Pipe(Pipe),
}

impl Buffer {
    /// Fills the empty `pipe` with at most `max` bytes from `source`. Returns the number of bytes, 0 at the end of the
    /// stream. Returns `None` when there is urgent data, which splice does not pass.
    ///
    /// # Errors
    /// `WouldBlock`: the source is empty. Otherwise the source's error, or that the source refuses splice.
    pub(super) fn fill_pipe(pipe: &Pipe, source: &Stream, max: usize) -> io::Result<Option<usize>> {
        // At the urgent mark splice(2) returns EAGAIN, or 0 once FIN has come (net/ipv4/tcp.c, tcp_splice_read). So 0
        // is the end only if recv(2) returns 0 too. If the kernel announces urgent data a moment later, it wakes the
        // pump, which then calls this again.
        match pipe.fill_from(source, max) {
            Err(err) if err.kind() == io::ErrorKind::WouldBlock && source.has_urgent() => Ok(None),
            Ok(0) if !splice::has_ended(source)? => Ok(None),
            filled => filled.map(Some),
        }
    }

    /// Fills `scratch` with at most `max` bytes from `source`. With `urgent`, when the byte at the urgent mark is next,
    /// it reads that byte alone. An empty result is the end of the stream.
    ///
    /// # Errors
    /// `WouldBlock`: the source is empty. Otherwise the source's error.
    pub(super) fn fill_scratch(scratch: &mut [u8], source: &Stream, max: usize, urgent: bool) -> io::Result<Buffer> {
        let byte = if urgent { splice::urgent_byte(source.as_fd())? } else { None };
        let got = match (byte, scratch.first_mut()) {
            (Some(byte), Some(first)) => {
                *first = byte;
                1
            }
            _ => splice::receive(source, &mut scratch[..max.min(SCRATCH)])?,
        };
        Ok(Buffer::Scratch { from: 0, to: got as u32, urgent: byte.is_some() })
    }

    /// Sends as many of the `held` bytes as `sink` takes, and returns their number.
    ///
    /// # Errors
    /// `WouldBlock`: the sink takes no more. Otherwise the sink's error.
    pub(super) fn drain(&mut self, scratch: &[u8], sink: &Stream, held: usize) -> io::Result<usize> {
        let (bytes, from, urgent) = match self {
            Buffer::Empty => return Ok(0),
            Buffer::Pipe(pipe) => return pipe.drain_into(sink, held),
            Buffer::Scratch { from, to, urgent } => (&scratch[..*to as usize], from, *urgent),
            Buffer::Heap { bytes, from, urgent } => (&**bytes, from, *urgent),
        };
        let bytes = &bytes[*from as usize..];
        let sent = if urgent { splice::send_urgent(sink, bytes) } else { splice::send(sink, bytes) }?;
        *from += sent as u32;
        Ok(sent)
    }

    /// Moves the bytes in `scratch` to the heap, because the next pump on this worker overwrites the scratch buffer.
    pub(super) fn keep(&mut self, scratch: &[u8]) {
        if let Buffer::Scratch { from, to, urgent } = *self {
            *self = Buffer::Heap { bytes: scratch[from as usize..to as usize].into(), from: 0, urgent };
        }
    }

    /// Moves the `held` bytes of a pipe to the heap, and returns the pipe to the pool.
    ///
    /// # Errors
    /// read(2) failed.
    pub(super) fn unsplice(&mut self, held: usize, pool: &Pool) -> io::Result<()> {
        if let Buffer::Pipe(pipe) = self {
            let mut bytes = vec![0; held].into_boxed_slice();
            pipe.read(&mut bytes)?;
            let pipe = std::mem::replace(self, Buffer::Heap { bytes, from: 0, urgent: false });
            pipe.give(pool);
        }
        Ok(())
    }

    /// Returns a pipe to the pool. The pipe must be empty.
    pub(super) fn give(self, pool: &Pool) {
        if let Buffer::Pipe(pipe) = self {
            pool.give(pipe);
        }
    }

    /// Discards the bytes.
    pub(super) fn discard(self, pool: &Pool) {
        if let Buffer::Pipe(pipe) = self {
            pool.discard(pipe);
        }
    }
}

/// Calls `run` with this thread's scratch buffer. Each worker has one, which all of its flows share.
pub(super) fn with_scratch<R>(run: impl FnOnce(&mut [u8]) -> R) -> R {
    thread_local! {
        static BYTES: RefCell<Box<[u8]>> = RefCell::new(vec![0; SCRATCH].into());
    }
    BYTES.with_borrow_mut(|bytes| run(bytes))
}

/// Size of the scratch buffer in bytes: the most that a pump without a pipe copies at once.
pub(super) const SCRATCH: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    #[tokio::test]
    async fn bytes_leave_a_pipe_for_the_heap_and_the_pipe_is_given_back() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.write_all(b"12").unwrap();
        let accepted = listener.accept().unwrap().0;
        accepted.peek(&mut [0, 0]).unwrap(); // they are there
        accepted.set_nonblocking(true).unwrap();
        let source = Stream::new(accepted.into()).unwrap();
        let pool = Pool::new(8, None); // one pipe
        let pipe = pool.take().unwrap();
        assert_eq!(Buffer::fill_pipe(&pipe, &source, 1).unwrap(), Some(1));
        let mut buffer = Buffer::Pipe(pipe);
        assert!(pool.take().is_none());
        buffer.unsplice(1, &pool).unwrap();
        let Buffer::Heap { bytes, from: 0, urgent: false } = buffer else { panic!("{buffer:?}") };
        assert_eq!(&*bytes, b"1");
        assert!(pool.take().is_some());
    }

    #[tokio::test]
    async fn unsent_bytes_survive_when_the_scratch_is_overwritten() {
        let mut buffer = with_scratch(|scratch| {
            scratch[..4].copy_from_slice(b"abcd");
            let mut buffer = Buffer::Scratch { from: 1, to: 3, urgent: false };
            buffer.keep(scratch);
            scratch[..4].fill(0);
            buffer
        });
        let Buffer::Heap { bytes, from: 0, urgent: false } = &mut buffer else { panic!("{buffer:?}") };
        assert_eq!(&**bytes, b"bc");
    }
}
