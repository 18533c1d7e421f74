//! Two sites in network namespaces: host A, a load balancer and two near relays on one LAN; the far relay and host B behind
//! them. The addresses are those of `packaging/keepalived` and `packaging/haproxy`, so the shipped files are used unchanged.
//!
//! ```text
//! A 10.10.10.9 ──────────┐            ┌── near1 ──┐
//! balancer 10.10.10.30 ──┴─ LAN ──────┤           ├── WAN ── far 10.20.20.20, B 10.20.20.30
//!                                     └── near2 ──┘
//! ```

use crate::harness::*;
use longhaul_sys::netns::NetNs;
use longhaul_sys::process::{EndSignal, end};
use socket2::SockRef;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A machine: a network namespace. It vanishes with the last of its handles, processes and sockets.
pub(crate) struct Machine(Arc<NetNs>);

impl Machine {
    fn new() -> Machine {
        let net = std::thread::spawn(|| NetNs::create().expect("a namespace")).join().expect("no panic");
        let machine = Machine(Arc::new(net));
        machine.run("ip link set lo up");
        machine
    }

    /// Runs `job` on a thread of this machine; returns its result.
    pub(crate) fn on<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        self.begin(job).join().expect("no panic")
    }

    /// Begins `job` on a thread of this machine.
    fn begin<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        let net = self.0.clone();
        std::thread::spawn(move || {
            net.enter().expect("the namespace is there");
            job()
        })
    }

    /// Runs a shell command on this machine.
    pub(crate) fn run(&self, command: &str) {
        let args = ["-ec", command].map(String::from);
        let output = self.on(move || Command::new("sh").args(args).output().expect("sh runs"));
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Starts the relay of the file `config`, and waits until it listens.
    pub(crate) fn relay(&self, folder: &TempDir, config: &str) -> Relay {
        let file = folder.path().join("longhaul.toml");
        std::fs::write(&file, config).expect("a file");
        self.on(move || Relay::start(&["run", "-c", file.to_str().expect("a plain path")]))
    }

    /// Connects from this machine.
    pub(crate) fn dial(&self, to: &str) -> TcpStream {
        let to: SocketAddr = to.parse().expect("an address");
        self.on(move || patient(TcpStream::connect(to).expect("it listens")))
    }
}

/// The machines of both sites.
pub(crate) struct Site {
    switch: Machine,
    pub(crate) a: Machine,
    pub(crate) balancer: Machine,
    pub(crate) near: [Machine; 2],
    far: Machine,
    b: Machine,
    server: Option<TcpListener>,
    far_relay: Option<Relay>,
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Some(server) = &self.server {
            // Ends the accept(2) of the echo server, whose thread would keep the namespace.
            let _ = SockRef::from(server).shutdown(Shutdown::Both);
        }
    }
}

impl Site {
    /// Builds the sites, with the far relay and an echo server on host B. Returns `None`, and says why, if `program` is not
    /// installed or this is not root.
    pub(crate) fn with(program: &str) -> Option<Site> {
        if !longhaul_sys::netns::is_root() {
            skip("needs root, to make network namespaces");
            return None;
        }
        if let Err(err) = Command::new(program).arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status() {
            skip(&format!("{program}: {err}"));
            return None;
        }
        let machine = Machine::new;
        let near = [machine(), machine()];
        let (switch, a, balancer, far, b) = (machine(), machine(), machine(), machine(), machine());
        switch.run("for net in lan wan; do ip link add $net type bridge && ip link set $net up; done");
        let mut site = Site { switch, a, balancer, near, far, b, server: None, far_relay: None };
        site.plug("a", &site.a, "lan", "10.10.10.9");
        site.plug("lb", &site.balancer, "lan", "10.10.10.30");
        for (number, near) in (1..).zip(&site.near) {
            site.plug(&format!("near{number}"), near, "lan", &format!("10.10.10.1{number}"));
            site.plug(&format!("near{number}"), near, "wan", &format!("10.20.20.1{number}"));
        }
        site.plug("far", &site.far, "wan", "10.20.20.20");
        site.plug("b", &site.b, "wan", "10.20.20.30");
        let server = site.b.on(|| TcpListener::bind("10.20.20.30:7000").expect("a free port"));
        site.server = Some(server.try_clone().expect("a duplicate"));
        std::thread::spawn(move || serve(&server));
        site.start_far_relay();
        Some(site)
    }

