//! Random loss: each segment is lost with the same probability, whatever happens to the others. A super-packet that is
//! hit goes on as the segments before and the segments after.

use crate::random::Chance;
use crate::{Common, Exit, Packet, Row, Stage, StageError, Traits};

pub(super) const ROW: Row = Row {
    key: "loss",
    help: "the share of segments that is lost at random: a percentage",
    sample: "0.1%",
    events: None,
    needs: None,
    traits: Traits { dropped_by: "the link's loss", common: Some(Common::Loss), ..Traits::NONE },
    build: |value, seed| {
        let share = percentage(value)?;
        Ok((share > 0.0).then(|| Box::new(Loss(Chance::new(share, seed))) as Box<dyn Stage>))
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

struct Loss(Chance);

impl Stage for Loss {
    fn pass(&mut self, packet: Packet, exit: &mut Exit) {
        self.0.split_hits(packet, |piece, is_hit| {
            if !is_hit {
                exit.push(piece);
            }
        });
    }
}
