//! `POST /measure`: the connections of `longhaul path --tunnel`. The request switches its connection to another protocol
//! ([`longhaul_measure::through`]), by which this relay hands over the sockets.

use super::answer::{Answer, Content, error};
use super::source::Source;
use crate::control::Command;
use hyper::header::{CONNECTION, HeaderValue, UPGRADE};
use hyper::http::request::Parts;
use hyper::upgrade::OnUpgrade;
use hyper::{Response, StatusCode};
use hyper_util::rt::TokioIo;
use longhaul_measure::through::{Ask, PROTOCOL, Tell};
use longhaul_relay::{Measurement, Socket};
use longhaul_sys::unix::{MAX_DESCRIPTORS, send_descriptors};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::time::timeout;

/// Begins the measurement that the request with this head asks for: `tunnel=NAME`. Returns `None` if the daemon does not answer.
pub(super) async fn begin(source: &Source, head: &mut Parts) -> Option<Answer> {
    let is_known = head.headers.get(UPGRADE).is_some_and(|protocol| protocol == PROTOCOL);
    let Some(upgrade) = head.extensions.remove::<OnUpgrade>().filter(|_| is_known) else {
        return Some(error(StatusCode::UPGRADE_REQUIRED, "only `longhaul path --tunnel` uses this path"));
    };
    let query = head.uri.query().unwrap_or_default();
    let tunnel = query.split('&').find_map(|parameter| parameter.strip_prefix("tunnel=")).unwrap_or_default();
    Some(match source.control.ask(|reply| Command::Measure(tunnel.into(), reply)).await? {
        Err(why) => error(StatusCode::CONFLICT, &why),
        Ok(measurement) => {
            tokio::spawn(serve(upgrade, Arc::new(measurement)));
            let mut answer = Response::new(Content::default());
            *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
            answer.headers_mut().insert(UPGRADE, HeaderValue::from_static(PROTOCOL));
            answer
        }
    })
}

/// Answers the program until it goes away, or until the measurement has to end.
async fn serve(upgrade: OnUpgrade, measurement: Arc<Measurement>) {
    // Without the connection, the program has gone.
    let Ok(upgraded) = upgrade.await else { return };
    let Ok(parts) = upgraded.downcast::<TokioIo<UnixStream>>() else { return };
    let mut talk = Talk { stream: parts.io.into_inner(), unread: parts.read_buf.to_vec() };
    let why = tokio::select! {
        biased;
        // An error is that of a program that has gone, or that does not begin.
        _ = talk.converse(&measurement) => return,
        // The conversation waits for the program, or for a dial, which may be dropped.
        why = timeout(MAX_TIME, measurement.over()) => why,
    };
    // A stopped program takes no message. It does not keep the cap, and keeps nobody out.
    drop(measurement);
    let why = why.unwrap_or_else(|_| format!("it has taken {} s, the most that it may", MAX_TIME.as_secs()));
    let _ = timeout(BEGIN_TIME, talk.tell(&Tell::Ended(why), &[])).await;
}

/// Returns the answer to `asked`, and the sockets that go with it.
///
/// # Errors
/// It cannot be done. The text says why.
async fn answer(measurement: &Arc<Measurement>, asked: Ask) -> Result<(Tell, Vec<Socket>), String> {
    match asked {
        Ask::Begin(begin) => measurement.begin(&begin).await.map(|(begun, sockets)| (Tell::Begun(begun), sockets)),
        Ask::Connect(connect) => measurement.connect(&connect).await.map(|sockets| (Tell::Connected, sockets)),
        Ask::Datagrams => measurement.datagrams().map(|sockets| (Tell::Connected, sockets)),
        Ask::Prove(nonce, challenge) => Ok((Tell::Proof(measurement.prove(&nonce, &challenge)), Vec::new())),
    }
}

/// The connection to the program.
struct Talk {
    stream: UnixStream,
    unread: Vec<u8>,
}

impl Talk {
    async fn converse(&mut self, measurement: &Arc<Measurement>) -> io::Result<()> {
        let mut patience = BEGIN_TIME;
        loop {
            let asked = timeout(patience, self.hear()).await??;
            patience = MAX_TIME;
            // A program that goes away meanwhile keeps nobody out until the dials have failed. Dropping a dial ends it, and dropping the
            // other arm loses no byte.
            let (told, sockets) = tokio::select! {
                told = answer(measurement, asked) => told.unwrap_or_else(|why| (Tell::Failed(why), Vec::new())),
                gone = self.gone() => return Err(gone),
            };
            self.tell(&told, &sockets).await?;
        }
    }

    /// Reads the next question.
    async fn hear(&mut self) -> io::Result<Ask> {
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                return Ok(serde_json::from_slice(&line)?);
            }
            self.fill().await?;
        }
    }

    /// Waits until the program has gone. Returns how.
    async fn gone(&mut self) -> io::Error {
        loop {
            if let Err(gone) = self.fill().await {
                return gone;
            }
        }
    }

    /// Waits for bytes of the program, and reads them.
    async fn fill(&mut self) -> io::Result<()> {
        if self.unread.len() > MAX_LINE {
            return Err(ErrorKind::InvalidData.into());
        }
        self.stream.readable().await?;
        let mut bytes = [0; 4096];
        match self.stream.try_read(&mut bytes) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(got) => self.unread.extend_from_slice(&bytes[..got]),
            Err(err) if err.kind() == ErrorKind::WouldBlock => {}
            Err(err) => return Err(err),
        }
        Ok(())
    }

    /// Sends `told`, with `sockets`.
    async fn tell(&self, told: &Tell, sockets: &[Socket]) -> io::Result<()> {
        let mut line = serde_json::to_vec(told)?;
        line.push(b'\n');
        let mut descriptors: Vec<BorrowedFd<'_>> = sockets.iter().take(MAX_DESCRIPTORS).map(AsFd::as_fd).collect();
        let mut sent = 0;
        while sent < line.len() {
            let send = || send_descriptors(self.stream.as_fd(), &line[sent..], &descriptors);
            sent += self.stream.async_io(Interest::WRITABLE, send).await?;
            // They went with the first bytes.
            descriptors.clear();
        }
        Ok(())
    }
}

/// Length of a measurement at most: the far relay ends its session after 180 s.
const MAX_TIME: Duration = Duration::from_secs(200);
/// Time for the first question.
const BEGIN_TIME: Duration = Duration::from_secs(10);
/// Length of a question at most.
const MAX_LINE: usize = 16 << 10;
