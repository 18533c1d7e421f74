//! Where the connections of a measurement come from: this host makes them, or the daemon of a near relay does, as for its tunnel's flows.

use longhaul_core::text::printable;
use longhaul_core::wire::measure::{MESSAGES, Preface};
use longhaul_core::wire::probe::{LENGTH, Nonce};
use longhaul_measure::answer::{congestion_controls, hex};
use longhaul_measure::datagram;
use longhaul_measure::message::Buffers;
use longhaul_measure::random;
use longhaul_measure::through::{Ask, Begin, Begun, Connect, Tell};
use longhaul_sys::{poll, sockopt, unix};
use longhaul_units::Rate;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Makes the connections of a measurement, all to one address.
#[derive(Debug)]
pub(super) enum Dialer {
    /// This host connects to the address.
    Direct(SocketAddr),
    /// A daemon connects.
    Tunnel(Box<Through>),
}

/// A tunnel whose daemon gives the connections.
#[derive(Debug)]
pub(super) struct Through {
    /// Its name.
    pub(super) tunnel: String,
    /// The terms of the measurement.
    pub(super) begun: Begun,
    address: SocketAddr,
    /// Nonce of the session that the first connection begins.
    nonce: Nonce,
    /// Only the thread of the measurement's course asks. The others of a run do not.
    control: Mutex<Control>,
    stop: Arc<AtomicBool>,
}

/// The control connection to the daemon.
#[derive(Debug)]
struct Control {
    stream: UnixStream,
    unread: Vec<u8>,
    /// Sockets that have come.
    sockets: Vec<OwnedFd>,
    /// The first connection to the far relay, until it is used. Its preface was sent.
    first: Option<TcpStream>,
    /// Time for an answer.
    patience: Duration,
    /// Why the daemon has ended the measurement.
    ended: Option<String>,
}

impl Dialer {
    /// Returns the address of the far end.
    pub(super) fn address(&self) -> SocketAddr {
        match self {
            Dialer::Direct(address) => *address,
            Dialer::Tunnel(through) => through.address,
        }
    }

    /// Makes the control connection of a session, and sends its preface. Returns the connection, and the nonce of the session.
    ///
    /// # Errors
    /// There is no connection.
    pub(super) fn begin(&self) -> io::Result<(TcpStream, Nonce)> {
        match self {
            Dialer::Direct(address) => {
                let nonce = random()?;
                Ok((connect(*address, Some(CONTROL_MSS), &opening(nonce))?, nonce))
            }
            Dialer::Tunnel(through) => {
                let first = through.control().first.take();
                Ok((first.ok_or_else(|| io::Error::other("the session has begun before"))?, through.nonce))
            }
        }
    }

    /// Connects, with segments of at most `mss` bytes in both directions (tcp(7) TCP_MAXSEG), and sends `first`. The socket is O_NONBLOCK.
    ///
    /// # Errors
    /// There is no connection.
    pub(super) fn connect(&self, mss: Option<u32>, first: &[u8]) -> io::Result<TcpStream> {
        match self {
            Dialer::Direct(address) => connect(*address, mss, first),
            Dialer::Tunnel(through) => {
                through.connect(1, mss, first)?.pop().ok_or_else(|| ErrorKind::InvalidData.into())
            }
        }
    }

    /// Like [`connect`](Dialer::connect), `count` times. All at once: one after the other, the last of many would begin when the first has ended.
    ///
    /// # Errors
    /// One of them fails.
    pub(super) fn connect_all(&self, count: u32, mss: Option<u32>, first: &[u8]) -> io::Result<Vec<TcpStream>> {
        match self {
            Dialer::Direct(address) => thread::scope(|scope| {
                let connecting: Vec<_> = (0..count).map(|_| scope.spawn(|| connect(*address, mss, first))).collect();
                connecting.into_iter().map(|one| one.join().unwrap_or_else(|_| Err(ErrorKind::Other.into()))).collect()
            }),
            Dialer::Tunnel(through) => through.connect(count, mss, first),
        }
    }

