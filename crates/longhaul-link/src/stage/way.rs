//! Stages of the way: a packet is delayed, and may be duplicated or overtaken.

use crate::error::StageError;
use crate::packet::Packet;
use crate::random::{Chance, Random};
use crate::row::{Common, Exit, Row, Stage, Traits};
use crate::value;
use longhaul_units::percentage;
use std::time::Duration;

/// Stages of the way, in the order in which a packet passes them.
pub(super) const ROWS: &[Row] = &[DUPLICATE, DELAY, REORDER];

/// Duplication: a share of segments arrives twice. The copy follows directly behind the original.
const DUPLICATE: Row = Row {
    key: "duplicate",
    help: "share of segments that arrive twice, a percentage",
    sample: "0.1%",
    events: Some("duplicated"),
    needs: None,
    traits: Traits::NONE,
    build: |value, seed| {
        let share = percentage(value)?;
        Ok((share > 0.0).then(|| Box::new(Duplicate(Chance::new(share, seed))) as Box<dyn Stage>))
    },
};

struct Duplicate(Chance);

impl Stage for Duplicate {
    fn pass(&mut self, packet: Packet, exit: &mut Exit) {
        self.0.split_hits(packet, |piece, is_hit| {
            exit.push(piece);
            if is_hit {
                exit.push(piece);
                exit.happened(1);
            }
        });
    }
}

/// Delay: every packet arrives later by the same time or, with jitter, by a time drawn uniformly from a range around it.
/// A super-packet counts as one packet, because the lab writes it in one piece.
///
/// Packets keep their order: a packet that would overtake the one before it arrives together with it. A jitter much longer
/// than the gaps between packets therefore delays most packets by nearly the upper end of the range. `reorder` lets packets
/// overtake each other.
const DELAY: Row = Row {
    key: "delay",
    help: "time that a packet travels in this direction, half of the round trip, and its variation up and down \
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
    /// Shortest delay.
    min: Duration,
    /// Difference between the longest and the shortest delay.
    range: Duration,
    random: Random,
    /// Arrival time of the last packet.
    last: Duration,
}

impl Delay {
    fn read(text: &str, seed: u64) -> Result<Delay, StageError> {
        let (delay, [jitter]) = value::parts(text, ["jitter"]).ok_or(StageError::Form(DELAY.sample))?;
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

/// Reordering: a share of segments takes longer than the others. Segments sent in that time overtake them.
const REORDER: Row = Row {
    key: "reorder",
    help: "share of segments that arrive later than the others, and by how much",
    sample: "0.1% by 5ms",
    events: Some("reordered"),
    needs: None,
    traits: Traits { changes_timing: true, ..Traits::NONE },
    build: |value, seed| {
        let ((share, by), form) = (split(value)?, StageError::Form(REORDER.sample));
        let share = percentage(share)?;
        let by = longhaul_units::duration(by.ok_or_else(|| form.clone())?)?;
        let chance = Chance::new(share, seed);
        Ok((share > 0.0 && !by.is_zero()).then(|| Box::new(Reorder { chance, by }) as Box<dyn Stage>))
    },
};

struct Reorder {
    chance: Chance,
    by: Duration,
}

/// Splits `0.1% by 5ms` into the share and the time; `0` needs no time.
fn split(text: &str) -> Result<(&str, Option<&str>), StageError> {
    let (share, [by]) = value::parts(text, ["by"]).ok_or(StageError::Form(REORDER.sample))?;
    Ok((share, by.or((share == "0").then_some("0"))))
}

impl Stage for Reorder {
    fn pass(&mut self, packet: Packet, exit: &mut Exit) {
        self.chance.split_hits(packet, |piece, is_hit| {
            let later = if is_hit { self.by } else { Duration::ZERO };
            exit.push(Packet { at: piece.at.saturating_add(later), ..piece });
            exit.happened(u64::from(is_hit));
        });
    }
}
