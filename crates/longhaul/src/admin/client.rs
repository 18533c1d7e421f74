//! The client of the control socket.

use super::answer::{Content, DrainProgress, Failure};
use hyper::body::{Body, Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, HeaderValue, UPGRADE};
use hyper::upgrade::{self, OnUpgrade};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use longhaul_core::curve::Span;
use longhaul_measure::through::PROTOCOL;
use std::fmt;
use std::future::{pending, poll_fn};
use std::io;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};

/// A request for [`ask`].
#[derive(Clone, Copy, Debug)]
pub enum Ask {
    /// The state of the process: the text of a [`Snapshot`](super::snapshot::Snapshot).
    Status,
    /// The same, with the curves of the tunnels.
    Curves(Span),
    /// Reads the configuration file again. The answer comes when it is applied or refused.
    Reload,
    /// Undoes a drain.
    Undrain,
    /// Cuts the flow with this number.
    Kill(u64),
}

/// Why there is no answer, or not the one that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// Nobody listens at this path.
    NoDaemon(PathBuf),
    /// The daemon has refused the request. The text is its reason.
    Refused(String),
    /// The daemon says that it cannot answer now.
    Hangs(String),
    /// Something else, such as a missing right.
    Failed(String),
}

/// Sends a request to the daemon whose control socket is `socket`. Returns the JSON text of its answer.
///
/// # Errors
/// There is no daemon, or it does not do what was asked.
pub async fn ask(socket: &Path, ask: Ask) -> Result<Bytes, NoAnswer> {
    let (method, path) = match ask {
        Ask::Status => (Method::GET, "/status.json".into()),
        Ask::Curves(span) => (Method::GET, format!("/status.json?history={}", span.name())),
        Ask::Reload => return reload(socket).await,
        Ask::Undrain => (Method::POST, "/drain/undo".into()),
        Ask::Kill(flow) => (Method::POST, format!("/flows/{flow}/kill")),
    };
    let answered = timeout(ANSWER_LIMIT, exchange(socket, method, &path)).await;
    answered.unwrap_or_else(|_| Err(NoAnswer::Hangs(silent(socket, ANSWER_LIMIT))))
}

/// Asks for a reload. A file system may delay its answer, so a second request tells whether the daemon hangs.
async fn reload(socket: &Path) -> Result<Bytes, NoAnswer> {
    let hangs = |limit| {
        let why = format!("{}; the reload may still happen when it goes on", silent(socket, limit));
        Err(NoAnswer::Hangs(why))
    };
    let silence = async {
        match timeout(ANSWER_LIMIT, exchange(socket, Method::GET, "/healthz")).await {
            Err(_) => {}
            // Such as a full listen queue. The reload may have taken its last place.
            Ok(Err(NoAnswer::Hangs(_))) => sleep(ANSWER_LIMIT).await,
            Ok(_) => pending().await,
        }
    };
    // Dropping the reload's request leaves the reload as it is.
    tokio::select! {
        answered = timeout(RELOAD_LIMIT, exchange(socket, Method::POST, "/reload")) => {
            answered.unwrap_or_else(|_| hangs(RELOAD_LIMIT))
        }
        () = silence => hangs(ANSWER_LIMIT),
    }
}

fn silent(socket: &Path, limit: Duration) -> String {
    format!("the daemon at {} does not answer within {} s; it hangs or is stopped", socket.display(), limit.as_secs())
}

/// Drains the daemon whose control socket is `socket`, and waits until no flow is left. Calls `say` with each line of its
/// answer but the last one. The drain goes on when the wait is dropped.
///
/// # Errors
/// There is no daemon, or the drain has ended before the last flow.
pub async fn drain(socket: &Path, mut say: impl FnMut(&DrainProgress)) -> Result<(), NoAnswer> {
    let mut answer = send(socket, Method::POST, "/drain").await?;
    if answer.status != StatusCode::OK {
        return answer.whole().await.map(drop);
    }
    let mut text = Vec::new();
    while let Some(more) = answer.next().await? {
        text.extend_from_slice(&more);
        while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = text.drain(..=end).collect();
            let progress: DrainProgress =
                serde_json::from_slice(&line).map_err(|err| NoAnswer::Failed(format!("the daemon's answer: {err}")))?;
            match progress {
                DrainProgress { drained: true, .. } => return Ok(()),
                DrainProgress { error: Some(why), .. } => return Err(NoAnswer::Refused(why)),
                progress => say(&progress),
            }
        }
    }
    Err(NoAnswer::Failed("the daemon has ended before the last flow".into()))
}

