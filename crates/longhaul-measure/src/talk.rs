//! One end of the control connection: sends and reads messages.

use longhaul_sys::poll;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// The control connection.
#[derive(Debug)]
pub struct Talk {
    stream: TcpStream,
    /// The bytes that came and were not read yet.
    unread: Vec<u8>,
    max_line: usize,
}

impl Talk {
    /// Talks on `stream`, which must be O_NONBLOCK. A line of the peer has at most `max_line` bytes.
    pub fn new(stream: TcpStream, max_line: usize) -> Talk {
        Talk { stream, unread: Vec::new(), max_line }
    }

    /// Returns the connection.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The connection has ended, or the peer takes nothing until `deadline` (`TimedOut`).
    pub fn tell(&mut self, message: &impl Serialize, deadline: Instant) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.send(&line, deadline)
    }

    /// Sends `bytes`.
    ///
    /// # Errors
    /// As [`tell`](Talk::tell).
    pub fn send(&mut self, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
        while !bytes.is_empty() {
            match (&self.stream).write(bytes) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(err) if err.kind() == ErrorKind::WouldBlock => {
                    poll::writable(self.stream.as_fd(), left(deadline)?.min(TICK))?;
                }
                Err(err) if err.kind() == ErrorKind::Interrupted => {}
                Err(err) => return Err(err),
            }
        }
        Ok(())
    }

    /// Returns the next message of the peer. Calls `is_over` at least each 100 ms.
    ///
    /// # Errors
    /// `UnexpectedEof`: the connection has ended. `TimedOut`: nothing came until `deadline`. `Interrupted`: `is_over` says so.
    /// `InvalidData`: the line is no message, or too long.
    pub fn hear<T: DeserializeOwned>(&mut self, deadline: Instant, is_over: impl Fn() -> bool) -> io::Result<T> {
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                return serde_json::from_slice(&line).map_err(|err| io::Error::new(ErrorKind::InvalidData, err));
            }
            if self.unread.len() > self.max_line {
                return Err(io::Error::new(ErrorKind::InvalidData, "a line without an end"));
            }
            self.fill(deadline, &is_over)?;
        }
    }

    /// Reads until `mark` has come, or `is_over`, and returns the first bytes that came before it, 255 at most.
    ///
    /// # Errors
    /// As [`hear`](Talk::hear), with the bytes that have come.
    pub fn find(
        &mut self,
        mark: &[u8],
        deadline: Instant,
        is_over: impl Fn() -> bool,
    ) -> Result<Vec<u8>, (io::Error, Vec<u8>)> {
        let mut before = Vec::new();
        loop {
            if let Some(at) = self.unread.windows(mark.len()).position(|bytes| bytes == mark) {
                before.extend(self.unread.drain(..at + mark.len()).take(at));
                before.truncate(255);
                return Ok(before);
            }
            let known = self.unread.len().saturating_sub(mark.len() - 1);
            before.extend(self.unread.drain(..known));
            before.truncate(255);
            // Also where bytes come without an end.
            if let Err(err) = left(deadline).and_then(|_| self.fill(deadline, &is_over)) {
                before.append(&mut self.unread);
                before.truncate(255);
                return Err((err, before));
            }
        }
    }

    fn fill(&mut self, deadline: Instant, is_over: &impl Fn() -> bool) -> io::Result<()> {
        let mut bytes = [0; 16 << 10];
        loop {
            match (&self.stream).read(&mut bytes) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(got) => {
                    self.unread.extend_from_slice(&bytes[..got]);
                    return Ok(());
                }
                Err(err) if err.kind() == ErrorKind::WouldBlock => {}
                Err(err) if err.kind() == ErrorKind::Interrupted => {}
                Err(err) => return Err(err),
            }
            if is_over() {
                return Err(ErrorKind::Interrupted.into());
            }
            poll::readable(&[self.stream.as_fd()], left(deadline)?.min(TICK))?;
        }
    }
}

/// # Errors
/// `TimedOut`: `deadline` is over.
fn left(deadline: Instant) -> io::Result<Duration> {
    match deadline.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(ErrorKind::TimedOut.into()),
        left => Ok(left),
    }
}

/// Time after which a wait looks around.
pub(crate) const TICK: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Ask, Tell};
    use std::net::TcpListener;
    use std::thread;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        near.set_nonblocking(true).unwrap();
        (near, listener.accept().unwrap().0)
    }

    #[test]
    fn messages_come_in_pieces_and_behind_other_bytes() {
        let (near, mut far) = pair();
        let writer = thread::spawn(move || {
            for piece in ["220 host says", " hello\r\nMA", "RK{\"echo\":", "7}\n{\"ech", "o\":{\"number\":8}}\n"] {
                far.write_all(piece.as_bytes()).unwrap();
                thread::yield_now();
            }
        });
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut talk = Talk::new(near, 100);
        assert_eq!(talk.find(b"MARK", deadline, || false).unwrap(), b"220 host says hello\r\n");
        assert_eq!(talk.hear::<Ask>(deadline, || false).unwrap(), Ask::Echo(7));
        assert_eq!(
            talk.hear::<Tell>(deadline, || false).unwrap(),
            Tell::Echo(crate::message::Echo { number: 8, at: 0 })
        );
        assert_eq!(talk.hear::<Ask>(deadline, || false).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        writer.join().unwrap();
    }

    #[test]
    fn what_is_no_message_is_an_error_of_its_own() {
        let heard = |bytes: &[u8]| {
            let (near, mut far) = pair();
            far.write_all(bytes).unwrap();
            let deadline = Instant::now() + Duration::from_millis(if bytes.is_empty() { 1 } else { 60_000 });
            Talk::new(near, 100).hear::<Ask>(deadline, || false).unwrap_err().kind()
        };
        assert_eq!(heard(b"garbage\n"), ErrorKind::InvalidData);
        assert_eq!(heard(b"{\"unknown\":1}\n"), ErrorKind::InvalidData);
        assert_eq!(heard(&[b'x'; 200]), ErrorKind::InvalidData);
        assert_eq!(heard(b""), ErrorKind::TimedOut);
        let (near, _far) = pair();
        let deadline = Instant::now() + Duration::from_secs(60);
        assert_eq!(Talk::new(near, 9).hear::<Ask>(deadline, || true).unwrap_err().kind(), ErrorKind::Interrupted);
    }
}
