//! Daemons under test: [`Daemon`] has any file; [`Watched`] has one tunnel, a control socket and an HTTP listener.

use crate::harness::TIMEOUT;
use crate::harness::path::Port;
use crate::harness::relay::{Relay, program};
use crate::harness::sockets::{accept, patient, server, wait_for_value};
use serde_json::Value;
use std::fmt::Display;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Output;
use tempfile::TempDir;

/// A daemon with its own config file.
pub(crate) struct Daemon {
    /// The process `longhaul run`.
    pub(crate) relay: Relay,
    /// The folder of its file, and of its control socket if it is a [`Watched`].
    pub(crate) folder: TempDir,
}

impl Daemon {
    /// Starts a daemon with the text `config` and waits until it listens.
    pub(crate) fn start(config: &str) -> Daemon {
        Daemon::start_by(config, |file| Relay::start(&["run", "-c", file]))
    }

    /// Like [`Daemon::start`]; `spawn` starts the process with the path of the file.
    pub(crate) fn start_by(config: &str, spawn: impl FnOnce(&str) -> Relay) -> Daemon {
        Daemon::start_in(tempfile::tempdir().expect("a folder"), config, spawn)
    }

    fn start_in(folder: TempDir, config: &str, spawn: impl FnOnce(&str) -> Relay) -> Daemon {
        let file = folder.path().join(FILE);
        std::fs::write(&file, config).expect("a config file");
        Daemon { relay: spawn(file.to_str().expect("a plain path")), folder }
    }

    /// Returns the path of the file.
    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join(FILE)
    }

    /// Writes `config`, and does not reload the daemon.
    pub(crate) fn write(&self, config: &str) {
        std::fs::write(self.file(), config).expect("a config file");
    }

    /// Writes `config` and reloads the daemon; returns the log line with the result.
    pub(crate) fn reload(&self, config: &str) -> Value {
        self.write(config);
        self.relay.signal("HUP");
        self.relay.wait_log_any(&["reloaded", "reload refused: the old configuration stays"])
    }
}

const FILE: &str = "longhaul.toml";

/// Returns a `[[tunnel]]` of a config file; `more` is appended to its keys.
pub(crate) fn tunnel(name: &str, listen: impl Display, to: &TcpListener, more: &str) -> String {
    tunnel_to(name, listen, &[to.local_addr().expect("a name")], more)
}

/// Like [`tunnel`], to any next hops.
pub(crate) fn tunnel_to(name: &str, listen: impl Display, to: &[impl Display], more: &str) -> String {
    let to: Vec<String> = to.iter().map(ToString::to_string).collect();
    format!("[[tunnel]]\nname = \"{name}\"\nlisten = \"{listen}\"\nto = {to:?}\n{more}\n")
}

/// Connects to `port`.
pub(crate) fn dial(port: &Port) -> TcpStream {
    patient(TcpStream::connect(port.address()).expect("the daemon listens"))
}

/// The parts of a file that tests choose.
#[derive(Default)]
pub(crate) struct Setup<'a> {
    /// Next hops; without any, the tunnel leads to [`Watched::far`].
    pub(crate) to: Vec<String>,
    /// Address of the tunnel's listener; [`Watched::port`] if it is empty.
    pub(crate) listen: &'a str,
    /// Text before the tables of the control socket and the tunnel: keys of the process, or a table.
    pub(crate) head: &'a str,
    /// Further keys of the tunnel. Tables may follow them.
    pub(crate) keys: &'a str,
}

impl Setup<'_> {
    /// Starts the daemon.
    pub(crate) fn start(self) -> Watched {
        self.start_by(|file| Relay::start(&["run", "-c", file]))
    }

    /// Like [`Setup::start`]; `spawn` starts the process with the path of the file.
    pub(crate) fn start_by(self, spawn: impl FnOnce(&str) -> Relay) -> Watched {
        let (port, http, far) = (Port::reserve("127.0.0.1"), Port::reserve("127.0.0.1"), server());
        let folder = tempfile::tempdir().expect("a folder");
        let listen = if self.listen.is_empty() { port.address().to_string() } else { self.listen.into() };
        let own = || vec![far.local_addr().expect("a name").to_string()];
        let to = if self.to.is_empty() { own() } else { self.to };
        let file = file(&folder, &http, &listen, &to, (self.head, self.keys));
        Watched { daemon: Daemon::start_in(folder, &file, spawn), port, http, far, listen, to }
    }
}

fn file(folder: &TempDir, http: &Port, listen: &str, to: &[String], (head, keys): (&str, &str)) -> String {
    let (socket, http) = (socket(folder).display().to_string(), http.address());
    format!("{head}\n[admin]\nsocket = \"{socket}\"\nlisten = \"{http}\"\n") + &tunnel_to("one", listen, to, keys)
}

fn socket(folder: &TempDir) -> PathBuf {
    folder.path().join("admin.sock")
}

/// A daemon with the tunnel `one`, a control socket and an HTTP listener.
pub(crate) struct Watched {
    pub(crate) daemon: Daemon,
    /// The address of the tunnel, if no other was chosen.
    pub(crate) port: Port,
    pub(crate) http: Port,
    /// The server that the tunnel leads to, if no other next hops were chosen.
    pub(crate) far: TcpListener,
    listen: String,
    /// The next hops. A change takes effect with the next reload.
    pub(crate) to: Vec<String>,
}

