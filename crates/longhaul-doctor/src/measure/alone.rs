//! Measures with one end alone, where nobody answers measuring sessions: the time of a connection, the MSS, and the path MTU by echoes of
//! ICMP. If the server takes every byte (discard, RFC 863), it also measures a transfer up.

use super::course::{Limits, chosen_mss};
use super::dialer::Dialer;
use super::ladder::{Climb, TRIES, largest, receive};
use super::measured::{Ended, Measured};
use super::session::Outcome;
use crate::say::note;
use longhaul_measure::bulk;
use longhaul_measure::datagram::patience;
use longhaul_measure::message::{Buffers, Direction, Run};
use longhaul_sys::sockopt;
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Measures the path by `dialer`, to the far end called `to`, whose first connection took `connect_time`. `why` says why nobody answers.
/// Through a tunnel there is less: the daemon opens the connections.
pub(super) fn measure(
    to: &str,
    dialer: &Dialer,
    (why, connect_time): (String, Duration),
    limits: &Limits,
    stop: &AtomicBool,
) -> Measured {
    let (address, is_direct) = (dialer.address(), dialer.through().is_none());
    // The daemon's part would be in the times.
    let is_stopped = || stop.load(Relaxed);
    let connects = (1..if is_direct { CONNECTS } else { 1 }).take_while(|_| !is_stopped()).filter_map(|_| {
        let began = Instant::now();
        dialer.connect(None, &[]).ok().map(|_| began.elapsed())
    });
    let mut measured = Measured {
        to: to.into(),
        tunnel: dialer.through().map(|through| through.tunnel.clone()),
        address: Some(address),
        connect: connect_time,
        idle: connects.chain([connect_time]).collect(),
        mss: if is_stopped() { None } else { chosen_mss(dialer) },
        buffers: [Buffers::here(), Buffers::default()],
        limit: limits.rate,
        notes: vec![why],
        ..Measured::default()
    };
    let rtt = measured.min_rtt().unwrap_or_default();
    if is_direct && !is_stopped() {
        climb(&mut measured, address, rtt, stop);
    }
    if is_direct && address.port() == DISCARD && !is_stopped() {
        measured.outcomes.extend(fill(dialer, limits, stop));
    }
    measured.ended = match measured.outcomes.last() {
        _ if is_stopped() => Some(Ended::Interrupted),
        Some(outcome) if stands_still(&outcome.series) => Some(Ended::Died(Direction::Up)),
        _ => None,
    };
    // Whether a longhaul answers there may not be known yet.
    if is_stopped() {
        return measured;
    }
    measured.notes.push(match measured.outcomes.is_empty() {
        true => format!(
            "one end alone measures the time of a connection, the MSS and the path MTU up; a transfer up, too, where a discard server \
             listens on port {DISCARD}: for everything, run `longhaul responder` on the far host"
        ),
        false => "one end alone measures nothing down, and no path MTU down: run `longhaul responder` on the far host".into(),
    });
    measured
}

/// Finds the path MTU up by echoes of ICMP.
fn climb(measured: &mut Measured, address: SocketAddr, rtt: Duration, stop: &AtomicBool) {
    let climbed = Echoes::open(address, rtt).and_then(|mut echoes| {
        let mut climb = Climb::default();
        while !climb.sizes.is_empty() {
            let passed = in_tries(&climb.sizes, &mut echoes, stop)?;
            climb.note(|size| passed.contains(&size));
        }
        Ok(climb.into_steps())
    });
    match climbed {
        Ok(steps) => {
            let up = Direction::Up as usize;
            measured.ladder.path_mtu[up] = largest(&steps);
            measured.ladder.steps[up] = steps;
            if measured.ladder.path_mtu[up].is_none() {
                measured.notes.push("the path MTU is not known: no echo of ICMP came back".into());
            }
        }
        Err(err) if err.kind() == ErrorKind::Interrupted => {}
        Err(err) => {
            let why = format!(
                "the path MTU is not known: no echoes of ICMP: {err}; run it as root, or see net.ipv4.ping_group_range in icmp(7)"
            );
            measured.notes.push(why);
        }
    }
}

/// Returns which of `sizes` pass at one of three tries.
fn in_tries(sizes: &[u32], echoes: &mut Echoes, stop: &AtomicBool) -> io::Result<BTreeSet<u32>> {
    let mut passed = BTreeSet::new();
    for _ in 0..TRIES {
        let left: Vec<u32> = sizes.iter().copied().filter(|size| !passed.contains(size)).collect();
        if left.is_empty() {
            break;
        }
        if stop.load(Relaxed) {
            return Err(ErrorKind::Interrupted.into());
        }
        passed.append(&mut echoes.pass(&left)?);
    }
    Ok(passed)
}

/// Sends to a server that takes every byte. Returns `None` if it does not.
fn fill(dialer: &Dialer, limits: &Limits, stop: &AtomicBool) -> Option<Outcome> {
    let run = Run {
        number: 1,
        connections: 1,
        seconds: limits.time.as_secs_f64().min(FILL_SECONDS),
        max_bytes: limits.bytes.0,
        max_rate: limits.rate.map(|rate| (rate.0 / 8).max(1)),
        ..Run::default()
    };
    let stream = dialer.connect(None, &[]).ok()?;
    bulk::prepare(&stream, &run).ok()?;
    note(format_args!("sending to the discard server for {:.0} s", run.seconds));
    let sender = bulk::send(&stream, &run, stop);
    let series = sender.looks.iter().map(|look| (look.time(), look.acked.saturating_sub(1))).collect();
    (sender.acked > 0).then(|| Outcome { run, series, sender, ..Outcome::default() })
}

