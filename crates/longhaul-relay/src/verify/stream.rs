//! The prober's connection: bytes with a time limit, and the frames among them.

use longhaul_core::health::{Cause, Stage, Trouble};
use longhaul_core::wire::answer::{Fault, Frame, Frames, Next, Report};
use longhaul_units::show_duration;
use std::io;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::consume_budget;
use tokio::time::{Instant, timeout_at};

/// Why no more comes from a connection.
#[derive(Debug)]
pub(super) enum Lost {
    /// Nothing came for the last `after`, or nothing was taken. `said`: bytes came that are no frame.
    Silent { after: Duration, said: bool },
    /// The payload took the rest of the whole probe's time `after`, while bytes still came.
    Late { after: Duration },
    /// The relay has stopped its echo, because the payload came too slowly.
    Stopped,
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
        let (cause, why, is_certain) = match self {
            Lost::Silent { after, said: false } => {
                (Cause::NoAnswer, format!("connected, and then silent for {}", about(after)), is_data)
            }
            Lost::Silent { said: true, .. } => (Cause::NoAnswer, OTHER_ANSWER.to_owned(), is_data),
            Lost::Late { after } => {
                let why = format!("the whole probe took its limit of {} while bytes still came", show_duration(after));
                (Cause::NoAnswer, why, false)
            }
            Lost::Stopped => {
                (Cause::Failed, "it stopped its echo, because the payload came too slowly".to_owned(), false)
            }
            Lost::Ended => (Cause::Failed, "the connection was ended with FIN".into(), true),
            Lost::Failed(err) => (Cause::Failed, err.to_string(), true),
            Lost::Damaged(Fault::Version(version)) => {
                (Cause::Failed, format!("it speaks version {version} of the protocol; upgrade longhaul here"), false)
            }
            Lost::Damaged(fault) => (Cause::Failed, format!("a frame arrived damaged ({fault:?})"), true),
        };
        Trouble { stage, cause, why, is_certain }
    }
}

/// The limits of a prober's waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Time to wait for each answer.
    pub(super) each: Duration,
    /// The limit of all waits together.
    pub(super) total: Duration,
    /// The end of all waits.
    pub(super) end: Instant,
}

impl Patience {
    /// Returns the limits of a probe that begins now, and may take `total` in all.
    pub(super) fn of(each: Duration, total: Duration) -> Patience {
        Patience { each, total, end: Instant::now() + total }
    }

    /// Returns the end of a wait that begins now.
    pub(super) fn deadline(self) -> Instant {
        self.end.min(Instant::now() + self.each)
    }

    /// Returns the limits of a wait that may take all the time that is left.
    pub(super) fn to_the_end(self) -> Patience {
        Patience { each: self.total, ..self }
    }

    /// Returns `lost`, or [`Lost::Late`] if the end of all waits cut a silence off that was still short.
    pub(super) fn or_late(self, lost: Lost) -> Lost {
        match lost {
            Lost::Silent { after, .. } if Instant::now() >= self.end && after < self.each / 2 => {
                Lost::Late { after: self.total }
            }
            lost => lost,
        }
    }
}

/// Returns `time` in words, in whole seconds from one second on: a wait ends some milliseconds late.
fn about(time: Duration) -> String {
    let steps = if time < Duration::from_secs(1) { 1e3 } else { 1.0 };
    show_duration(Duration::from_secs_f64((time.as_secs_f64() * steps).round() / steps))
}

