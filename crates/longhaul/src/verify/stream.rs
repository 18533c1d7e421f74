//! The prober's connection: bytes with a time limit, and the frames among them.

use super::findings::{Kind, Stage, Trouble};
use longhaul_core::wire::answer::{Fault, Frame, Frames};
use longhaul_units::show_duration;
use std::io;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

/// Why no more comes from a connection.
#[derive(Debug)]
pub(super) enum Lost {
    /// Nothing came in time. `said`: bytes came that are no frame.
    Silent { after: Duration, said: bool },
    /// FIN.
    Ended,
    /// The socket's error.
    Failed(io::Error),
    /// A frame that cannot be used.
    Damaged(Fault),
}

impl Lost {
    /// Returns the trouble that this is at `stage`.
    pub(super) fn at(self, stage: Stage) -> Trouble {
        let is_data = stage == Stage::Data;
        let (kind, why, is_certain) = match self {
            Lost::Silent { after, said: false } => {
                (Kind::NoAnswer, format!("connected, and then silent for {}", show_duration(after)), is_data)
            }
            Lost::Silent { said: true, .. } => {
                (Kind::NoAnswer, "something answers, but not to a probe".to_owned(), is_data)
            }
            Lost::Ended => (Kind::Reset, "the connection was ended with FIN".into(), true),
            Lost::Failed(err) => (Kind::Reset, err.to_string(), true),
            Lost::Damaged(Fault::Version(version)) => {
                (Kind::Reset, format!("it speaks version {version} of the protocol; upgrade longhaul here"), false)
            }
            Lost::Damaged(fault) => (Kind::Reset, format!("a frame arrived damaged ({fault:?})"), true),
        };
        Trouble { stage, kind, why, is_certain }
    }
}

/// Sends `bytes`. Each step may take `limit`.
///
/// # Errors
/// The connection broke, or took nothing for `limit`.
pub(super) async fn send(stream: &TcpStream, mut bytes: &[u8], limit: Duration) -> Result<(), Lost> {
    while !bytes.is_empty() {
        let writable = timeout(limit, stream.writable()).await;
        writable.map_err(|_| Lost::Silent { after: limit, said: false })?.map_err(Lost::Failed)?;
        match stream.try_write(bytes) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(err) if err.kind() == io::ErrorKind::WouldBlock => {}
            Err(err) => return Err(Lost::Failed(err)),
        }
    }
    Ok(())
}

/// The reading half.
pub(super) struct Reader<'a> {
    stream: &'a TcpStream,
    limit: Duration,
    buffer: Box<[u8]>,
    /// The unread bytes of `buffer`.
    unread: std::ops::Range<usize>,
}

impl<'a> Reader<'a> {
    /// Returns the reader of `stream`, which waits for `limit` at most.
    pub(super) fn new(stream: &'a TcpStream, limit: Duration) -> Reader<'a> {
        Reader { stream, limit, buffer: vec![0; 64 * 1024].into(), unread: 0..0 }
    }

    /// Returns the next frame. Discards what comes before it.
    ///
    /// # Errors
    /// The connection broke, or no frame came in time.
    pub(super) async fn frame(&mut self) -> Result<Frame, Lost> {
        let deadline = Instant::now() + self.limit;
        let mut frames = Frames::default();
        let mut said = false;
        loop {
            let byte = match self.unread.next() {
                Some(at) => self.buffer[at],
                None => {
                    self.fill(deadline, said).await?;
                    continue;
                }
            };
            if let Some(frame) = frames.take(byte).map_err(Lost::Damaged)? {
                return Ok(frame);
            }
            said = true;
        }
    }

    /// Reads `left` bytes, and passes them to `each` piece by piece.
    ///
    /// # Errors
    /// The connection broke, or nothing came in time.
    pub(super) async fn bytes(&mut self, mut left: usize, mut each: impl FnMut(&[u8])) -> Result<(), Lost> {
        while left > 0 {
            if self.unread.is_empty() {
                self.fill(Instant::now() + self.limit, false).await?;
            }
            let end = self.unread.end.min(self.unread.start + left);
            let piece = &self.buffer[self.unread.start..end];
            left -= piece.len();
            each(piece);
            self.unread.start = end;
        }
        Ok(())
    }

    async fn fill(&mut self, deadline: Instant, said: bool) -> Result<(), Lost> {
        loop {
            let readable = timeout_at(deadline, self.stream.readable()).await;
            readable.map_err(|_| Lost::Silent { after: self.limit, said })?.map_err(Lost::Failed)?;
            match self.stream.try_read(&mut self.buffer) {
                Ok(0) => return Err(Lost::Ended),
                Ok(got) => {
                    self.unread = 0..got;
                    return Ok(());
                }
                Err(err) if err.kind() == io::ErrorKind::WouldBlock => {}
                Err(err) => return Err(Lost::Failed(err)),
            }
        }
    }
}
