//! The routes: one row each, with its path, its effect and its function. docs/admin.md describes them.
//! A row that only reads is served by both listeners. A row that changes something is served by the control socket alone.

use super::answer::{self, Answer, Busy, DrainProgress, busy, error, json, text, wrong_method};
use super::collect;
use super::health::Judged;
use super::host;
use super::measure;
use super::metrics::{self, Format};
use super::page;
use super::source::Source;
use crate::control::{Command, DrainUndone, NotReloaded, Phase};
use hyper::body::Bytes;
use hyper::header::ACCEPT;
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use longhaul_core::curve::Span;
use longhaul_relay::lock;
use serde_json::json;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::interval;

/// The listener that a request came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listener {
    /// The control socket.
    Control,
    /// The HTTP listener.
    Http,
}

/// A route.
#[derive(Clone, Copy)]
struct Route {
    effect: Effect,
    /// `*` stands for a number.
    path: &'static str,
    run: Run,
}

/// Effect of a request. It decides on the method, and on the listeners that have the route.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// It reads, by GET.
    Reads,
    /// It changes something, by POST. Only the control socket has it.
    Changes,
}

/// The parts of a request that its route uses.
#[derive(Clone, Copy)]
struct Asked {
    /// The number in the path, or 0 without one.
    number: u64,
    /// The format of `/metrics` that the client accepts.
    format: Format,
    /// The span of the curves in `/status.json`, if the client wants them.
    span: Result<Option<Span>, UnknownSpan>,
    /// Age up to which a document that was written for another client is good enough.
    max_age: Duration,
}

/// A value of `history` in a request that names no span.
#[derive(Clone, Copy)]
struct UnknownSpan;

/// How a route answers.
#[derive(Clone, Copy)]
enum Run {
    /// By a function.
    Call(Call),
    /// With a file of the dashboard.
    File(&'static page::File),
    /// By another protocol on its connection.
    Measure,
}

/// A route's function. It returns `None` if the daemon does not answer.
type Call = fn(Arc<Source>, Asked) -> Pin<Box<dyn Future<Output = Option<Answer>> + Send>>;

/// The routes without those of the dashboard's files, which [`page::FILES`] lists.
const ROUTES: &[Route] = &[
    reads("/status.json", |source, asked| Box::pin(async move { status(source, asked).await })),
    reads("/metrics", |source, asked| Box::pin(async move { metrics(source, asked).await })),
    reads("/healthz", |source, _| Box::pin(async move { Some(healthz(&source).await) })),
    reads("/readyz", |source, _| Box::pin(async move { Some(readyz(&source).await) })),
    changes("/reload", |source, _| Box::pin(async move { reload(&source).await })),
    changes("/drain", |source, _| Box::pin(async move { Some(drain(source)) })),
    changes("/drain/undo", |source, _| Box::pin(async move { undrain(&source).await })),
    changes("/flows/*/kill", |source, asked| Box::pin(async move { kill(&source, asked.number).await })),
    Route { effect: Effect::Changes, path: "/measure", run: Run::Measure },
];

const fn reads(path: &'static str, call: Call) -> Route {
    Route { effect: Effect::Reads, path, run: Run::Call(call) }
}

const fn changes(path: &'static str, call: Call) -> Route {
    Route { effect: Effect::Changes, path, run: Run::Call(call) }
}

/// Returns every route.
fn routes() -> impl Iterator<Item = Route> {
    let file = |file: &'static page::File| Route { effect: Effect::Reads, path: file.path, run: Run::File(file) };
    ROUTES.iter().copied().chain(page::FILES.iter().map(file))
}

/// Answers the request with this head, which came to `listener`. `mark` stays until the answer is sent.
pub(super) async fn answer(source: Arc<Source>, listener: Listener, mut head: Parts, mark: Busy) -> Answer {
    lock(&source.counters).requests += 1;
    let accept = head.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let format = Format::accepted(accept);
    if let Some((code, why)) = refusal(&source, listener, &head) {
        return busy(error(code, &why), mark);
    }
    let answer = match find(listener, &head.method, head.uri.path()) {
        Ok((Run::Call(call), number)) => {
            // The control socket's clients are few, and want what is now.
            let max_age = if listener == Listener::Http { SHARED_FOR } else { Duration::ZERO };
            let span = span(head.uri.query().unwrap_or_default());
            let answer = call(source, Asked { number, format, span, max_age }).await;
            answer.unwrap_or_else(|| error(StatusCode::SERVICE_UNAVAILABLE, NO_ANSWER))
        }
        Ok((Run::File(file), _)) => file.answer(),
        Ok((Run::Measure, _)) => {
            let answer = measure::begin(&source, &mut head).await;
            answer.unwrap_or_else(|| error(StatusCode::SERVICE_UNAVAILABLE, NO_ANSWER))
        }
        Err(refused) => *refused,
    };
    busy(answer, mark)
}

/// Returns why a request of the HTTP listener is refused for the name by which it came. Load balancers and monitors may ask for the
/// health by any name, because it says little.
fn refusal(source: &Source, listener: Listener, head: &Parts) -> Option<(StatusCode, String)> {
    let is_asked = listener == Listener::Http && !matches!(head.uri.path(), "/healthz" | "/readyz");
    // Not under the lock, which a reload takes: there may be many names.
    let hosts = lock(&source.hosts).clone();
    if is_asked { host::refusal(head, &hosts) } else { None }
}

/// Returns the span that `query` asks for: `history=10m`. Other parameters are ignored, as paths without curves ignore this one.
fn span(query: &str) -> Result<Option<Span>, UnknownSpan> {
    let asked = query.split('&').find_map(|parameter| parameter.strip_prefix("history="));
    asked.map(|name| Span::named(name).ok_or(UnknownSpan)).transpose()
}

/// Returns how the route of a request answers, and the number in its path.
fn find(listener: Listener, method: &Method, path: &str) -> Result<(Run, u64), Box<Answer>> {
    // RFC 9110 9.3.2: HEAD is GET without the content, which hyper leaves out.
    let method = if method == Method::HEAD { &Method::GET } else { method };
    let mut known = routes().filter_map(|route| Some((route, number_in(route.path, path)?)));
    let Some((route, number)) = known.next() else {
        return Err(Box::new(error(StatusCode::NOT_FOUND, "there is no such path")));
    };
    let (wanted, allowed) = match route.effect {
        Effect::Reads => (Method::GET, "GET, HEAD"),
        Effect::Changes if listener == Listener::Http => {
            return Err(Box::new(error(StatusCode::FORBIDDEN, "only the control socket has this path")));
        }
        Effect::Changes => (Method::POST, "POST"),
    };
    if *method == wanted { Ok((route.run, number)) } else { Err(Box::new(wrong_method(allowed))) }
}

/// Compares `path` with the path of a route. Returns the number that `*` stands for, 0 without one, or `None` if the paths
/// differ.
fn number_in(pattern: &str, path: &str) -> Option<u64> {
    let mut number = 0;
    let (mut wanted, mut given) = (pattern.split('/'), path.split('/'));
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return Some(number),
            (Some("*"), Some(part)) if part.bytes().all(|byte| byte.is_ascii_digit()) => number = part.parse().ok()?,
            (Some(wanted), Some(given)) if wanted == given && wanted != "*" => {}
            _ => return None,
        }
    }
}