/// Sends `bytes`. Each step may take as long as `patience` allows.
///
/// # Errors
/// The connection broke, or took nothing in time.
pub(super) async fn send(stream: &TcpStream, mut bytes: &[u8], patience: Patience) -> Result<(), Lost> {
    while !bytes.is_empty() {
        let writable = timeout_at(patience.deadline(), stream.writable()).await;
        let silent = Lost::Silent { after: patience.each, said: false };
        writable.map_err(|_| silent)?.map_err(Lost::Failed)?;
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
    /// The limits of its waits.
    pub(super) patience: Patience,
    /// Time of the last bytes, or of the beginning.
    heard: Instant,
    buffer: Box<[u8]>,
    /// The unread bytes of `buffer`.
    unread: std::ops::Range<usize>,
    /// Finds the frames, also among the bytes of the payload.
    frames: Frames,
}

impl<'a> Reader<'a> {
    /// Returns the reader of `stream`, which waits as long as `patience` allows.
    pub(super) fn new(stream: &'a TcpStream, patience: Patience) -> Reader<'a> {
        let (heard, buffer) = (Instant::now(), vec![0; 64 * 1024].into());
        Reader { stream, patience, heard, buffer, unread: 0..0, frames: Frames::default() }
    }

    /// Returns the next frame. Discards what comes before it, until `deadline`.
    ///
    /// # Errors
    /// The connection broke, or no frame came in time.
    pub(super) async fn frame(&mut self, deadline: Instant) -> Result<Frame, Lost> {
        let mut said = false;
        loop {
            let byte = match self.unread.next() {
                Some(at) => self.buffer[at],
                None => {
                    self.fill(deadline, said).await?;
                    continue;
                }
            };
            if let Some(frame) = self.frames.take(byte).map_err(Lost::Damaged)? {
                return Ok(frame);
            }
            said = true;
        }
    }

    /// Reads `left` bytes, and passes them to `each` piece by piece.
    ///
    /// # Errors
    /// The connection broke, nothing came in time, or the relay says among the bytes that it stops.
    pub(super) async fn bytes(&mut self, mut left: usize, mut each: impl FnMut(&[u8])) -> Result<(), Lost> {
        while left > 0 {
            if self.unread.is_empty() {
                self.fill(self.patience.deadline(), false).await?;
            }
            let end = self.unread.end.min(self.unread.start + left);
            let piece = &self.buffer[self.unread.start..end];
            for byte in piece {
                match self.frames.take(*byte) {
                    Ok(Some(Frame::Report(Report { next: Next::Busy, .. }))) => return Err(Lost::Stopped),
                    Ok(_) => {}
                    // The payload is not as it was sent, which the caller notices.
                    Err(_) => self.frames = Frames::default(),
                }
            }
            left -= piece.len();
            each(piece);
            self.unread.start = end;
        }
        Ok(())
    }

    async fn fill(&mut self, deadline: Instant, said: bool) -> Result<(), Lost> {
        let heard = self.heard;
        let silent = || Lost::Silent { after: heard.elapsed(), said };
        loop {
            // A peer that sends without a pause keeps the stream readable, and a wait that is ready at once neither sees its
            // deadline nor lets other tasks run.
            if Instant::now() >= deadline {
                return Err(silent());
            }
            consume_budget().await;
            let readable = timeout_at(deadline, self.stream.readable()).await;
            readable.map_err(|_| silent())?.map_err(Lost::Failed)?;
            match self.stream.try_read(&mut self.buffer) {
                Ok(0) => return Err(Lost::Ended),
                Ok(got) => {
                    (self.unread, self.heard) = (0..got, Instant::now());
                    return Ok(());
                }
                Err(err) if err.kind() == io::ErrorKind::WouldBlock => {}
                Err(err) => return Err(Lost::Failed(err)),
            }
        }
    }
}

/// Details about whoever sends bytes that are no report.
const OTHER_ANSWER: &str = "something answers, but not to a probe";

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::wire::answer::{MAGIC, Receipt};
    use std::io::Write;

    /// A server that never stops must not hold a probe, nor the worker on which it runs.
    #[tokio::test]
    async fn the_wait_for_a_frame_ends_although_bytes_come_without_a_pause() {
        let receipt = Frame::Receipt(Receipt { nonce: [7; 16], bytes: 0, checksum: 0, time_us: 0 }).bytes();
        for flood in [b"x".repeat(4096), MAGIC[..15].repeat(300), receipt.repeat(50)] {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let sender = std::thread::spawn(move || {
                let mut server = listener.accept().unwrap().0;
                while server.write_all(&flood).is_ok() {}
            });
            let (ran, each) = (tokio::spawn(async {}), Duration::from_millis(200));
            let mut reader = Reader::new(&stream, Patience::of(each, 10 * each));
            let deadline = reader.patience.deadline();
            let lost = loop {
                if let Err(lost) = reader.frame(deadline).await {
                    break lost;
                }
            };
            assert!(matches!(lost, Lost::Silent { .. }), "{lost:?}");
            assert!(ran.is_finished(), "no other task has run");
            drop(stream);
            sender.join().unwrap();
        }
    }
}