/// Asks the daemon for the connections of a measurement through `tunnel`. Returns the connection on which it gives them.
///
/// # Errors
/// There is no daemon, or it begins no measurement.
pub async fn measure(socket: &Path, tunnel: &str) -> Result<StdUnixStream, NoAnswer> {
    let begun = async {
        let answer = send(socket, Method::POST, &format!("/measure?tunnel={tunnel}")).await?;
        match answer.status {
            StatusCode::SWITCHING_PROTOCOLS => Ok(answer.upgrade.await),
            StatusCode::NOT_FOUND => {
                let why = "the daemon is too old to measure through a tunnel; restart it with this version of longhaul";
                Err(NoAnswer::Failed(why.into()))
            }
            _ => Err(answer.whole().await.err().unwrap_or(NoAnswer::Failed("the daemon says something else".into()))),
        }
    };
    let answered = timeout(ANSWER_LIMIT, begun).await;
    let upgraded = answered.unwrap_or_else(|_| Err(NoAnswer::Hangs(silent(socket, ANSWER_LIMIT))))?;
    let upgraded = upgraded.map_err(|err| not_sent(socket, &err))?;
    let parts = upgraded.downcast::<TokioIo<UnixStream>>();
    let parts = parts.map_err(|_| NoAnswer::Failed("the connection is none of a control socket".into()))?;
    // The daemon says nothing before it is asked, so no byte was read.
    let stream = parts.io.into_inner().into_std();
    let stream = stream.and_then(|stream| stream.set_nonblocking(false).map(|()| stream));
    stream.map_err(|err| NoAnswer::Failed(format!("{}: {err}", socket.display())))
}

/// An answer whose head has come.
struct Incomplete {
    socket: PathBuf,
    status: StatusCode,
    body: Incoming,
    /// The connection, if the answer switches it to another protocol.
    upgrade: OnUpgrade,
    /// Dropping it could end the connection.
    _sender: http1::SendRequest<Content>,
}

async fn exchange(socket: &Path, method: Method, path: &str) -> Result<Bytes, NoAnswer> {
    send(socket, method, path).await?.whole().await
}

async fn send(socket: &Path, method: Method, path: &str) -> Result<Incomplete, NoAnswer> {
    let stream = UnixStream::connect(socket).await.map_err(|err| not_connected(socket, &err))?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|err| not_sent(socket, &err))?;
    // Its error is also that of the request.
    tokio::spawn(async move { drop(connection.with_upgrades().await) });
    // RFC 9112 3.2: every request has a Host.
    let is_upgrade = path.starts_with("/measure");
    let request = Request::builder().method(method).uri(path).header("host", "longhaul").body(Content::default());
    let mut request = request.map_err(|err| NoAnswer::Failed(err.to_string()))?;
    if is_upgrade {
        request.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
        request.headers_mut().insert(UPGRADE, HeaderValue::from_static(PROTOCOL));
    }
    let mut answer = sender.send_request(request).await.map_err(|err| not_sent(socket, &err))?;
    let upgrade = upgrade::on(&mut answer);
    let (head, body) = answer.into_parts();
    Ok(Incomplete { socket: socket.into(), status: head.status, body, upgrade, _sender: sender })
}

impl Incomplete {
    /// Returns the whole body of a successful answer.
    async fn whole(mut self) -> Result<Bytes, NoAnswer> {
        let mut bytes = Vec::new();
        while let Some(more) = self.next().await? {
            bytes.extend_from_slice(&more);
        }
        let why = || serde_json::from_slice(&bytes).map_or_else(|_| self.status.to_string(), |no: Failure| no.error);
        match self.status {
            StatusCode::OK => Ok(bytes.into()),
            StatusCode::CONFLICT | StatusCode::NOT_FOUND => Err(NoAnswer::Refused(why())),
            StatusCode::SERVICE_UNAVAILABLE => Err(NoAnswer::Hangs(why())),
            _ => Err(NoAnswer::Failed(why())),
        }
    }

