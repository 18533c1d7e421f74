//! A path for tests: client, one or two relays, server, on loopback or between the hosts of the lab. The relays are processes,
//! so that tests can kill them. Their logs are JSON, so that tests can compare fields.

use longhaul_lab::{Host, Program, Wan};
use longhaul_sys::tcp_info::TcpInfo;
pub(crate) use longhaul_sys::uninterrupted;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use serde_json::Value;
use socket2::{Domain, SockAddr, SockRef, Socket, Type};
use std::fmt::Debug;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Timeout of every wait, longer than any step takes on a slow machine. A test that reaches it has failed.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// The variable that names the folder of the default control socket (systemd.exec(5)).
pub(crate) const RUNTIME_DIRECTORY: &str = "RUNTIME_DIRECTORY";

/// A `longhaul` process.
pub(crate) struct Relay {
    process: Process,
    log: Mutex<Receiver<Value>>,
}

/// A process on this host, or on a host of the lab.
enum Process {
    Here(Child),
    Lab(Program),
}

impl Relay {
    /// Starts `longhaul` with `args` and waits until it listens.
    pub(crate) fn start(args: &[&str]) -> Relay {
        let mut command = longhaul();
        command.args(args);
        Relay::spawn(command)
    }

    /// Starts `command`, a `longhaul` with JSON logs on stderr, and waits until it listens.
    pub(crate) fn spawn(command: Command) -> Relay {
        Relay::spawn_by(command, |mut command| Process::Here(command.spawn().expect("longhaul starts")))
    }

    /// Like [`Relay::spawn`], on `host` of the lab.
    pub(crate) fn spawn_in(wan: &Wan, host: Host, command: Command) -> Relay {
        Relay::spawn_by(command, |command| Process::Lab(wan.spawn(host, command).expect("longhaul starts")))
    }

