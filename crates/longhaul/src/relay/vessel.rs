//! What holds a pump's bytes between the two sockets: a pipe, a buffer where splice is refused or no pipe is to be had,
//! or one urgent byte. A pump has a vessel only while bytes move.

use super::pool::{BULK, Pool};
use super::stream::Stream;
use longhaul_sys::splice::{self, Pipe};
use std::io;
use std::os::fd::AsFd;
use tokio::io::Interest;

/// A vessel and, for the copying one, which bytes of it are waiting.
#[derive(Debug)]
pub(super) enum Vessel {
    /// Bytes that never leave the kernel.
    Pipe(Pipe),
    /// Bytes `from..to` of a buffer of ours.
    Buffer { bytes: Box<[u8]>, from: usize, to: usize },
    /// The byte at the urgent mark, and the empty vessel that was to be filled.
    Urgent { byte: u8, rest: Box<Vessel> },
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
        match self {
            Vessel::Pipe(pipe) => pool.give(pipe),
            Vessel::Urgent { rest, .. } => rest.give(pool),
            Vessel::Buffer { .. } => {}
        }
    }

    /// Throws away a vessel with what it holds.
    pub(super) fn discard(self, pool: &Pool) {
        match self {
            Vessel::Pipe(pipe) => pool.discard(pipe),
            Vessel::Urgent { rest, .. } => rest.discard(pool),
            Vessel::Buffer { .. } => {}
        }
    }

    /// Fills this empty vessel from `source`: how many bytes, 0 at the end of the stream. At the urgent mark, which splice
    /// does not pass, it becomes an urgent byte beside itself.
    pub(super) fn fill(&mut self, source: &Stream) -> io::Result<usize> {
        match self {
            Vessel::Pipe(pipe) => match pipe.fill_from(source, BULK) {
                Err(err) if err.kind() == io::ErrorKind::WouldBlock => {
                    // Only when the kernel has said that there is an urgent byte. Where it says so a moment from now, it
                    // wakes the pump, which comes here again.
                    let urgent = || splice::urgent_byte(source.as_fd())?.ok_or(err);
                    let byte = source.try_io(Interest::PRIORITY, urgent)?;
                    self.hold_urgent(byte);
                    Ok(1)
                }
                filled => filled,
            },
            Vessel::Buffer { bytes, from, to } => {
                if let Some(byte) = splice::urgent_byte(source.as_fd())? {
                    self.hold_urgent(byte);
                    return Ok(1);
                }
                let got = splice::receive(source, bytes)?;
                (*from, *to) = (0, got);
                Ok(got)
            }
            Vessel::Urgent { rest, .. } => {
                let rest = std::mem::replace(&mut **rest, Vessel::nothing());
                *self = rest;
                self.fill(source)
            }
        }
    }

    fn hold_urgent(&mut self, byte: u8) {
        let rest = Box::new(std::mem::replace(self, Vessel::nothing()));
        *self = Vessel::Urgent { byte, rest };
    }

    /// A buffer without room, to stand in for a moment.
    fn nothing() -> Vessel {
        Vessel::Buffer { bytes: Box::default(), from: 0, to: 0 }
    }

    /// Takes the `held` bytes of a pipe into a buffer, for a sink that refuses splice.
    pub(super) fn unsplice(&mut self, held: usize, pool: &Pool) -> io::Result<()> {
        if let Vessel::Pipe(pipe) = self {
            let bytes = pipe.read(held)?;
            let to = bytes.len();
            let pipe = std::mem::replace(self, Vessel::Buffer { bytes, from: 0, to });
            pipe.give(pool);
        }
        Ok(())
    }

    /// Empties this vessel, which holds `held` bytes, into `sink` as far as that takes them.
    pub(super) fn drain(&mut self, sink: &Stream, held: usize) -> io::Result<usize> {
        match self {
            Vessel::Pipe(pipe) => pipe.drain_into(sink, held),
            Vessel::Buffer { bytes, from, to } => {
                let sent = splice::send(sink, &bytes[*from..*to], false)?;
                *from += sent;
                Ok(sent)
            }
            Vessel::Urgent { byte, .. } => splice::send(sink, &[*byte], true),
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
