//! Duplication: a share of segments arrives twice, the copy right behind the original.

use crate::loss::percentage;
use crate::random::Chance;
use crate::{Exit, Packet, Row, Stage, Traits};

pub(super) const ROW: Row = Row {
    key: "duplicate",
    help: "the share of segments that goes on twice: a percentage",
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