    fn spawn_by(mut command: Command, spawn: impl FnOnce(Command) -> Process) -> Relay {
        let (stderr, ours) = UnixStream::pair().expect("a pair of sockets");
        command.stderr(OwnedFd::from(stderr));
        // Without it, tests as root would make the control sockets of this machine.
        if command.get_envs().all(|(name, _)| name != RUNTIME_DIRECTORY) {
            command.env(RUNTIME_DIRECTORY, "/dev/null/no-folder");
        }
        let process = spawn(command); // drops the command, and with it our copy of the child's stderr
        let (sender, log) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(ours).lines().map_while(Result::ok) {
                match serde_json::from_str(&line) {
                    Ok(line) => drop(sender.send(line)),
                    Err(_) => eprintln!("longhaul: {line}"),
                }
            }
        });
        let relay = Relay { process, log: Mutex::new(log) };
        relay.wait_log("listening");
        relay
    }

    /// Waits for the next log line with this message; returns its fields.
    pub(crate) fn wait_log(&self, message: &str) -> Value {
        self.wait_line(message, |found| found == message)
    }

    /// Waits for the next log line with one of these messages; returns its fields.
    pub(crate) fn wait_log_any(&self, messages: &[&str]) -> Value {
        self.wait_line(&messages.join(" or "), |found| messages.contains(&found))
    }

    /// Waits for the next log line for whose message `is_it` returns true; returns its fields. `wanted` describes the line in
    /// the panic message.
    pub(crate) fn wait_line(&self, wanted: &str, is_it: impl Fn(&str) -> bool) -> Value {
        self.lines_until(wanted, is_it).pop().expect("the awaited line")
    }

    /// Like [`Relay::wait_line`]; returns the fields of every line up to the awaited one.
    fn lines_until(&self, wanted: &str, is_it: impl Fn(&str) -> bool) -> Vec<Value> {
        let log = self.log.lock().expect("no reader of the log has panicked");
        let mut lines: Vec<Value> = Vec::new();
        loop {
            let line = log.recv_timeout(TIMEOUT);
            let line = line.unwrap_or_else(|err| panic!("no line {wanted:?} in the log: {err}; the log has {lines:?}"));
            lines.push(line["fields"].clone());
            if line["fields"]["message"].as_str().is_some_and(&is_it) {
                return lines;
            }
        }
    }

    /// Waits for the end of the next flow; returns its bytes up, its bytes down and its ending.
    pub(crate) fn flow_end(&self) -> (u64, u64, String) {
        let line = self.wait_log("flow ended");
        let bytes = |key: &str| line[key].as_u64().expect("a number of bytes");
        (bytes("up_bytes"), bytes("down_bytes"), line["how"].as_str().expect("a text").into())
    }

    /// Returns, without waiting, the fields of the next log line whose message begins with `message`.
    pub(crate) fn try_log(&self, message: &str) -> Option<Value> {
        let log = self.log.lock().expect("no reader of the log has panicked");
        let mut fields = log.try_iter().map(|line| line["fields"].clone());
        fields.find(|fields| fields["message"].as_str().is_some_and(|found| found.starts_with(message)))
    }

    /// Returns the relay's counters.
    pub(crate) fn counters(&self) -> Value {
        self.lines_to_counters().pop().expect("the counters")
    }

    /// Returns the fields of the log lines since the last awaited one, and then the counters.
    pub(crate) fn lines_to_counters(&self) -> Vec<Value> {
        self.signal("USR1");
        self.lines_until("counters", |message| message == "counters")
    }

    /// Sends the signal `name`, written as for kill(1).
    pub(crate) fn signal(&self, name: &str) {
        let done = Command::new("kill").args([&format!("-{name}"), &self.id().to_string()]).status();
        assert!(done.expect("kill runs").success());
    }

    /// Stops the process (SIGSTOP) and waits until it is stopped. The signal `CONT` continues it.
    pub(crate) fn stop(&self) {
        self.signal("STOP");
        let stat = || std::fs::read_to_string(format!("/proc/{}/stat", self.id())).expect("it runs");
        // proc_pid_stat(5): the state follows the name, which is in parentheses.
        wait_until("the relay is stopped", || stat().contains(") T "));
    }

    /// Returns the process id.
    pub(crate) fn id(&self) -> u32 {
        match &self.process {
            Process::Here(child) => child.id(),
            Process::Lab(program) => program.id(),
        }
    }

    /// Returns the number and the target of each open descriptor; a target is such as `socket:[4711]` (proc(5)).
    pub(crate) fn descriptors(&self) -> Vec<(i32, String)> {
        let folder = std::fs::read_dir(format!("/proc/{}/fd", self.id())).expect("it runs");
        let what = |path: std::path::PathBuf| {
            let number = path.file_name()?.to_str()?.parse().ok()?;
            // Leaves out a descriptor that was closed meanwhile.
            Some((number, std::fs::read_link(path).ok()?.to_str()?.into()))
        };
        folder.filter_map(|entry| what(entry.expect("it still runs").path())).collect()
    }

    /// Returns a duplicate of the relay's socket at the other end of `end` (pidfd_getfd(2)); `None` if that is not allowed.
    pub(crate) fn other_end(&self, end: &TcpStream) -> Option<Socket> {
        // A relay that listens on a bare port sees IPv4 clients as ::ffff:a.b.c.d.
        let plain = |name: SocketAddr| SocketAddr::new(name.ip().to_canonical(), name.port());
        let here = |name: std::io::Result<SockAddr>| name.ok().and_then(|name| name.as_socket()).map(plain);
        let wanted = (end.peer_addr().expect("connected"), end.local_addr().expect("bound"));
        let process = pidfd_open(Pid::from_raw(self.id() as i32)?, PidfdFlags::empty()).ok()?;
        let mut shared = 0;
        for (number, _) in self.descriptors().iter().filter(|(_, what)| what.starts_with("socket:")) {
            let Ok(socket) = pidfd_getfd(&process, *number, PidfdGetfdFlags::empty()) else { continue };
            shared += 1;
            let socket = Socket::from(socket);
            if (here(socket.local_addr()), here(socket.peer_addr())) == (Some(wanted.0), Some(wanted.1)) {
                return Some(socket);
            }
        }
        assert_eq!(shared, 0, "the relay has no such socket: {wanted:?}");
        None
    }

    /// Returns, for each pipe of the relay, the bytes in it and its capacity in bytes, a multiple of the page size
    /// (pidfd_getfd(2)). `None` if that is not allowed.
    pub(crate) fn pipes(&self) -> Option<Vec<(usize, usize)>> {
        let process = pidfd_open(Pid::from_raw(self.id() as i32)?, PidfdFlags::empty()).ok()?;
        let mut pipes = std::collections::BTreeMap::new();
        for (number, what) in self.descriptors().into_iter().filter(|(_, what)| what.starts_with("pipe:")) {
            // A pipe that was closed meanwhile holds nothing.
            let Ok(pipe) = pidfd_getfd(&process, number, PidfdGetfdFlags::empty()) else { continue };
            let held = rustix::io::ioctl_fionread(&pipe).ok()?;
            pipes.insert(what, (held as usize, rustix::pipe::fcntl_getpipe_size(&pipe).ok()?));
        }
        Some(pipes.into_values().collect())
    }

    /// Returns the bytes of anonymous memory of the process (proc_pid_status(5), RssAnon).
    pub(crate) fn resident(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("Linux 4.5");
        line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") * 1024
    }

    /// Waits for the end of the process and returns its exit code; returns `None` at once for a process of the lab.
    pub(crate) fn exit(&mut self) -> Option<i32> {
        match &mut self.process {
            Process::Here(child) => child.wait().expect("it was started").code(),
            Process::Lab(_) => None,
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Process::Here(child) = self {
            // Both fail only if the process has ended. A program of the lab does this by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Returns the command of the program under test, with JSON logs.
pub(crate) fn longhaul() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
    command.args(["--log-format", "json"]).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// A reserved port: the kernel gives it to nobody else while this value lives. The socket is bound but does not listen, so the
/// kernel lets a socket with SO_REUSEADDR listen on the same port.
pub(crate) struct Port(Socket);

impl Port {
    /// Reserves a free port of the loopback address `ip`.
    pub(crate) fn reserve(ip: &str) -> Port {
        let address: SocketAddr = format!("{ip}:0").parse().expect("an address");
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None);
        let socket = socket.expect("a socket");
        socket.set_reuse_address(true).expect("SO_REUSEADDR");
        socket.bind(&address.into()).expect("a port");
        Port(socket)
    }

    /// Returns the reserved address and port.
    pub(crate) fn address(&self) -> SocketAddr {
        self.0.local_addr().expect("a name").as_socket().expect("an IP address")
    }
}

/// Client, relays and server.
pub(crate) struct Path {
    /// The relays, the near one first.
    pub(crate) relays: Vec<Relay>,
    wan: Option<Arc<Wan>>,
    _ports: Vec<Port>,
    entry: SocketAddr,
    server: Option<TcpListener>,
}

impl Path {
    /// Builds a path of `count` relays on loopback, with `flags` for each.
    pub(crate) fn new(count: usize, flags: &[&str]) -> Path {
        Path::on("127.0.0.1", count, flags)
    }

    /// Like [`Path::new`], on another loopback address such as `[::1]`.
    pub(crate) fn on(ip: &str, count: usize, flags: &[&str]) -> Path {
        // Reserved, so that no other test gets the port when the server is dropped.
        let (mut relays, mut ports) = (Vec::new(), vec![Port::reserve(ip)]);
        let mut next = ports[0].address();
        let server = listen(next);
        for _ in 0..count {
            let port = Port::reserve(ip);
            let (listen, to) = (port.address().to_string(), next.to_string());
            let args = [&["relay", "--listen", &listen, "--to", &to], flags].concat();
            relays.insert(0, Relay::start(&args));
            next = port.address();
            ports.push(port);
        }
        Path { relays, wan: None, _ports: ports, entry: next, server: Some(server) }
    }

    /// Builds a path from host A to host B of the lab, on `port` of each host: over the near relay and, if `count` is 2, the
    /// far one.
    pub(crate) fn across(wan: &Arc<Wan>, port: u16, count: usize, flags: &[&str]) -> Path {
        let server = wan.on(Host::B, move || Ok(listen((Host::B.lan(), port))));
        let server = server.join().expect("no panic").expect("the host is there");
        let mut next = Host::B.lan();
        let mut relays = Vec::new();
        for host in [Host::Far, Host::Near].into_iter().skip(2 - count) {
            let mut command = longhaul();
            command.args(["relay", "--listen", &port.to_string(), "--to", &format!("{next}:{port}")]).args(flags);
            relays.insert(0, Relay::spawn_in(wan, host, command));
            next = host.wan();
        }
        let entry = SocketAddr::new(Host::Near.lan(), port);
        Path { relays, wan: Some(wan.clone()), _ports: Vec::new(), entry, server: Some(server) }
    }

    /// Opens a flow through the path; returns the client's end and the server's.
    pub(crate) fn connect(&self) -> (TcpStream, TcpStream) {
        let client = self.dial();
        (client, patient(self.server().accept().expect("the relay dials").0))
    }

    /// Connects a client; returns its end.
    pub(crate) fn dial(&self) -> TcpStream {
        let entry = self.entry;
        patient(match &self.wan {
            None => TcpStream::connect(entry).expect("the relay accepts"),
            Some(wan) => {
                let client = wan.on(Host::A, move || Ok(TcpStream::connect(entry).expect("the relay accepts")));
                client.join().expect("no panic").expect("the host is there")
            }
        })
    }

    /// Returns the address that clients connect to.
    pub(crate) fn entry(&self) -> SocketAddr {
        self.entry
    }

    /// Returns the server's listener.
    pub(crate) fn server(&self) -> &TcpListener {
        self.server.as_ref().expect("the server was not dropped")
    }

    /// Closes the server, so that dials are refused.
    pub(crate) fn drop_server(&mut self) {
        let server = self.server.take().expect("the server was not dropped");
        // Closing our descriptor is not enough: a process that another test is just starting has a copy until execve(2).
        SockRef::from(&server).shutdown(Shutdown::Both).expect("it listens");
    }
}

/// Returns a server on loopback whose accept has a timeout.
pub(crate) fn server() -> TcpListener {
    server_at("127.0.0.1")
}

/// Like [`server`], on another address such as `[::1]`.
pub(crate) fn server_at(ip: &str) -> TcpListener {
    listen(format!("{ip}:0"))
}

fn listen(address: impl ToSocketAddrs) -> TcpListener {
    let server = TcpListener::bind(address).expect("a server");
    // accept(2) obeys SO_RCVTIMEO (socket(7)). A missing connection thus fails the test instead of blocking it.
    SockRef::from(&server).set_read_timeout(Some(TIMEOUT)).expect("SO_RCVTIMEO");
    server
}

/// A next hop that answers no SYN, because its listen queue is full.
pub(crate) struct Silent {
    listener: Socket,
    _queued: TcpStream,
}

impl Silent {
    /// Starts a listener and fills its queue.
    pub(crate) fn new() -> Silent {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a port");
        listener.listen(0).expect("a queue of one");
        let address = listener.local_addr().expect("a name").as_socket().expect("an IP address");
        let queued = TcpStream::connect(address).expect("it is in the queue");
        // The client's end may be connected before the connection is in the listener's queue.
        wait_for_events(&listener, PollFlags::IN);
        Silent { listener, _queued: queued }
    }

    /// Returns the address that does not answer.
    pub(crate) fn address(&self) -> SocketAddr {
        self.listener.local_addr().expect("a name").as_socket().expect("an IP address")
    }
}

/// Waits until `is_so` returns true.
pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    wait_for(what, || is_so().then_some(()).ok_or("not yet"));
}

/// Calls `look` until it returns `Ok`; returns that value. After the timeout, panics with the last error.
pub(crate) fn wait_for<T, E: Debug>(what: &str, mut look: impl FnMut() -> Result<T, E>) -> T {
    let start = Instant::now();
    loop {
        match look() {
            Ok(found) => return found,
            Err(seen) => assert!(start.elapsed() < TIMEOUT, "timeout: {what}; last seen: {seen:?}"),
        }
        std::thread::yield_now();
    }
}

/// Waits for one of `events` (poll(2)).
pub(crate) fn wait_for_events(of: &impl AsFd, events: PollFlags) {
    let timeout = Timespec { tv_sec: TIMEOUT.as_secs() as i64, tv_nsec: 0 };
    let polled = uninterrupted(|| Ok(poll(&mut [PollFd::new(of, events)], Some(&timeout))?));
    assert_eq!(polled.expect("poll(2)"), 1, "timeout: {events:?}");
}

/// Waits for the next connection to `server`.
pub(crate) fn accept(server: &TcpListener) -> TcpStream {
    patient(server.accept().expect("the relay dials").0)
}

/// Sets timeouts, TCP_NODELAY and a fixed receive buffer on `socket`; returns it.
pub(crate) fn patient(socket: TcpStream) -> TcpStream {
    // A writer that fills the path also fills this buffer, so bound it.
    SockRef::from(&socket).set_recv_buffer_size(256 * 1024).expect("SO_RCVBUF");
    socket.set_read_timeout(Some(TIMEOUT)).expect("SO_RCVTIMEO");
    socket.set_write_timeout(Some(TIMEOUT)).expect("SO_SNDTIMEO");
    socket.set_nodelay(true).expect("TCP_NODELAY");
    socket
}

/// Ending of a stream as its reader sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Fin,
    Reset,
}

