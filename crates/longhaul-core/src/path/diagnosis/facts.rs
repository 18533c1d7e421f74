//! The measurements of one direction of a flow over one window of looks.

use crate::path::laws::LossResponse;
use crate::path::limit::Limit;
use std::time::Duration;

/// A direction of a flow during one window of looks. Rates are in bit/s of payload, and shares between 0 and 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Facts {
    /// Length of the window.
    pub elapsed: Duration,
    /// Payload bytes that the sink took.
    pub carried: u64,
    /// Whether the flow began with the banner of SSH.
    pub is_ssh: bool,
    /// The processor time of the process that carries the flow.
    pub processor: Processor,
    /// The leg from which the bytes come.
    pub source: Source,
    /// The leg on which they go on.
    pub sink: Sink,
}

/// Processor time of the process that carries the flow, as shares of a time of some seconds. Zero where it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Processor {
    /// Time for which its threads computed. Above 1 for several threads.
    pub computed: f64,
    /// Time for which a CPU quota of its cgroup held it back, between 0 and 1.
    pub throttled: f64,
}

/// The leg from which the bytes come.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Source {
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// The shortest one: [`Sample::least_rtt`](crate::path::Sample::least_rtt).
    pub least_rtt: Duration,
    /// Time from an acknowledgement of ours to the payload that answers it: [`Sample::receive_rtt`](crate::path::Sample::receive_rtt).
    pub receive_rtt: Duration,
    /// Whether its segments have come in order for a minute, or since the flow began. False where the kernel does not tell.
    pub is_in_order: bool,
    /// Mean time since the last payload at a look.
    pub silent: Duration,
    /// Payload bytes that the other direction brought to this leg's host.
    pub answered: u64,
    /// Share of the looks at which 256 KiB and more were not passed on: the relay is behind.
    pub behind: f64,
}

/// The leg on which the bytes go on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sink {
    /// Mean of the smoothed round-trip time.
    pub rtt: Duration,
    /// The smallest round-trip time that the kernel remembers.
    pub min_rtt: Duration,
    /// The same at the first look at the flow, when it had carried little.
    pub first_min_rtt: Duration,
    /// Shares of the looks by their limit, in the order of [`Limit::ALL`].
    pub limits: [f64; Limit::ALL.len()],
    /// Number of windows in which the rates of the thirds were the same but for 1 %, the earlier ones for less each: those of all flows to
    /// the sink's host together. 0 if they were not in this one.
    pub constant_windows: f64,
    /// Share of the time with bytes in flight.
    pub busy: f64,
    /// Share of that time in which the peer's window limited the sender.
    pub limited_by_peer: f64,
    /// Share of that time in which our send buffer did.
    pub limited_by_buffer: f64,
    /// The smallest window that the peer offered, in bytes.
    pub least_window: u64,
    /// The largest one.
    pub window: u64,
    /// The mean of the looks.
    pub mean_window: u64,
    /// Number of looks at which it was below half of what it was before: the program there reads slowly. While it grows, the kernel there
    /// sizes its buffer.
    pub closed: u32,
    /// Payload bytes acknowledged.
    pub acked: u64,
    /// Payload bytes acknowledged since the flow began.
    pub acked_in_all: u64,
    /// Payload bytes sent again.
    pub retransmitted: u64,
    /// Payload bytes acknowledged in this window and the ones before, the earlier ones for less each.
    pub acked_lately: u64,
    /// The same of bytes sent again, without those that the peer had already.
    pub lost_lately: u64,
    /// Variance of the number of segments lost between two looks, divided by its mean: about 1 if each is lost by itself (Poisson), and
    /// far above 1 if they are lost together. Of the same time as `lost_lately`; 0 without losses.
    pub loss_dispersion: f64,
    /// Number of windows, with this one, in which 2 % and more was lost, the earlier ones for less each.
    pub lossy_windows: f64,
    /// Segments received: acknowledgements.
    pub answers: u32,
    /// Segments sent again for nothing.
    pub duplicates: u32,
    /// Number of times that reordering was seen.
    pub reorderings: u32,
    /// Timeouts in a row at the last look.
    pub timeouts: u8,
    /// The smallest rate of a third of the window, acknowledged.
    pub slowest: f64,
    /// The largest one.
    pub fastest: f64,
    /// The same of all flows to the sink's host together.
    pub line_rate: f64,
    /// The largest rate of a third of the first window of the flow.
    pub first_fastest: f64,
    /// The same of all windows after the first.
    pub later_fastest: f64,
    /// The largest delivery rate that the kernel measured, but not for want of bytes to send.
    pub delivery: f64,
    /// The same of this window and all before.
    pub best_delivery: f64,
    /// The largest pacing rate; 0 without one.
    pub cap: f64,
    /// Payload bytes of a full segment.
    pub mss: u32,
    /// How the leg's congestion control responds to loss; `None` if no law here describes it.
    pub response: Option<LossResponse>,
}

impl Facts {
    /// Returns the rate of the direction.
    pub fn rate(&self) -> f64 {
        self.carried as f64 * 8.0 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

impl Sink {
    /// Returns the share of the looks at which `limit` held.
    pub fn share(&self, limit: Limit) -> f64 {
        self.limits[limit as usize]
    }

    /// Returns the share of the looks at which bytes waited.
    pub fn waits(&self) -> f64 {
        1.0 - self.share(Limit::Application)
    }

    /// Returns the share of the bytes that were lost lately. In one window, losses of a slow flow are too few for that.
    pub fn loss(&self) -> f64 {
        self.lost_lately as f64 / (self.acked_lately + self.lost_lately).max(1) as f64
    }

    /// Returns the share of the bytes that were lost in this window alone.
    pub fn loss_now(&self) -> f64 {
        self.retransmitted as f64 / (self.acked + self.retransmitted).max(1) as f64
    }

    /// Returns the time that a packet waits in the queues of the path, on the mean.
    pub fn queue(&self) -> Duration {
        self.rtt.saturating_sub(self.min_rtt)
    }
}

/// Share of lost bytes from which on a policer is likely: no line loses so much at random.
pub(super) const POLICED: f64 = 0.02;
/// Bytes that a relay which is not behind has at most between its legs: those of a few looks into the socket.
pub(super) const UNREAD: u64 = 256 << 10;
