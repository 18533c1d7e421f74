//! Finds the rate of the line by trains of datagrams, each four times as fast as the one before: from that rate on, they arrive no
//! faster. A train answers to no loss and knows no window, so it shows the line where each connection is held back.

use super::ladder::Datagrams;
use super::session::Session;
use longhaul_measure::datagram::send_train;
use longhaul_measure::message::{Direction, Train, Trained};
use longhaul_units::Rate;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The trains in one direction, and the rate of the line by them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Line {
    /// The trains: the rate at which each was sent and at which its second half arrived, in bits of IP packets, and the share that
    /// was lost.
    pub(super) trains: Vec<(Rate, Rate, f64)>,
    /// The rate of the line, in bits of IP packets. `None`: no train was fast enough, or none arrived.
    pub(super) rate: Option<Rate>,
    /// Whether datagrams above that rate passed at first, and then were lost: a policer's bucket was full, and then empty.
    pub(super) is_policed: bool,
    /// Datagrams that arrived, and those of them that came after one that was sent later.
    pub(super) arrived: u64,
    pub(super) overtaken: u64,
    /// Payload bytes that were sent, and the time of sending in seconds.
    pub(super) bytes: u64,
    pub(super) seconds: f64,
    /// Whether trains were left out for want of time.
    pub(super) is_short: bool,
}

/// Bounds of the trains in a direction.
#[derive(Clone, Copy)]
pub(super) struct Bounds<'a> {
    /// Payload bytes of all trains.
    pub(super) bytes: u64,
    /// Rate of IP packets.
    pub(super) rate: Option<Rate>,
    pub(super) until: Instant,
    pub(super) stop: &'a AtomicBool,
}

/// Sends trains of IP packets of `packet` bytes in `direction`, within `bounds`.
///
/// # Errors
/// The session is lost.
pub(super) fn find_line(
    session: &mut Session,
    datagrams: &Datagrams,
    direction: Direction,
    packet: u32,
    bounds: &Bounds,
) -> io::Result<Line> {
    let mut line = Line::default();
    let size = packet - datagrams.headers;
    let per_byte = 8.0 * f64::from(packet) / f64::from(size);
    for nth in 0..MAX_TRAINS {
        let wanted = FIRST_RATE * FASTER.powi(nth);
        let asked = bounds.rate.map_or(wanted, |limit| wanted.min(limit.0 as f64));
        let train = Train {
            number: nth as u32 + 1 + MAX_TRAINS as u32 * direction as u32,
            direction,
            rate: (asked / per_byte) as u64,
            size: size as u16,
            seconds: SECONDS,
        };
        if line.bytes.saturating_add(train.bytes()) > bounds.bytes || !line.has_time(direction, datagrams, bounds) {
            break;
        }
        let (sent, arrived) = one(session, datagrams, &train)?;
        line.note_sent(&train, &sent);
        if sent.datagrams == 0 || arrived.datagrams < LEAST.min(sent.datagrams) {
            break;
        }
        if sent.datagrams < LEAST {
            // Too few large datagrams: the next train has four times as many.
            continue;
        }
        line.arrived += arrived.datagrams;
        line.overtaken += arrived.overtaken.min(arrived.datagrams);
        let out = sent.datagrams as f64 * f64::from(size) * per_byte / (sent.micros.max(1) as f64 / 1e6);
        let came = rate_of(arrived.half_bytes, arrived.half_micros, per_byte);
        let lost = 1.0 - (arrived.datagrams as f64 / sent.datagrams as f64).min(1.0);
        line.trains.push((Rate(out as u64), Rate(came as u64), lost));
        if came < SLOWER * out {
            let median = line.median_of(Rate(came as u64), session, datagrams, (&train, bounds))?;
            if median.0 as f64 >= SLOWER * out {
                continue;
            }
            let early = rate_of(arrived.early_bytes, arrived.early_micros, per_byte);
            // A line lets nothing pass faster than itself. One burst of a reader that was busy has a time of zero.
            line.is_policed = lost > POLICED && arrived.early_micros > 1000 && early > EARLY * came;
            line.rate = Some(median);
        }
        // Also where this host cannot send faster.
        if line.rate.is_some() || out < 0.5 * asked || asked < wanted {
            break;
        }
    }
    Ok(line)
}

