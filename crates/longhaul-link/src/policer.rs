//! Policer: a token bucket. What finds enough tokens passes at once, what does not is lost; there is no queue, so the
//! round trip stays what it is while segments are lost. Providers enforce bought rates so.
//!
//! Flach and others: An Internet-wide analysis of traffic policing, 2016.

use crate::{Exit, Limit, Packet, Row, Stage, StageError, Traits, value};
use longhaul_units::{Bytes, Rate};
use std::time::Duration;

pub(super) const ROW: Row = Row {
    key: "policer",
    help: "drops what exceeds a rate in IP bits (token bucket, without a queue), and how many bytes may come at once",
    sample: "100Mbit/s burst 256kB",
    events: None,
    needs: None,
    traits: Traits {
        dropped_by: "the link's policer",
        limit: Limit::Policer,
        rate: Some(|value| Policer::read(value).ok().map(|policer| policer.rate())),
        ..Traits::NONE
    },
    build: |value, _seed| Ok(Some(Box::new(Policer::read(value)?))),
};

struct Policer {
    /// Bits per second, at least 1.
    rate: u128,
    /// Content of the bucket when it is full, and now: nanoseconds times bits per second, so that nothing is rounded.
    burst: u128,
    tokens: u128,
    since: Duration,
}

impl Policer {
    fn read(text: &str) -> Result<Policer, StageError> {
        let form = StageError::Form(ROW.sample);
        let (rate, [burst]) = value::parts(text, ["burst"]).ok_or(form)?;
        let rate = rate.parse::<Rate>()?;
        let burst = burst.ok_or(form)?.parse::<Bytes>()?;
        if rate.0 == 0 {
            return Err(StageError::NoRate);
        }
        let burst = tokens(burst.0);
        Ok(Policer { rate: u128::from(rate.0), burst, tokens: burst, since: Duration::ZERO })
    }

    fn rate(&self) -> Rate {
        Rate(u64::try_from(self.rate).unwrap_or(u64::MAX))
    }

    fn fill(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.since);
        self.tokens = self.burst.min(self.tokens + passed.as_nanos() * self.rate);
        self.since = self.since.max(now);
    }

    /// Returns the number of the packet's first segments that find tokens.
    fn room_for(&self, packet: &Packet) -> u32 {
        if tokens(packet.wire_bytes()) <= self.tokens {
            return packet.segments;
        }
        let each = tokens(packet.front(1).wire_bytes()).max(1);
        u32::try_from(self.tokens / each).unwrap_or(u32::MAX).min(packet.segments - 1)
    }

    fn take(&mut self, packet: Packet, exit: &mut Exit) {
        self.tokens -= tokens(packet.wire_bytes());
        exit.push(packet);
    }
}

impl Stage for Policer {
    fn pass(&mut self, packet: Packet, exit: &mut Exit) {
        self.fill(packet.at);
        let fitting = self.room_for(&packet);
        if fitting > 0 {
            self.take(packet.front(fitting), exit);
        }
        // The last segment of a packet is often shorter than the rest, and finds tokens where they did not.
        let last = packet.after(fitting.max(packet.segments - 1)).filter(|_| fitting < packet.segments);
        if let Some(last) = last.filter(|last| self.room_for(last) > 0) {
            self.take(last, exit);
        }
    }
}

/// Returns the tokens for `bytes`.
fn tokens(bytes: u64) -> u128 {
    u128::from(bytes) * 8 * 1_000_000_000
}