/// Whether nothing more is acknowledged at the end of a transfer with this series.
fn stands_still(series: &[(Duration, u64)]) -> bool {
    let Some((end, acked)) = series.last() else { return false };
    let reached = series.iter().find(|(_, before)| before == acked).map_or(*end, |(at, _)| *at);
    *end - reached >= STILL
}

/// A socket for echoes of ICMP with DF: one of icmp(7) for every user, or else one of raw(7), which needs CAP_NET_RAW.
struct Echoes {
    socket: UdpSocket,
    is_ipv4: bool,
    is_raw: bool,
    /// Time in which an answer comes.
    patience: Duration,
    number: u16,
}

impl Echoes {
    /// # Errors
    /// There is no socket: the group of this process is not in net.ipv4.ping_group_range, and it has no CAP_NET_RAW.
    fn open(to: SocketAddr, rtt: Duration) -> io::Result<Echoes> {
        let protocol = if to.is_ipv4() { Protocol::ICMPV4 } else { Protocol::ICMPV6 };
        let of =
            |kind| Socket::new(Domain::for_address(to), kind, Some(protocol)).map(|socket| (socket, kind == Type::RAW));
        let (socket, is_raw) = of(Type::DGRAM).or_else(|_| of(Type::RAW))?;
        socket.set_nonblocking(true)?;
        sockopt::set_do_not_fragment(socket.as_fd(), true).map_err(io::Error::other)?;
        socket.connect(&SocketAddr::new(to.ip(), 0).into())?;
        // A socket of ICMP sends and receives as one of UDP.
        Ok(Echoes { socket: socket.into(), is_ipv4: to.is_ipv4(), is_raw, patience: patience(rtt), number: 0 })
    }

    /// Returns which of `sizes`, in bytes of the IP packet, have an answer.
    fn pass(&mut self, sizes: &[u32]) -> io::Result<BTreeSet<u32>> {
        let (headers, question, answer) = if self.is_ipv4 { (20, 8, 0) } else { (40, 128, 129) };
        let first = self.number;
        for size in sizes {
            self.number = self.number.wrapping_add(1);
            let mut message = vec![0; (size - headers) as usize];
            message[0] = question;
            // A socket of icmp(7) writes its own checksum and identifier.
            let sum = (u32::from(question) << 8) + u32::from(IDENTIFIER) + u32::from(self.number);
            let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
            for (at, value) in [(2, checksum), (4, IDENTIFIER), (6, self.number)] {
                message[at..at + 2].copy_from_slice(&value.to_be_bytes());
            }
            // EMSGSIZE: it is larger than the path MTU that the kernel knows.
            let _ = self.socket.send(&message);
        }
        let mut passed = BTreeSet::new();
        let (mut buffer, deadline) = (vec![0; 65_536], Instant::now() + self.patience);
        while passed.len() < sizes.len() {
            let Some(got) = receive(&self.socket, &mut buffer, deadline)? else { break };
            // A raw socket gets the header of IPv4, too.
            let header = if self.is_raw && self.is_ipv4 { usize::from(buffer[0] & 15) * 4 } else { 0 };
            let Some(&[kind, 0, _, _, a, b, c, d]) = buffer[..got].get(header..).and_then(|rest| rest.first_chunk())
            else {
                continue;
            };
            let is_ours = kind == answer && (!self.is_raw || u16::from_be_bytes([a, b]) == IDENTIFIER);
            let nth = u16::from_be_bytes([c, d]).wrapping_sub(first).wrapping_sub(1);
            let size = sizes.get(usize::from(nth)).filter(|size| is_ours && (got - header) as u32 + headers == **size);
            passed.extend(size);
        }
        Ok(passed)
    }
}

/// Identifier of our echoes.
const IDENTIFIER: u16 = 0x6c68;
/// Connections that show the time of one.
const CONNECTS: u32 = 5;
/// Port of a server that takes every byte (RFC 863).
const DISCARD: u16 = 9;
/// Time without an acknowledgement after which the path has died: more than a retransmission takes on any path.
const STILL: Duration = Duration::from_secs(4);
/// Time of sending to it in seconds.
const FILL_SECONDS: f64 = 10.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_stands_still_if_nothing_is_acknowledged_at_its_end() {
        let series = |times: &[(u64, u64)]| -> Vec<(Duration, u64)> {
            times.iter().map(|(at, acked)| (Duration::from_secs(*at), *acked)).collect()
        };
        assert!(stands_still(&series(&[(0, 0), (3, 9), (5, 9), (8, 9)])));
        assert!(!stands_still(&series(&[(0, 0), (5, 0), (6, 9), (8, 9)])));
        assert!(!stands_still(&series(&[(0, 0), (8, 0), (9, 9)])) && !stands_still(&[]));
    }

    #[test]
    fn an_echo_proves_its_size() {
        let to = SocketAddr::from(([127, 0, 0, 1], 1));
        let Ok(mut echoes) = Echoes::open(to, Duration::ZERO) else {
            println!("SKIP no echoes of ICMP: they need net.ipv4.ping_group_range or CAP_NET_RAW");
            return;
        };
        let sizes = [576, 1500, 65_535];
        assert_eq!(echoes.pass(&sizes).unwrap(), BTreeSet::from(sizes));
        assert_eq!(echoes.pass(&[1280]).unwrap(), BTreeSet::from([1280]), "answers to earlier ones do not count");
    }
}
