//! MTU: the largest IP packet that enters the path. A segment that is longer and may not be fragmented (its DF bit is
//! set, or it is IPv6) is dropped, and the sender is told with ICMP (RFC 1191, RFC 8201), unless this is a black hole.
//! One that may is fragmented, as a router does.
//!
//! All segments of a super-packet but the last have the same length, so one look at it is enough: either all of
//! them are too long, for which one message is enough, or none.

use crate::{Exit, Packet, Row, Stage, StageError, Traits, fragment, value};

pub(super) const ROW: Row = Row {
    key: "mtu",
    help: "the longest IP packet in bytes; what is longer is dropped and its sender told by ICMP, or not told if \
           `black-hole` is added; IPv4 without DF is fragmented",
    sample: "1400 black-hole",
    events: Some("too-big"),
    needs: Some("reassembly"),
    traits: Traits { dropped_by: "the link's mtu", ..Traits::NONE },
    build: |value, _seed| {
        let form = StageError::Form(ROW.sample);
        let (bytes, [black_hole]) = value::parts(value, ["black-hole"]).ok_or(form)?;
        if black_hole.is_some_and(|rest| !rest.is_empty()) || bytes.contains(' ') {
            return Err(form);
        }
        let limit = fragment::limit(bytes)?;
        let is_black_hole = black_hole.is_some();
        Ok(limit.map(|limit| Box::new(Mtu { limit, is_black_hole }) as Box<dyn Stage>))
    },
};

struct Mtu {
    limit: u32,
    is_black_hole: bool,
}

impl Stage for Mtu {
    fn pass(&mut self, packet: Packet, exit: &mut Exit) {
        if packet.segment_bytes() <= self.limit {
            return exit.push(packet);
        }
        let (full, last) = packet.by_length();
        for part in [Some(full), last].into_iter().flatten() {
            if part.segment_bytes() <= self.limit {
                exit.push(part);
            } else if !part.dont_fragment {
                fragment::cut(part, self.limit, exit);
            } else {
                exit.happened(u64::from(part.segments));
                if !self.is_black_hole {
                    exit.too_big(self.limit);
                }
            }
        }
    }
}
