//! Down: nothing gets through. Made for the schedule (`at 10s down for 20s`): an outage that is counted on its own. What
//! is already under way still arrives.

use crate::{Exit, Packet, Row, Stage, StageError, Traits};

pub(super) const ROW: Row = Row {
    key: "down",
    help: "drops everything that enters; it has no value, and belongs into a schedule: `at 10s down for 20s`",
    sample: "",
    events: None,
    needs: None,
    traits: Traits { dropped_by: "the outage", ..Traits::NONE },
    build: |value, _seed| match value.trim() {
        "" => Ok(Some(Box::new(Down))),
        _ => Err(StageError::Form("at 10s down for 20s")),
    },
};

struct Down;

impl Stage for Down {
    fn pass(&mut self, _packet: Packet, _exit: &mut Exit) {}
}
