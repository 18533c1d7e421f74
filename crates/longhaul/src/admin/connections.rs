//! The connections of a listener: at most some dozens, each with a time limit for its requests. A new connection always
//! gets in. If there are too many, one without a request is closed for it: the oldest one of the client with the most of them. If more
//! than half have a request, those are closed as well. So clients that say nothing, or do not read their answers, keep nobody out, and
//! a flood from elsewhere takes no place of this host's own health checks.

use super::answer::Busy;
use super::api::{self, Listener};
use super::source::Source;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use longhaul_core::sources;
use longhaul_relay::lock;
use longhaul_sys::process::effective_user;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::{AbortHandle, yield_now};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tracing::warn;

/// Returns the number of descriptors that the admin part may open: two listeners and their connections. `nofile` is the
/// limit of the process (RLIMIT_NOFILE).
pub(crate) fn descriptors(nofile: u64) -> usize {
    LISTENERS * (1 + max_connections(nofile))
}

/// Returns the maximum number of connections of one listener.
pub(super) fn max_connections(nofile: u64) -> usize {
    usize::try_from(nofile / NOFILE_PER_CONNECTION).unwrap_or(usize::MAX).clamp(2, MAX_CONNECTIONS)
}

/// The connections of one listener, and of those that it has replaced.
#[derive(Debug)]
pub(super) struct Connections {
    source: Arc<Source>,
    listener: Listener,
    max: usize,
    /// The oldest first.
    open: Mutex<VecDeque<Connection>>,
}

#[derive(Debug)]
struct Connection {
    /// Its client; none on the control socket.
    from: Option<Client>,
    task: AbortHandle,
    /// Whether a request is being answered.
    busy: Arc<AtomicBool>,
}

/// A client of the HTTP listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Client {
    /// Its host, as far as the address tells.
    source: sources::Source,
    /// Whether it connects from loopback.
    is_loopback: bool,
}

impl From<IpAddr> for Client {
    fn from(ip: IpAddr) -> Client {
        Client { source: ip.into(), is_loopback: ip.to_canonical().is_loopback() }
    }
}

/// A connection as it comes from accept(2).
trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for S {}

impl Connections {
    /// Returns the connections that come through `listener`, at most `max`.
    pub(super) fn new(source: Arc<Source>, listener: Listener, max: usize) -> Arc<Connections> {
        Arc::new(Connections { source, listener, max, open: Mutex::default() })
    }

    /// Accepts the connections of the control socket. Closes those of other users than root and this process's. Never
    /// ends, except on an error of the runtime.
    pub(super) async fn accept_local(self: Arc<Self>, listener: std::os::unix::net::UnixListener) {
        let listener = match UnixListener::from_std(listener) {
            Ok(listener) => listener,
            Err(err) => return warn!(%err, "admin: cannot watch a listener; it does not answer"),
        };
        let user = effective_user();
        loop {
            let Some((stream, _)) = accepted(listener.accept().await).await else { continue };
            // unix(7) SO_PEERCRED: the user who called connect(2).
            match stream.peer_cred().map(|peer| peer.uid()) {
                Ok(uid) if uid == ROOT || uid == user => self.add(stream, None),
                Ok(uid) => self.refuse(uid),
                Err(err) => warn!(%err, "control socket: the user of a client is unknown; closed"),
            }
        }
    }

    /// Accepts the connections of the HTTP listener. Never ends.
    pub(super) async fn accept_http(self: Arc<Self>, listener: TcpListener) {
        for turn in (1..=ACCEPTS_PER_TURN).cycle() {
            let Some((stream, from)) = accepted(listener.accept().await).await else { continue };
            // It fails only on a connection that is gone already.
            let _ = stream.set_nodelay(true);
            self.add(stream, Some(from.ip().into()));
            // So that a request that is here already is read before later connections may close its own. Not after each one: beside
            // readers of long documents a turn is long, and a flood would fill the queue of the listener.
            if turn == ACCEPTS_PER_TURN {
                yield_now().await;
            }
        }
    }

    /// Closes the connections that are open now. A request that is being answered has `limit` for it.
    pub(super) async fn close(self: Arc<Self>, limit: Duration) {
        let old = std::mem::take(&mut *self.open());
        let end = Instant::now() + limit;
        let is_busy = |connection: &Connection| connection.busy.load(Relaxed) && !connection.task.is_finished();
        while Instant::now() < end && old.iter().any(is_busy) {
            sleep(FINISH_POLL).await;
        }
        old.iter().for_each(|connection| connection.task.abort());
    }