/// Reads to the end; returns the bytes and the ending.
pub(crate) fn read_to_end(mut socket: &TcpStream) -> (Vec<u8>, Ending) {
    let mut bytes = Vec::new();
    match socket.read_to_end(&mut bytes) {
        Ok(_) => (bytes, Ending::Fin),
        Err(err) if err.kind() == ErrorKind::ConnectionReset => (bytes, Ending::Reset),
        Err(err) => panic!("after {} bytes: {err}", bytes.len()),
    }
}

/// Returns whether `err` means that the connection was reset. Silence is no reset: the socket's timeout gives `WouldBlock`.
pub(crate) fn is_reset(err: &std::io::Error) -> bool {
    // A write fails with EPIPE if another call has already taken the error of the reset (tcp(7)).
    matches!(err.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}

/// Connects to `entry` and asserts that the connection is reset. The reset may arrive before connect(2) returns. Returns the
/// client's address.
pub(crate) fn reset_by(entry: SocketAddr) -> SocketAddr {
    let client = Socket::new(Domain::for_address(entry), Type::STREAM, None).expect("a socket");
    // bind(2) gives the address, because a socket has none after a failed connect(2).
    client.bind(&SocketAddr::new(entry.ip(), 0).into()).expect("a port");
    let name = client.local_addr().expect("a name").as_socket().expect("an IP address");
    match client.connect(&entry.into()) {
        Ok(()) => assert_eq!(read_to_end(&patient(client.into())), (Vec::new(), Ending::Reset)),
        Err(err) => assert_eq!(err.kind(), ErrorKind::ConnectionReset, "{err}"),
    }
    name
}

/// Returns pseudo-random bytes that depend on `seed`, so that misplaced bytes show.
pub(crate) fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut word = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let mut bytes: Vec<u8> = std::iter::repeat_with(&mut word).take(len.div_ceil(8)).flatten().collect();
    bytes.truncate(len);
    bytes
}

