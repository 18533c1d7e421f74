//! The client's side of a measuring session (docs/protocol.md).

use super::dialer::Dialer;
use longhaul_core::text::{is_printable, printable};
use longhaul_core::wire::answer::{Frame, Frames};
use longhaul_core::wire::measure::{GREETING, MESSAGES, Preface};
use longhaul_core::wire::probe;
use longhaul_core::wire::proof::Key;
use longhaul_measure::answer::{GO, hex, unhex};
use longhaul_measure::bulk;
use longhaul_measure::message::{Admitted, Ask, Direction, Ran, Refused, Run, Tell, Train, Trained};
use longhaul_measure::random;
use longhaul_measure::talk::Talk;
use longhaul_sys::errno_text;
use longhaul_sys::tcp_info::TcpInfo;
use socket2::{SockRef, TcpKeepalive};
use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// A session with an answerer.
pub(super) struct Session {
    talk: Talk,
    dialer: Arc<Dialer>,
    nonce: probe::Nonce,
    /// Version of longhaul there.
    pub(super) version: String,
    /// Its limits.
    pub(super) admitted: Admitted,
    /// Time that the connection took.
    pub(super) connect: Duration,
    /// Whether the measurement shall end.
    stop: Arc<AtomicBool>,
    /// When it was opened.
    pub(super) began: Instant,
    /// Time at which the answerer ends it, or at which this end gives up a far end that is slow.
    pub(super) until: Instant,
}

/// The times of a small message. The two clocks need not agree: only changes from one message to the next mean something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Echoed {
    /// When it was sent, by this host's clock.
    pub(super) sent: Duration,
    /// When the far end answered, by its clock.
    pub(super) answered: Duration,
    /// When the answer came, by this host's clock.
    pub(super) came: Duration,
}

impl Echoed {
    pub(super) fn rtt(&self) -> Duration {
        self.came.saturating_sub(self.sent)
    }

    /// Returns the time in `direction` in seconds, plus a constant that nobody knows.
    pub(super) fn one_way(&self, direction: Direction) -> f64 {
        let [sent, answered, came] = [self.sent, self.answered, self.came].map(|time| time.as_secs_f64());
        match direction {
            Direction::Up => answered - sent,
            Direction::Down => came - answered,
        }
    }
}

/// Why there is no session.
#[derive(Debug)]
pub(super) enum NoSession {
    /// Nobody answers at the address.
    Unreachable(String),
    /// Somebody answers who does not measure. One end alone still tells something.
    OneSided {
        /// Why, in words.
        why: String,
        /// Time that the connection took.
        connect: Duration,
    },
    /// The answerer refuses, and says why.
    Refused(String),
}

impl NoSession {
    /// Returns why, in words.
    pub(super) fn why(self) -> String {
        match self {
            NoSession::Unreachable(why) | NoSession::Refused(why) | NoSession::OneSided { why, .. } => why,
        }
    }
}

/// Result of a run, of both ends.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    /// The run as it was asked for.
    pub(super) run: Run,
    /// Largest payload of a segment that this run could use; `None`: what the hosts chose.
    pub(super) mss: Option<u32>,
    /// Payload bytes that had arrived, by the time since the run began. For a run up, those that were acknowledged.
    pub(super) series: Vec<(Duration, u64)>,
    /// Result of the sender.
    pub(super) sender: Ran,
    /// Result of the receiver.
    pub(super) receiver: Ran,
}

