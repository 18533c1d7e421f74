//! An answer to a request.

use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use serde::{Deserialize, Serialize};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// An answer to a request.
pub(super) type Answer = Response<Content>;

/// The body of an answer, and a mark on its connection while it is not sent. By default, it is empty.
#[derive(Debug, Default)]
pub(super) struct Content {
    bytes: Option<Bytes>,
    /// More of the body, until the sender is dropped.
    lines: Option<mpsc::Receiver<Bytes>>,
    /// Whether the next piece has to wait for a turn.
    is_paused: bool,
    _busy: Option<Busy>,
}

/// Marks a connection as busy until it is dropped.
#[derive(Debug)]
pub(super) struct Busy(Arc<AtomicBool>);

impl Busy {
    /// Sets `mark` until the value is dropped.
    pub(super) fn new(mark: Arc<AtomicBool>) -> Busy {
        mark.store(true, Relaxed);
        Busy(mark)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(false, Relaxed);
    }
}

/// Returns `text` with a line end, as plain text.
pub(super) fn text(status: StatusCode, text: &str) -> Answer {
    answer(status, "text/plain; charset=utf-8", format!("{text}\n").into())
}

/// Returns `body`, whose content type is `kind`.
pub(super) fn document(kind: &'static str, body: impl Into<Bytes>) -> Answer {
    answer(StatusCode::OK, kind, body.into())
}

/// Returns `document` as JSON with a line end.
pub(super) fn json(status: StatusCode, document: &impl Serialize) -> Answer {
    answer(status, "application/json", line(document))
}

/// Returns an answer whose body are the lines that come through `lines`, each a JSON document.
pub(super) fn lines(lines: mpsc::Receiver<Bytes>) -> Answer {
    let mut answer = answer(StatusCode::OK, "application/jsonl", Bytes::new());
    *answer.body_mut() = Content { lines: Some(lines), ..Content::default() };
    answer
}

/// Returns `document` as one line of JSON.
pub(super) fn line(document: &impl Serialize) -> Bytes {
    // No document here has a map with keys that are not text, so this does not fail.
    let mut line = serde_json::to_vec(document).unwrap_or_default();
    line.push(b'\n');
    line.into()
}

/// Returns `{"error": why}`.
pub(super) fn error(status: StatusCode, why: &str) -> Answer {
    json(status, &Failure { error: why.into() })
}

/// Returns the error of a request with a wrong method. `allowed` is the right one.
pub(super) fn wrong_method(allowed: &'static str) -> Answer {
    let mut answer = error(StatusCode::METHOD_NOT_ALLOWED, &format!("this path has only {allowed}"));
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    answer
}

/// Marks `answer`'s connection as busy until the answer is sent.
pub(super) fn busy(mut answer: Answer, busy: Busy) -> Answer {
    answer.body_mut()._busy = Some(busy);
    answer
}

fn answer(status: StatusCode, kind: &'static str, bytes: Bytes) -> Answer {
    let mut answer = Response::new(Content { bytes: Some(bytes), ..Content::default() });
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

/// Length of the pieces in which a long document is sent. Other connections have a turn between two.
const PIECE_BYTES: usize = 32 * 1024;

/// The document of a request that failed.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Failure {
    /// Why it failed.
    pub(super) error: String,
}

/// A line of the answer to a drain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DrainProgress {
    /// Whether the listeners are closed and no flow is left. It is true in the last line only.
    pub drained: bool,
    /// Number of live flows.
    pub flows: u64,
    /// Why the drain has ended before the last flow. It is in the last line only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Content { bytes, lines, is_paused, .. } = &mut *self;
        if let (None, Some(lines)) = (&bytes, lines) {
            return lines.poll_recv(cx).map(|line| line.map(|line| Ok(Frame::data(line))));
        }
        // Between two pieces of a long document, the other connections of the thread have a turn.
        if std::mem::take(is_paused) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let Some(mut rest) = bytes.take() else { return Poll::Ready(None) };
        let piece = rest.split_to(rest.len().min(PIECE_BYTES));
        if !rest.is_empty() {
            (*bytes, *is_paused) = (Some(rest), true);
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none() && self.lines.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match self.lines {
            Some(_) => SizeHint::default(),
            None => SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
        }
    }
}
