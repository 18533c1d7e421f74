//! Fragments: a box on the path whose next line takes shorter packets, and which cuts what is longer into IPv4 fragments
//! (RFC 791, 3.2) whatever the sender asked for, as boxes do that carry a tunnel's outer packets without DF. From here on
//! each fragment goes its own way: the line charges each its own IP header, and loss, duplication, jitter and
//! reordering hit them one by one, until `reassembly` puts them together.

use crate::packet::Fragment;
use crate::{Exit, Packet, Row, Stage, StageError, Traits};
use longhaul_units::Bytes;

pub(super) const ROW: Row = Row {
    key: "fragment",
    help: "the longest packet in bytes, encapsulation included, that a box on the path does not cut into fragments",
    sample: "1350",
    events: Some("fragmented"),
    needs: Some("reassembly"),
    traits: Traits::NONE,
    build: |value, _seed| Ok(limit(value)?.map(|limit| Box::new(Middlebox { limit }) as Box<dyn Stage>)),
};

struct Middlebox {
    limit: u32,
}

impl Stage for Middlebox {
    fn pass(&mut self, packet: Packet, exit: &mut Exit) {
        if packet.segment_bytes() <= self.limit {
            return exit.push(packet);
        }
        let (full, last) = packet.by_length();
        for part in [Some(full), last].into_iter().flatten() {
            if part.segment_bytes() <= self.limit {
                exit.push(part);
            } else {
                exit.happened(u64::from(part.segments));
                cut(part, self.limit, exit);
            }
        }
    }
}

/// Reads the length that a packet may have, in bytes; nothing for a bare `0`, no limit.
pub(super) fn limit(text: &str) -> Result<Option<u32>, StageError> {
    match text.parse::<Bytes>()?.0 {
        0 => Ok(None),
        bytes @ LEAST..=65_535 => Ok(Some(bytes as u32)),
        _ => Err(StageError::Length),
    }
}

/// Cuts each segment of `packet`, all of which are longer than `limit` bytes, into fragments of at most `limit`.
pub(super) fn cut(packet: Packet, limit: u32, exit: &mut Exit) {
    // RFC 791, 3.2: fragments carry a multiple of 8 bytes, but for the last.
    let room = u64::from(limit.saturating_sub(IP_HEADER) / 8 * 8).max(8);
    let mut left = Some(packet);
    while let Some(rest) = left {
        let segment = rest.front(1);
        left = rest.after(1);
        let bytes = segment.wire_bytes().saturating_sub(u64::from(IP_HEADER));
        let count = bytes.div_ceil(room).max(1);
        let whole = segment.fragment.unwrap_or(Fragment { bytes: 0, start: 0, end: u32::MAX });
        let border = |index| whole.start + (u64::from(whole.end - whole.start) * index / count) as u32;
        for index in 0..count {
            let carried = (bytes - index * room).min(room) as u32;
            let fragment = Fragment { bytes: carried + IP_HEADER, start: border(index), end: border(index + 1) };
            exit.push(Packet { fragment: Some(fragment), ..segment });
        }
    }
}

/// RFC 791, 3.2: every line must take a packet of 68 bytes.
const LEAST: u64 = 68;
/// An IPv4 header without options.
const IP_HEADER: u32 = 20;
