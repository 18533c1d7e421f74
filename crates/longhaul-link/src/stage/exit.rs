//! The stage at the exit of the link: it reassembles fragments.

use crate::error::StageError;
use crate::packet::Fragment;
use crate::packet::Packet;
use crate::row::{Exit, Row, Stage, Traits};
use crate::value;
use std::time::Duration;

/// Stages of the exit, in the order in which a packet passes them.
pub(super) const ROWS: &[Row] = &[REASSEMBLY];

/// Reassembly: the end of the path joins fragments. A packet is lost if one of its fragments is missing. By default the
/// stage waits for all fragments in any order (RFC 791, 3.2). It can also behave like boxes that drop a packet whose
/// fragments arrive out of order or late. Every link that can make fragments ends with this stage, configured or not.
const REASSEMBLY: Row = Row {
    key: "reassembly",
    help: "how fragments are put together: an empty value waits for all of them, `in-order` drops a packet \
           whose fragments arrive out of order, `within TIME` drops a packet of which a fragment \
           arrives later than that after the first",
    sample: "in-order within 1ms",
    events: Some("refused"),
    needs: None,
    traits: Traits { dropped_by: "the link's reassembly", ..Traits::NONE },
    build: |value, _seed| Ok(Some(Box::new(Reassembly::read(value)?))),
};

struct Reassembly {
    in_order: bool,
    within: Duration,
    /// Pieces of the current packet from its first fragment on; `end` empties it.
    waiting: Vec<Packet>,
}

/// Fragments of one segment that have arrived.
#[derive(Default)]
struct Heap {
    /// Arrival time of the first fragment.
    since: Option<Duration>,
    parts: Vec<Fragment>,
    covered: u32,
    is_refused: bool,
    is_done: bool,
}

impl Reassembly {
    fn read(text: &str) -> Result<Reassembly, StageError> {
        let form = StageError::Form(REASSEMBLY.sample);
        let ("", [in_order, within]) = value::parts(text, ["in-order", "within"]).ok_or_else(|| form.clone())? else {
            return Err(form);
        };
        if in_order.is_some_and(|rest| !rest.is_empty()) {
            return Err(form);
        }
        let within = within.map_or(Ok(Duration::MAX), longhaul_units::duration)?;
        Ok(Reassembly { in_order: in_order.is_some(), within, waiting: Vec::new() })
    }

    /// Returns whether the stage drops the segment of `heap` because of this fragment.
    fn refuses(&self, heap: &Heap, fragment: Fragment, at: Duration) -> bool {
        let is_late = heap.since.is_some_and(|since| at.saturating_sub(since) > self.within);
        is_late || self.in_order && fragment.start != heap.covered
    }

    /// Adds a fragment to `heap`. Pushes the whole segment when the last missing fragment arrives.
    fn add(&self, heap: &mut Heap, packet: Packet, exit: &mut Exit) {
        let Some(fragment) = packet.fragment else { return exit.push(packet) };
        if heap.is_refused || heap.parts.iter().any(|part| part.start == fragment.start) {
            return;
        }
        if self.refuses(heap, fragment, packet.at) {
            heap.is_refused = true;
            // A leftover fragment of a duplicate is not counted: its segment has already arrived.
            exit.happened(u64::from(!heap.is_done));
            return;
        }
        heap.since.get_or_insert(packet.at);
        heap.parts.push(fragment);
        heap.covered += fragment.end - fragment.start;
        if heap.covered == u32::MAX {
            exit.push(Packet { fragment: None, ..packet });
            *heap = Heap { is_done: true, ..Heap::default() };
        }
    }
}

impl Stage for Reassembly {
    fn pass(&mut self, packet: Packet, exit: &mut Exit) {
        // Packets after a fragment wait with it, so that they stay behind it.
        match packet.fragment.is_none() && self.waiting.is_empty() {
            true => exit.push(packet),
            false => self.waiting.push(packet),
        }
    }

    fn end(&mut self, exit: &mut Exit) {
        if self.waiting.is_empty() {
            return;
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.sort_by_key(|packet| (packet.first, packet.at));
        for segment in waiting.chunk_by(|one, other| one.first == other.first) {
            let mut heap = Heap::default();
            for packet in segment {
                self.add(&mut heap, *packet, exit);
            }
        }
        waiting.clear();
        self.waiting = waiting;
    }
}