    /// Opens a socket for datagrams.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn datagrams(&self) -> io::Result<UdpSocket> {
        match self {
            Dialer::Direct(SocketAddr::V4(_)) => datagram::open(([0; 4], 0).into()),
            Dialer::Direct(SocketAddr::V6(_)) => datagram::open(([0; 16], 0).into()),
            Dialer::Tunnel(through) => {
                let sockets = through.sockets(&Ask::Datagrams, 1)?;
                let socket = sockets.into_iter().next().map(UdpSocket::from).ok_or(ErrorKind::InvalidData)?;
                datagram::make_room(&socket)?;
                Ok(socket)
            }
        }
    }

    /// Returns the proof of the daemon's key, if it has one.
    ///
    /// # Errors
    /// The daemon does not answer.
    pub(super) fn prove(&self, nonce: &[u8], challenge: &str) -> io::Result<Option<String>> {
        let Dialer::Tunnel(through) = self else { return Ok(None) };
        match through.control().ask(&Ask::Prove(hex(nonce), challenge.into()), &through.stop)? {
            Tell::Proof(proof) => Ok(proof),
            other => Err(no_answer(&other)),
        }
    }

    /// Returns the congestion controls of the near end, the default first.
    pub(super) fn congestion(&self) -> Vec<String> {
        match self {
            Dialer::Direct(_) => congestion_controls(),
            Dialer::Tunnel(through) => through.begun.congestion.clone(),
        }
    }

    /// Returns the largest buffers of the near end.
    pub(super) fn buffers(&self) -> Buffers {
        match self {
            Dialer::Direct(_) => Buffers::here(),
            Dialer::Tunnel(through) => through.begun.buffers,
        }
    }

    /// Returns the tunnel, if a daemon gives the connections.
    pub(super) fn through(&self) -> Option<&Through> {
        if let Dialer::Tunnel(through) = self { Some(through) } else { None }
    }

    /// Looks whether the daemon has ended the measurement. Returns why.
    pub(super) fn ended(&self) -> Option<String> {
        self.through()?.control().look()
    }
}

impl Through {
    /// Begins a measurement through `tunnel`, on the connection `stream` to the daemon, at no more than `limit`.
    ///
    /// # Errors
    /// There is none. The text says why.
    pub(super) fn begin(
        stream: UnixStream,
        tunnel: &str,
        limit: Option<Rate>,
        stop: &Arc<AtomicBool>,
    ) -> Result<Through, String> {
        let nonce = random().map_err(|err| err.to_string())?;
        let mut control = Control {
            stream,
            unread: Vec::new(),
            sockets: Vec::new(),
            first: None,
            patience: ANSWER_TIME,
            ended: None,
        };
        // The daemon sends the preface, because this process may be too late for it: the far relay dials its final host at once, and passes
        // on what it says.
        let connect = Connect { count: 1, mss: Some(CONTROL_MSS), first: hex(&opening(nonce)) };
        let begin = Ask::Begin(Begin { connect, limit: limit.map(|limit| limit.0) });
        let begun = match control.ask(&begin, stop).map_err(|err| err.to_string())? {
            Tell::Begun(begun) => begun,
            other => return Err(no_answer(&other).to_string()),
        };
        let address = begun.address.parse().map_err(|_| "the daemon tells no address of the far relay")?;
        control.first = control.sockets.pop().map(prepared).transpose().map_err(|err| err.to_string())?;
        if begun.connect_ms > 0 {
            // It has one next hop from now on, and dials all connections at once.
            control.patience = Duration::from_millis(begun.connect_ms).min(MAX_CONNECT_TIME) + SPARE_TIME;
        }
        Ok(Through { tunnel: tunnel.into(), begun, address, nonce, control: Mutex::new(control), stop: stop.clone() })
    }

    /// Returns what the reader of the result has to know.
    pub(super) fn notes(&self) -> Vec<String> {
        let Begun { limit, limit_from, notes, .. } = &self.begun;
        let limit = limit.filter(|_| !limit_from.is_empty());
        let limit = limit.map(|limit| format!("it sends {} at most: {}", Rate(limit), shown(limit_from)));
        limit.into_iter().chain(notes.iter().map(|note| shown(note))).collect()
    }

    fn connect(&self, count: u32, mss: Option<u32>, first: &[u8]) -> io::Result<Vec<TcpStream>> {
        let sockets = self.sockets(&Ask::Connect(Connect { count, mss, first: hex(first) }), count)?;
        sockets.into_iter().map(prepared).collect()
    }