    fn refuse(&self, uid: u32) {
        // One line is enough: the counter has the number.
        let mut counters = lock(&self.source.counters);
        counters.refused += 1;
        if counters.refused == 1 {
            warn!(uid, "control socket: refused, because only root and the daemon's own user may connect");
        }
    }

    /// Serves `stream` on a task of its own.
    fn add(&self, stream: impl Stream, from: Option<Client>) {
        let busy = Arc::new(AtomicBool::new(false));
        let task = tokio::spawn(carry(stream, self.source.clone(), self.listener, busy.clone())).abort_handle();
        let mut open = self.open();
        open.retain(|connection| !connection.task.is_finished());
        if open.len() >= self.max {
            let index = to_displace(open.make_contiguous(), from);
            if let Some(displaced) = open.remove(index) {
                displaced.task.abort();
                lock(&self.source.counters).displaced += 1;
            }
        }
        open.push_back(Connection { from, task, busy });
    }

    fn open(&self) -> MutexGuard<'_, VecDeque<Connection>> {
        lock(&self.open)
    }
}

/// Returns the index of the connection that a new one `from` there displaces. `open` has the oldest first, and is not empty.
fn to_displace(open: &[Connection], from: Option<Client>) -> usize {
    let is_loopback = |from: Option<Client>| from.is_some_and(|client| client.is_loopback);
    let of = |from: Option<Client>| open.iter().filter(|connection| connection.from == from).count();
    // No other host displaces one of this host's, while these are at most their share.
    let of_loopback = open.iter().filter(|connection| is_loopback(connection.from)).count();
    let is_spared =
        |connection: &Connection| is_loopback(connection.from) && !is_loopback(from) && of_loopback <= LOOPBACK_SHARE;
    // A client that does not read its answers always has a request. If requests kept most places, new connections would displace
    // each other, and health checks with them.
    let is_busy = |connection: &&Connection| connection.busy.load(Relaxed);
    // Only trusted users come through the control socket, and a command may take long.
    let may_stay = from.is_none() || open.iter().filter(is_busy).count() <= open.len() / 2;
    let rank =
        |connection: &Connection| (!is_spared(connection), !(may_stay && is_busy(&connection)), of(connection.from));
    // The first of the best, which is the oldest.
    let best = open.iter().map(rank).max();
    open.iter().position(|connection| Some(rank(connection)) == best).unwrap_or(0)
}

