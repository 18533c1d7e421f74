//! The way out: fragments are put together.

use crate::error::StageError;
use crate::packet::Fragment;
use crate::packet::Packet;
use crate::row::{Exit, Row, Stage, Traits};
use crate::value;
use std::time::Duration;

/// Its stages, in the order in which a packet passes them.
pub(super) const ROWS: &[Row] = &[REASSEMBLY];

/// Reassembly: the end of the path puts fragments together, and a packet of which a fragment is missing is lost. It waits
/// for them whatever their order (RFC 791, 3.2), or is one of those boxes that do not: that drop a packet whose fragments
/// come out of order, or of which one comes late. It is at the end of every link that can make fragments, asked for or not.
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
    /// The pieces of one packet from its first fragment on; all of them have passed when the packet ends.
    waiting: Vec<Packet>,
}

/// One segment, as its fragments come in.
#[derive(Default)]
struct Heap {
    /// The time at which its first fragment came.
    since: Option<Duration>,
    parts: Vec<Fragment>,
    covered: u32,
    is_refused: bool,
    is_done: bool,
}

impl Reassembly {
    fn read(text: &str) -> Result<Reassembly, StageError> {
        let form = StageError::Form(REASSEMBLY.sample);
        let ("", [in_order, within]) = value::parts(text, ["in-order", "within"]).ok_or(form)? else {
            return Err(form);
        };
        if in_order.is_some_and(|rest| !rest.is_empty()) {
            return Err(form);
        }
        let within = within.map_or(Ok(Duration::MAX), longhaul_units::duration)?;
        Ok(Reassembly { in_order: in_order.is_some(), within, waiting: Vec::new() })
    }

    /// Whether this fragment makes `heap` one that is dropped.
    fn refuses(&self, heap: &Heap, fragment: Fragment, at: Duration) -> bool {
        let is_late = heap.since.is_some_and(|since| at.saturating_sub(since) > self.within);
        is_late || self.in_order && fragment.start != heap.covered
    }

    /// Adds a fragment; the whole segment when it was the last one missing.
    fn add(&self, heap: &mut Heap, packet: Packet, exit: &mut Exit) {
        let Some(fragment) = packet.fragment else { return exit.push(packet) };
        if heap.is_refused || heap.parts.iter().any(|part| part.start == fragment.start) {
            return;
        }
        if self.refuses(heap, fragment, packet.at) {
            heap.is_refused = true;
            // What is left over of a copy is no packet that was refused.
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
        // What comes behind a fragment waits with it, to stay behind it.
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