/// Asserts that both are equal, without printing megabytes.
pub(crate) fn assert_same(got: &[u8], want: &[u8]) {
    if got == want {
        return;
    }
    let differ = got.iter().zip(want).position(|(got, want)| got != want);
    assert_eq!((got.len(), differ), (want.len(), None), "length, and offset of the first difference");
}

/// Accepts `flows` flows and echoes each on its own thread.
pub(crate) fn echo(server: &TcpListener, flows: usize) {
    std::thread::scope(|scope| {
        for _ in 0..flows {
            let socket = patient(server.accept().expect("the relay dials").0);
            scope.spawn(move || echo_one(&socket));
        }
    });
}

/// Echoes one flow to its end.
pub(crate) fn echo_one(mut socket: &TcpStream) {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        match uninterrupted(|| socket.read(&mut bytes)).expect("a good flow") {
            0 => break socket.shutdown(Shutdown::Write).expect("FIN"),
            got => socket.write_all(&bytes[..got]).expect("a good flow"),
        }
    }
}

/// Sends `bytes` and FIN, and asserts that the bytes come back, followed by FIN.
pub(crate) fn round_trip(socket: TcpStream, bytes: &[u8]) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (&socket).write_all(bytes).expect("a good flow");
            socket.shutdown(Shutdown::Write).expect("FIN");
        });
        let (got, ending) = read_to_end(&socket);
        assert_same(&got, bytes);
        assert_eq!(ending, Ending::Fin);
    });
}