    /// Starts the far relay, which answers probes as the last one.
    pub(crate) fn start_far_relay(&mut self) {
        let args = ["relay", "--listen", "10.20.20.20:6000", "--to", "10.20.20.30:7000", "--verify-hops", "0"];
        self.far_relay = Some(self.far.on(move || Relay::start(&args)));
    }

    /// Kills the far relay.
    pub(crate) fn kill_far_relay(&mut self) {
        self.far_relay = None;
    }

    /// Plugs a cable from the switch's network `net` into `machine`: `eth0` for the LAN, `eth1` for the WAN.
    fn plug(&self, name: &str, machine: &Machine, net: &str, address: &str) {
        let (device, path) = (if net == "lan" { "eth0" } else { "eth1" }, machine.0.path());
        let port = format!("{name}-{net}");
        self.switch.run(&format!(
            "ip link add {port} type veth peer name {device} netns {path}; ip link set {port} master {net} up"
        ));
        machine.run(&format!("ip address add {address}/24 dev {device}; ip link set {device} up"));
    }

    /// Cuts both cables of a near relay, as if its machine were dead.
    pub(crate) fn cut(&self, near: usize) {
        let number = near + 1;
        self.switch.run(&format!("ip link set near{number}-lan down; ip link set near{number}-wan down"));
    }
}

/// Echoes every connection. A connection that breaks is of a relay that was killed.
fn serve(server: &TcpListener) {
    while let Ok((mut socket, _)) = server.accept() {
        std::thread::spawn(move || std::io::copy(&mut socket.try_clone().expect("a duplicate"), &mut socket));
    }
}

/// Another program on a machine. Dropping it ends the process.
pub(crate) struct Server {
    child: Child,
    log: Receiver<String>,
    _folder: TempDir,
}

impl Server {
    /// Starts keepalived with the shipped file.
    pub(crate) fn keepalived(on: &Machine) -> Server {
        let (folder, mut command) = (tempfile::tempdir().expect("a folder"), Command::new("keepalived"));
        let place = |name| folder.path().join(name);
        command.args(["--dont-fork", "--log-console", "--log-detail", "--no-syslog", "--vrrp", "-f"]);
        command.arg(packaged("keepalived/keepalived.conf"));
        command.arg("-p").arg(place("pid")).arg("-r").arg(place("vrrp.pid"));
        Server::start(on, command, folder)
    }

    /// Starts HAProxy with the shipped file.
    pub(crate) fn haproxy(on: &Machine) -> Server {
        let mut command = Command::new("haproxy");
        command.arg("-db").arg("-f").arg(packaged("haproxy/longhaul.cfg"));
        Server::start(on, command, tempfile::tempdir().expect("a folder"))
    }

    fn start(on: &Machine, mut command: Command, folder: TempDir) -> Server {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = on.on(move || command.spawn().expect("it is installed"));
        let (sender, log) = channel();
        let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        std::thread::spawn(move || stderr.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line))));
        Server { child, log, _folder: folder }
    }

    /// Waits for the next line of its log with this part.
    pub(crate) fn wait_log(&self, part: &str) {
        let mut seen = Vec::new();
        while !seen.last().is_some_and(|line: &String| line.contains(part)) {
            let line = self.log.recv_timeout(TIMEOUT);
            seen.push(line.unwrap_or_else(|err| panic!("no line {part:?}: {err}; the log has {seen:#?}")));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only if the process has ended.
        let _ = end(self.child.id(), EndSignal::Term);
        let _ = self.child.wait();
    }
}

/// Returns the path of a file of `packaging`.
pub(crate) fn packaged(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name)
}

/// Opens a connection every 100 ms, and counts it as served if 4 bytes come back within [`PATIENCE`].
pub(crate) struct Customers {
    served: Receiver<Instant>,
    stop: Arc<AtomicBool>,
    /// Returns the number of connections that were tried.
    thread: JoinHandle<usize>,
}

/// Service that the customers had.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Service {
    /// Longest time from the beginning of a connection that was served to that of the next one.
    pub(crate) longest_gap: Duration,
    /// Number of connections.
    pub(crate) tried: usize,
    /// Number of those that were not served.
    pub(crate) unserved: usize,
}

