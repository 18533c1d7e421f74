//! The documents that take long to write: `/status.json` and `/metrics`.
//!
//! A thread beside the admin thread writes them, so that no health check waits for one. By HTTP, whoever asks within a second gets the
//! same document, so that many readers cost what one costs.

use super::answer::{Answer, document, error};
use hyper::StatusCode;
use hyper::body::Bytes;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

/// The last one of a document that was written.
#[derive(Debug, Default)]
pub(super) struct Document {
    last: Arc<Mutex<Option<(Instant, Bytes)>>>,
}

impl Document {
    /// Returns the document, whose content type is `kind`. Writes it unless the last one is younger than `max_age`. One caller writes
    /// at a time; the others wait, and take that document if it is young enough for them. Returns `None` if `prepare` does: then
    /// there is nothing to write.
    pub(super) async fn get<W>(
        &self,
        kind: &'static str,
        max_age: Duration,
        prepare: impl Future<Output = Option<W>> + Send + 'static,
    ) -> Option<Answer>
    where
        W: FnOnce() -> Result<Bytes, String> + Send + 'static,
    {
        let mut last = self.last.clone().lock_owned().await;
        if let Some((_, bytes)) = last.as_ref().filter(|(at, _)| at.elapsed() < max_age) {
            return Some(document(kind, bytes.clone()));
        }
        // A task of its own, which holds the lock to the end: clients that go away must not pile up documents to be written.
        let writing = tokio::spawn(async move {
            let written =
                spawn_blocking(prepare.await?).await.map_err(|err| err.to_string()).and_then(|written| written);
            if let Ok(bytes) = &written {
                *last = Some((Instant::now(), bytes.clone()));
            }
            Some(written)
        });
        Some(match writing.await.unwrap_or_else(|err| Some(Err(err.to_string())))? {
            Ok(bytes) => document(kind, bytes),
            Err(why) => error(StatusCode::INTERNAL_SERVER_ERROR, &why),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    #[tokio::test]
    async fn many_readers_get_one_document_and_the_next_second_has_another() {
        let (document, written) = (Arc::new(Document::default()), Arc::new(AtomicUsize::new(0)));
        let get = |max_age| {
            let (document, written) = (document.clone(), written.clone());
            let write = move || Ok(written.fetch_add(1, Relaxed).to_string().into());
            async move { document.get("text/plain", max_age, async { Some(write) }).await.unwrap() }
        };
        for asked in (0..30).map(|_| tokio::spawn(get(Duration::MAX))).collect::<Vec<_>>() {
            assert_eq!(asked.await.unwrap().status(), StatusCode::OK);
        }
        assert_eq!(written.load(Relaxed), 1);
        get(Duration::ZERO).await;
        assert_eq!(written.load(Relaxed), 2, "as for the control socket");
        let fail = async { Some(|| Err("no memory".into())) };
        let failed = document.get("text/plain", Duration::ZERO, fail).await.unwrap();
        assert_eq!(failed.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let nothing = async { None::<fn() -> Result<Bytes, String>> };
        assert!(document.get("text/plain", Duration::ZERO, nothing).await.is_none());
        get(Duration::MAX).await;
        assert_eq!(written.load(Relaxed), 2, "a failure keeps the last one");
    }

    /// Its connection was closed for another one. The next client waits for the document that is being written.
    #[tokio::test]
    async fn a_client_that_goes_away_lets_no_second_document_begin() {
        let (document, (begin, may_end)) = (Arc::new(Document::default()), std::sync::mpsc::channel::<()>());
        let (told, mut begun) = tokio::sync::mpsc::unbounded_channel();
        let first = document.clone();
        let write = move || {
            told.send(()).unwrap();
            may_end.recv().unwrap();
            Ok("first".into())
        };
        let asked = tokio::spawn(async move { first.get("text/plain", Duration::MAX, async { Some(write) }).await });
        begun.recv().await.unwrap();
        asked.abort();
        assert!(asked.await.unwrap_err().is_cancelled());
        begin.send(()).unwrap();
        let second = async { Some(|| -> Result<Bytes, String> { panic!("written again") }) };
        let answer = document.get("text/plain", Duration::MAX, second).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
    }
}
