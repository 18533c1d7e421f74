//! One kind of stage: the [`Row`] of the table, and the [`Stage`] that it builds.

use crate::error::StageError;
use crate::packet::Packet;
use longhaul_units::Rate;
use std::time::Duration;

/// Everything that longhaul knows of one kind of stage.
#[derive(Debug)]
pub struct Row {
    /// Name of the stage in scenarios, on the command line and in counters.
    pub key: &'static str,
    /// Effect on packets and form of the value, in one line of Markdown.
    pub help: &'static str,
    /// Sample value for the documentation; a test builds the stage from it.
    pub sample: &'static str,
    /// Name of the stage's [`StageCounters::events`](crate::StageCounters::events); `None` if it counts none.
    pub events: Option<&'static str>,
    /// Key of another stage that this one requires. If absent from the settings, that stage is added with an empty value.
    pub needs: Option<&'static str>,
    /// Facts for laws and reports.
    pub traits: Traits,
    /// Builds the stage from its written value and a seed for its randomness; `None` if the value has no effect (`0`),
    /// so that packets skip the stage.
    pub build: fn(&str, u64) -> Built,
}

/// A stage, `None` if its value has no effect, or the reason to refuse the value.
pub type Built = Result<Option<Box<dyn Stage>>, StageError>;

/// Facts about a kind of stage that the lab needs to compute or explain the speed of a transfer through it.
#[derive(Debug)]
pub struct Traits {
    /// Name of the stage in a report about dropped packets: "the outage" dropped 7 of 9 segments.
    pub dropped_by: &'static str,
    /// Kind of rate limit that the stage imposes.
    pub limit: Limit,
    /// Reads the long-run rate from the stage's value; `None` without a limit.
    pub rate: Option<fn(&str) -> Option<Rate>>,
    /// Whether the stage changes when packets arrive: the link's round trip and rate are then not one number.
    pub changes_timing: bool,
    /// Whether the speed of a transfer through the stage can be computed.
    pub has_closed_form: bool,
    /// Whether the stage makes packets longer on the wire.
    pub adds_bytes: bool,
    /// The setting of the whole link that this stage overrides in its direction.
    pub common: Option<Common>,
}

/// Kind of rate limit that a stage imposes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// No limit.
    None,
    /// A line: excess packets wait in its queue.
    Line,
    /// A policer: it drops excess packets at once.
    Policer,
}

/// Settings of a whole link, both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Common {
    /// Round-trip time; each direction delays by half of it.
    Rtt,
    /// Rate of the line, with its queue.
    Rate,
    /// Share of segments lost at random.
    Loss,
}

impl Traits {
    /// Traits of a stage that limits no rate, keeps the timing and has no closed form.
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
    /// Takes `packet`, which reaches the stage at `packet.at`. Pushes the surviving segments to `exit` in their order,
    /// each with the time at which it leaves. Segments that are not pushed are lost.
    fn pass(&mut self, packet: Packet, exit: &mut Exit);

    /// Called once per sent packet, after every piece of it has passed this stage.
    fn end(&mut self, _exit: &mut Exit) {}

    /// Returns the time at which the last packet passed so far leaves; zero for a stage that does not keep the order.
    fn last(&self) -> Duration {
        Duration::ZERO
    }

    /// Replaces a stage of the same kind whose last packet leaves at `last`.
    fn follow(&mut self, _last: Duration) {}
}

/// Output of a stage: the surviving packets and the number of events.
#[derive(Debug, Default)]
pub struct Exit {
    /// Surviving packets, in order.
    pub(crate) packets: Vec<Packet>,
    /// Number of events of the kind named by [`Row::events`].
    pub(crate) events: u64,
    /// MTU in bytes to tell the sender about, if the packet exceeded it.
    pub(crate) mtu: Option<u32>,
}

impl Exit {
    /// Passes `packet` to the next stage.
    pub fn push(&mut self, packet: Packet) {
        self.packets.push(packet);
    }

    /// Counts `times` events of the kind named by [`Row::events`].
    pub fn happened(&mut self, times: u64) {
        self.events += times;
    }

    /// Reports that the packet exceeds an MTU of `mtu` bytes and that its sender must be told.
    pub fn too_big(&mut self, mtu: u32) {
        self.mtu = Some(mtu);
    }
}