impl Session {
    /// Connects, proves the key, and begins a session.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn open(dialer: &Arc<Dialer>, key: Option<&Key>, stop: &Arc<AtomicBool>) -> Result<Session, NoSession> {
        let (address, began) = (dialer.address(), Instant::now());
        let (stream, nonce) = dialer.begin().map_err(|err| match err.kind() {
            // It was accepted first.
            ErrorKind::ConnectionReset => {
                NoSession::OneSided { why: who_answers(dialer, &err, &[], stop), connect: began.elapsed() }
            }
            ErrorKind::TimedOut => {
                let port = address.port();
                NoSession::Unreachable(format!(
                    "{address}: no answer: the host is down, or a firewall drops TCP port {port}"
                ))
            }
            _ => NoSession::Unreachable(format!("{address}: {}", in_words(&err))),
        })?;
        // Through a tunnel, this connection was made before.
        let handshake = TcpInfo::of(stream.as_fd()).map_or(Duration::ZERO, |info| info.min_rtt);
        let connect = if dialer.through().is_some() { handshake } else { began.elapsed() };
        let one_sided = |why: String| NoSession::OneSided { why, connect };
        let (here, mut talk) = (stream.local_addr(), Talk::new(stream, MAX_TELL));
        let deadline = Instant::now() + GREETING_TIME;
        let is_stopped = || stop.load(Relaxed);
        talk.find(&GREETING, deadline, is_stopped)
            .map_err(|(err, said)| one_sided(who_answers(dialer, &err, &said, stop)))?;
        let lost = |err: io::Error| one_sided(format!("the answerer at {address}: {}", in_words(&err)));
        let Tell::Hello(hello) = talk.hear(deadline, is_stopped).map_err(lost)? else {
            return Err(one_sided(format!("the answerer at {address} begins with another message")));
        };
        if let Some(challenge) = &hello.challenge {
            let proof = prove(challenge, &nonce, key, dialer).map_err(NoSession::Refused)?;
            talk.tell(&Ask::Proof(proof), deadline).map_err(lost)?;
        }
        match talk.hear(deadline, is_stopped).map_err(lost)? {
            Tell::Admitted(admitted) => {
                let version = shown(&hello.version);
                let congestion = admitted.congestion.iter().take(16).map(|name| shown(name)).collect();
                let admitted = Admitted { name: shown(&admitted.name), congestion, ..admitted };
                let stop = stop.clone();
                let until = Instant::now() + Duration::from_secs_f64(admitted.max_seconds.clamp(1.0, 3600.0));
                // For `is_host_alive`. Our own deadlines end the session, not lost probes.
                let probes = TcpKeepalive::new().with_time(PROBE_TIME).with_interval(PROBE_TIME).with_retries(100);
                SockRef::from(talk.stream()).set_tcp_keepalive(&probes).map_err(lost)?;
                Ok(Session { talk, dialer: dialer.clone(), nonce, version, admitted, connect, stop, began, until })
            }
            Tell::Refused(Refused { why, is_busy }) => {
                let is_closed = !is_busy && hello.challenge.is_none() && hello.messages >= MESSAGES;
                let remedy = here.ok().filter(|_| is_closed).map_or(String::new(), |here| remedy(here.ip()));
                Err(NoSession::Refused(format!("{address} refuses: {}{remedy}", shown(&why))))
            }
            _ => Err(one_sided(format!("the answerer at {address} says something else"))),
        }
    }

    /// Returns where the connections come from.
    pub(super) fn dialer(&self) -> &Arc<Dialer> {
        &self.dialer
    }

    /// Returns the nonce, which is in each datagram.
    pub(super) fn nonce(&self) -> &probe::Nonce {
        &self.nonce
    }

    /// Returns the address and port for datagrams, if there is one.
    pub(super) fn datagrams(&self) -> Option<SocketAddr> {
        self.admitted.datagram_port.map(|port| SocketAddr::new(self.dialer.address().ip(), port))
    }

    /// Returns the times of one small message: sent and come back by this host's clock, and answered by the far end's clock.
    ///
    /// # Errors
    /// The session is lost.
    pub(super) fn echo(&mut self, number: u32) -> io::Result<Echoed> {
        let sent = self.began.elapsed();
        match self.ask(&Ask::Echo(number))? {
            Tell::Echo(echo) if echo.number == number => {
                Ok(Echoed { sent, answered: Duration::from_micros(echo.at), came: self.began.elapsed() })
            }
            _ => Err(ErrorKind::InvalidData.into()),
        }
    }

    /// Returns the smallest round trip that the kernel has seen on the control connection.
    pub(super) fn kernel_rtt(&self) -> Option<Duration> {
        let info = TcpInfo::of(self.talk.stream().as_fd()).ok()?;
        Some(info.min_rtt).filter(|rtt| !rtt.is_zero())
    }

    /// Announces a train up.
    ///
    /// # Errors
    /// The session is lost, or the answerer refuses the train.
    pub(super) fn begin_train(&mut self, train: &Train) -> io::Result<()> {
        match self.ask(&Ask::Train(train.clone()))? {
            Tell::Ready(number) if number == train.number => Ok(()),
            _ => Err(ErrorKind::InvalidData.into()),
        }
    }

    /// Lets the answerer send a train, and returns what it has sent.
    ///
    /// # Errors
    /// As [`begin_train`](Session::begin_train).
    pub(super) fn train_down(&mut self, train: &Train) -> io::Result<Trained> {
        match self.ask(&Ask::Train(train.clone()))? {
            Tell::Trained(trained) if trained.number == train.number => Ok(trained),
            _ => Err(ErrorKind::InvalidData.into()),
        }
    }

    /// Returns what has arrived of the train up with this number, once no more of its `sent` datagrams come for `patience`.
    ///
    /// # Errors
    /// The session is lost.
    pub(super) fn arrived(&mut self, number: u32, sent: u64, patience: Duration) -> io::Result<Trained> {
        let mut last = Trained::default();
        for _ in 0..MAX_ARRIVALS {
            thread::sleep(patience);
            match self.ask(&Ask::Arrived(number))? {
                // More than was sent is a lie.
                Tell::Trained(trained) if trained.datagrams > sent => return Ok(Trained::default()),
                Tell::Trained(trained) if trained.datagrams == sent || trained == last => return Ok(trained),
                Tell::Trained(trained) => last = trained,
                _ => return Err(ErrorKind::InvalidData.into()),
            }
        }
        Ok(last)
    }

    /// Whether the far kernel has acknowledged something of late, so that the path is no dead one although the far program says nothing.
    pub(super) fn is_host_alive(&self) -> bool {
        TcpInfo::of(self.talk.stream().as_fd()).is_ok_and(|info| info.last_ack_received < ECHO_TIME / 2)
    }

    fn ask(&mut self, ask: &Ask) -> io::Result<Tell> {
        let deadline = self.until.min(Instant::now() + ECHO_TIME);
        let stop = self.stop.clone();
        let told = self.talk.tell(ask, deadline).and_then(|()| self.talk.hear(deadline, || stop.load(Relaxed)));
        told.map_err(|err| self.or_too_slow(err))
    }

    /// Returns `err`, or that the far end is too slow if the time of the session is over.
    fn or_too_slow(&self, err: io::Error) -> io::Error {
        let is_late = err.kind() == ErrorKind::TimedOut && Instant::now() >= self.until;
        if is_late { io::Error::other("the far end answers too slowly") } else { err }
    }

    /// Makes a run whose segments have at most `mss` bytes. Returns what it has shown, and why the session was lost or the run refused,
    /// if it was.
    pub(super) fn run(&mut self, run: Run, mss: Option<u32>) -> (Outcome, Option<io::Error>) {
        let mut outcome = Outcome { run, mss, ..Outcome::default() };
        let lost = self.make(&mut outcome).err();
        (outcome, lost)
    }

    /// # Errors
    /// The session is lost, or the answerer refuses the run.
    fn make(&mut self, outcome: &mut Outcome) -> io::Result<()> {
        let other = || io::Error::other("the answerer says something else");
        let (run, mss) = (outcome.run.clone(), outcome.mss);
        match self.ask(&Ask::Run(run.clone()))? {
            Tell::Ready(number) if number == run.number => {}
            Tell::Refused(refused) => return Err(io::Error::other(shown(&refused.why))),
            _ => return Err(other()),
        }
        let near = self.carry(&run, mss, &mut outcome.series);
        let near = near.map_err(|err| self.or_too_slow(err))?;
        let (ours, theirs) = match run.direction {
            Direction::Up => (&mut outcome.sender, &mut outcome.receiver),
            Direction::Down => (&mut outcome.receiver, &mut outcome.sender),
        };
        *ours = near;
        match self.talk.hear(Instant::now() + RESULT_TIME, || self.stop.load(Relaxed))? {
            Tell::Ran(ran) if ran.number == run.number && ran.looks.len() <= max_looks(&run) => {
                *theirs = Ran { congestion: shown(&ran.congestion), ..ran };
                Ok(())
            }
            _ => Err(other()),
        }
    }

    /// Opens the connections of a run and carries its bulk.
    fn carry(&self, run: &Run, mss: Option<u32>, series: &mut Vec<(Duration, u64)>) -> io::Result<Ran> {
        let preface = Preface { messages: MESSAGES, run: Some(run.number), nonce: self.nonce };
        let streams =
            self.dialer.connect_all(run.connections, mss, &preface.bytes()).map_err(|err| match err.kind() {
                ErrorKind::TimedOut => {
                    io::Error::other("no answer to a connection of a run: a firewall may limit their number")
                }
                _ => err,
            })?;
        for stream in &streams {
            self.prepare(stream, run)?;
        }
        let (stop, received) = (&*self.stop, &AtomicU64::new(0));
        let began = Instant::now();
        let mut near = Ran { number: run.number, ..Ran::default() };
        thread::scope(|scope| {
            let carry = |stream| scope.spawn(move || carry_one(stream, run, stop, received));
            let carrying: Vec<_> = streams.iter().map(carry).collect();
            while !carrying.iter().all(thread::ScopedJoinHandle::is_finished) {
                thread::sleep(BETWEEN_SAMPLES);
                if self.dialer.ended().is_some() {
                    stop.store(true, Relaxed);
                }
                let bytes: u64 = match run.direction {
                    Direction::Up => streams.iter().map(acked).sum(),
                    Direction::Down => received.load(Relaxed),
                };
                let before = series.last().map_or(0, |(_, before)| *before);
                series.push((began.elapsed(), bytes.max(before)));
            }
            for one in carrying {
                near.add(one.join().unwrap_or_default());
            }
        });
        Ok(near)
    }

    /// Prepares a connection of `run`.
    fn prepare(&self, stream: &TcpStream, run: &Run) -> io::Result<()> {
        if run.direction == Direction::Up {
            stream.set_nonblocking(false)?;
            stream.set_read_timeout(Some(BETWEEN_SAMPLES))?;
            self.wait_for_go(stream)?;
            bulk::prepare(stream, run)?;
        }
        stream.set_nonblocking(true)
    }

    /// Waits until the answerer reads. The bytes of a server that speaks first may come before.
    fn wait_for_go(&self, mut stream: &TcpStream) -> io::Result<()> {
        let (mut go, deadline) = ([0; GO.len()], self.until.min(Instant::now() + ECHO_TIME));
        while go != *GO {
            match stream.read_exact(&mut go) {
                Err(err) if !matches!(err.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return Err(err),
                _ if self.stop.load(Relaxed) => return Err(ErrorKind::Interrupted.into()),
                _ if Instant::now() >= deadline => return Err(ErrorKind::TimedOut.into()),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Returns the number of looks that a sender has in `run` at most: some more than one each 100 ms.
fn max_looks(run: &Run) -> usize {
    (run.seconds * 12.0) as usize + 20
}

fn carry_one(stream: &TcpStream, run: &Run, stop: &AtomicBool, received: &AtomicU64) -> Ran {
    match run.direction {
        Direction::Up => bulk::send(stream, run, stop),
        Direction::Down => bulk::receive(stream, run, stop, |bytes| {
            received.fetch_add(bytes, Relaxed);
        }),
    }
}

/// Returns the payload bytes that the peer of `stream` has acknowledged.
fn acked(stream: &TcpStream) -> u64 {
    // The SYN counts as a byte.
    TcpInfo::of(stream.as_fd()).map_or(0, |info| info.bytes_acked.saturating_sub(1))
}

/// Returns the proof of `key`, or of that of the daemon which gives the connections.
fn prove(challenge: &str, nonce: &probe::Nonce, key: Option<&Key>, dialer: &Dialer) -> Result<String, String> {
    let Some(key) = key else {
        let wanted = match dialer {
            Dialer::Direct(_) => "pass --key-file FILE, the key of its `[probe] key_file` or --key-file",
            Dialer::Tunnel(_) => {
                "write the same `[probe] key_file` in the file of this daemon, or pass --key-file FILE"
            }
        };
        let proof = dialer.prove(nonce, challenge).map_err(|err| err.to_string())?;
        return proof.ok_or_else(|| format!("the answerer wants a key: {wanted}"));
    };
    let random = unhex(challenge).ok_or("the answerer's challenge is none")?;
    Ok(hex(&key.prove_session(nonce, &random)))
}

/// Says what lets a client at `here` measure.
fn remedy(here: IpAddr) -> String {
    let here = here.to_canonical();
    format!(
        "; in its longhaul.toml, write `measure_from = [\"{here}\"]` below `[probe]`, and reload it (a responder has --allow)"
    )
}

/// Says who answers at the other end of `dialer` if it is no answerer: what it `said`, or whether it is an older longhaul.
fn who_answers(dialer: &Dialer, err: &io::Error, said: &[u8], stop: &AtomicBool) -> String {
    let address = dialer.address();
    if said.starts_with(b"SSH-") {
        return format!("an SSH server answers at {address} ({}), and no longhaul", first_line(said));
    }
    if !said.is_empty() {
        let what = first_line(said);
        // Behind a box that answers handshakes itself, the first bytes are late at the far relay. It has passed on this end then.
        let may_be_behind = dialer.through().is_some() && err.kind() == ErrorKind::UnexpectedEof;
        return match may_be_behind {
            true => format!(
                "a server at {address} sends {what}, and ends the connection: no longhaul is there, or the server behind the far \
                 longhaul's tunnel was faster than it; measure when that server has no other client, or to a `longhaul responder` there"
            ),
            false => format!("another server answers at {address} (it sends {what}), and no longhaul"),
        };
    }
    if stop.load(Relaxed) {
        return "interrupted".into();
    }
    match older(dialer, stop) {
        Some(version) => format!(
            "longhaul {version} at {address} is too old to measure: update it, or run `longhaul responder` there"
        ),
        None => match err.kind() {
            ErrorKind::TimedOut => format!("{address} accepts connections, but does not answer: it is no longhaul"),
            _ => format!(
                "{address} ended the connection without an answer: it is no longhaul, an older one, or its `allow` does not contain \
                 this host"
            ),
        },
    }
}

/// Returns the first line of what a server has `said`, in words if it is no text.
fn first_line(said: &[u8]) -> String {
    let line = said.trim_ascii_start().split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii_end();
    match std::str::from_utf8(line) {
        Ok("") => "an empty line".into(),
        Ok(text) if text.chars().all(is_printable) => shown(text),
        _ => {
            let bytes = &said[..said.len().min(8)];
            let more = if bytes.len() < said.len() { ", and more" } else { "" };
            let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("bytes that are no text: {} in hexadecimal{more}", digits.join(" "))
        }
    }
}

/// Returns the version of a longhaul at the other end of `dialer` that answers probes.
fn older(dialer: &Dialer, stop: &AtomicBool) -> Option<String> {
    let nonce = random().ok()?;
    let mut stream = dialer.connect(None, &probe::Preface { hops: 0, echo_bytes: 0, nonce }.bytes()).ok()?;
    stream.set_nonblocking(false).ok()?;
    stream.set_read_timeout(Some(BETWEEN_SAMPLES)).ok()?;
    let (mut frames, mut buffer) = (Frames::default(), [0; 1024]);
    let deadline = Instant::now() + ECHO_TIME;
    while Instant::now() < deadline && !stop.load(Relaxed) {
        let got = match stream.read(&mut buffer) {
            Err(err) if matches!(err.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => continue,
            read => read.ok().filter(|got| *got > 0)?,
        };
        for byte in &buffer[..got] {
            if let Ok(Some(Frame::Report(report))) = frames.take(*byte) {
                return Some(shown(&report.version));
            }
        }
    }
    None
}

/// Returns a text of the peer without what cannot be printed, and not too long.
fn shown(text: &str) -> String {
    printable(text).take(200).collect()
}

/// Says what happened to a connection.
pub(super) fn in_words(err: &io::Error) -> String {
    match err.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => NO_ANSWER.into(),
        ErrorKind::UnexpectedEof => "it ended the session".into(),
        ErrorKind::Interrupted => "interrupted".into(),
        ErrorKind::ConnectionRefused => {
            "nobody listens there; start `longhaul responder --listen PORT` on that host".into()
        }
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => {
            "the host is down, the address is wrong, or no route leads there".into()
        }
        _ => err.raw_os_error().map_or_else(|| err.to_string(), errno_text),
    }
}

/// Words for an answer that does not come.
pub(super) const NO_ANSWER: &str = "no answer in time";
/// Time until the greeting: a relay may wait for its own dial first.
const GREETING_TIME: Duration = Duration::from_secs(15);
/// How often the client asks what has arrived of a train, at most.
const MAX_ARRIVALS: u32 = 10;
/// Time for the answer to a small message.
const ECHO_TIME: Duration = Duration::from_secs(10);
/// Time for the result of a run: the answerer waits for its connections.
const RESULT_TIME: Duration = Duration::from_secs(13);
/// Time without a message after which the kernel asks for an acknowledgement.
const PROBE_TIME: Duration = Duration::from_secs(1);
const BETWEEN_SAMPLES: Duration = Duration::from_millis(100);
/// Length of an answerer's message at most: the looks of a run.
const MAX_TELL: usize = 4 << 20;
