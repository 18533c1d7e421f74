//! The course of a measurement: its steps, within its limits, one after the other.
//!
//! ```text
//! connect, small messages            the round trip while the path is idle
//! datagrams                          path MTU, fragments, rate of the line
//! one connection, up and down        what a transfer gets
//! smaller segments                   only where full ones stand still, or lose some
//! other congestion controls          without the limit of loss
//! several connections                without the limit of a window
//! ```

use super::dialer::{Dialer, Through};
use super::ladder::Datagrams;
use super::measured::{Ended, FEW, Measured};
use super::schedule::{ECHOES, Schedule};
use super::session::{Outcome, Session, in_words};
use super::trains::{self, Bounds, Line};
use crate::say::note;
use crate::show::round_trip;
use longhaul_core::path::BBR;
use longhaul_core::path::diagnosis::Kind;
use longhaul_measure::message::{Direction, MAX_RUN_SECONDS, Ran, Run};
use longhaul_sys::tcp_info::TcpInfo;
use longhaul_units::{Bytes, Rate};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// The limits of what a measurement sends, both directions and all runs together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Time of sending.
    pub(super) time: Duration,
    /// Payload bytes.
    pub(super) bytes: Bytes,
    /// Rate at any time, of IP packets.
    pub(super) rate: Option<Rate>,
    /// Whether only the default congestion control is tried.
    pub(super) has_only_default: bool,
}

/// A measurement that goes on.
pub(super) struct Course<'a> {
    session: Session,
    limits: Limits,
    stop: &'a AtomicBool,
    measured: Measured,
    /// Payload bytes and time that are left.
    bytes_left: u64,
    seconds_left: f64,
    /// Time for all runs, in seconds.
    seconds: f64,
    /// Whether long round trips have taken time from the runs.
    is_short: bool,
    number: u32,
    /// Whether a run was left out, because no time or no bytes were left.
    has_skipped: bool,
}

/// A run to make.
#[derive(Clone, Debug, Default)]
struct Step {
    direction: Direction,
    /// `None`: the sender's default.
    congestion: Option<String>,
    connections: u32,
    seconds: f64,
    /// `None`: what the hosts choose.
    mss: Option<u32>,
}