impl Customers {
    /// Begins, on host A.
    pub(crate) fn begin(a: &Machine, to: &str) -> Customers {
        let (sender, served) = channel();
        let (stop, to): (_, SocketAddr) = (Arc::<AtomicBool>::default(), to.parse().expect("an address"));
        let asked = stop.clone();
        let thread = a.begin(move || {
            let mut tried = 0;
            while !asked.load(Relaxed) {
                let sender = sender.clone();
                tried += 1;
                // Threads that it starts are on the same machine.
                std::thread::spawn(move || ask(to, &sender));
                std::thread::sleep(Duration::from_millis(100));
            }
            tried
        });
        Customers { served, stop, thread }
    }

    /// Waits until `count` connections that began after `moment` were served. Adds the beginning of each one to `served`.
    pub(crate) fn wait_served_after(&self, moment: Instant, count: usize, served: &mut Vec<Instant>) {
        while served.iter().filter(|began| **began > moment).count() < count {
            served.push(self.served.recv_timeout(TIMEOUT).expect("the service comes back"));
        }
    }

    /// Ends, and returns the service. `served` has the beginnings of connections that were seen already.
    pub(crate) fn finish(self, mut served: Vec<Instant>) -> Service {
        self.stop.store(true, Relaxed);
        let tried = self.thread.join().expect("no panic");
        served.extend(self.served.iter()); // until the last thread has ended
        served.sort();
        let longest_gap = served.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default();
        Service { longest_gap, tried, unserved: tried - served.len() }
    }
}

fn ask(to: SocketAddr, served: &Sender<Instant>) {
    let began = Instant::now();
    let answer = || {
        let mut socket = TcpStream::connect_timeout(&to, PATIENCE)?;
        socket.set_read_timeout(Some(PATIENCE.saturating_sub(began.elapsed()).max(Duration::from_millis(1))))?;
        socket.write_all(b"ping")?;
        socket.read_exact(&mut [0; 4])
    };
    let done: std::io::Result<()> = answer();
    if done.is_ok() {
        // Nobody may wait for it any more.
        let _ = served.send(began);
    }
}

/// Time within which a connection must be served. Shorter than the second after which Linux repeats a SYN, so that a
/// connection which began without service does not count.
const PATIENCE: Duration = Duration::from_millis(900);

/// A flow that sends without pause until it is ended, and expects every byte back.
pub(crate) struct Steady {
    stop: Arc<AtomicBool>,
    /// Returns the number of pieces, and the error that ended it.
    writer: JoinHandle<(usize, Option<ErrorKind>)>,
    reader: JoinHandle<(Vec<u8>, Ending)>,
}

impl Steady {
    /// Begins to send on `socket`.
    pub(crate) fn begin(socket: TcpStream) -> Steady {
        let (stop, mut sink) = (Arc::<AtomicBool>::default(), socket.try_clone().expect("a duplicate"));
        let asked = stop.clone();
        let writer = std::thread::spawn(move || {
            let (piece, mut count) = (pattern(1, PIECE), 0);
            // 4 MB a second, so that the memory of the test stays small. A reset ends it.
            while !asked.load(Relaxed) {
                if let Err(err) = sink.write_all(&piece) {
                    return (count, Some(err.kind()));
                }
                count += 1;
                std::thread::sleep(Duration::from_millis(4));
            }
            // Fails after a reset.
            let _ = sink.shutdown(Shutdown::Write);
            (count, None)
        });
        let reader = std::thread::spawn(move || read_to_end(&socket));
        Steady { stop, writer, reader }
    }

    /// Ends the flow. It must have had every byte back, and FIN.
    pub(crate) fn finish(self) {
        self.stop.store(true, Relaxed);
        let (count, _) = self.writer.join().expect("no panic");
        let (got, ending) = self.reader.join().expect("no panic");
        assert_eq!((ending, got.len()), (Ending::Fin, count * PIECE));
        let piece = pattern(1, PIECE);
        got.chunks(PIECE).for_each(|chunk| assert_same(chunk, &piece));
    }

    /// Waits for the end of a flow whose relay was killed; returns the ending that host A saw.
    pub(crate) fn broken(self) -> Ending {
        // The kernel tells a reset once, to the thread that asks first; the other one sees the end of the connection. After a FIN
        // it would have told EPIPE instead (net/ipv4/tcp_input.c, tcp_reset).
        let (_, refused) = self.writer.join().expect("no panic");
        let (_, ending) = self.reader.join().expect("no panic");
        if refused == Some(ErrorKind::ConnectionReset) { Ending::Reset } else { ending }
    }
}

/// Number of bytes that a [`Steady`] flow sends at once.
const PIECE: usize = 16 * 1024;