/// Answers the requests of one connection.
async fn carry(stream: impl Stream, source: Arc<Source>, listener: Listener, busy: Arc<AtomicBool>) {
    let was_asked = AtomicBool::new(false);
    let service = service_fn(|request: Request<Incoming>| {
        was_asked.store(true, Relaxed);
        let (source, busy) = (source.clone(), Busy::new(busy.clone()));
        // No request has a body that is read. hyper closes a connection that sends one.
        let head = request.into_parts().0;
        async move { Ok::<_, Infallible>(api::answer(source, listener, head, busy).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // A client may send FIN behind its request, as `printf .. | socat` does.
        .half_close(true)
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    let ended = match listener {
        // Only trusted users come through it, and a command may take long.
        Listener::Control => connection.with_upgrades().await,
        Listener::Http => {
            let mut connection = pin!(connection);
            match timeout(LIFETIME, connection.as_mut()).await {
                Ok(ended) => ended,
                Err(_) => {
                    connection.as_mut().graceful_shutdown();
                    let end = Instant::now() + HEAD_TIMEOUT;
                    timeout_at(end, connection).await.unwrap_or(Ok(()))
                }
            }
        }
    };
    // A browser keeps a connection for a next request that may never come.
    let is_silent = |err: &hyper::Error| err.is_timeout() && !was_asked.load(Relaxed);
    if ended.is_err_and(|err| err.is_parse() || is_silent(&err) || err.is_incomplete_message()) {
        lock(&source.counters).malformed += 1;
    }
}

/// Returns what accept(2) has returned. After an error, waits before the next try.
async fn accepted<T>(accepted: io::Result<T>) -> Option<T> {
    if accepted.is_err() {
        // EMFILE, ENFILE, ENOMEM: the listener would be ready at once again.
        sleep(ACCEPT_PAUSE).await;
    }
    accepted.ok()
}

/// Time in which a client must send the head of a request, from its connection or from the last answer.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Time after which an HTTP connection gets no further request answered.
const LIFETIME: Duration = Duration::from_secs(60);
/// Maximum size of a request's head in bytes.
const MAX_HEAD: usize = 16 * 1024;
/// Maximum number of connections of a listener.
const MAX_CONNECTIONS: usize = 32;
/// Number of connections that are accepted before those that are open have a turn: half of the places.
const ACCEPTS_PER_TURN: usize = MAX_CONNECTIONS / 2;
/// Number of connections from this host that no other host displaces.
const LOOPBACK_SHARE: usize = 8;
/// A process with few descriptors keeps them for flows: one connection for each 64.
const NOFILE_PER_CONNECTION: u64 = 64;
/// The control socket and the HTTP listener.
const LISTENERS: usize = 2;
/// Pause after accept(2) has failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Interval at which the end of the process looks for requests that are being answered.
const FINISH_POLL: Duration = Duration::from_millis(10);
/// User id of root.
const ROOT: u32 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_flood_takes_the_places_of_its_own_source() {
        let ip = |last| Some(IpAddr::from([192, 0, 2, last]).into());
        let of_a_64 = |last| Some(IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, last]).into());
        let loopback = Some(IpAddr::from([127, 0, 0, 1]).into());
        let connection = |from, is_busy| Connection {
            from,
            task: tokio::spawn(async {}).abort_handle(),
            busy: Arc::new(AtomicBool::new(is_busy)),
        };
        let open =
            |of: &[(Option<Client>, bool)]| of.iter().map(|(from, busy)| connection(*from, *busy)).collect::<Vec<_>>();
        let displaced = |of: &[(Option<Client>, bool)], from| to_displace(&open(of), from);
        assert_eq!(displaced(&[(ip(1), false), (ip(2), false), (ip(2), false)], ip(3)), 1, "of the most, the oldest");
        let prefix = [(ip(1), false), (of_a_64(1), false), (of_a_64(2), false)];
        assert_eq!(displaced(&prefix, ip(3)), 1, "a host may have many addresses of IPv6");
        assert_eq!(displaced(&[(ip(2), true), (ip(1), false), (ip(2), false)], ip(2)), 2, "one without a request");
        assert_eq!(displaced(&[(ip(1), true), (ip(2), false)], ip(1)), 1, "half may have one");
        assert_eq!(displaced(&[(ip(2), true), (ip(1), false), (ip(2), true)], ip(2)), 0, "but not more");
        assert_eq!(displaced(&[(ip(1), true), (ip(2), true), (ip(2), true)], ip(3)), 1, "all have one");
        assert_eq!(displaced(&[(loopback, false), (loopback, false), (ip(1), true)], ip(1)), 2, "this host's stay");
        assert_eq!(displaced(&[(ip(1), true), (loopback, false)], loopback), 1, "unless it asks itself");
        let mut many = vec![(loopback, false); LOOPBACK_SHARE + 1];
        many.push((ip(1), false));
        assert_eq!(displaced(&many, ip(1)), 0, "more than its share");
        assert_eq!(displaced(&[(None, true), (None, false)], None), 1, "the control socket");
        // Some hosts hold answers that they do not read, and one floods. A health check has connected and not asked yet.
        let check = Some(IpAddr::from([198, 51, 100, 1]).into());
        for holders in [1, 4, 31] {
            let holds = (0..MAX_CONNECTIONS - 1).map(|n| connection(ip((n % holders) as u8), true));
            let mut open: Vec<Connection> = holds.chain([connection(check, false)]).collect();
            for _ in 0..1000 {
                open.remove(to_displace(&open, ip(0)));
                open.push(connection(ip(0), false));
                assert!(open.iter().any(|connection| connection.from == check), "{holders}");
            }
        }
    }

    #[test]
    fn a_process_with_few_descriptors_has_few_admin_connections() {
        assert_eq!([20, 80, 1024, 262_144, u64::MAX].map(max_connections), [2, 2, 16, 32, 32]);
        assert_eq!(descriptors(80), 6);
    }
}
