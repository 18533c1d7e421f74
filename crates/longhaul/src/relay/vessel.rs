//! What holds a pump's bytes between the two sockets: a pipe, or a buffer where splice is refused, where no pipe is to be
//! had, and for urgent data. A pump has a vessel only while bytes move.

use super::pool::{BULK, Pool};
use super::stream::Stream;
use longhaul_sys::splice::{self, Pipe};
use std::io;
use std::os::fd::AsFd;

/// A vessel and, for the copying one, which bytes of it are waiting.
#[derive(Debug)]
pub(super) enum Vessel {
    /// Bytes that never leave the kernel.
    Pipe(Pipe),
    /// Bytes `from..to` of a buffer of ours; `urgent`: they are the one at the urgent mark.
    Buffer { bytes: Box<[u8]>, from: usize, to: usize, urgent: bool },
}

impl Vessel {
    /// A pipe when there is one and `splice` wants it, else a buffer.
    pub(super) fn take(pool: &Pool, splice: bool) -> Vessel {
        match splice.then(|| pool.take()).flatten() {
            Some(pipe) => Vessel::Pipe(pipe),
            None => Vessel::buffer(),
        }
    }

    /// An empty buffer.
    pub(super) fn buffer() -> Vessel {
        Vessel::Buffer { bytes: vec![0; COPY].into_boxed_slice(), from: 0, to: 0, urgent: false }
    }

    /// Gives an empty vessel back.
    pub(super) fn give(self, pool: &Pool) {
        match self {
            Vessel::Pipe(pipe) => pool.give(pipe),
            Vessel::Buffer { .. } => {}
        }
    }

    /// Throws away a vessel with what it holds.
    pub(super) fn discard(self, pool: &Pool) {
        match self {
            Vessel::Pipe(pipe) => pool.discard(pipe),
            Vessel::Buffer { .. } => {}
        }
    }

    /// Fills this empty vessel from `source`: how many bytes, 0 at the end of the stream. `None`: there is urgent data,
    /// which only a buffer passes.
    pub(super) fn fill(&mut self, source: &Stream) -> io::Result<Option<usize>> {
        match self {
            // At the urgent mark splice(2) says EAGAIN, and 0 once FIN has come (net/ipv4/tcp.c, tcp_splice_read): a 0 is
            // believed only when recv(2) says so too. Where the kernel announces urgent data a moment from now, it wakes
            // the pump, which comes here again.
            Vessel::Pipe(pipe) => match pipe.fill_from(source, BULK) {
                Err(err) if err.kind() == io::ErrorKind::WouldBlock && source.has_urgent() => Ok(None),
                Ok(0) if !splice::has_ended(source)? => Ok(None),
                filled => filled.map(Some),
            },
            Vessel::Buffer { bytes, from, to, urgent } => {
                let byte = splice::urgent_byte(source.as_fd())?;
                let got = match (byte, bytes.first_mut()) {
                    (Some(byte), Some(first)) => {
                        *first = byte;
                        1
                    }
                    _ => splice::receive(source, bytes)?,
                };
                (*from, *to, *urgent) = (0, got, byte.is_some());
                Ok(Some(got))
            }
        }
    }

    /// Takes the `held` bytes of a pipe into a buffer, for a sink that refuses splice.
    pub(super) fn unsplice(&mut self, held: usize, pool: &Pool) -> io::Result<()> {
        if let Vessel::Pipe(pipe) = self {
            // Never smaller than any other buffer: bulk keeps it, and every later fill is as large as it at most.
            let mut bytes = vec![0; held.max(COPY)].into_boxed_slice();
            pipe.read(&mut bytes[..held])?;
            let pipe = std::mem::replace(self, Vessel::Buffer { bytes, from: 0, to: held, urgent: false });
            pipe.give(pool);
        }
        Ok(())
    }

    /// Empties this vessel, which holds `held` bytes, into `sink` as far as that takes them.
    pub(super) fn drain(&mut self, sink: &Stream, held: usize) -> io::Result<usize> {
        match self {
            Vessel::Pipe(pipe) => pipe.drain_into(sink, held),
            Vessel::Buffer { bytes, from, to, urgent } => {
                let sent = splice::send(sink, &bytes[*from..*to], *urgent)?;
                *from += sent;
                Ok(sent)
            }
        }
    }

    /// After a fill of `bytes` was drained: the next may be larger.
    pub(super) fn emptied(&mut self, bytes: usize, pool: &Pool) {
        if let (Vessel::Pipe(pipe), true) = (self, bytes >= BULK_FILL) {
            pool.grow(pipe);
        }
    }
}

/// The size of a copying buffer.
const COPY: usize = 64 * 1024;

/// A fill that shows bulk. A slot of a pipe holds one piece of a segment buffer: from a network card 1,448 bytes, so 16 slots
/// are full with 23 kB.
const BULK_FILL: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::stream::Stream;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    #[tokio::test]
    async fn a_sink_that_refuses_splice_gets_a_buffer_of_full_size() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.write_all(b"1").unwrap();
        let accepted = listener.accept().unwrap().0;
        accepted.peek(&mut [0]).unwrap(); // it is there
        accepted.set_nonblocking(true).unwrap();
        let source = Stream::new(accepted.into()).unwrap();
        let pool = Pool::new(1000, None);
        let mut vessel = Vessel::take(&pool, true);
        assert_eq!(vessel.fill(&source).unwrap(), Some(1));
        vessel.unsplice(1, &pool).unwrap();
        let Vessel::Buffer { bytes, from: 0, to: 1, urgent: false } = vessel else { panic!("{vessel:?}") };
        assert_eq!((bytes.len(), bytes[0]), (COPY, b'1'));
    }
}