    /// Waits for more of the body. Returns `None` at its end.
    async fn next(&mut self) -> Result<Option<Bytes>, NoAnswer> {
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut self.body).poll_frame(cx)).await {
            // A frame without data has trailers, which no answer here has.
            if let Ok(data) = frame.map_err(|err| not_sent(&self.socket, &err))?.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }
}

fn not_sent(socket: &Path, err: &hyper::Error) -> NoAnswer {
    NoAnswer::Failed(format!("{}: {err}", socket.display()))
}

fn not_connected(socket: &Path, err: &io::Error) -> NoAnswer {
    match err.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => NoAnswer::NoDaemon(socket.into()),
        // connect(2): EAGAIN. A daemon that hangs leaves the connections of earlier commands in its listen queue.
        io::ErrorKind::WouldBlock => NoAnswer::Hangs(format!("{}: its listen queue is full", socket.display())),
        io::ErrorKind::PermissionDenied => {
            NoAnswer::Failed(format!("{}: {err}; only root and the user of the daemon may connect", socket.display()))
        }
        _ => NoAnswer::Failed(format!("{}: {err}", socket.display())),
    }
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoAnswer::NoDaemon(socket) => write!(f, "no daemon at {}", socket.display()),
            NoAnswer::Refused(why) | NoAnswer::Hangs(why) | NoAnswer::Failed(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for NoAnswer {}

/// Time for every answer but that of a reload. The daemon needs milliseconds.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// Time for a reload. The file system of the file may be slow.
const RELOAD_LIMIT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixListener;
    use tokio::time;

    /// Monitoring asks a daemon that hangs again and again, until its listen queue is full. It hangs then, too.
    #[tokio::test]
    async fn a_full_listen_queue_is_a_daemon_that_hangs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin.sock");
        let _socket = longhaul_sys::unix::listen(&path).unwrap();
        let mut waiting = Vec::new();
        while let Ok(stream) = UnixStream::connect(&path).await {
            waiting.push(stream);
            assert!(waiting.len() < 1000, "the queue has no end");
        }
        let asked = ask(&path, Ask::Status).await;
        assert!(matches!(&asked, Err(NoAnswer::Hangs(why)) if why.contains("listen queue is full")), "{asked:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_reload_by_a_daemon_that_hangs_says_that_it_may_still_happen() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin.sock");
        let _socket = longhaul_sys::unix::listen(&path).unwrap();
        let why = ask(&path, Ask::Reload).await.unwrap_err().to_string();
        let want = "does not answer within 10 s; it hangs or is stopped; the reload may still happen when it goes on";
        assert!(why.ends_with(want), "{why}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_reload_that_takes_the_last_place_of_the_listen_queue_does_not_wait_for_long() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin.sock");
        let listener = std::os::unix::net::UnixListener::from(longhaul_sys::unix::listen(&path).unwrap());
        let mut waiting = Vec::new();
        while let Ok(stream) = UnixStream::connect(&path).await {
            waiting.push(stream);
        }
        let _first = listener.accept().unwrap();
        let began = time::Instant::now();
        let asked = ask(&path, Ask::Reload).await;
        assert!(matches!(asked, Err(NoAnswer::Hangs(_))), "{asked:?}");
        assert!(began.elapsed() < RELOAD_LIMIT / 2, "{:?}", began.elapsed());
    }

    /// The daemon reads the file on a thread of its own, and answers other requests meanwhile.
    #[tokio::test]
    async fn a_reload_waits_for_a_slow_file_system() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("admin.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let daemon = async move {
            let (mut health, mut reload) = (None, None);
            while health.is_none() || reload.is_none() {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = [0; 1024];
                let got = stream.read(&mut head).await.unwrap();
                let of_reload = head[..got].starts_with(b"POST /reload ");
                *(if of_reload { &mut reload } else { &mut health }) = Some(stream);
            }
            let (mut health, mut reload) = (health.unwrap(), reload.unwrap());
            health.write_all(ANSWER).await.unwrap();
            // The client has its answer when it ends the connection.
            assert_eq!(health.read(&mut [0]).await.unwrap(), 0);
            time::pause();
            time::advance(RELOAD_LIMIT / 2).await;
            time::resume();
            reload.write_all(ANSWER).await.unwrap();
            reload
        };
        let (answered, _reload) = tokio::join!(ask(&path, Ask::Reload), daemon);
        assert_eq!(&answered.unwrap()[..], b"{}");
    }

    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
}
