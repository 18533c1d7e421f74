//! Reordering: a share of segments takes longer than the others, and what was sent within that time overtakes them.

use crate::loss::percentage;
use crate::random::Chance;
use crate::{Exit, Packet, Row, Stage, StageError, Traits, value};
use std::time::Duration;

pub(super) const ROW: Row = Row {
    key: "reorder",
    help: "the share of segments that arrives later than the others, and by how much",
    sample: "0.1% by 5ms",
    events: Some("reordered"),
    needs: None,
    traits: Traits { changes_timing: true, ..Traits::NONE },
    build: |value, seed| {
        let ((share, by), form) = (split(value)?, StageError::Form(ROW.sample));
        let share = percentage(share)?;
        let by = longhaul_units::duration(by.ok_or(form)?)?;
        let chance = Chance::new(share, seed);
        Ok((share > 0.0 && !by.is_zero()).then(|| Box::new(Reorder { chance, by }) as Box<dyn Stage>))
    },
};

struct Reorder {
    chance: Chance,
    by: Duration,
}

/// The share, and what follows `by`; a bare `0` needs none.
fn split(text: &str) -> Result<(&str, Option<&str>), StageError> {
    let (share, [by]) = value::parts(text, ["by"]).ok_or(StageError::Form(ROW.sample))?;
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
