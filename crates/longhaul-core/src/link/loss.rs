//! Random loss: each segment is lost with the same probability, whatever happens to the others. A super-packet that is
//! hit goes on as the segments before and the segments after.

use super::random::Random;
use super::{Packet, Row, Stage, StageError};

pub(super) const ROW: Row = Row {
    key: "loss",
    help: "the share of segments that is lost at random: a percentage such as 0.1%",
    sample: "0.1%",
    build: |value, seed| {
        let share = percentage(value)?;
        Ok((share > 0.0).then(|| Box::new(Loss::new(share, seed)) as Box<dyn Stage>))
    },
};

/// Reads `0.1%` as 0.001; a bare `0` is none. Any other number needs its sign, for 0.1 could mean 10 %.
///
/// # Errors
/// [`StageError::NoPercentage`] for anything else.
pub fn percentage(text: &str) -> Result<f64, StageError> {
    let text = text.trim();
    if text == "0" {
        return Ok(0.0);
    }
    let number = text.strip_suffix('%').and_then(|number| number.trim_end().parse::<f64>().ok());
    number.filter(|number| (0.0..=100.0).contains(number)).map(|number| number / 100.0).ok_or(StageError::NoPercentage)
}

struct Loss {
    share: f64,
    random: Random,
    /// How many segments survive before the next is lost.
    gap: u64,
}

impl Loss {
    fn new(share: f64, seed: u64) -> Loss {
        let mut loss = Loss { share, random: Random::new(seed), gap: 0 };
        loss.gap = loss.next_gap();
        loss
    }

    /// The run of survivors between two losses of independent trials is geometric: one draw a loss, none a segment.
    fn next_gap(&mut self) -> u64 {
        (self.random.unit().ln() / (-self.share).ln_1p()) as u64
    }
}

impl Stage for Loss {
    fn pass(&mut self, packet: Packet, out: &mut Vec<Packet>) {
        let mut left = Some(packet);
        while let Some(packet) = left {
            if self.gap >= u64::from(packet.segments) {
                self.gap -= u64::from(packet.segments);
                out.push(packet);
                return;
            }
            let survivors = self.gap as u32;
            if survivors > 0 {
                out.push(packet.front(survivors));
            }
            left = packet.after(survivors + 1);
            self.gap = self.next_gap();
        }
    }
}
