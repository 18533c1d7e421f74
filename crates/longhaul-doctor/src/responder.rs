//! `longhaul responder`: answers `longhaul path` and `longhaul verify` on a host without tunnels.
//!
//! One thread accepts connections and waits for their prefaces. A connection whose preface has come gets a thread of its own. While
//! the preface is missing, a connection is one descriptor and no thread, and the oldest of too many gives way. So clients that connect
//! and say nothing keep nobody out.

use crate::say;
use clap::Args;
use longhaul_config::{key_file, value};
use longhaul_core::opening::{Asks, Found, MAX_PREFACE_BYTES, Opening, PrefaceKind};
use longhaul_core::wire::proof::Key;
use longhaul_measure::answer::{Answerer, Entry};
use longhaul_measure::echo;
use longhaul_sys::tcp_info::{State, TcpInfo};
use longhaul_sys::{poll, sockopt};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// The flags of `longhaul responder`.
#[derive(Args, Clone, Debug)]
pub struct Responder {
    /// Address and port to listen on
    #[arg(long, value_name = "[ADDR:]PORT", value_parser = value::listen)]
    listen: SocketAddr,
    /// Clients that may measure [default: everyone]
    ///
    /// A network such as 10.10.10.0/24, or an address. Repeat the flag for several. Everyone else is reset.
    #[arg(long, value_name = "CIDR", value_parser = value::network)]
    allow: Vec<ipnet::IpNet>,
    /// File with a key that clients must prove
    ///
    /// 16 to 4096 bytes, which no other user may read. `longhaul path --key-file` has the same.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
}

