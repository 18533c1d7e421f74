//! A session: one control connection, from its first byte to its end. It has no socket and no clock.
//!
//! ```text
//! receive, end, broke ──> input ──> rewriter ──> output ──> sent
//!                                      └──> actions: poll
//! times: poll_timeout ──> tick
//! ```
//! Its caller tells it what came, and sends what is [put out](Session::output). After anything that it told, it [polls](Session::poll)
//! until there is no action left. A side is read only while the session [wants](Session::wants) it, which bounds the session's memory:
//! a read of each side, a line of each, and the replies to the commands of a read.
//!
//! The bytes pass through the session until nothing is left to rewrite: the server accepted AUTH, or the client sent FIN. The server's FIN
//! goes on at once, and the client's commands still pass through the session. If a side breaks, the other one gets its last bytes.

use super::action::{Action, End, Out};
use super::rewriter::Rewriter;
use super::rules::Rules;
use super::side::{Ends, Side};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A control connection. Each relay of a chain has one for it.
#[derive(Debug)]
pub struct Session {
    pub(super) rewriter: Rewriter,
    out: Out,
    halves: Ends<Half>,
    data: Data,
    /// Time without bytes after which the connection is over once a side has ended. `None`: it may stay for ever.
    lingers: Ends<Option<Duration>>,
    is_draining: bool,
    /// Whether a side broke.
    is_broken: bool,
    /// Whether nothing more is read, and what is not read yet passes as it is.
    is_plain: bool,
    /// Whether the client gets FIN, or has it.
    has_passed_fin: bool,
    /// How it ended at a time.
    late: Option<End>,
    /// Time when bytes last moved.
    moved: Instant,
    /// Time when bytes last moved that may lead to something, or when there last was a data connection.
    active: Instant,
    /// Time when the server last sent or took bytes, or when a transfer was last seen.
    heard: Instant,
    /// Time when the session ended the connection: the server has QUIT, and the client 421.
    left: Option<Instant>,
    /// Time since when a command waits for room.
    full_since: Option<Instant>,
    /// Whether the line that waits may have its turn since the last look. The bytes of one line never tell, so that their splits make no
    /// difference.
    may_have_turn: bool,
}

/// An event that is due at a time.
enum Due {
    /// The end, because nothing moved.
    End(End),
    /// The end of the wait for replies.
    GiveUp,
    /// The end of the wait for room.
    Room,
    /// The end of the connection by a drain.
    Leave,
}

/// The input of one side, and its end.
#[derive(Debug, Default)]
struct Half {
    /// The bytes that are not taken yet, from index `taken` on.
    input: Vec<u8>,
    taken: usize,
    /// Whether the input is an urgent byte.
    is_urgent: bool,
    /// Whether FIN stands behind the input.
    has_fin: bool,
    /// Whether nothing more is taken: its FIN was, or it broke and everything before that was.
    has_ended: bool,
    /// Whether it broke, so that it gets nothing any more.
    is_broken: bool,
    /// Number of bytes for it up to the urgent one. 0: none is urgent.
    urgent: usize,
}

/// The state of the data connections, as the caller knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Data {
    /// Number of data connections that have come.
    pub come: usize,
    /// The side that one is waited for from. The server's is one that the server will open, or that is dialled.
    pub awaited: Option<Side>,
    /// Whether one more may be opened.
    pub has_room: bool,
    /// Whether the server's data connection has come, and the client does not have it yet. A reply must not overtake it: curl takes a
    /// transfer for failed whose last reply comes before the data connection.
    pub is_arriving: bool,
    /// Whether the client's data connection has come, and the server does not have it yet. A command must not overtake it: pyftpdlib
    /// closes its passive port at QUIT.
    pub is_leaving: bool,
}

impl Session {
    /// Returns the session of a new connection. It is over if no byte moves for the time in `lingers` after this side has ended. `None`: it
    /// may stay for ever.
    pub fn new(rules: Rules, lingers: Ends<Option<Duration>>, now: Instant) -> Session {
        Session {
            rewriter: Rewriter::new(rules),
            out: Out::default(),
            halves: Ends::default(),
            data: Data { has_room: true, ..Data::default() },
            lingers,
            is_draining: false,
            is_broken: false,
            is_plain: false,
            has_passed_fin: false,
            late: None,
            moved: now,
            active: now,
            heard: now,
            left: None,
            full_since: None,
            may_have_turn: false,
        }
    }