async fn status(source: Arc<Source>, asked: Asked) -> Option<Answer> {
    let Ok(span) = asked.span else { return Some(error(StatusCode::BAD_REQUEST, SPANS)) };
    let of = source.clone();
    let prepare = async move {
        let status = of.daemon().await?;
        Some(move || {
            let tunnels = collect::tunnels(&of, &status);
            Ok(answer::line(&collect::snapshot(&of, status, &tunnels, span)))
        })
    };
    source.status[span.map_or(0, |span| span as usize + 1)].get("application/json", asked.max_age, prepare).await
}

async fn metrics(source: Arc<Source>, Asked { format, max_age, .. }: Asked) -> Option<Answer> {
    let of = source.clone();
    let prepare = async move {
        let status = of.daemon().await?;
        Some(move || {
            let written = metrics::write(metrics::gather(&of, status), format);
            written.map(Into::into).map_err(|err| err.to_string())
        })
    };
    source.metrics[format as usize].get(format.content_type(), max_age, prepare).await
}

async fn healthz(source: &Source) -> Answer {
    match source.daemon().await {
        Some(_) => text(StatusCode::OK, "ok"),
        None => text(StatusCode::SERVICE_UNAVAILABLE, NO_ANSWER),
    }
}

async fn readyz(source: &Source) -> Answer {
    let Some(status) = source.daemon().await else { return text(StatusCode::SERVICE_UNAVAILABLE, NO_ANSWER) };
    let Judged { health, problems } = collect::judged(source, &status);
    let first = match status.phase {
        Phase::Serving => (!health.is_broken()).then_some("ready"),
        phase => Some(phase.text()),
    };
    let code = if health.is_broken() { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    let lines = first.map(String::from).into_iter().chain(problems.iter().map(ToString::to_string));
    text(code, &lines.collect::<Vec<_>>().join("\n"))
}

async fn reload(source: &Source) -> Option<Answer> {
    let why = match source.control.ask(Command::Reload).await? {
        Ok(tunnels) => return Some(json(StatusCode::OK, &json!({ "tunnels": tunnels }))),
        Err(NotReloaded::NoFile) => "the tunnel was given on the command line".into(),
        Err(NotReloaded::Draining) => "the daemon drains; first: longhaul drain --undo".into(),
        Err(NotReloaded::Stopping) => "the daemon stops, so it does not reload".into(),
        Err(NotReloaded::Refused(why)) => why,
    };
    Some(error(StatusCode::CONFLICT, &why))
}

/// Begins a drain, and answers with a line of JSON each second until it has ended.
fn drain(source: Arc<Source>) -> Answer {
    let (lines, body) = mpsc::channel(1);
    tokio::spawn(follow_drain(source, lines));
    answer::lines(body)
}

/// Sends a [`DrainProgress`] now, each second and at the end of the drain. A client that goes away leaves the drain as it is.
async fn follow_drain(source: Arc<Source>, lines: mpsc::Sender<Bytes>) {
    let mut drained = pin!(source.control.ask(Command::Drain));
    let mut tick = interval(PROGRESS_INTERVAL);
    let now = |drained, error: Option<&str>| DrainProgress {
        drained,
        flows: source.relay.counters.flows_now.load(Relaxed),
        error: error.map(Into::into),
    };
    loop {
        // `drained` first, because its first poll sends the command. It is kept, and the tick may be dropped.
        let progress = tokio::select! {
            biased;
            outcome = &mut drained => match outcome {
                Some(Ok(())) => now(true, None),
                Some(Err(DrainUndone)) => now(false, Some("the drain was undone")),
                None => now(false, Some(NO_ANSWER)),
            },
            _ = tick.tick() => now(false, None),
        };
        let is_last = progress.drained || progress.error.is_some();
        if lines.send(answer::line(&progress)).await.is_err() || is_last {
            return;
        }
    }
}

async fn undrain(source: &Source) -> Option<Answer> {
    Some(match source.control.ask(Command::Undrain).await? {
        Ok(()) => json(StatusCode::OK, &json!({ "listening": true })),
        Err(why) => error(StatusCode::CONFLICT, &why),
    })
}

async fn kill(source: &Source, number: u64) -> Option<Answer> {
    Some(match source.control.ask(|reply| Command::Kill(number, reply)).await? {
        true => json(StatusCode::OK, &json!({ "flow": number })),
        false => error(StatusCode::NOT_FOUND, "there is no such flow"),
    })
}

/// Time for which HTTP clients share a document.
const SHARED_FOR: Duration = Duration::from_secs(1);
/// Interval of the lines of a drain.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);
const SPANS: &str = "there is no such history: write history=10m, history=1h or history=24h";
const NO_ANSWER: &str = "the daemon does not answer";

#[cfg(test)]
mod tests {
    use super::*;

    fn status_of(listener: Listener, method: Method, path: &str) -> u16 {
        find(listener, &method, path).map_or_else(|answer| answer.status().as_u16(), |_| 200)
    }

    #[test]
    fn the_manual_has_each_path_and_no_released_one_is_gone() {
        const MANUAL: &str = include_str!("../../../../docs/admin.md");
        // The page and its parts are of one version.
        let routes = routes().filter(|route| !route.path.starts_with("/page/"));
        let written = routes.map(|route| {
            let method = if route.effect == Effect::Reads { "GET" } else { "POST" };
            format!("{method} {}", route.path.replace('*', "NUMBER"))
        });
        let paths: Vec<String> = written.collect();
        paths
            .iter()
            .for_each(|path| assert!(MANUAL.contains(&format!("\n| `{path}` |")), "docs/admin.md lacks {path}"));
        crate::interface::check("paths", paths);
    }

    #[test]
    fn the_http_listener_only_reads() {
        for route in routes() {
            let path = route.path.replace('*', "7");
            let (method, by_http) = match route.effect {
                Effect::Reads => (Method::GET, 200),
                Effect::Changes => (Method::POST, 403),
            };
            assert_eq!(status_of(Listener::Control, method.clone(), &path), 200, "{path}");
            assert_eq!(status_of(Listener::Http, method, &path), by_http, "{path}");
            assert_eq!(status_of(Listener::Control, Method::DELETE, &path), 405, "{path}");
        }
        assert_eq!(status_of(Listener::Http, Method::HEAD, "/healthz"), 200);
        assert_eq!(status_of(Listener::Http, Method::POST, "/status.json"), 405);
    }

    #[test]
    fn a_path_has_a_number_or_is_unknown() {
        assert_eq!(number_in("/flows/*/kill", "/flows/12/kill"), Some(12));
        for path in
            ["/flows//kill", "/flows/+1/kill", "/flows/1", "/flows/99999999999999999999/kill", "/flows/*/kill", ""]
        {
            assert_eq!(number_in("/flows/*/kill", path), None, "{path}");
            assert_eq!(status_of(Listener::Control, Method::POST, path), 404, "{path}");
        }
    }
}
