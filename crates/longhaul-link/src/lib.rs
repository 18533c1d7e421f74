//! One direction of the emulated WAN: a [`Link`] is a sequence of [`Stage`]s, followed by the packets under way.
//!
//! ```text
//!   send(packet) ── mtu ── encap ── rate ── loss ── delay ── … ──▶ under way, by due time ──▶ receive(now)
//! ```
//!
//! Nothing here waits. A stage needs only a packet's arrival time to decide at once when, or whether, the packet leaves
//! it. So the same code runs in virtual time in tests and live over TUN devices in the lab.
//! A [`Packet`] is only a description; its bytes stay with the caller. It may stand for a super-packet of up to 64 KiB
//! that segmentation offload has not cut yet. The link counts and drops the segments that the super-packet will become.
//!
//! **A rate counts IP bytes**: the headers and payload of each segment, as `ip -s link` shows them, and the bytes added
//! by `encap`. IP services are sold by the same count. A TCP transfer with timestamps over 1 Gbit/s and an MTU of 1500
//! thus moves 1448 / 1500 of the rate, 965 Mbit/s. (A 1 Gbit/s Ethernet *port* also spends 38 bytes a frame on framing
//! and carries 975 Mbit/s of IP. To emulate a port, set that rate.)
//!
//! To add a stage, add its type and its row to the file of `stage/` for its part of the path.

#![forbid(unsafe_code)]

mod error;
pub mod icmp;
mod lateness;
mod ledger;
mod packet;
mod random;
mod row;
mod schedule;
pub mod segment;
mod setting;
mod stage;
#[cfg(test)]
mod stage_tests;
#[cfg(test)]
mod tests;
mod value;

use schedule::Schedule;
use std::collections::VecDeque;
use std::time::Duration;

pub use error::StageError;
pub use lateness::Lateness;
pub use ledger::{Ledger, STEP};
pub use packet::{Fragment, Packet};
pub use row::{Built, Common, Exit, Limit, Row, Stage, Traits};
pub use schedule::Change;
pub use setting::Setting;
pub use stage::{ROWS, row};

/// Segments and bytes that entered a stage and left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct StageCounters {
    /// Segments that reached the stage. One that travels in fragments counts where its first fragment is.
    pub segments_in: u64,
    /// Segments that left it.
    pub segments_out: u64,
    /// Wire bytes that reached it.
    pub bytes_in: u64,
    /// Wire bytes that left it.
    pub bytes_out: u64,
    /// Number of events of the kind named by [`Row::events`].
    pub events: u64,
}

/// The result of putting a packet on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Sent {
    /// Number of pieces that will arrive: 0 if the packet is lost, more than 1 if a stage split it.
    pub pieces: usize,
    /// Number of segments in all pieces.
    pub segments: u64,
    /// The path's MTU in bytes, if the packet exceeds it and its sender must be told.
    pub too_big: Option<u32>,
}

/// One direction of the emulated WAN.
pub struct Link {
    stages: Vec<Fitted>,
    schedule: Schedule,
    seed: u64,
    under_way: VecDeque<Packet>,
    /// Buffer for the pieces of one packet between two stages; kept so that it is allocated only once.
    entering: Vec<Packet>,
    exit: Exit,
}

/// A stage at its position in the link.
struct Fitted {
    row: &'static Row,
    /// The configured value; the schedule may override it. `None` if the stage is only in the schedule.
    asked: Option<String>,
    /// The value in force.
    value: Option<String>,
    /// `None` while the value has no effect.
    stage: Option<Box<dyn Stage>>,
    /// Time at which the previous stage's last packet leaves. No later packet leaves before it.
    not_before: Duration,
    counters: StageCounters,
}

impl Link {
    /// Builds a link with the stages of `settings`. Packets pass them in the order of [`ROWS`], whatever their order in
    /// `settings`. The same seed loses the same packets.
    pub fn new(settings: &[Setting], seed: u64) -> Link {
        Link::scheduled(settings, &[], seed)
    }

    /// Builds a link with the stages of `settings`, whose values change by `schedule`.
    ///
    /// A changed stage starts anew: a policer's bucket is full, a `burst-loss` line is good. No packet overtakes the
    /// packets that the stage before the change passed: a line with a new rate begins to send when the last packet at the
    /// old rate is gone. If `settings` has a key twice, the schedule changes the last one.
    pub fn scheduled(settings: &[Setting], schedule: &[Change], seed: u64) -> Link {
        let schedule = Schedule::new(schedule);
        let mut stages: Vec<Fitted> = Vec::new();
        for row in ROWS {
            let is_scheduled = schedule.rows().any(|changed| changed.key == row.key);
            for setting in settings.iter().filter(|setting| setting.row().key == row.key) {
                let fitted = Fitted::new(row, Some(setting.value()), seed);
                stages.extend((fitted.stage.is_some() || is_scheduled).then_some(fitted));
            }
            let is_there = stages.last().is_some_and(|last| last.row.key == row.key);
            if !is_there && is_scheduled {
                stages.push(Fitted::new(row, None, seed));
            } else if !is_there && stages.iter().any(|other| other.row.needs == Some(row.key)) {
                stages.push(Fitted::new(row, Some(""), seed));
            }
        }
        Link { stages, schedule, seed, under_way: VecDeque::new(), entering: Vec::new(), exit: Exit::default() }
    }