impl Responder {
    /// Runs the command until a signal ends it.
    pub fn run(self) -> ExitCode {
        let key = match self.key_file.as_deref().map(key_file::load).transpose() {
            Ok(key) => key.map(Arc::new),
            Err(why) => return say::wrong(&why.to_string()),
        };
        let listener = match listen(self.listen) {
            Ok(listener) => listener,
            Err(err) => return say::failed(&format!("cannot listen on {}: {err}", self.listen)),
        };
        say::note(format_args!("answering measurements on {}", self.listen));
        if self.allow.is_empty() && key.is_none() && !self.listen.ip().is_loopback() {
            say::note("warning: everyone who reaches the port may measure; add --allow CIDR or --key-file FILE");
        }
        let server = Server {
            listener,
            allow: self.allow,
            told: Cell::default(),
            key,
            answerer: Arc::default(),
            served: Arc::default(),
            probes: Arc::default(),
        };
        say::failed(&format!("poll: {}", server.serve()))
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(1024)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// The listener, and who may measure.
struct Server {
    listener: TcpListener,
    allow: Vec<ipnet::IpNet>,
    /// When it last told that somebody is not allowed.
    told: Cell<Option<Instant>>,
    key: Option<Arc<Key>>,
    answerer: Arc<Answerer>,
    /// Number of connections that have a thread, without those of the session's runs.
    served: Arc<AtomicUsize>,
    /// Number of probes among them.
    probes: Arc<AtomicUsize>,
}

/// A connection whose preface is missing.
struct Pending {
    stream: TcpStream,
    peer: SocketAddr,
    opening: Opening,
    since: Instant,
}

impl Server {
    /// Serves until poll(2) fails. Returns its error.
    fn serve(&self) -> io::Error {
        let mut pending: VecDeque<Pending> = VecDeque::new();
        loop {
            let sockets: Vec<_> =
                [self.listener.as_fd()].into_iter().chain(pending.iter().map(|one| one.stream.as_fd())).collect();
            let ready = match poll::readable(&sockets, LOOK_AROUND) {
                Ok(ready) => ready,
                Err(err) => return err,
            };
            let mut index = 0;
            pending.retain_mut(|one| {
                index += 1;
                !ready[index] && one.since.elapsed() < PREFACE_TIME || self.is_left(one)
            });
            if ready[0] {
                self.admit(&mut pending);
            }
        }
    }

    /// Accepts the connections that wait.
    fn admit(&self, pending: &mut VecDeque<Pending>) {
        for _ in 0..MAX_PENDING {
            let (stream, peer) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(err) if err.kind() == ErrorKind::WouldBlock => return,
                Err(_) => {
                    // EMFILE and the like: whoever waits longest gives way.
                    pending.pop_front();
                    thread::sleep(PAUSE);
                    return;
                }
            };
            // Dropping the stream resets it.
            let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
            // Without this, one that sends a part of a preface would be readable all the time.
            let is_patient = sockopt::set_receive_low_water(stream.as_fd(), MAX_PREFACE_BYTES as u32).is_ok();
            if !self.allows(peer.ip()) {
                self.tell_of_stranger(peer.ip().to_canonical());
                continue;
            }
            if stream.set_nonblocking(true).is_err() || !is_patient {
                continue;
            }
            if pending.len() >= MAX_PENDING {
                pending.pop_front();
            }
            let since = Instant::now();
            pending.push_back(Pending { stream, peer, opening: Opening::new(Asks::Flow, since), since });
        }
    }

    /// Whether the preface of `one` is still missing. If it is there, serves the connection. Anything else resets it.
    fn is_left(&self, one: &mut Pending) -> bool {
        let mut bytes = [0; MAX_PREFACE_BYTES];
        let got = match one.stream.peek(&mut bytes) {
            Ok(got) => got,
            Err(err) if err.kind() == ErrorKind::WouldBlock => return one.since.elapsed() < PREFACE_TIME,
            Err(_) => return false,
        };
        // A FIN behind a part of a preface makes the connection readable all the time.
        let has_ended = got == 0 || TcpInfo::of(one.stream.as_fd()).is_ok_and(|info| info.state != State::Established);
        match one.opening.look(&bytes[..got], has_ended, Instant::now()) {
            None => one.since.elapsed() < PREFACE_TIME,
            Some(Found::Preface(preface)) => {
                self.begin(one, preface);
                false
            }
            Some(_) => false,
        }
    }

    fn begin(&self, one: &Pending, preface: PrefaceKind) {
        let Ok(mut stream) = one.stream.try_clone() else { return };
        let _ = sockopt::set_receive_low_water(stream.as_fd(), 1);
        let peer = one.peer.ip();
        // What others do breaks no session that goes on.
        let is_of_session =
            matches!(&preface, PrefaceKind::Measure(preface) if self.answerer.is_of_session(preface, peer));
        let counts = usize::from(!is_of_session);
        if !is_of_session && self.served.load(Relaxed) >= MAX_SERVED
            || stream.read(&mut [0; MAX_PREFACE_BYTES]).is_err()
        {
            return;
        }
        let (answerer, key, probes) = (self.answerer.clone(), self.key.clone(), self.probes.clone());
        let (served, peer) = (self.served.clone(), peer.to_canonical());
        served.fetch_add(counts, Relaxed);
        let serving = move || {
            match preface {
                PrefaceKind::Measure(preface) => {
                    let entry = key.map_or(Entry::Open, Entry::Key);
                    tell(peer, preface.run.is_none(), answerer.serve(stream, &preface, &entry));
                }
                PrefaceKind::Probe(preface) => {
                    let is_busy = probes.fetch_add(1, Relaxed) >= MAX_PROBES;
                    // The prober tells its end.
                    let _ = echo::answer(&stream, &preface, key.as_deref(), is_busy);
                    probes.fetch_sub(1, Relaxed);
                }
            }
            served.fetch_sub(counts, Relaxed);
        };
        if thread::Builder::new().name("session".into()).spawn(serving).is_err() {
            self.served.fetch_sub(counts, Relaxed);
        }
    }

    /// Says that `peer` is not allowed, unless it has said so of somebody a moment ago.
    fn tell_of_stranger(&self, peer: IpAddr) {
        if self.told.get().is_none_or(|at| at.elapsed() >= BETWEEN_STRANGERS) {
            self.told.set(Some(Instant::now()));
            say::note(format_args!("refused {peer}: --allow does not contain it"));
        }
    }

    fn allows(&self, peer: IpAddr) -> bool {
        self.allow.is_empty() || self.allow.iter().any(|network| network.contains(&peer.to_canonical()))
    }
}

/// Tells how a connection of a session with `peer` has ended.
fn tell(peer: IpAddr, is_control: bool, ended: io::Result<Option<String>>) {
    match ended {
        Ok(None) if is_control => say::note(format_args!("measured with {peer}")),
        Ok(Some(why)) if is_control => say::note(format_args!("refused {peer}: {why}")),
        Err(err) if is_control => say::note(format_args!("the session with {peer} broke: {err}")),
        _ => {}
    }
}

/// Least time between two lines about clients that are not allowed.
const BETWEEN_STRANGERS: Duration = Duration::from_secs(10);
/// Connections without a preface at most, and the time that each has for it.
const MAX_PENDING: usize = 256;
const PREFACE_TIME: Duration = Duration::from_secs(10);
/// Connections with a thread at most, beside those of the session's runs: probes and refusals.
const MAX_SERVED: usize = 96;
/// Probes among them at most.
const MAX_PROBES: usize = 16;
const LOOK_AROUND: Duration = Duration::from_millis(500);
/// Pause after an error of accept(2).
const PAUSE: Duration = Duration::from_millis(50);