    /// Asks for `count` sockets.
    fn sockets(&self, ask: &Ask, count: u32) -> io::Result<Vec<OwnedFd>> {
        let mut control = self.control();
        match control.ask(ask, &self.stop)? {
            Tell::Connected if control.sockets.len() == count as usize => Ok(std::mem::take(&mut control.sockets)),
            other => Err(no_answer(&other)),
        }
    }

    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Control {
    /// Asks the daemon. The sockets of the answer are in `sockets`.
    fn ask(&mut self, ask: &Ask, stop: &AtomicBool) -> io::Result<Tell> {
        if let Some(why) = self.look() {
            return Err(io::Error::other(why));
        }
        self.sockets.clear();
        let mut line = serde_json::to_vec(ask)?;
        line.push(b'\n');
        self.stream.write_all(&line)?;
        let deadline = Instant::now() + self.patience;
        loop {
            if let Some(told) = self.read(TICK)? {
                return Ok(told);
            }
            if stop.load(Relaxed) {
                return Err(ErrorKind::Interrupted.into());
            }
            if Instant::now() >= deadline {
                return Err(io::Error::other("the daemon does not answer; it hangs or is stopped"));
            }
        }
    }

    /// Returns why the daemon has ended the measurement, if it has.
    fn look(&mut self) -> Option<String> {
        if self.ended.is_none() {
            // An error is noted, too.
            let _ = self.read(Duration::ZERO);
        }
        self.ended.clone()
    }

    /// Reads a line, if one comes within `time`. Notes the end of the measurement.
    fn read(&mut self, time: Duration) -> io::Result<Option<Tell>> {
        if let Some(why) = &self.ended {
            return Err(io::Error::other(why.clone()));
        }
        if !self.unread.contains(&b'\n') && poll::readable(&[self.stream.as_fd()], time)?[0] {
            let mut bytes = [0; 16 << 10];
            let received = unix::receive_descriptors(self.stream.as_fd(), &mut bytes);
            let (got, sockets) = received.unwrap_or_default();
            if got == 0 || self.unread.len() > MAX_LINE {
                self.ended = Some("the daemon has ended".into());
                return Err(io::Error::other("the daemon has ended"));
            }
            self.unread.extend_from_slice(&bytes[..got]);
            self.sockets.extend(sockets);
        }
        let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
        let line: Vec<u8> = self.unread.drain(..=end).collect();
        let told = serde_json::from_slice(&line)
            .map_err(|err| io::Error::other(format!("the daemon's answer: {err}; restart it with this longhaul")))?;
        if let Tell::Ended(why) = &told {
            self.ended = Some(shown(why));
            return Err(io::Error::other(shown(why)));
        }
        Ok(Some(told))
    }
}

/// Returns the error of an answer that is not the awaited one.
fn no_answer(told: &Tell) -> io::Error {
    match told {
        Tell::Failed(why) => io::Error::other(shown(why)),
        _ => io::Error::other("the daemon says something else"),
    }
}

fn shown(why: &str) -> String {
    printable(why).take(500).collect()
}

/// Returns the connection `socket` of the daemon as this process uses it.
fn prepared(socket: OwnedFd) -> io::Result<TcpStream> {
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// Returns the preface of a session's control connection.
fn opening(nonce: Nonce) -> [u8; LENGTH] {
    Preface { messages: MESSAGES, run: None, nonce }.bytes()
}

fn connect(address: SocketAddr, mss: Option<u32>, first: &[u8]) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if let Some(mss) = mss {
        socket.set_tcp_mss(mss)?;
    }
    if !first.is_empty() {
        // They are there when a relay accepts the connection: it dials at once, and a final host may speak and end before they come.
        sockopt::set_first_bytes_in_handshake(socket.as_fd()).map_err(io::Error::other)?;
    }
    socket.connect_timeout(&address.into(), CONNECT_TIME)?;
    socket.set_tcp_nodelay(true)?;
    let mut stream = TcpStream::from(socket);
    // A peer that has reset the connection says why by what it sent before.
    let _ = stream.write_all(first);
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// MSS of the control connection: each path carries so much (RFC 9293, 3.7.1).
pub(super) const CONTROL_MSS: u32 = 536;
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// Time for the first answer of the daemon: some times that in which it gives up a dial.
const ANSWER_TIME: Duration = Duration::from_secs(60);
/// Time for a later one, beside that in which it gives up a dial.
const SPARE_TIME: Duration = Duration::from_secs(5);
/// The most that it may take for a dial.
const MAX_CONNECT_TIME: Duration = Duration::from_secs(3600);
const TICK: Duration = Duration::from_millis(100);
/// Length of a daemon's line at most.
const MAX_LINE: usize = 64 << 10;
