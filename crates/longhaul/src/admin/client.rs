//! The client of the control socket.

use super::answer::{Content, Failure};
use hyper::body::{Body, Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::time::timeout;

/// A request for [`ask`].
#[derive(Clone, Copy, Debug)]
pub enum Ask {
    /// The state of the process: the text of a [`Snapshot`](super::snapshot::Snapshot).
    Status,
    /// Reads the configuration file again. The answer comes when it is applied or refused.
    Reload,
}

/// Why there is no answer, or not the one that was asked for.
#[derive(Debug)]
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
    let (method, path, limit) = match ask {
        Ask::Status => (Method::GET, "/status.json", STATUS_LIMIT),
        Ask::Reload => (Method::POST, "/reload", RELOAD_LIMIT),
    };
    let answered = timeout(limit, exchange(socket, method, path)).await;
    answered.unwrap_or_else(|_| Err(NoAnswer::Hangs(format!("no answer within {} s", limit.as_secs()))))
}

async fn exchange(socket: &Path, method: Method, path: &str) -> Result<Bytes, NoAnswer> {
    let stream = UnixStream::connect(socket).await.map_err(|err| not_connected(socket, &err))?;
    let failed = |err: hyper::Error| NoAnswer::Failed(format!("{}: {err}", socket.display()));
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    // Its error is also that of the request.
    tokio::spawn(async move { drop(connection.await) });
    // RFC 9112 3.2: every request has a Host.
    let request = Request::builder().method(method).uri(path).header("host", "longhaul").body(Content::empty());
    let request = request.map_err(|err| NoAnswer::Failed(err.to_string()))?;
    let (head, body) = sender.send_request(request).await.map_err(failed)?.into_parts();
    let bytes = whole(body).await.map_err(failed)?;
    let why = || serde_json::from_slice(&bytes).map_or_else(|_| head.status.to_string(), |no: Failure| no.error);
    match head.status {
        StatusCode::OK => Ok(bytes),
        StatusCode::CONFLICT | StatusCode::NOT_FOUND => Err(NoAnswer::Refused(why())),
        StatusCode::SERVICE_UNAVAILABLE => Err(NoAnswer::Hangs(why())),
        _ => Err(NoAnswer::Failed(why())),
    }
}

fn not_connected(socket: &Path, err: &io::Error) -> NoAnswer {
    match err.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => NoAnswer::NoDaemon(socket.into()),
        io::ErrorKind::PermissionDenied => {
            NoAnswer::Failed(format!("{}: {err}; only root and the user of the daemon may connect", socket.display()))
        }
        _ => NoAnswer::Failed(format!("{}: {err}", socket.display())),
    }
}

async fn whole(mut body: Incoming) -> Result<Bytes, hyper::Error> {
    let mut bytes = Vec::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        if let Ok(data) = frame?.into_data() {
            bytes.extend_from_slice(&data);
        }
    }
    Ok(bytes.into())
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

/// Time for the state. The daemon needs milliseconds.
const STATUS_LIMIT: Duration = Duration::from_secs(10);
/// Time for a reload. The file system of the file may be slow.
const RELOAD_LIMIT: Duration = Duration::from_secs(60);
