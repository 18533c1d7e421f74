//! The side that answers: one session at a time, for a relay or for `longhaul responder`.
//!
//! The caller accepts connections, reads each preface, and hands the connection over. [`Answerer::serve`] then blocks until it has
//! ended. The answerer bounds what a session may send and how long it lasts, whatever the client asks for.

use crate::datagram::Tally;
use crate::message::{Admitted, Ask, Buffers, Direction, Echo, Hello, Ran, Refused, Run, Tell, Train, Trained};
use crate::talk::Talk;
use crate::{bulk, datagram, random};
use longhaul_core::wire::measure::{GREETING, MESSAGES, Preface};
use longhaul_core::wire::probe::Nonce;
use longhaul_core::wire::proof::Key;
use longhaul_sys::process;
use longhaul_sys::sockopt;
use socket2::SockRef;
use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Answers measuring sessions.
#[derive(Debug, Default)]
pub struct Answerer {
    session: Mutex<Option<Arc<Session>>>,
    /// The clients that have not proved the key yet, the oldest first. Each with whether it has given way.
    proving: Mutex<VecDeque<Arc<AtomicBool>>>,
}

/// The socket for datagrams, and the count of a train.
type Datagrams = (Arc<UdpSocket>, Arc<Mutex<Tally>>);

/// Who may begin a session.
#[derive(Clone, Debug)]
pub enum Entry {
    /// This client, without a proof.
    Open,
    /// Whoever proves this key.
    Key(Arc<Key>),
    /// Not this client, because of this.
    Closed(&'static str),
}

/// The session that goes on.
#[derive(Debug)]
struct Session {
    nonce: Nonce,
    peer: SocketAddr,
    until: Instant,
    is_over: AtomicBool,
    runs: Mutex<HashMap<u32, Gathered>>,
    /// Notified when a connection of a run has ended.
    changed: Condvar,
    /// The thread that answers datagrams.
    answering: Mutex<Option<JoinHandle<io::Result<()>>>>,
}

/// A run, and the results of the connections that have ended.
#[derive(Debug)]
struct Gathered {
    run: Run,
    /// Connections that may still come.
    expected: u32,
    ended: u32,
    ran: Ran,
}

impl Answerer {
    /// Serves a connection that began with `preface`, which was read, until it has ended. Returns why it was refused, if it was.
    ///
    /// # Errors
    /// The connection broke.
    pub fn serve(&self, stream: TcpStream, preface: &Preface, entry: &Entry) -> io::Result<Option<String>> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let peer = stream.peer_addr()?;
        match preface.run {
            Some(number) => Ok(self.serve_run(&stream, preface, number, peer)),
            None => self.serve_control(stream, preface, peer, entry),
        }
    }

    /// Whether a connection with `preface` from `address` is one of a run of the session that goes on.
    pub fn is_of_session(&self, preface: &Preface, address: IpAddr) -> bool {
        let session = lock(&self.session);
        let is_its = |session: &Arc<Session>| session.nonce == preface.nonce && session.peer.ip() == address;
        preface.run.is_some() && session.as_ref().is_some_and(is_its)
    }

    /// Whether a session with a client at `address` goes on.
    pub fn is_busy_with(&self, address: IpAddr) -> bool {
        lock(&self.session).as_ref().is_some_and(|session| session.peer.ip() == address)
    }

    fn serve_control(
        &self,
        stream: TcpStream,
        preface: &Preface,
        peer: SocketAddr,
        entry: &Entry,
    ) -> io::Result<Option<String>> {
        let mut talk = Talk::new(stream, MAX_ASK);
        let deadline = Instant::now() + HELLO_TIME;
        talk.send(&GREETING, deadline)?;
        let challenge = random::<32>()?;
        let wanted = matches!(entry, Entry::Key(_)).then(|| hex(&challenge));
        let version = env!("CARGO_PKG_VERSION").into();
        talk.tell(&Tell::Hello(Hello { version, messages: MESSAGES, challenge: wanted }), deadline)?;
        let refusal = match entry {
            _ if preface.messages > MESSAGES => {
                Some(format!("it speaks version {MESSAGES} of the messages: update longhaul there"))
            }
            Entry::Open => None,
            Entry::Closed(why) => Some((*why).to_string()),
            Entry::Key(key) => self.refusal_of_proof(&mut talk, |proof| proves(key, proof, preface, &challenge)),
        };
        let begun = refusal.map_or_else(|| self.begin(preface.nonce, peer), |why| Err(Refused { is_busy: false, why }));
        let session = match begun {
            Ok(session) => session,
            Err(refused) => {
                talk.tell(&Tell::Refused(refused.clone()), deadline)?;
                farewell(&talk);
                return Ok(Some(refused.why));
            }
        };
        let _ended = EndOfSession(self, &session);
        session.converse(&mut talk, SILENCE)?;
        Ok(None)
    }