    /// Takes bytes that came from a side. With `is_urgent` they are the byte at the urgent mark.
    pub fn receive(&mut self, side: Side, bytes: &[u8], is_urgent: bool, now: Instant) {
        let half = &mut self.halves[side];
        half.input.extend_from_slice(bytes);
        half.is_urgent = is_urgent;
        self.note_moved(side, now);
    }

    /// Notes that a side sent its FIN.
    pub fn end(&mut self, side: Side, now: Instant) {
        self.halves[side].has_fin = true;
        self.note_moved(side, now);
    }

    /// Notes that a side broke. With `is_read`, everything that it had sent before was received. It is told again once that is so.
    pub fn broke(&mut self, side: Side, is_read: bool, now: Instant) {
        let half = &mut self.halves[side];
        half.is_broken = true;
        half.has_ended |= is_read;
        self.is_broken = true;
        self.moved = now;
        self.drop_unsendable();
        if side == Side::Client && !self.is_plain {
            // Nobody waits for the replies any more, so they do not hold back the last commands.
            self.end_server(now);
        }
    }

    /// Returns the bytes to send to a side, and whether the last one of them is urgent. Empty if there are none now.
    pub fn output(&self, side: Side) -> (&[u8], bool) {
        match self.halves[side].urgent {
            _ if side == Side::Client && self.data.is_arriving => (&[], false),
            0 => (&self.out.to[side], false),
            urgent => (&self.out.to[side][..urgent], true),
        }
    }

    /// Notes that a side took the first `count` bytes of its output.
    pub fn sent(&mut self, side: Side, count: usize, now: Instant) {
        self.out.to[side].drain(..count);
        let half = &mut self.halves[side];
        half.urgent = half.urgent.saturating_sub(count);
        self.note_moved(side, now);
    }

    /// Whether bytes of a side are taken now. Not while something waits that it sent, or that was sent to the other side. Nor while the
    /// client leaves much of its own output untaken: the session's own replies must not fill the memory.
    pub fn wants(&self, side: Side) -> bool {
        let half = &self.halves[side];
        let is_held_up = match side {
            Side::Client => {
                self.rewriter.is_waiting() || self.data.is_leaving || self.out.to.client.len() > MAX_UNTAKEN
            }
            Side::Server => self.data.is_arriving,
        };
        let is_done = half.has_fin || self.is_over(side);
        !self.is_plain && !is_done && !is_held_up && half.input.is_empty() && self.out.to[side.other()].is_empty()
    }

    /// Tells the session what its data connections are like. To be called before [`poll`](Session::poll), and before bytes of the server
    /// are given.
    pub fn know(&mut self, data: Data, now: Instant) {
        let count = |data: &Data| data.come + usize::from(data.awaited.is_some());
        self.rewriter.dialogue.has_data = count(&data) > 0 || data.is_arriving;
        if count(&data) < count(&self.data) {
            // Until now there was one, perhaps long after the last reply to its transfer.
            self.active = now;
        }
        if data != self.data {
            self.may_have_turn = true;
        }
        self.data = data;
    }

    /// Takes the result of [`Action::Open`]: the address to tell the side, or the reason why nothing was opened, which the client gets
    /// in one line. For [`Opening::Join`](super::action::Opening::Join) and [`Opening::Client`](super::action::Opening::Client) the address is not used.
    /// A dial to the client may be told before [`Opening::Client`](super::action::Opening::Client) asks for it: if it failed, the next
    /// transfer is refused.
    pub fn opened(&mut self, opened: Result<SocketAddr, String>) {
        self.rewriter.dialogue.opened(opened, &mut self.out);
        self.may_have_turn = true;
    }

    /// Tells the session whether it should end the connection once nothing happens on it.
    pub fn drain(&mut self, is_draining: bool) {
        self.is_draining = is_draining;
    }

    /// Stops reading. What is not read yet passes unchanged.
    pub fn pass_on(&mut self, now: Instant) {
        // Nobody reads any more in the server's replies that the transfer begins.
        if self.rewriter.dialogue.due.has_transfer() {
            self.out.actions.push_back(Action::Begin);
        }
        self.is_plain = true;
        self.rewriter.end_client(&mut self.out);
        self.end_server(now);
    }

    /// Returns the next action.
    pub fn poll(&mut self, now: Instant) -> Option<Action> {
        loop {
            if let Some(action) = self.out.actions.pop_front() {
                return Some(action);
            }
            let has_stepped = self.step(now);
            self.drop_unsendable();
            if !has_stepped {
                break;
            }
        }
        let client_ends = !self.is_broken && self.is_over(Side::Client);
        if !self.is_plain && self.halves.server.input.is_empty() && (self.rewriter.is_opaque || client_ends) {
            self.pass_on(now);
            return self.poll(now);
        }
        if !self.is_plain && !self.is_broken && self.is_over(Side::Server) && !self.has_passed_fin {
            self.has_passed_fin = true;
            return Some(Action::Fin);
        }
        self.ending().map(Action::End)
    }

