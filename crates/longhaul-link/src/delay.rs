//! Delay: every packet arrives the same time later; with jitter, a time drawn evenly from a range around it. The order is
//! kept either way: a packet that would overtake the one before arrives together with it. (So a jitter much longer than
//! the gaps between packets delays most of them by nearly its upper end. For packets that do overtake, see `reorder`.)
//! A super-packet is one packet here, as it is one when it is written.

use crate::random::Random;
use crate::{Common, Exit, Packet, Row, Stage, StageError, Traits, value};
use std::time::Duration;

pub(super) const ROW: Row = Row {
    key: "delay",
    help: "how long a packet travels in this direction, half of the round trip, and by how much that varies up and down \
           (no jitter if left out); packets never overtake each other",
    sample: "31.5ms jitter 2ms",
    events: None,
    needs: None,
    traits: Traits { changes_timing: true, has_closed_form: true, common: Some(Common::Rtt), ..Traits::NONE },
    build: |value, seed| {
        let delay = Delay::read(value, seed)?;
        Ok((!delay.min.is_zero() || !delay.range.is_zero()).then(|| Box::new(delay) as Box<dyn Stage>))
    },
};

struct Delay {
    /// The shortest delay, and how much longer the longest is.
    min: Duration,
    range: Duration,
    random: Random,
    /// When the last packet arrives.
    last: Duration,
}

impl Delay {
    fn read(text: &str, seed: u64) -> Result<Delay, StageError> {
        let (delay, [jitter]) = value::parts(text, ["jitter"]).ok_or(StageError::Form(ROW.sample))?;
        let (delay, jitter) =
            (longhaul_units::duration(delay)?, jitter.map_or(Ok(Duration::ZERO), longhaul_units::duration)?);
        let min = delay.checked_sub(jitter).ok_or(StageError::Jitter)?;
        Ok(Delay { min, range: jitter.saturating_mul(2), random: Random::new(seed), last: Duration::ZERO })
    }
}

impl Stage for Delay {
    fn pass(&mut self, packet: Packet, exit: &mut Exit) {
        let mut at = packet.at.saturating_add(self.min);
        if !self.range.is_zero() {
            at = at.saturating_add(self.range.mul_f64(self.random.unit()));
        }
        self.last = self.last.max(at);
        exit.push(Packet { at: self.last, ..packet });
    }

    fn last(&self) -> Duration {
        self.last
    }

    fn follow(&mut self, last: Duration) {
        self.last = last;
    }
}