    /// Waits for the proof of the key. Returns why there is none.
    fn refusal_of_proof(&self, talk: &mut Talk, proves: impl FnOnce(&str) -> bool) -> Option<String> {
        let gave_way = Arc::new(AtomicBool::new(false));
        {
            let mut proving = lock(&self.proving);
            proving.push_back(gave_way.clone());
            // Each holds a thread while it is waited for. One with the key proves it within a round trip, so the oldest has none.
            if proving.len() > MAX_PROVING {
                proving.pop_front().iter().for_each(|oldest| oldest.store(true, Relaxed));
            }
        }
        let asked = talk.hear(Instant::now() + PROOF_TIME, || gave_way.load(Relaxed));
        lock(&self.proving).retain(|other| !Arc::ptr_eq(other, &gave_way));
        match asked {
            Ok(Ask::Proof(proof)) if proves(&proof) => None,
            Ok(Ask::Proof(_)) => Some("the key is wrong: compare both key files".into()),
            Err(err) if err.kind() == ErrorKind::Interrupted => {
                Some("too many clients have not proved the key yet; try again".into())
            }
            _ => Some("no proof of the key came".into()),
        }
    }

    /// Begins a session.
    ///
    /// # Errors
    /// Another one goes on, also after [`ENDING_TIME`]: the answerer sees the end of one that has just ended a moment later.
    fn begin(&self, nonce: Nonce, peer: SocketAddr) -> Result<Arc<Session>, Refused> {
        let deadline = Instant::now() + ENDING_TIME;
        let mut current = lock(&self.session);
        while let Some(other) = &*current {
            if Instant::now() >= deadline {
                let why =
                    format!("another client measures now: {}; try again in a minute", other.peer.ip().to_canonical());
                return Err(Refused { is_busy: true, why });
            }
            drop(current);
            thread::sleep(LOOK_AROUND / 10);
            current = lock(&self.session);
        }
        let session = Arc::new(Session {
            nonce,
            peer,
            until: Instant::now() + MAX_TIME,
            is_over: AtomicBool::new(false),
            runs: Mutex::default(),
            changed: Condvar::new(),
            answering: Mutex::default(),
        });
        *current = Some(session.clone());
        Ok(session)
    }

    /// Serves a connection of the run `number`. Returns why it was refused, if it was.
    fn serve_run(&self, stream: &TcpStream, preface: &Preface, number: u32, peer: SocketAddr) -> Option<String> {
        let session = lock(&self.session).clone();
        let session = session.filter(|session| session.nonce == preface.nonce && session.peer.ip() == peer.ip());
        let run = session.as_ref().and_then(|session| session.expect(number));
        let (Some(session), Some(run)) = (session, run) else {
            let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
            return Some("a connection of no run that goes on".into());
        };
        session.ended(number, session.carry(stream, &run));
        None
    }
}

/// Ends the session when it is dropped.
struct EndOfSession<'a>(&'a Answerer, &'a Arc<Session>);

impl Drop for EndOfSession<'_> {
    fn drop(&mut self) {
        self.1.is_over.store(true, Relaxed);
        // Then the port for datagrams is free for the next session.
        if let Some(answering) = lock(&self.1.answering).take() {
            let _ = answering.join();
        }
        *lock(&self.0.session) = None;
    }
}

impl Session {
    /// Returns the time since the session began, in µs.
    fn micros(&self) -> u64 {
        let left = self.until.saturating_duration_since(Instant::now());
        MAX_TIME.saturating_sub(left).as_micros() as u64
    }

