//! Delay: every packet arrives the same time later, so their order is kept.

use super::{Packet, Row, Stage};
use crate::units;
use std::time::Duration;

pub(super) const ROW: Row = Row {
    key: "delay",
    help: "how long a packet travels in this direction, half of the round trip: a time such as 31.5ms",
    sample: "31.5ms",
    build: |value, _seed| {
        let delay = units::duration(value)?;
        Ok((!delay.is_zero()).then(|| Box::new(Delay(delay)) as Box<dyn Stage>))
    },
};

struct Delay(Duration);

impl Stage for Delay {
    fn pass(&mut self, packet: Packet, out: &mut Vec<Packet>) {
        out.push(Packet { at: packet.at.saturating_add(self.0), ..packet });
    }
}
