//! The emulated WAN, one direction of it: a [`Link`] is a row of [`Stage`]s and behind them the packets under way.
//!
//! ```text
//!   send(packet) ── rate ── loss ── delay ──▶ under way, by due time ──▶ receive(now)
//! ```
//!
//! Nothing here waits: a stage decides at once when (or whether) a packet leaves it, because all it needs is the time
//! at which the packet came. So the same code runs in virtual time in tests and live over TUN devices in the lab.
//! A [`Packet`] is only a description; its bytes stay with the caller. It may stand for a super-packet of up to 64 KiB
//! that segmentation offload has not cut yet, and everything is counted and lost by the segments it will become.
//!
//! **What a rate counts** are IP bytes: the headers and payload of each segment, as `ip -s link` shows them. That is how
//! an IP service is sold; over a path of 1 Gbit/s and an MTU of 1500 a TCP transfer with timestamps then moves
//! 1448 / 1500 of it, 965 Mbit/s. (A 1 Gbit/s Ethernet *port* also spends 38 bytes a frame on framing and
//! carries 975 Mbit/s of IP: write that rate to emulate one.)
//!
//! Adding a stage: a file with its type and its `ROW`, and the row's name in [`ROWS`].

mod delay;
mod loss;
mod packet;
mod random;
mod rate;
pub mod segment;
#[cfg(test)]
mod tests;

use crate::units::UnitError;
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

pub use loss::percentage;
pub use packet::Packet;

/// Every stage there is, in the order in which a packet passes them: it queues for the line, is lost on it, and what
/// is left travels.
pub const ROWS: &[Row] = &[rate::ROW, loss::ROW, delay::ROW];

/// One kind of stage: everything that longhaul knows of it.
#[derive(Debug)]
pub struct Row {
    /// Its name in a scenario, on the command line and in counters.
    pub key: &'static str,
    /// What it does to packets, and how its value is written.
    pub help: &'static str,
    /// A value to show in documentation and to build in the test.
    pub sample: &'static str,
    /// Makes the stage from its value as a person wrote it, and a seed for its randomness; `None` when the value asks
    /// for nothing (`0`), so that a packet need not pass it.
    pub build: fn(&str, u64) -> Built,
}

/// A stage, nothing when its value asks for nothing, or what is wrong with the value.
pub type Built = Result<Option<Box<dyn Stage>>, StageError>;

/// One impairment of the emulated WAN.
pub trait Stage: Send {
    /// Passes `packet`, which reaches the stage at `packet.at`: what survives is pushed to `out` with the time at which
    /// it leaves, in the order of its segments. What is not pushed is lost.
    fn pass(&mut self, packet: Packet, out: &mut Vec<Packet>);
}

/// What went into a stage and what came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Counters {
    /// Segments that reached the stage.
    pub segments_in: u64,
    /// Segments that left it; the difference was lost in it.
    pub segments_out: u64,
    /// Wire bytes that reached it.
    pub bytes_in: u64,
    /// Wire bytes that left it.
    pub bytes_out: u64,
}

/// One direction of the emulated WAN.
pub struct Link {
    stages: Vec<Fitted>,
    under_way: VecDeque<Packet>,
    /// Where the pieces of one packet wait between two stages; kept to be allocated once.
    entering: Vec<Packet>,
    leaving: Vec<Packet>,
}

/// A stage in its place.
struct Fitted {
    key: &'static str,
    stage: Box<dyn Stage>,
    counters: Counters,
}

/// Why a stage could not be made from what a person wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageError {
    /// There is no stage of that name.
    UnknownStage,
    /// A quantity in it cannot be read.
    Unit(UnitError),
    /// A share of packets must be written as `0.1%`, between 0 and 100 %.
    NoPercentage,
    /// A rate of nothing carries nothing.
    NoRate,
}

impl Link {
    /// A link with the stages of `settings`, pairs of a row's key and its value; they take effect in the order of
    /// [`ROWS`] whatever their order here. The same seed loses the same packets.
    ///
    /// # Errors
    /// The index of the setting that is wrong, and why.
    pub fn new(settings: &[(&str, &str)], seed: u64) -> Result<Link, (usize, StageError)> {
        let unknown = |(key, _): &(&str, &str)| !ROWS.iter().any(|row| row.key == *key);
        if let Some(index) = settings.iter().position(unknown) {
            return Err((index, StageError::UnknownStage));
        }
        let mut stages = Vec::new();
        for (place, row) in ROWS.iter().enumerate() {
            for (index, (_, value)) in settings.iter().enumerate().filter(|(_, (key, _))| *key == row.key) {
                let seed = seed.wrapping_add(place as u64);
                if let Some(stage) = (row.build)(value, seed).map_err(|err| (index, err))? {
                    stages.push(Fitted { key: row.key, stage, counters: Counters::default() });
                }
            }
        }
        Ok(Link { stages, under_way: VecDeque::new(), entering: Vec::new(), leaving: Vec::new() })
    }

    /// Puts a packet on the link. Returns in how many pieces it will arrive: 0 when it is lost, more than 1 when a part
    /// of it is lost and the segments before and after arrive.
    pub fn send(&mut self, packet: Packet) -> usize {
        self.leaving.clear();
        self.leaving.push(packet);
        for Fitted { stage, counters, .. } in &mut self.stages {
            std::mem::swap(&mut self.entering, &mut self.leaving);
            for piece in self.entering.drain(..) {
                counters.segments_in += u64::from(piece.segments);
                counters.bytes_in += piece.wire_bytes();
                stage.pass(piece, &mut self.leaving);
            }
            for piece in &self.leaving {
                counters.segments_out += u64::from(piece.segments);
                counters.bytes_out += piece.wire_bytes();
            }
        }
        let pieces = self.leaving.len();
        for piece in self.leaving.drain(..) {
            // Almost always the end of the row; equal times keep their order.
            let place = match self.under_way.back() {
                Some(last) if last.at > piece.at => self.under_way.partition_point(|other| other.at <= piece.at),
                _ => self.under_way.len(),
            };
            self.under_way.insert(place, piece);
        }
        pieces
    }

    /// When the next packet arrives, or nothing while none is under way.
    pub fn due(&self) -> Option<Duration> {
        self.under_way.front().map(|packet| packet.at)
    }

    /// Takes the next packet that has arrived by `now`.
    pub fn receive(&mut self, now: Duration) -> Option<Packet> {
        self.due().filter(|due| *due <= now).and_then(|_| self.under_way.pop_front())
    }

    /// How many packets are under way.
    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// The counters of each stage, in the order in which packets pass them.
    pub fn counters(&self) -> impl Iterator<Item = (&'static str, Counters)> {
        self.stages.iter().map(|fitted| (fitted.key, fitted.counters))
    }
}

impl Counters {
    /// Segments that were lost in the stage.
    pub fn segments_lost(&self) -> u64 {
        self.segments_in.saturating_sub(self.segments_out)
    }
}

impl fmt::Display for StageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StageError::UnknownStage => {
                let keys: Vec<&str> = ROWS.iter().map(|row| row.key).collect();
                write!(f, "there is no such stage; there are {}", keys.join(", "))
            }
            StageError::Unit(err) => err.fmt(f),
            StageError::NoPercentage => f.write_str("a share of packets is written as 0.1%, from 0% to 100%"),
            StageError::NoRate => f.write_str("a rate of 0 would carry nothing"),
        }
    }
}

impl std::error::Error for StageError {}

impl From<UnitError> for StageError {
    fn from(err: UnitError) -> StageError {
        StageError::Unit(err)
    }
}