/// Sends a message each way.
pub(crate) fn talk(mut client: &TcpStream, mut server: &TcpStream) {
    client.write_all(b"ping").unwrap();
    server.read_exact(&mut [0; 4]).unwrap();
    server.write_all(b"pong").unwrap();
    client.read_exact(&mut [0; 4]).unwrap();
}

/// Asserts that no byte and no ending comes within `time`. Uses a read with a timeout, not a sleep.
pub(crate) fn quiet_for(mut socket: &TcpStream, time: Duration) {
    socket.set_read_timeout(Some(time)).unwrap();
    match timed(time, || socket.read(&mut [0])) {
        Err(err) if err.kind() == ErrorKind::WouldBlock => {}
        other => panic!("{other:?}"),
    }
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
}

/// Writes until the path takes no more; returns the number of bytes taken. Every buffer of the path is then full.
pub(crate) fn fill_up(mut socket: &TcpStream, bytes: &[u8]) -> usize {
    // A pump moves bytes in microseconds, so a path that takes none for a second is full.
    const FULL: Duration = Duration::from_secs(1);
    socket.set_write_timeout(Some(FULL)).expect("SO_SNDTIMEO");
    let mut taken = 0;
    loop {
        match timed(FULL, || socket.write(&bytes[taken..])) {
            Ok(0) => panic!("the path took all {taken} bytes"),
            Ok(more) => taken += more,
            Err(err) if err.kind() == ErrorKind::WouldBlock => break,
            Err(err) => panic!("after {taken} bytes: {err}"),
        }
    }
    socket.set_write_timeout(Some(TIMEOUT)).expect("SO_SNDTIMEO");
    taken
}