    /// # Errors
    /// The connection broke. `TimedOut`: the client has said nothing for `silence`, neither here nor by datagrams.
    fn converse(self: &Arc<Session>, talk: &mut Talk, silence: Duration) -> io::Result<()> {
        let datagrams = self.open_datagrams(talk.stream());
        let here = datagrams.as_ref().and_then(|(socket, _)| socket.local_addr().ok());
        let datagram_port = here.map(|here| here.port());
        let admitted = Admitted {
            name: process::hostname(),
            datagram_port,
            max_seconds: MAX_TIME.as_secs_f64(),
            max_bytes: MAX_BYTES,
            congestion: congestion_controls(),
            buffers: Buffers::here(),
        };
        talk.tell(&Tell::Admitted(admitted), self.until)?;
        let mut bytes_left = MAX_BYTES;
        loop {
            let since = Instant::now();
            let heard =
                || datagrams.as_ref().and_then(|(_, tally)| lock(tally).heard).map_or(since, |at| at.max(since));
            let ask = match talk.hear(self.until, || heard().elapsed() >= silence) {
                Ok(ask) => ask,
                Err(err) if err.kind() == ErrorKind::UnexpectedEof => return Ok(()),
                Err(err) if err.kind() == ErrorKind::Interrupted => return Err(ErrorKind::TimedOut.into()),
                Err(err) => return Err(err),
            };
            match ask {
                Ask::Echo(number) => talk.tell(&Tell::Echo(Echo { number, at: self.micros() }), self.until)?,
                Ask::Run(run) if !run.is_valid() || run.max_bytes > bytes_left => {
                    let why = "it allows no such run: too long, too many connections or bytes".into();
                    talk.tell(&Tell::Refused(Refused { is_busy: false, why }), self.until)?;
                }
                Ask::Run(run) if !run.can_be_sent_by(&congestion_controls()) => {
                    let name = run.congestion.unwrap_or_default();
                    let why = format!("its kernel does not offer the congestion control {name}");
                    talk.tell(&Tell::Refused(Refused { is_busy: false, why }), self.until)?;
                }
                Ask::Run(run) => {
                    bytes_left -= run.max_bytes;
                    let (ran, unused) = self.gather(run, talk)?;
                    bytes_left += unused;
                    talk.tell(&Tell::Ran(ran), self.until)?;
                }
                Ask::Train(train) => {
                    let is_allowed = train.is_valid() && train.bytes() <= bytes_left;
                    let told = match datagrams.as_ref().filter(|_| is_allowed) {
                        Some(datagrams) => {
                            bytes_left = bytes_left.saturating_sub(train.bytes().max(train.size.into()));
                            self.train(datagrams, &train)
                        }
                        None => Tell::Refused(Refused { is_busy: false, why: "it allows no such train".into() }),
                    };
                    talk.tell(&told, self.until)?;
                }
                Ask::Arrived(number) => {
                    let trained = datagrams.as_ref().map(|(_, tally)| lock(tally).trained()).unwrap_or_default();
                    let is_same = trained.number == number;
                    talk.tell(&Tell::Trained(if is_same { trained } else { Trained::default() }), self.until)?;
                }
                Ask::Proof(_) => return Err(ErrorKind::InvalidData.into()),
            }
        }
    }

    /// Answers datagrams at the address of `stream` until the session is over. Returns their socket, and the count of a train.
    fn open_datagrams(self: &Arc<Session>, stream: &TcpStream) -> Option<Datagrams> {
        let here = stream.local_addr().ok()?;
        // The same port as TCP's, which a firewall may let through.
        let socket = datagram::open(here).or_else(|_| datagram::open((here.ip(), 0).into())).ok()?;
        let datagrams: Datagrams = (Arc::new(socket), Arc::default());
        let (session, (socket, tally)) = (self.clone(), datagrams.clone());
        let answering = move || {
            datagram::answer(&socket, &session.nonce, session.peer.ip(), &tally, || session.is_over.load(Relaxed))
        };
        let answering = thread::Builder::new().name("datagrams".into()).spawn(answering).ok()?;
        *lock(&self.answering) = Some(answering);
        Some(datagrams)
    }

    /// Sends a train down, or begins to count one up.
    fn train(&self, (socket, tally): &Datagrams, train: &Train) -> Tell {
        let client = {
            let mut tally = lock(tally);
            tally.begin(train.number);
            tally.client
        };
        if train.direction == Direction::Up {
            return Tell::Ready(train.number);
        }
        let sent = client.and_then(|client| datagram::send_train(socket, client, self.nonce, train).ok());
        let (datagrams, time) = sent.unwrap_or_default();
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Tell::Trained(Trained { number: train.number, datagrams, micros, ..Trained::default() })
    }

