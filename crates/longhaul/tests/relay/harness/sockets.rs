//! Clients and servers, and what they send, get and wait for.

use crate::harness::TIMEOUT;
use longhaul_sys::tcp_info::TcpInfo;
pub(crate) use longhaul_sys::uninterrupted;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, SockRef, Socket, Type};
use std::fmt::Debug;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Returns a server on loopback whose accept has a timeout.
pub(crate) fn server() -> TcpListener {
    server_at("127.0.0.1")
}

/// Like [`server`], on another address such as `[::1]`.
pub(crate) fn server_at(ip: &str) -> TcpListener {
    listen(format!("{ip}:0"))
}

pub(crate) fn listen(address: impl ToSocketAddrs) -> TcpListener {
    // Until its exec(2), a child that another test starts has the descriptors of this process, also that of a listener on the same port
    // that is closed here.
    let server = wait_for_value("a server", || TcpListener::bind(&address).ok(), Option::is_some).expect("a server");
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

/// Like [`wait_for`], for a value of which `is_it` returns true.
pub(crate) fn wait_for_value<T: Debug>(what: &str, mut look: impl FnMut() -> T, is_it: impl Fn(&T) -> bool) -> T {
    wait_for(what, || {
        let seen = look();
        if is_it(&seen) { Ok(seen) } else { Err(seen) }
    })
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

/// Asserts that no connection waits for `server`.
pub(crate) fn assert_not_dialled(server: &TcpListener) {
    server.set_nonblocking(true).expect("O_NONBLOCK");
    assert!(server.accept().is_err_and(|err| err.kind() == ErrorKind::WouldBlock), "the relay dialled");
    server.set_nonblocking(false).expect("O_NONBLOCK");
}

/// Connects from the address `ip`.
pub(crate) fn dial_from(ip: &str, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::new(ip.parse().expect("an address"), 0).into()).expect("a port");
    socket.connect(&to.into())?;
    Ok(patient(socket.into()))
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

/// Asserts that `socket` gets exactly `want`, and then FIN.
pub(crate) fn assert_whole(socket: &TcpStream, want: &[u8]) {
    let (got, ending) = read_to_end(socket);
    assert_same(&got, want);
    assert_eq!(ending, Ending::Fin);
}

/// Sends `bytes` and FIN.
pub(crate) fn send_all(mut socket: &TcpStream, bytes: &[u8]) {
    socket.write_all(bytes).expect("a good flow");
    socket.shutdown(Shutdown::Write).expect("FIN");
}

/// Sends `bytes` and FIN on `from`, and asserts that `to` gets both.
pub(crate) fn pass_all(from: &TcpStream, to: &TcpStream, bytes: &[u8]) {
    std::thread::scope(|scope| {
        scope.spawn(|| send_all(from, bytes));
        assert_whole(to, bytes);
    });
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
    pass_all(&socket, &socket, bytes);
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