/// Like [`uninterrupted`], but ends with `WouldBlock` after `time`, the socket's timeout. Each EINTR would restart that timeout.
fn timed<T>(time: Duration, mut call: impl FnMut() -> std::io::Result<T>) -> std::io::Result<T> {
    let start = Instant::now();
    uninterrupted(|| match call() {
        Err(err) if err.kind() == ErrorKind::Interrupted && start.elapsed() >= time => {
            Err(ErrorKind::WouldBlock.into())
        }
        result => result,
    })
}

/// Closes with RST (socket(7) SO_LINGER).
pub(crate) fn reset(socket: TcpStream) {
    SockRef::from(&socket).set_linger(Some(Duration::ZERO)).expect("SO_LINGER");
    drop(socket);
}

/// Returns the payload bytes that the kernel has received on `socket`, whether read by the program or not.
pub(crate) fn bytes_received(socket: &Socket) -> u64 {
    TcpInfo::of(socket.as_fd()).expect("a TCP socket").bytes_received
}

/// Runs `test`, and the processes that it starts, in a new network namespace with nothing but loopback. Needs root.
pub(crate) fn in_own_network(test: impl FnOnce() + Send) {
    if !longhaul_sys::netns::is_root() {
        return skip("needs root, to create a network namespace");
    }
    let in_namespace = || {
        longhaul_sys::netns::NetNs::create().expect("a network namespace");
        let up = Command::new("ip").args(["link", "set", "lo", "up"]).status();
        assert!(up.expect("ip(8) runs").success());
        test();
    };
    if let Err(panic) = std::thread::scope(|scope| scope.spawn(in_namespace).join()) {
        std::panic::resume_unwind(panic);
    }
}

/// Writes a sysctl of the calling thread's network namespace. `name` is its path below /proc/sys.
pub(crate) fn set_sysctl(name: &str, value: &str) {
    std::fs::write(format!("/proc/sys/{name}"), value).unwrap_or_else(|err| panic!("{name}: {err}"));
}

/// Prints that a test did not run, and why. In CI every test must run, so there it fails the test.
pub(crate) fn skip(why: &str) {
    assert!(std::env::var_os("CI").is_none(), "SKIP in CI: {why}");
    eprintln!("SKIP: {why}");
}
