//! One kind of stage: the [`Row`] of the table, and the [`Stage`] that it builds.

use crate::error::StageError;
use crate::packet::Packet;
use longhaul_units::Rate;
use std::time::Duration;

/// One kind of stage: everything that longhaul knows of it.
#[derive(Debug)]
pub struct Row {
    /// Its name in a scenario, on the command line and in counters.
    pub key: &'static str,
    /// Its effect on packets and the form of its value, on one line of Markdown.
    pub help: &'static str,
    /// A value to show in documentation and to build in the test.
    pub sample: &'static str,
    /// Name of its [`StageCounters::events`](crate::StageCounters::events), if it has any.
    pub events: Option<&'static str>,
    /// The key of a stage that must be there too; it is added with an empty value if it is not.
    pub needs: Option<&'static str>,
    /// Facts for laws and reports.
    pub traits: Traits,
    /// Makes the stage from its value as a person wrote it, and a seed for its randomness; `None` when the value asks
    /// for nothing (`0`), so that a packet need not pass it.
    pub build: fn(&str, u64) -> Built,
}

/// A stage, nothing when its value asks for nothing, or the reason why the value is refused.
pub type Built = Result<Option<Box<dyn Stage>>, StageError>;

/// Facts about a kind of stage, for those who compute or explain the speed of a transfer through it.
#[derive(Debug)]
pub struct Traits {
    /// Phrase for a report that packets were dropped here: "the outage" dropped 7 of 9 segments.
    pub dropped_by: &'static str,
    /// The long-run rate that it imposes, and on what.
    pub limit: Limit,
    /// Reads that rate from the stage's value; `None` without a limit.
    pub rate: Option<fn(&str) -> Option<Rate>>,
    /// Whether it changes when packets arrive: the round trip and the rate of a link are then not one number.
    pub changes_timing: bool,
    /// Whether the speed of a transfer through it can be computed.
    pub has_closed_form: bool,
    /// Whether it makes packets longer on the wire.
    pub adds_bytes: bool,
    /// The value of the whole link that it overrides in its direction.
    pub common: Option<Common>,
}

/// The kind of rate limit that a stage imposes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// It imposes none.
    None,
    /// A line: excess packets wait in its queue.
    Line,
    /// A policer: excess packets are dropped at once.
    Policer,
}

/// The values that a link has for both directions together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Common {
    /// The round trip, half of which is the delay of each direction.
    Rtt,
    /// The rate of the line, with its queue.
    Rate,
    /// The share of segments lost at random.
    Loss,
}

impl Traits {
    /// A stage that drops nothing, limits nothing, and about which nothing can be computed.
    pub(crate) const NONE: Traits = Traits {
        dropped_by: "the link",
        limit: Limit::None,
        rate: None,
        changes_timing: false,
        has_closed_form: false,
        adds_bytes: false,
        common: None,
    };
}

/// One impairment of the emulated WAN.
pub trait Stage: Send {
    /// Passes `packet`, which reaches the stage at `packet.at`: what survives is pushed to `exit` with the time at which
    /// it leaves, in the order of its segments. What is not pushed is lost.
    fn pass(&mut self, packet: Packet, exit: &mut Exit);

    /// Called once per sent packet, after every piece of it has passed this stage.
    fn end(&mut self, _exit: &mut Exit) {}

    /// Returns the time at which the last packet leaves that it has passed, for a stage that keeps their order.
    fn last(&self) -> Duration {
        Duration::ZERO
    }

    /// Takes the place of a stage of its kind whose last packet leaves at `last`.
    fn follow(&mut self, _last: Duration) {}
}

/// The output of a stage: the packets that survive it, and its events.
#[derive(Debug, Default)]
pub struct Exit {
    pub(crate) packets: Vec<Packet>,
    pub(crate) events: u64,
    pub(crate) mtu: Option<u32>,
}

impl Exit {
    /// Passes `packet` on.
    pub fn push(&mut self, packet: Packet) {
        self.packets.push(packet);
    }

    /// Counts `times` events of the kind named by [`Row::events`].
    pub fn happened(&mut self, times: u64) {
        self.events += times;
    }

    /// The packet was too big for an MTU of so many bytes, and its sender is to be told.
    pub fn too_big(&mut self, mtu: u32) {
        self.mtu = Some(mtu);
    }
}
