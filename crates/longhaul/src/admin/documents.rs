//! The documents that take long to write: `/status.json` and `/metrics`.
//!
//! A thread beside the admin thread writes them, so that no health check waits for one. By HTTP, whoever asks within a second gets the
//! same document, so that many readers cost what one costs.

use super::answer::{Answer, error, page};
use hyper::StatusCode;
use hyper::body::Bytes;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

/// The last one of a document that was written.
#[derive(Debug, Default)]
pub(super) struct Document {
    last: Mutex<Option<(Instant, Bytes)>>,
}

impl Document {
    /// Returns the document, whose content type is `kind`. One that is younger than `max_age` is not written again. Those who ask
    /// meanwhile wait for the same one.
    pub(super) async fn get(
        &self,
        kind: &'static str,
        max_age: Duration,
        write: impl FnOnce() -> Result<Bytes, String> + Send + 'static,
    ) -> Answer {
        let mut last = self.last.lock().await;
        if let Some((_, bytes)) = last.as_ref().filter(|(at, _)| at.elapsed() < max_age) {
            return page(kind, bytes.clone());
        }
        match spawn_blocking(write).await.map_err(|err| err.to_string()).and_then(|written| written) {
            Ok(bytes) => {
                *last = Some((Instant::now(), bytes.clone()));
                page(kind, bytes)
            }
            Err(why) => error(StatusCode::INTERNAL_SERVER_ERROR, &why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    #[tokio::test]
    async fn many_readers_get_one_document_and_the_next_second_has_another() {
        let (document, written) = (Arc::new(Document::default()), Arc::new(AtomicUsize::new(0)));
        let get = |max_age| {
            let (document, written) = (document.clone(), written.clone());
            let write = move || Ok(written.fetch_add(1, Relaxed).to_string().into());
            async move { document.get("text/plain", max_age, write).await }
        };
        for asked in (0..30).map(|_| tokio::spawn(get(Duration::MAX))).collect::<Vec<_>>() {
            assert_eq!(asked.await.unwrap().status(), StatusCode::OK);
        }
        assert_eq!(written.load(Relaxed), 1);
        get(Duration::ZERO).await;
        assert_eq!(written.load(Relaxed), 2, "as for the control socket");
        let failed = document.get("text/plain", Duration::ZERO, || Err("no memory".into())).await;
        assert_eq!(failed.status(), StatusCode::INTERNAL_SERVER_ERROR);
        get(Duration::MAX).await;
        assert_eq!(written.load(Relaxed), 2, "a failure keeps the last one");
    }
}