    /// Holds the schedule until [`Link::begin`].
    pub fn hold(&mut self) {
        self.schedule.count_from(None);
    }

    /// Starts the schedule: its times count from `now`.
    pub fn begin(&mut self, now: Duration) {
        self.schedule.count_from(Some(now));
    }

    /// Puts a packet on the link.
    pub fn send(&mut self, packet: Packet) -> Sent {
        if self.schedule.is_due(packet.at) {
            self.change(packet.at);
        }
        self.exit = Exit { packets: std::mem::take(&mut self.exit.packets), events: 0, mtu: None };
        self.exit.packets.clear();
        self.exit.push(packet);
        for fitted in &mut self.stages {
            std::mem::swap(&mut self.entering, &mut self.exit.packets);
            fitted.pass(&mut self.entering, &mut self.exit);
        }
        let mut sent = Sent { pieces: self.exit.packets.len(), segments: 0, too_big: self.exit.mtu };
        for piece in self.exit.packets.drain(..) {
            sent.segments += u64::from(piece.segments);
            // Almost always at the end. Packets with equal times keep their order.
            let place = match self.under_way.back() {
                Some(last) if last.at > piece.at => self.under_way.partition_point(|other| other.at <= piece.at),
                _ => self.under_way.len(),
            };
            self.under_way.insert(place, piece);
        }
        sent
    }

    /// Returns the time at which the next packet arrives; `None` while none is under way.
    pub fn due(&self) -> Option<Duration> {
        self.under_way.front().map(|packet| packet.at)
    }

    /// Takes the next packet that has arrived by `now`.
    pub fn receive(&mut self, now: Duration) -> Option<Packet> {
        self.due().filter(|due| *due <= now).and_then(|_| self.under_way.pop_front())
    }

    /// Returns the number of packets under way.
    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// Returns the counters of each stage, in the order in which packets pass the stages.
    pub fn counters(&self) -> impl Iterator<Item = (&'static str, StageCounters)> {
        self.stages.iter().map(|fitted| (fitted.row.key, fitted.counters))
    }

    /// Applies the schedule to the last stage of each key.
    fn change(&mut self, now: Duration) {
        let mut changed: Option<&str> = None;
        for fitted in self.stages.iter_mut().rev() {
            let is_last = changed.replace(fitted.row.key) != Some(fitted.row.key);
            if is_last && self.schedule.rows().any(|row| row.key == fitted.row.key) {
                let value = self.schedule.value(fitted.row, now).or(fitted.asked.as_deref()).map(str::to_string);
                fitted.set(value, self.seed ^ now.as_nanos() as u64);
            }
        }
    }
}

impl Fitted {
    fn new(row: &'static Row, value: Option<&str>, seed: u64) -> Fitted {
        let value = value.map(str::to_string);
        let stage = built(row, value.as_deref(), seed);
        Fitted {
            row,
            asked: value.clone(),
            value,
            stage,
            not_before: Duration::ZERO,
            counters: StageCounters::default(),
        }
    }

    /// Passes the packets of `entering` through the stage to `exit`, and empties `entering`.
    fn pass(&mut self, entering: &mut Vec<Packet>, exit: &mut Exit) {
        let counters = &mut self.counters;
        for piece in entering.drain(..) {
            counters.segments_in += piece.counted();
            counters.bytes_in += piece.wire_bytes();
            match &mut self.stage {
                Some(stage) => stage.pass(piece, exit),
                None => exit.push(Packet { at: piece.at.max(self.not_before), ..piece }),
            }
        }
        if let Some(stage) = &mut self.stage {
            stage.end(exit);
        }
        counters.events += std::mem::take(&mut exit.events);
        for piece in &exit.packets {
            counters.segments_out += piece.counted();
            counters.bytes_out += piece.wire_bytes();
        }
    }

    /// Rebuilds the stage with `value`, if that differs from the value in force.
    fn set(&mut self, value: Option<String>, seed: u64) {
        if value == self.value {
            return;
        }
        let last = self.stage.as_ref().map_or(self.not_before, |stage| stage.last());
        self.stage = built(self.row, value.as_deref(), seed);
        if let Some(stage) = &mut self.stage {
            stage.follow(last);
        }
        (self.value, self.not_before) = (value, last);
    }
}

impl StageCounters {
    /// Number of segments lost in the stage.
    pub fn segments_lost(&self) -> u64 {
        self.segments_in.saturating_sub(self.segments_out)
    }
}

/// Builds the stage of `value`; `None` if the value has no effect.
fn built(row: &Row, value: Option<&str>, seed: u64) -> Option<Box<dyn Stage>> {
    // `build` refuses no value here: `Setting::read` and `Change::read` have built each once.
    value.and_then(|value| (row.build)(value, seed_of(row, seed)).ok().flatten())
}

/// Returns the seed of one kind of stage: `seed` mixed with the FNV-1a hash of the key. The randomness of a stage thus
/// does not depend on the other stages of the link.
fn seed_of(row: &Row, seed: u64) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    row.key.bytes().fold(0xcbf2_9ce4_8422_2325, step) ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