impl<'a> Course<'a> {
    /// Returns a measurement over `session`, to the far end called `to`.
    pub(super) fn new(mut session: Session, to: &str, limits: Limits, stop: &'a AtomicBool) -> Course<'a> {
        // The kernel's round trip is that of the path, whatever the far end does.
        let rtt = session.kernel_rtt().unwrap_or_default();
        let all = Schedule { sending: limits.time, rtt }.all();
        session.until = session.until.min(Instant::now() + all + LATE + ROUND_TRIPS * rtt);
        let dialer = session.dialer();
        let measured = Measured {
            to: to.into(),
            tunnel: dialer.through().map(|through| through.tunnel.clone()),
            address: Some(dialer.address()),
            name: session.admitted.name.clone(),
            version: session.version.clone(),
            connect: session.connect,
            buffers: [dialer.buffers(), session.admitted.buffers],
            limit: limits.rate,
            notes: dialer.through().map_or(Vec::new(), Through::notes),
            ..Measured::default()
        };
        let bytes_left = limits.bytes.0.min(session.admitted.max_bytes);
        let seconds = limits.time.as_secs_f64();
        Course {
            session,
            limits,
            stop,
            measured,
            bytes_left,
            seconds_left: seconds,
            seconds,
            is_short: false,
            number: 0,
            has_skipped: false,
        }
    }

    /// Makes all steps. Returns what they have shown, also if the session is lost or the measurement stopped on the way.
    pub(super) fn run(mut self) -> Measured {
        let done = self.steps();
        if done.is_ok() && self.has_skipped {
            let note = "runs were left out for want of time or bytes: give more with --seconds or --max-bytes";
            self.measured.notes.push(note.into());
        }
        // The daemon may have stopped it.
        self.measured.ended = done.err().map(|ended| self.session.dialer().ended().map_or(ended, Ended::Lost));
        self.measured
    }

    fn steps(&mut self) -> Result<(), Ended> {
        self.round_trips()?;
        self.datagrams()?;
        self.is_short = self.schedule().is_short(self.taken());
        self.seconds_left = self.seconds_left.min(self.schedule().runs(self.taken()));
        self.seconds = self.seconds_left;
        for direction in Direction::ALL {
            let seconds = self.first_seconds();
            self.step(Step { direction, connections: 1, seconds, ..Step::default() })?;
        }
        for direction in Direction::ALL {
            self.smaller_segments(direction)?;
        }
        for direction in Direction::ALL {
            let mss = self.measured.mss_of(direction);
            for control in self.others(direction) {
                let (congestion, seconds) = (Some(control), self.other_seconds());
                self.step(Step { direction, congestion, connections: 1, seconds, mss })?;
            }
        }
        for connections in [SEVERAL, MANY] {
            for direction in Direction::ALL {
                if connections == SEVERAL || self.grows(direction) {
                    let (mss, seconds) = (self.measured.mss_of(direction), self.other_seconds());
                    self.step(Step { direction, congestion: None, connections, seconds, mss })?;
                }
            }
        }
        Ok(())
    }

    /// Measures the round trip of small messages while nothing else of ours is on the path.
    fn round_trips(&mut self) -> Result<(), Ended> {
        let began = Instant::now();
        for number in 0.. {
            self.check_stopped()?;
            if !self.schedule().has_more_echoes(number, began.elapsed()) {
                break;
            }
            let echoed = self.session.echo(number).map_err(|err| Ended::Lost(in_words(&err)))?;
            self.measured.idle.push(echoed.rtt());
            self.measured.echoes.push(echoed);
            thread::sleep(BETWEEN_ECHOES);
        }
        let count = self.measured.echoes.len();
        if count < ECHOES as usize {
            self.measured.notes.push(format!(
                "the round trip is long, so {count} small messages were sent instead of {ECHOES}: the queues of others are less certain"
            ));
        }
        self.measured.kernel_rtt = self.session.kernel_rtt();
        self.measured.mss = chosen_mss(self.session.dialer());
        note(format_args!("round trip: {}", self.measured.min_rtt().map_or("unknown".into(), round_trip)));
        Ok(())
    }

    /// Finds the path MTU and the rate of the line by datagrams.
    fn datagrams(&mut self) -> Result<(), Ended> {
        let Some(datagrams) = self.find_mtu()? else { return Ok(()) };
        for direction in Direction::ALL {
            self.check_stopped()?;
            let Some(packet) = self.measured.ladder.path_mtu[direction as usize] else { continue };
            let time = self.schedule().before_runs().saturating_sub(self.taken());
            // Trains up take longer: their arrivals are asked for.
            let share = if direction == Direction::Up { UP_SHARE } else { 1.0 };
            let until = Instant::now() + time.mul_f64(share);
            // A part of the bytes, as the runs need the others.
            let bounds = Bounds { bytes: self.bytes_left / 8, rate: self.limits.rate, until, stop: self.stop };
            let found = trains::find_line(&mut self.session, &datagrams, direction, packet, &bounds);
            let line = found.map_err(|err| self.lost(&err, Some(direction)))?;
            self.bytes_left = self.bytes_left.saturating_sub(line.bytes);
            self.seconds_left -= line.seconds;
            let none = if line.is_short { "not known" } else { "no train was faster than the line" };
            let rate = line.rate.map_or(none.into(), |rate| rate.to_string());
            note(format_args!("{}, datagrams: {rate}", direction.name()));
            self.measured.notes.extend(left_out(&line, direction));
            self.measured.lines[direction as usize] = line;
        }
        Ok(())
    }

    fn find_mtu(&mut self) -> Result<Option<Datagrams>, Ended> {
        let rtt = self.measured.idle.iter().copied().max().unwrap_or_default();
        let Some(to) = self.session.datagrams() else {
            self.measured.notes.push("the path MTU is not known: the far end could not open a UDP port".into());
            return Ok(None);
        };
        let until = Instant::now() + self.schedule().before_runs().saturating_sub(self.taken());
        let opened = self.session.dialer().datagrams();
        let opened = opened.map(|socket| Datagrams::new(socket, to, self.session.nonce(), rtt));
        let climbed =
            opened.and_then(|mut datagrams| datagrams.climb(until, self.stop).map(|ladder| (ladder, datagrams)));
        let datagrams = match climbed {
            Ok((ladder, datagrams)) => {
                self.measured.ladder = ladder;
                datagrams
            }
            Err(err) => {
                self.check_stopped()?;
                let why = match err.kind() {
                    ErrorKind::TimedOut => {
                        "the round trip is long, and no time was left: give more with --seconds".into()
                    }
                    _ => err.to_string(),
                };
                self.measured.notes.push(format!("the path MTU is not known: {why}"));
                return Ok(None);
            }
        };
        let found = self.measured.ladder.path_mtu;
        if found == [None, None] {
            let port = to.port();
            self.measured.notes.push(format!("the path MTU and the rate of the line are not known: no datagram to UDP port {port} came back; open it in the firewall"));
        }
        let shown = |mtu: Option<u32>| mtu.map_or("unknown".into(), |mtu| format!("{mtu} bytes"));
        note(format_args!("path MTU: {} up, {} down", shown(found[0]), shown(found[1])));
        Ok(Some(datagrams))
    }

    /// Where full segments of the first run in `direction` stand still, or lose bytes without a queue, tries smaller ones.
    fn smaller_segments(&mut self, direction: Direction) -> Result<(), Ended> {
        let Some(first) = self.measured.first(direction) else { return Ok(()) };
        let (sent, lost) = first.lost_by_chance(None);
        let (mss, rate, lost) = (first.sender.mss, first.rate(), lost / sent.max(1.0));
        let seconds = self.scaled(OTHER_SECONDS);
        let with = |mss| Step { direction, congestion: None, connections: 1, seconds, mss: Some(mss) };
        if rate.0 == 0 && first.sender.acked < STUCK {
            let mtu = self.measured.ladder.path_mtu[direction as usize];
            let fits = mtu.map_or(SMALL_MSS, |mtu| mtu.saturating_sub(self.measured.headers()));
            return if fits < mss { self.step(with(fits)) } else { Ok(()) };
        }
        let is_lossy = self
            .measured
            .way(direction)
            .findings()
            .first()
            .is_some_and(|finding| matches!(finding.kind, Kind::RandomLoss | Kind::Unknown));
        if !is_lossy || lost == 0.0 || mss <= SMALL_MSS {
            return Ok(());
        }
        // The other direction is likely to have the same.
        let known = self.measured.uncut.iter().flatten().next().copied();
        let short = |mss| Step { seconds: seconds * SEARCH_SECONDS / OTHER_SECONDS, ..with(mss) };
        let Some(small) = self.make(short(known.unwrap_or(SMALL_MSS)))? else { return Ok(()) };
        // Its start may fill the queue, and lose many at once.
        let (sent, lost_of_small) = small.lost_by_chance(Some(lost));
        let expected = lost * sent;
        let is_better = small.rate().0 as f64 >= 1.5 * rate.0 as f64 && lost_of_small < 0.5 * expected;
        self.measured.outcomes.push(small.clone());
        if !is_better {
            return Ok(());
        }
        if known.is_some() {
            self.measured.uncut[direction as usize] = known.filter(|_| expected >= SOME);
            return Ok(());
        }
        let found = self.search(direction, mss, &small)?;
        self.measured.uncut[direction as usize] = found;
        found.map_or(Ok(()), |found| self.step(short(found)))
    }

    /// Returns the largest MSS below `cut` with which fewer are lost than with `cut`. `None` if as many are lost with [`SMALL_MSS`], of which
    /// `small` is a run, or if it is not known. Sends by BBR where it is offered: the more segments, the surer a loss.
    fn search(&mut self, direction: Direction, cut: u32, small: &Outcome) -> Result<Option<u32>, Ended> {
        let congestion = self.others(direction).into_iter().find(|name| name == BBR);
        // Two runs with `cut`, one for each halving, and two that have to be made again.
        let (steps, seconds) = (f64::from(5 + (cut - SMALL_MSS).ilog2()), self.scaled(SEARCH_SECONDS));
        // A run in each direction shows the gain.
        let reserve = 2.0 * seconds;
        let seconds = seconds.min((self.seconds_left - reserve) / steps);
        let step = Step { direction, congestion, connections: 1, seconds, mss: Some(cut) };
        let (mut sent, mut lost) = (0.0, 0.0);
        for _ in 0..2 {
            let Some(outcome) = self.make(step.clone())? else { break };
            let more = outcome.lost_by_chance(None);
            // A second look at the same, as a few lost at once had counted as all of them.
            let more = outcome.lost_by_chance(Some(more.1 / more.0.max(1.0)));
            (sent, lost) = (sent + more.0, lost + more.1);
            if lost >= SURE {
                break;
            }
        }
        if lost < FEW {
            return Ok(None);
        }
        let share = lost / sent;
        let of_small = small.lost_by_chance(Some(share));
        if self.is_cut(&step, SMALL_MSS, share, reserve, of_small)? != Some(false) {
            return Ok(None);
        }
        let (mut good, mut bad) = (SMALL_MSS, cut);
        while bad - good > 1 {
            let mss = good.midpoint(bad);
            match self.is_cut(&step, mss, share, reserve, (0.0, 0.0))? {
                Some(true) => bad = mss,
                Some(false) => good = mss,
                None => {
                    let note = format!(
                        "segments of {good} bytes are not cut, and those of {bad} are; no time was left for those between: give more with \
                         --seconds"
                    );
                    self.measured.notes.push(note);
                    break;
                }
            }
        }
        Ok(Some(good))
    }

    /// Whether about the share `expected` of the segments of `mss` bytes is lost, and not far fewer. `counted` are those sent and lost before.
    /// `None` if there is no time for it but the `reserve`, in seconds.
    fn is_cut(
        &mut self,
        step: &Step,
        mss: u32,
        expected: f64,
        reserve: f64,
        counted: (f64, f64),
    ) -> Result<Option<bool>, Ended> {
        let (mut sent, mut lost) = counted;
        // None lost tells if several were expected, and between none and as many, more segments tell.
        while lost == 0.0 && expected * sent < SOME
            || lost > 0.0 && lost < 0.5 * expected * sent && expected * sent < SURE
        {
            let seconds = step.seconds.min(self.seconds_left - reserve);
            let Some(outcome) = self.make(Step { mss: Some(mss), seconds, ..step.clone() })? else { return Ok(None) };
            let more = outcome.lost_by_chance(Some(expected));
            if more.0 == 0.0 {
                return Ok(None);
            }
            (sent, lost) = (sent + more.0, lost + more.1);
        }
        note(format_args!(
            "MSS {mss}: {lost:.0} of {sent:.0} segments are lost, and {:.1} would be if they were cut",
            expected * sent
        ));
        Ok(Some(lost > 0.3 * expected * sent))
    }

    /// Returns the other congestion controls of the sender, those first that lift the limit of loss.
    fn others(&self, direction: Direction) -> Vec<String> {
        let offered = match direction {
            Direction::Up => self.session.dialer().congestion(),
            Direction::Down => self.session.admitted.congestion.clone(),
        };
        // The first run has shown the sender's default, which a relay chooses by the path.
        let default = self.measured.first(direction).map(|first| first.sender.congestion.clone());
        let default = default.filter(|name| !name.is_empty()).or(offered.first().cloned());
        let is_known =
            |name: &&&str| default.as_deref() != Some(**name) && offered.iter().any(|offered| offered == **name);
        let most = if self.limits.has_only_default { 0 } else { MAX_OTHERS };
        TRIED.iter().filter(is_known).take(most).map(|name| (*name).to_string()).collect()
    }

    /// Whether several connections have carried so much more than one that still more may.
    fn grows(&self, direction: Direction) -> bool {
        let way = self.measured.way(direction);
        let (Some(one), Some(several)) = (way.runs.first(), way.runs.last()) else { return false };
        let is_windowed = way.findings().first().is_some_and(|finding| {
            matches!(finding.kind, Kind::ReceiverWindow | Kind::OwnSendBuffer | Kind::PeerSendBuffer)
        });
        is_windowed && several.rate.0 as f64 >= 0.8 * f64::from(several.connections) * one.rate.0 as f64
    }

    /// Makes a run, if there are bytes and time for it, and keeps it.
    fn step(&mut self, step: Step) -> Result<(), Ended> {
        let until_end = self.schedule().until_end(self.taken());
        let is_another = self.measured.first(step.direction).is_some();
        if is_another && step.seconds.min(self.seconds_left).min(until_end) < self.schedule().least_run() {
            self.has_skipped = true;
            return self.check_stopped();
        }
        let made = self.make(step)?;
        self.measured.outcomes.extend(made);
        Ok(())
    }

    /// Makes a run, and returns it. `None` if there are no bytes or no time for it. Only a run with which the session is lost is kept here.
    fn make(&mut self, step: Step) -> Result<Option<Outcome>, Ended> {
        self.check_stopped()?;
        let seconds = step.seconds.min(self.seconds_left).min(self.schedule().until_end(self.taken()));
        if seconds < MIN_SECONDS || self.bytes_left == 0 || Instant::now() >= self.session.until {
            self.has_skipped = true;
            return Ok(None);
        }
        self.number += 1;
        // The part of the bytes that the run's part of the time gives it.
        let share = (self.bytes_left as f64 * (seconds / self.seconds_left).min(1.0)) as u64;
        let run = Run {
            number: self.number,
            direction: step.direction,
            connections: step.connections,
            congestion: step.congestion,
            seconds,
            max_bytes: share,
            // The kernel paces payload.
            max_rate: self.limits.rate.map(|rate| (self.measured.payload_in(rate, step.mss).0 / 8).max(1)),
        };
        self.seconds_left -= seconds;
        let (outcome, lost) = self.session.run(run, step.mss);
        self.bytes_left -= outcome.sender.bytes.max(outcome.receiver.bytes).min(share);
        self.tell(&outcome);
        let Some(why) = lost else {
            return Ok(Some(self.without_contradiction(outcome)));
        };
        let has_carried = outcome.series.iter().any(|(_, bytes)| *bytes > 0);
        self.measured.outcomes.push(outcome);
        self.check_stopped()?;
        Err(self.lost(&why, has_carried.then_some(step.direction)))
    }

    /// Returns `outcome` without the far end's figures if they contradict what this host has seen, and notes that.
    fn without_contradiction(&mut self, outcome: Outcome) -> Outcome {
        if !outcome.is_contradictory() {
            return outcome;
        }
        let number = outcome.run.number;
        let note = format!("run {number}: the far end's figures contradict what came, so they do not count");
        self.measured.notes.push(note);
        let none = Ran { number, ..Ran::default() };
        match outcome.run.direction {
            Direction::Up => Outcome { receiver: none, ..outcome },
            Direction::Down => Outcome { sender: none, ..outcome },
        }
    }

    fn tell(&self, outcome: &Outcome) {
        let Outcome { run, sender, .. } = outcome;
        let segments = outcome.mss.map_or(String::new(), |mss| format!(", MSS {mss}"));
        let connections =
            if run.connections == 1 { "1 connection".into() } else { format!("{} connections", run.connections) };
        note(format_args!(
            "{}, {}, {connections}{segments}: {}",
            run.direction.name(),
            sender.congestion,
            outcome.rate()
        ));
    }

    fn check_stopped(&self) -> Result<(), Ended> {
        let is_over = self.stop.load(Relaxed) || self.session.dialer().ended().is_some();
        if is_over { Err(Ended::Interrupted) } else { Ok(()) }
    }

    /// Returns the length of a step that has `seconds` if the measurement has all the time that it wants.
    fn scaled(&self, seconds: f64) -> f64 {
        let [up, down] = Direction::ALL.map(|direction| self.others(direction).len() + 1);
        let wanted = 2.0 * self.schedule().wanted_first_run() + OTHER_SECONDS * (up + down) as f64;
        (seconds * self.seconds / wanted).min(MAX_RUN_SECONDS)
    }

    /// Returns the length of the first run of a direction in seconds.
    fn first_seconds(&self) -> f64 {
        let scaled = self.scaled(self.schedule().wanted_first_run());
        // The trains may have taken some of the time that both directions share.
        if self.is_short { scaled.max(self.schedule().first_run()).min(self.seconds / 2.0) } else { scaled }
    }

    /// Returns the length of a run that lifts a limit, in seconds.
    fn other_seconds(&self) -> f64 {
        let scaled = self.scaled(OTHER_SECONDS);
        // Rather a few that pass their starts than many that do not.
        if self.is_short { scaled.max(2.0 * self.schedule().least_run()) } else { scaled }
    }

    fn schedule(&self) -> Schedule {
        Schedule { sending: self.limits.time, rtt: self.measured.min_rtt().unwrap_or_default() }
    }

    /// Returns the time that the measurement has taken.
    fn taken(&self) -> Duration {
        self.session.began.elapsed()
    }

    /// Returns how a measurement ends by `err`, after bytes had gone in the direction `carried`.
    fn lost(&self, err: &io::Error, carried: Option<Direction>) -> Ended {
        match carried {
            _ if !matches!(err.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock) => Ended::Lost(in_words(err)),
            _ if self.session.is_host_alive() => Ended::Lost(SILENT.into()),
            Some(direction) => Ended::Died(direction),
            None => Ended::Lost(in_words(err)),
        }
    }
}

/// Says which trains of `line` were left out for want of time.
fn left_out(line: &Line, direction: Direction) -> Option<String> {
    let way = direction.name();
    let what = match line.rate {
        _ if !line.is_short => return None,
        Some(_) => format!(
            "the rate of the line {way} was measured by fewer than three trains of datagrams, so it is less certain"
        ),
        None => format!("the rate of the line {way} is not known by datagrams"),
    };
    Some(format!("{what}: the round trip is long, and no time was left; give more with --seconds"))
}

/// Returns the MSS of a connection whose ends and routes choose it.
pub(super) fn chosen_mss(dialer: &Dialer) -> Option<u32> {
    let stream = dialer.connect(None, &[]).ok()?;
    let mss = TcpInfo::of(stream.as_fd()).ok()?.mss();
    (mss > 0).then_some(mss)
}

/// Words for a program that does not answer although its host does.
const SILENT: &str = "the far longhaul hangs: its host acknowledges, and it does not answer";
/// Time beyond these after which the far end is too slow, and the round trips that the steps before the first run take.
const LATE: Duration = Duration::from_secs(10);
const ROUND_TRIPS: u32 = 100;
/// Part of the time for trains that those up have, where it is short.
const UP_SHARE: f64 = 0.6;
/// Time between two small messages.
const BETWEEN_ECHOES: Duration = Duration::from_millis(30);
/// Length of another run in seconds.
const OTHER_SECONDS: f64 = 4.0;
/// Least length of a run that shows something.
const MIN_SECONDS: f64 = 0.3;
/// The congestion controls that are tried beside the default, and how many of them.
const TRIED: &[&str] = &["bbr", "cubic", "reno"];
const MAX_OTHERS: usize = 2;
/// Connections of the runs that lift the limit of a window.
const SEVERAL: u32 = 8;
const MANY: u32 = 64;
/// Bytes that are acknowledged at most where full segments do not pass.
const STUCK: u64 = 64 << 10;
/// MSS that fits where the path MTU is not known, and that no tunnel cuts.
const SMALL_MSS: u32 = 1000;
/// Length in seconds of a run that shows whether packets are cut, and of the first one with smaller segments.
const SEARCH_SECONDS: f64 = 2.0;
/// Expected losses from which on it tells that none was lost: by chance that is one run of 55 (Poisson).
const SOME: f64 = 4.0;
/// Expected losses from which on their number tells.
const SURE: f64 = 10.0;