    fn ending(&self) -> Option<End> {
        if self.has_passed_on() {
            Some(End::PassOn)
        } else if self.is_broken && !self.is_plain && self.is_over(Side::Client) && self.is_over(Side::Server) {
            Some(End::Broken)
        } else {
            self.late
        }
    }

    /// Returns the time at which to call [`tick`](Session::tick), if nothing changes before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.next_due().map(|(at, _)| at)
    }

    fn next_due(&self) -> Option<(Instant, Due)> {
        let left = self.left.map(|left| (left + LEAVING, Due::End(End::NotLeft)));
        if self.has_passed_on() {
            return left;
        }
        let late = if self.left.is_some() { End::NotLeft } else { End::TooLong };
        let waits = self.rewriter.is_waiting();
        let times = [
            self.linger().map(|linger| (self.moved + linger, Due::End(late))),
            left,
            waits.then(|| (self.heard + self.silence(), Due::GiveUp)),
            self.full_since.filter(|_| waits).map(|since| (since + ROOM_PATIENCE, Due::Room)),
            self.is_draining.then(|| (self.active + self.quiet(), Due::Leave)),
        ];
        times.into_iter().flatten().min_by_key(|(at, _)| *at)
    }

    /// Does the next thing that is due by this time.
    pub fn tick(&mut self, now: Instant) {
        self.may_have_turn = true;
        match self.next_due().filter(|(at, _)| *at <= now) {
            Some((_, Due::End(end))) => self.late = Some(end),
            Some((_, Due::GiveUp)) => self.give_up_waiting(now),
            Some((_, Due::Room)) => self.refuse_room(now),
            Some((_, Due::Leave)) => self.leave(now),
            None => {}
        }
    }

    /// Takes a line of a side, or its FIN. Returns whether there was something to take.
    fn step(&mut self, now: Instant) -> bool {
        if self.rewriter.dialogue.asking.is_some() {
            return false;
        }
        if std::mem::take(&mut self.may_have_turn) && self.take_turn(now) {
            return true;
        }
        let takes_client = !self.rewriter.is_waiting() && !self.data.is_leaving;
        takes_client && self.take(Side::Client, now) || !self.data.is_arriving && self.take(Side::Server, now)
    }

    fn take(&mut self, side: Side, now: Instant) -> bool {
        let Session { rewriter, out, halves, .. } = self;
        let half = &mut halves[side];
        let mut bytes = &half.input[half.taken..];
        if bytes.is_empty() {
            let has_ended = half.has_fin && !half.has_ended;
            half.has_ended |= has_ended;
            match side {
                _ if !has_ended => {}
                Side::Client => rewriter.end_client(out),
                Side::Server => self.end_server(now),
            }
            return has_ended;
        }
        let may_be_urgent = half.is_urgent && bytes.iter().all(|byte| rewriter.may_be_urgent(side, *byte));
        let before = out.to[side.other()].len();
        let has_line = rewriter.take(side, &mut bytes, out);
        half.taken = half.input.len() - bytes.len();
        if bytes.is_empty() {
            half.input.clear();
            half.taken = 0;
        }
        // A byte that is held goes on later, in its place in the line.
        let after = out.to[side.other()].len();
        if may_be_urgent && after > before {
            halves[side.other()].urgent = after;
        }
        if rewriter.has_left {
            self.left.get_or_insert(now);
        }
        self.may_have_turn |= has_line;
        true
    }

    /// Takes the line that waits, if it is its turn and there is room. The flow of a transfer that is over has its place until its last
    /// byte is acknowledged. One that is arriving must not be closed in favour of the next one.
    fn take_turn(&mut self, now: Instant) -> bool {
        let has_room = self.data.has_room && !self.data.is_arriving;
        let has_turn = self.rewriter.has_turn();
        let is_full = has_turn && !has_room && self.rewriter.needs_room();
        if is_full {
            self.full_since.get_or_insert(now);
        } else if has_turn {
            self.full_since = None;
            self.rewriter.take_turn(&mut self.out);
        }
        has_turn && !is_full
    }

    /// Ends the wait for room: the caller refuses the line that waits. If it cannot be taken, because a reply has begun, it waits anew.
    fn refuse_room(&mut self, now: Instant) {
        let has_turn = self.rewriter.has_turn();
        self.full_since = Some(now).filter(|_| !has_turn);
        if has_turn {
            self.rewriter.take_turn(&mut self.out);
        }
    }

    /// Takes the end of what the server sends.
    fn end_server(&mut self, now: Instant) {
        if self.rewriter.end_server(&mut self.out) {
            self.take_turn(now);
        }
        self.rewriter.dialogue.close();
        self.may_have_turn = true;
    }

    /// Ends the wait for replies if the server does nothing.
    fn give_up_waiting(&mut self, now: Instant) {
        // The data connection alone does not tell: it may wait for a transfer that never begins.
        let has_data = self.data.come > 0 || self.data.awaited == Some(Side::Server);
        let is_busy = self.rewriter.dialogue.due.has_transfer() && has_data || self.data.is_arriving;
        if !is_busy && self.out.to.server.is_empty() {
            self.rewriter.dialogue.forget();
        }
        // The command may go on waiting, for room.
        self.heard = now;
    }

    /// Ends the connection if nothing happens on it: the server gets QUIT, and the client 421.
    fn leave(&mut self, now: Instant) {
        let has_ended = self.halves.client.has_ended || self.is_broken || self.left.is_some();
        if has_ended || !self.rewriter.may_leave() || self.data.come > 0 {
            self.active = now;
            return;
        }
        // A server that has sent FIN sends no reply any more, and the client has that FIN.
        if !self.halves.server.has_ended {
            self.rewriter.leave(&mut self.out);
        }
        self.left = Some(now);
    }

    /// Returns the time without bytes after which the connection is over.
    fn linger(&self) -> Option<Duration> {
        match (self.halves.client.has_ended, self.halves.server.has_ended) {
            _ if self.is_broken => Some(PATIENCE),
            (true, _) => self.lingers.client,
            (_, true) => self.lingers.server,
            _ => None,
        }
    }

    /// Returns the time without bytes and transfers after which the session waits no longer for a reply.
    fn silence(&self) -> Duration {
        if self.rewriter.dialogue.due.is_doubtful() { DOUBTFUL_SILENCE } else { SILENCE }
    }

    /// Returns the time without bytes and data connections after which a drain ends the connection.
    fn quiet(&self) -> Duration {
        let due = &self.rewriter.dialogue.due;
        let is_owed = !due.is_none() && !due.is_doubtful();
        match due.has_transfer() {
            true => STAGING,
            false if is_owed || !self.rewriter.is_between_lines() => SILENCE,
            false => QUIET,
        }
    }

    /// Whether neither a byte nor FIN of this side is to come, and everything before is sent to the other one.
    fn is_over(&self, side: Side) -> bool {
        let has_ended = self.halves[side].has_ended && self.out.to[side.other()].is_empty();
        self.halves[side.other()].is_broken || has_ended
    }

    fn has_passed_on(&self) -> bool {
        self.is_plain && self.out.to.client.is_empty() && self.out.to.server.is_empty()
    }

    /// Drops the output of a side that broke.
    fn drop_unsendable(&mut self) {
        for side in [Side::Client, Side::Server] {
            if self.halves[side].is_broken {
                (self.out.to[side], self.halves[side].urgent) = (Vec::new(), 0);
            }
        }
    }

    fn note_moved(&mut self, side: Side, now: Instant) {
        self.moved = now;
        // No command of the client leads to anything after the server's FIN.
        if !self.halves.server.has_fin {
            self.active = now;
        }
        if side == Side::Server {
            self.heard = now;
        }
    }
}

/// Number of bytes that the client may leave untaken before nothing more is read from it.
const MAX_UNTAKEN: usize = 4096;
/// Time that the last bytes wait for a side that takes nothing once the other side is broken.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time without bytes and data connections after which a drain ends a control connection.
const QUIET: Duration = Duration::from_secs(5);
/// The same while a transfer has no last reply: a server may need a while for the file, which may have to come from a tape.
const STAGING: Duration = Duration::from_secs(600);
/// Time without bytes and transfers after which the session waits no longer for a reply. Only clients that do not wait for
/// replies themselves can tell the difference.
const SILENCE: Duration = Duration::from_secs(30);
/// The same for a reply that may never come, such as that of pure-ftpd to an ABOR without a transfer.
const DOUBTFUL_SILENCE: Duration = Duration::from_secs(2);
/// Time that a command waits for the end of a data connection before it is refused.
const ROOM_PATIENCE: Duration = Duration::from_secs(60);
/// Time that both sides have to close a connection after the session ended it.
const LEAVING: Duration = Duration::from_secs(10);
