//! The thread of the admin part, and the two listeners that it serves. Both may change at a reload.

use super::api::Listener;
use super::connections::{Connections, max_connections};
use super::host;
use super::look;
use super::metrics;
use super::socket::SocketFile;
use super::source::Source;
use longhaul_config::{Admin as Wanted, Tunnel};
use longhaul_core::reload::covers_same;
use longhaul_relay::lock;
use longhaul_sys::errno_text;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tracing::{info, warn};

/// The thread of the admin part, with its runtime. Dropping it ends the thread and every connection.
#[derive(Debug)]
pub(crate) struct Thread {
    runtime: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Thread {
    /// Starts the thread. It opens its descriptors now, and none later but listeners and connections.
    ///
    /// # Errors
    /// There is no thread, or no descriptor for its epoll(7).
    pub(crate) fn start() -> io::Result<Thread> {
        // One thread more, which writes the long documents. prctl(2) PR_SET_NAME: a name has at most 15 bytes.
        let mut builder = Builder::new_current_thread();
        builder.enable_io().enable_time().max_blocking_threads(1).thread_name("longhaul-docs");
        let runtime = builder.build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let run = move || {
            // The sender is only dropped.
            let _ = runtime.block_on(stopped);
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name("longhaul-admin".into()).spawn(run)?;
        Ok(Thread { runtime: handle, stop: Some(stop), thread: Some(thread) })
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> Task {
        Task(self.runtime.spawn(task).abort_handle())
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed already.
            let _ = thread.join();
        }
    }
}

/// The control socket and the HTTP listener of the process. Dropping it closes both, and removes the socket's file.
pub(crate) struct Admin {
    /// The file of the control socket, and the task that accepts there.
    control: Option<(SocketFile, Task)>,
    /// The HTTP listener.
    http: Option<Http>,
    /// Path of the control socket if the configuration names none.
    default_path: PathBuf,
    by_control: Arc<Connections>,
    by_http: Arc<Connections>,
    source: Arc<Source>,
    /// Takes samples of the resources, from the first configuration on.
    watch: Option<Task>,
    /// Observe live flows for the metrics, and the tunnels for their curves.
    _samplers: [Task; 3],
    /// The last field, because the thread ends after what it serves.
    thread: Thread,
}

/// An HTTP listener, and the task that accepts there.
struct Http {
    address: SocketAddr,
    _task: Task,
}

/// A task of the thread. Dropping it ends the task.
#[must_use]
struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A change of the listeners that is prepared: what is new listens already. Dropping it closes that again.
pub(crate) struct ListenerChanges {
    control: ListenerChange<(UnixListener, SocketFile)>,
    http: ListenerChange<(TcpListener, SocketAddr)>,
    hosts: Vec<String>,
}

enum ListenerChange<L> {
    /// The listener stays.
    Keep,
    /// This one replaces it.
    New(L),
    /// The configuration has none.
    Unset,
}

impl Admin {
    /// Returns an admin part without listeners. `nofile` is the limit of descriptors (RLIMIT_NOFILE).
    pub(crate) fn new(thread: Thread, source: Arc<Source>, default_path: PathBuf, nofile: u64) -> Admin {
        let max = max_connections(nofile);
        let samplers = [
            thread.spawn(metrics::sample_for_ever(source.relay.clone())),
            thread.spawn(metrics::diagnose_for_ever(source.relay.clone())),
            thread.spawn(look::for_ever(source.clone())),
        ];
        let by_control = Connections::new(source.clone(), Listener::Control, max);
        let by_http = Connections::new(source.clone(), Listener::Http, max);
        let (control, http, watch) = (None, None, None);
        Admin { control, http, default_path, by_control, by_http, source, watch, _samplers: samplers, thread }
    }

    /// Opens the listeners of `wanted` that are not open yet.
    ///
    /// # Errors
    /// One of them cannot be opened. Then nothing has changed.
    pub(crate) fn plan(&self, wanted: &Wanted) -> Result<ListenerChanges, String> {
        let control = match &wanted.socket {
            None => ListenerChange::Unset,
            Some(path) if self.control.as_ref().is_some_and(|(file, _)| file.is_at(path)) => ListenerChange::Keep,
            Some(path) => ListenerChange::New(
                SocketFile::listen(path).map_err(|why| format!("control socket: cannot listen: {why}"))?,
            ),
        };
        let http = match wanted.listen {
            None => ListenerChange::Unset,
            Some(address) if self.http.as_ref().is_some_and(|http| http.address == address) => ListenerChange::Keep,
            Some(address) => {
                // tokio registers the listener with this runtime.
                let _context = self.thread.runtime.enter();
                let ours = self.http.as_ref().map(|http| http.address);
                let tunnels = || self.source.relay.tunnels.views().into_iter().map(|view| view.settings);
                let tunnel = || tunnels().find(|tunnel| covers_same(tunnel.listen, address));
                ListenerChange::New((listen_http(address, ours, tunnel)?, address))
            }
        };
        // Not at each request: the file may be long, and one thread answers everybody.
        let hosts = [wanted.hosts.clone(), host::names_of_this_machine()].concat();
        Ok(ListenerChanges { control, http, hosts })
    }

    /// Serves the listeners of `plan` from now on, and closes the others. Without a configured control socket, it tries the
    /// default path, and logs a warning if that cannot be used.
    pub(crate) fn apply(&mut self, plan: ListenerChanges) {
        let Source { resources, relay, hosts, .. } = &*self.source;
        *lock(hosts) = plan.hosts.into();
        self.watch.get_or_insert_with(|| self.thread.spawn(resources.clone().watch(relay.clone())));
        match plan.control {
            ListenerChange::Keep => {}
            ListenerChange::New((listener, file)) => self.serve_control(listener, file),
            ListenerChange::Unset => self.serve_default(),
        }
        match plan.http {
            ListenerChange::Keep => {}
            ListenerChange::New((listener, address)) => {
                self.close_http();
                info!(%address, "HTTP listener is open");
                let task = self.thread.spawn(self.by_http.clone().accept_http(listener));
                self.http = Some(Http { address, _task: task });
            }
            ListenerChange::Unset => self.close_http(),
        }
    }

    /// Closes the listeners, and gives the requests that are being answered a moment to end.
    pub(crate) fn finish(&mut self) {
        (self.control, self.http) = (None, None);
        let (by_control, by_http) = (self.by_control.clone(), self.by_http.clone());
        let (done, wait) = std::sync::mpsc::channel();
        self.thread.runtime.spawn(async move {
            tokio::join!(by_control.close(FINISH_LIMIT), by_http.close(FINISH_LIMIT));
            let _ = done.send(());
        });
        // Longer than the limit, in case the thread is busy.
        let _ = wait.recv_timeout(2 * FINISH_LIMIT);
    }

    /// Closes the HTTP listener and its connections: a browser that shows the page would keep its own for ever, although the file no
    /// longer allows it.
    fn close_http(&mut self) {
        if self.http.take().is_some() {
            // Not as a [`Task`], which ends when it is dropped.
            self.thread.runtime.spawn(self.by_http.clone().close(FINISH_LIMIT));
        }
    }

    fn serve_default(&mut self) {
        let path = self.default_path.clone();
        if self.control.as_ref().is_some_and(|(file, _)| file.is_at(&path)) {
            return;
        }
        SocketFile::make_folder(&path);
        match SocketFile::listen(&path) {
            Ok((listener, file)) => self.serve_control(listener, file),
            Err(err) => {
                self.control = None;
                warn!(socket = %path.display(), %err, "no control socket: `longhaul status` cannot reach this process");
            }
        }
    }

    fn serve_control(&mut self, listener: UnixListener, file: SocketFile) {
        info!(socket = %file.path().display(), "control socket is open");
        let task = self.thread.spawn(self.by_control.clone().accept_local(listener));
        self.control = Some((file, task));
    }
}

/// Listens on `address`. `ours` is the address of our listener now, if there is one, and `tunnel` finds the tunnel that listens there
/// now: a reload opens all that is new before it closes what is old. If ours has the same port and one of the two
/// addresses is 0.0.0.0 or `[::]`, the kernel refuses the new one. With SO_REUSEPORT it would not, but would also let in any other process of
/// the user that sets the option, in silence and for as long as the port is in use.
fn listen_http(
    address: SocketAddr,
    ours: Option<SocketAddr>,
    tunnel: impl Fn() -> Option<Arc<Tunnel>>,
) -> Result<TcpListener, String> {
    let open = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // A restart does not wait for TIME_WAIT.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    open().map_err(|err| {
        let (errno, port) = (err.raw_os_error().unwrap_or(libc::EIO), address.port());
        // Only the address for all of a family, 0.0.0.0 or [::], is in the way of another one with the same port.
        let is_wide = |address: &SocketAddr| address.ip().is_unspecified();
        let in_the_way = ours.filter(|ours| ours.port() == port && (is_wide(ours) || is_wide(&address)));
        let hint = match (errno, in_the_way) {
            (libc::EADDRINUSE, Some(ours)) => format!(
                " (this daemon listens on {ours}: a reload can take another port; for the same port restart it)"
            ),
            (libc::EADDRINUSE, None) => match tunnel() {
                Some(tunnel) => format!(
                    " (tunnel \"{}\" listens on {} until the reload is done: reload with the old admin.listen first)",
                    tunnel.name, tunnel.listen
                ),
                None => format!(" (who has it: ss -tanp 'sport = :{port}')"),
            },
            (libc::EADDRNOTAVAIL, _) => " (no interface has this address: ip addr)".into(),
            _ => String::new(),
        };
        format!("admin.listen = {address}: cannot listen: {}{hint}", errno_text(errno))
    })
}

/// Length of the queue of the HTTP listener. The thread accepts at once.
const BACKLOG: u32 = 128;
/// Time that requests have to end at the end of the process.
const FINISH_LIMIT: Duration = Duration::from_millis(500);