    /// Announces `run`, and waits until its connections have ended, but not for ever. Returns the result, and the
    /// bytes that they left: none if they go on.
    fn gather(&self, run: Run, talk: &mut Talk) -> io::Result<(Ran, u64)> {
        let (number, connections, most) = (run.number, run.connections, run.max_bytes);
        let until = Instant::now() + Duration::from_secs_f64(run.seconds) + RUN_GRACE;
        let gathered = Gathered { expected: connections, ended: 0, ran: Ran { number, ..Ran::default() }, run };
        lock(&self.runs).insert(number, gathered);
        talk.tell(&Tell::Ready(number), self.until)?;
        let mut runs = lock(&self.runs);
        loop {
            let now = Instant::now();
            let is_done = runs.get(&number).is_none_or(|gathered| gathered.ended >= connections);
            if is_done || now >= until.min(self.until) || is_closed(talk.stream()) {
                let ran = runs.remove(&number).map(|gathered| gathered.ran).unwrap_or_default();
                let unused = if is_done { most.saturating_sub(ran.bytes) } else { 0 };
                return Ok((ran, unused));
            }
            // The wait is short, to see when the client has gone.
            runs = self.changed.wait_timeout(runs, LOOK_AROUND).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Takes one of the connections that the run `number` expects. Returns the run.
    fn expect(&self, number: u32) -> Option<Run> {
        let mut runs = lock(&self.runs);
        let gathered = runs.get_mut(&number)?;
        gathered.expected = gathered.expected.checked_sub(1)?;
        Some(gathered.run.clone())
    }

    fn ended(&self, number: u32, ran: Ran) {
        if let Some(gathered) = lock(&self.runs).get_mut(&number) {
            gathered.ended += 1;
            gathered.ran.add(ran);
        }
        self.changed.notify_all();
    }

    /// Carries the bulk of one connection.
    fn carry(&self, stream: &TcpStream, run: &Run) -> Ran {
        let none = Ran { number: run.number, ..Ran::default() };
        if run.direction == Direction::Down {
            return match bulk::prepare(stream, run) {
                Ok(()) => bulk::send(stream, run, &self.is_over),
                Err(_) => none,
            };
        }
        // The client sends when it knows that this end reads.
        match { stream }.write_all(GO) {
            Ok(()) => bulk::receive(stream, run, &self.is_over, |_| ()),
            Err(_) => none,
        }
    }
}

/// The byte that the answerer sends on a connection of a run up when it is ready to read.
pub const GO: &[u8; 1] = b"g";

/// Returns the congestion controls that the kernel offers and allows, the default first.
pub fn congestion_controls() -> Vec<String> {
    let words = |text: Option<String>| -> Vec<String> {
        text.unwrap_or_default().split_whitespace().map(str::to_string).collect()
    };
    let offered = words(sockopt::available_congestion_controls());
    let allowed = words(sockopt::allowed_congestion_controls());
    let default = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap_or_default();
    let mut controls = vec![default.trim().to_string()];
    controls.extend(offered.into_iter().filter(|name| allowed.contains(name) && name != default.trim()));
    controls.retain(|name| !name.is_empty());
    controls
}

fn proves(key: &Key, proof: &str, preface: &Preface, challenge: &[u8; 32]) -> bool {
    unhex(proof).is_some_and(|mac| key.proves_session(&mac, &preface.nonce, challenge))
}

/// Returns `bytes` as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns the bytes of `2 * N` hexadecimal digits.
pub fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if text.len() != 2 * N || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

/// Whether the client has ended the control connection.
fn is_closed(stream: &TcpStream) -> bool {
    match stream.peek(&mut [0]) {
        Ok(got) => got == 0,
        Err(err) => err.kind() != ErrorKind::WouldBlock,
    }
}

/// Ends the connection with FIN, behind the last message.
fn farewell(talk: &Talk) {
    let _ = SockRef::from(talk.stream()).set_linger(None);
    let _ = talk.stream().shutdown(Shutdown::Write);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Length of a session at most: a client with the defaults needs 60 s.
const MAX_TIME: Duration = Duration::from_secs(180);
/// Time after which a session ends whose client says nothing outside of a run. A client is silent for 18 s at most while no datagram comes
/// through.
const SILENCE: Duration = Duration::from_secs(30);
/// Payload bytes of all runs of a session together at most.
pub const MAX_BYTES: u64 = 100_000_000_000;
/// Time until the session begins: some round trips of any path.
const HELLO_TIME: Duration = Duration::from_secs(15);
/// Clients that have not proved the key at most, and the time that each has for it.
const MAX_PROVING: usize = 8;
const PROOF_TIME: Duration = Duration::from_secs(10);
/// Time after the end of a run for its connections to come and to end.
const RUN_GRACE: Duration = Duration::from_secs(10);
/// Time that a new session waits for the end of another one.
const ENDING_TIME: Duration = Duration::from_secs(1);
const LOOK_AROUND: Duration = Duration::from_millis(200);
/// Length of a client's message at most.
const MAX_ASK: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    const PREFACE: Preface = Preface { messages: MESSAGES, run: None, nonce: [7; 16] };

    /// Lets `answerer` serve a client, with `entry`. Returns the client after the answerer's first message.
    fn client(answerer: &Arc<Answerer>, entry: Entry) -> (Talk, JoinHandle<io::Result<Option<String>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        near.set_nonblocking(true).unwrap();
        let (answerer, far) = (answerer.clone(), listener.accept().unwrap().0);
        let serving = thread::spawn(move || answerer.serve(far, &PREFACE, &entry));
        let mut talk = Talk::new(near, 1 << 20);
        talk.find(&GREETING, soon(), || false).unwrap();
        assert!(matches!(hear(&mut talk), Tell::Hello(_)));
        (talk, serving)
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    fn hear(talk: &mut Talk) -> Tell {
        talk.hear(soon(), || false).unwrap()
    }

    #[test]
    fn the_oldest_client_without_the_key_gives_way() {
        let (answerer, key) = (Arc::default(), Arc::new(Key::new(b"0123456789abcdef").unwrap()));
        let begin = || client(&answerer, Entry::Key(key.clone()));
        let wait_for = |count| {
            while lock(&answerer.proving).len() != count {
                thread::yield_now();
            }
        };
        let mut clients = Vec::new();
        for count in 1..=MAX_PROVING {
            clients.push(begin());
            wait_for(count);
        }
        clients.push(begin());
        let (mut oldest, _) = clients.remove(0);
        let Tell::Refused(refused) = hear(&mut oldest) else { panic!("it has the place of another one") };
        assert!(refused.why.contains("too many clients"), "{refused:?}");
        wait_for(MAX_PROVING);
    }

    #[test]
    fn a_congestion_control_that_the_kernel_lacks_is_refused_where_the_answerer_sends() {
        let (mut talk, serving) = client(&Arc::default(), Entry::Open);
        assert!(matches!(hear(&mut talk), Tell::Admitted(_)));
        let (direction, congestion) = (Direction::Down, Some("none_such".to_string()));
        let run = Run { number: 1, direction, connections: 1, congestion, ..Run::default() };
        talk.tell(&Ask::Run(run), soon()).unwrap();
        let Tell::Refused(refused) = hear(&mut talk) else { panic!("the run may begin") };
        assert!(refused.why.contains("does not offer the congestion control none_such"), "{refused:?}");
        drop(talk);
        assert_eq!(serving.join().unwrap().unwrap(), None);
    }

    #[test]
    fn a_silent_client_loses_its_session() {
        let answerer = Answerer::default();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let far = listener.accept().unwrap().0;
        far.set_nonblocking(true).unwrap();
        let session = answerer.begin([7; 16], near.local_addr().unwrap()).unwrap();
        let of_run = Preface { run: Some(1), ..PREFACE };
        assert!(answerer.is_of_session(&of_run, [127, 0, 0, 1].into()));
        assert!(!answerer.is_of_session(&PREFACE, [127, 0, 0, 1].into()), "another control connection");
        assert!(!answerer.is_of_session(&of_run, [127, 0, 0, 2].into()));
        let ended = EndOfSession(&answerer, &session);
        let broke = session.converse(&mut Talk::new(far, MAX_ASK), Duration::ZERO).unwrap_err();
        assert_eq!(broke.kind(), ErrorKind::TimedOut);
        drop(ended);
        assert!(!answerer.is_of_session(&of_run, [127, 0, 0, 1].into()));
    }
}