impl Watched {
    /// Starts a daemon whose tunnel leads to [`Watched::far`]. The tunnel has these further `keys`.
    pub(crate) fn start(keys: &str) -> Watched {
        Setup { keys, ..Setup::default() }.start()
    }

    /// Like [`Watched::start`], to other next hops.
    pub(crate) fn start_to(to: &[SocketAddr], keys: &str) -> Watched {
        Setup { to: to.iter().map(ToString::to_string).collect(), keys, ..Setup::default() }.start()
    }

    /// Returns the text of a file for this daemon, with the parts `head` and `keys` of a [`Setup`].
    pub(crate) fn text(&self, head: &str, keys: &str) -> String {
        file(&self.daemon.folder, &self.http, &self.listen, &self.to, (head, keys))
    }

    /// Reloads the daemon with other keys of the tunnel.
    pub(crate) fn reload(&self, keys: &str) {
        self.reload_with("", keys);
    }

    /// Like [`Watched::reload`], with the part `head` of a [`Setup`].
    pub(crate) fn reload_with(&self, head: &str, keys: &str) {
        assert_eq!(self.daemon.reload(&self.text(head, keys))["message"], "reloaded");
    }

    /// Kills the daemon, which leaves the file of its socket.
    pub(crate) fn kill(&mut self) {
        self.daemon.relay.signal("KILL");
        self.daemon.relay.exit();
    }

    /// Starts the daemon again after its end, with these keys of the tunnel.
    pub(crate) fn start_again(&mut self, keys: &str) {
        self.daemon.write(&self.text("", keys));
        self.daemon.relay = Relay::start(&["run", "-c", &self.daemon.file().display().to_string()]);
    }

    /// Returns the path of the control socket.
    pub(crate) fn socket(&self) -> PathBuf {
        socket(&self.daemon.folder)
    }

    /// Opens a flow; returns the client's end and the server's.
    pub(crate) fn flow(&self) -> (TcpStream, TcpStream) {
        let client = dial(&self.port);
        (client, accept(&self.far))
    }

    /// Runs `longhaul` with `args` and the flag that names this daemon.
    pub(crate) fn command(&self, args: &[&str]) -> Output {
        program().args(args).arg("--admin").arg(self.socket()).output().expect("longhaul starts")
    }

    /// Asks the control socket for `path`; returns the code and the body of the answer.
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        by_socket(&self.socket(), "GET", path)
    }

    /// Returns the state of the daemon.
    pub(crate) fn status(&self) -> Value {
        status_of(&self.socket())
    }

    /// Returns the results of the probes of the tunnel.
    pub(crate) fn verify(&self) -> Value {
        self.status()["tunnels"][0]["verify"].take()
    }

    /// Waits until the probes say that the tunnel is in `state`; returns their results.
    pub(crate) fn wait_verify(&self, state: &str) -> Value {
        wait_for_value(state, || self.verify(), |verify| verify["state"] == state)
    }

    /// Waits until the probes say that the tunnel is broken at `stage` by `cause`, and asserts that every view agrees.
    pub(crate) fn wait_broken(&self, stage: &str, cause: &str) {
        // A probe under way when the path broke may have ended elsewhere.
        loop {
            let line = self.daemon.relay.wait_log("tunnel broken");
            if (&line["stage"], &line["cause"]) == (&stage.into(), &cause.into()) {
                break;
            }
        }
        let verify = self.verify();
        let want: [Value; 3] = ["broken".into(), stage.into(), cause.into()];
        assert_eq!(["state", "stage", "cause"].map(|key| verify[key].clone()), want, "{verify}");
        let last = verify["history"].as_array().expect("results").last().expect("a result").clone();
        assert_eq!((&last["whole"], &last["stage"], &last["cause"]), (&false.into(), &stage.into(), &cause.into()));
        let (code, ready) = self.get("/readyz");
        assert!(code == 503 && ready.contains(&format!("tunnel one, {stage}: {cause}")), "{code} {ready}");
    }
}

/// Returns the state of the daemon with this control socket.
pub(crate) fn status_of(socket: &Path) -> Value {
    let (code, body) = by_socket(socket, "GET", "/status.json");
    assert_eq!(code, 200, "{body}");
    serde_json::from_str(&body).expect("a document")
}

/// Sends a request such as `GET /metrics` on `stream`; returns the whole answer.
pub(crate) fn ask(mut stream: impl Read + Write, request: &str, accept: &str) -> String {
    let head = format!("{request} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// Sends a request to a control socket; returns the code and the body of the answer.
pub(crate) fn by_socket(socket: &Path, method: &str, path: &str) -> (u16, String) {
    let stream = UnixStream::connect(socket).expect("the daemon listens");
    stream.set_read_timeout(Some(TIMEOUT)).expect("SO_RCVTIMEO");
    code_and_body(&ask(stream, &format!("{method} {path}"), "*/*"))
}

/// Sends a request to the HTTP listener at `address`; returns the code and the body of the answer.
pub(crate) fn by_http(address: SocketAddr, method: &str, path: &str) -> (u16, String) {
    let stream = patient(TcpStream::connect(address).expect("the daemon listens"));
    code_and_body(&ask(stream, &format!("{method} {path}"), "*/*"))
}

fn code_and_body(answer: &str) -> (u16, String) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
    (head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status line"), body.into())
}
