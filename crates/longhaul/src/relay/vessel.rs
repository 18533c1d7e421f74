//! What holds a pump's bytes between the two sockets: a pipe, a buffer where splice is refused or no pipe is to be had,
//! or one urgent byte. A pump has a vessel only while bytes move.

use super::pool::{BULK, Pool};
use longhaul_sys::splice::{self, Pipe};
use std::io;
use std::os::fd::AsFd;
use tokio::net::TcpStream;

/// A vessel and, for the copying one, which bytes of it are waiting.
#[derive(Debug)]
pub(super) enum Vessel {
    /// Bytes that never leave the kernel.
    Pipe(Pipe),
    /// Bytes `from..to` of a buffer of ours.
    Buffer { bytes: Box<[u8]>, from: usize, to: usize },
    /// The byte at the urgent mark, which splice does not pass.
    Urgent(u8),
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
        Vessel::Buffer { bytes: vec![0; COPY].into_boxed_slice(), from: 0, to: 0 }
    }

    /// Gives an empty vessel back.
    pub(super) fn give(self, pool: &Pool) {
        if let Vessel::Pipe(pipe) = self {
            pool.give(pipe);
        }
    }

    /// Throws away a vessel with what it holds.
    pub(super) fn discard(self, pool: &Pool) {
        if let Vessel::Pipe(pipe) = self {
            pool.discard(pipe);
        }
    }

    /// Fills this empty vessel from `source`: how many bytes, 0 at the end of the stream.
    pub(super) fn fill(&mut self, source: &TcpStream, pool: &Pool) -> io::Result<usize> {
        match self {
            Vessel::Pipe(pipe) => match pipe.fill_from(source, BULK) {
                Err(err) if err.kind() == io::ErrorKind::WouldBlock => {
                    let byte = splice::urgent_byte(source.as_fd())?.ok_or(err)?;
                    let pipe = std::mem::replace(self, Vessel::Urgent(byte));
                    pipe.give(pool);
                    Ok(1)
                }
                filled => filled,
            },
            Vessel::Buffer { bytes, from, to } => {
                let got = splice::receive(source, bytes)?;
                (*from, *to) = (0, got);
                Ok(got)
            }
            Vessel::Urgent(_) => {
                *self = Vessel::take(pool, true);
                self.fill(source, pool)
            }
        }
    }

    /// Empties this vessel, which holds `held` bytes, into `sink` as far as that takes them.
    pub(super) fn drain(&mut self, sink: &TcpStream, held: usize) -> io::Result<usize> {
        match self {
            Vessel::Pipe(pipe) => pipe.drain_into(sink, held),
            Vessel::Buffer { bytes, from, to } => {
                let sent = splice::send(sink, &bytes[*from..*to], false)?;
                *from += sent;
                Ok(sent)
            }
            Vessel::Urgent(byte) => splice::send(sink, &[*byte], true),
        }
    }

    /// After a fill of `bytes` was drained: the next may be larger.
    pub(super) fn emptied(&mut self, bytes: usize, pool: &Pool) {
        if let (Vessel::Pipe(pipe), true) = (self, bytes >= COPY) {
            pool.grow(pipe);
        }
    }
}

/// The size of a copying buffer, and of a fill that shows bulk.
const COPY: usize = 64 * 1024;