impl Line {
    /// Returns the share of the datagrams that were overtaken by later ones. `None`: none arrived.
    pub(super) fn reordered(&self) -> Option<f64> {
        (self.arrived > 0).then(|| self.overtaken as f64 / self.arrived as f64)
    }

    /// Whether another train fits in. Notes that it does not.
    fn has_time(&mut self, direction: Direction, datagrams: &Datagrams, bounds: &Bounds) -> bool {
        // It is announced, and the arrivals of one up are asked for.
        let trips = if direction == Direction::Up { datagrams.patience } else { datagrams.patience / 2 };
        let time = trips + datagrams.quiet() + Duration::from_secs_f64(SECONDS);
        self.is_short |= Instant::now() + time > bounds.until;
        !self.is_short && !bounds.stop.load(Relaxed)
    }

    fn note_sent(&mut self, train: &Train, sent: &Trained) {
        self.bytes = self.bytes.saturating_add(sent.datagrams.saturating_mul(u64::from(train.size)));
        self.seconds += train.seconds;
    }

    /// Returns the median of the rate `came` and of two more trains like `train`, if there is time for them: a host that is busy reads late.
    fn median_of(
        &mut self,
        came: Rate,
        session: &mut Session,
        datagrams: &Datagrams,
        (train, bounds): (&Train, &Bounds),
    ) -> io::Result<Rate> {
        let mut rates = vec![came];
        for again in 1..=2 {
            if !self.has_time(train.direction, datagrams, bounds) {
                break;
            }
            let train = Train { number: train.number + 2 * MAX_TRAINS as u32 * again, ..train.clone() };
            let (sent, arrived) = one(session, datagrams, &train)?;
            self.note_sent(&train, &sent);
            let per_byte = 8.0 * per_payload(&train, datagrams);
            rates.push(Rate(rate_of(arrived.half_bytes, arrived.half_micros, per_byte) as u64));
        }
        rates.sort_unstable();
        Ok(rates[rates.len() / 2])
    }
}

/// Returns the bytes of IP packets for each byte of payload.
fn per_payload(train: &Train, datagrams: &Datagrams) -> f64 {
    f64::from(u32::from(train.size) + datagrams.headers) / f64::from(train.size)
}

/// Returns a rate in bit/s, with so many bits for each byte of payload.
fn rate_of(bytes: u64, micros: u64, per_byte: f64) -> f64 {
    bytes as f64 * per_byte / (micros.max(1) as f64 / 1e6)
}

/// Sends one train. Returns what was sent and what arrived.
fn one(session: &mut Session, datagrams: &Datagrams, train: &Train) -> io::Result<(Trained, Trained)> {
    let (sent, arrived) = match train.direction {
        Direction::Up => {
            session.begin_train(train)?;
            let (sent, time) = send_train(&datagrams.socket, datagrams.to, datagrams.nonce, train)?;
            let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
            let sent = Trained { number: train.number, datagrams: sent, micros, ..Trained::default() };
            let arrived = session.arrived(train.number, sent.datagrams, datagrams.quiet())?;
            io::Result::Ok((sent, arrived))
        }
        Direction::Down => datagrams.count(train, || session.train_down(train)),
    }?;
    // A path may deliver a datagram twice, but no more comes than that.
    let most = sent.datagrams.saturating_mul(2 * u64::from(train.size));
    let is_true =
        arrived.half_bytes.max(arrived.early_bytes) <= most && arrived.datagrams <= sent.datagrams.saturating_mul(2);
    Ok((sent, if is_true { arrived } else { Trained::default() }))
}

/// Rate of the first train in bit/s, and how much faster each is than the one before.
const FIRST_RATE: f64 = 4e6;
const FASTER: f64 = 4.0;
/// Trains of a direction at most: the last one has 16 Gbit/s.
const MAX_TRAINS: i32 = 7;
/// Length of a train in seconds. The second half counts, so a burst that a policer lets pass does not.
const SECONDS: f64 = 0.2;
/// Part of the rate of sending below which a train arrives more slowly than it was sent.
const SLOWER: f64 = 0.93;
/// Share of a train that a policer loses at least, and how much faster than its rate the first datagrams pass.
const POLICED: f64 = 0.1;
const EARLY: f64 = 1.5;
/// Datagrams of a train that must arrive, so that their rate means something.
const LEAST: u64 = 8;
