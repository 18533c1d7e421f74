//! The way into the link: whether there is a line, whether a packet fits, what a tunnel adds, and what was bought.

use crate::error::StageError;
use crate::packet::Fragment;
use crate::packet::Packet;
use crate::row::{Exit, Limit, Row, Stage, Traits};
use crate::value;
use longhaul_units::{Bytes, Rate};
use std::time::Duration;

/// Its stages, in the order in which a packet passes them.
pub(super) const ROWS: &[Row] = &[DOWN, MTU, ENCAP, FRAGMENT, POLICER];

/// Down: nothing gets through. Made for the schedule (`at 10s down for 20s`): an outage that is counted on its own. What
/// is already under way still arrives.
const DOWN: Row = Row {
    key: "down",
    help: "drops every packet; it has no value and stands in a schedule: `at 10s down for 20s`",
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

/// MTU: the largest IP packet that enters the path. A segment that is longer and may not be fragmented (its DF bit is
/// set, or it is IPv6) is dropped, and the sender is told with ICMP (RFC 1191, RFC 8201), unless this is a black hole.
/// One that may is fragmented, as a router does.
///
/// All segments of a super-packet but the last have the same length, so one look at it is enough: either all of
/// them are too long, for which one message is enough, or none.
const MTU: Row = Row {
    key: "mtu",
    help: "maximum length of an IP packet in bytes; a longer packet is dropped and its sender told by ICMP, or \
           not told with `black-hole`; IPv4 without DF is fragmented",
    sample: "1400 black-hole",
    events: Some("too-big"),
    needs: Some("reassembly"),
    traits: Traits { dropped_by: "the link's mtu", ..Traits::NONE },
    build: |value, _seed| {
        let form = StageError::Form(MTU.sample);
        let (bytes, [black_hole]) = value::parts(value, ["black-hole"]).ok_or(form)?;
        if black_hole.is_some_and(|rest| !rest.is_empty()) || bytes.contains(' ') {
            return Err(form);
        }
        let limit = limit(bytes)?;
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
                cut(part, self.limit, exit);
            } else {
                exit.happened(u64::from(part.segments));
                if !self.is_black_hole {
                    exit.too_big(self.limit);
                }
            }
        }
    }
}

/// Encapsulation: what a tunnel adds to each segment on the wire. It takes nothing and drops nothing: the stages behind it
/// see longer packets.
///
/// | bytes | of |
/// | --- | --- |
/// | outer | the outer IP header, and UDP where there is one |
/// | header | the tunnel's own header |
/// | iv | the initialization vector |
/// | the inner packet and trailer, padded to align | ESP's trailer is 2: pad length and next header (RFC 4303, 2) |
/// | icv | the integrity check value |
const ENCAP: Row = Row {
    key: "encap",
    help: "bytes that a tunnel adds to each segment: `esp-gcm`, `esp-cbc` (with SHA1-96), `gre`, `vxlan`, \
           `fixed 50`, or all parts: `outer 20 header 8 iv 8 trailer 2 align 4 icv 16` (a part that \
           is left out is 0)",
    sample: "esp-gcm",
    events: None,
    needs: None,
    traits: Traits { has_closed_form: true, adds_bytes: true, ..Traits::NONE },
    build: |value, _seed| {
        let tunnel = Tunnel::read(value)?;
        Ok((tunnel != Tunnel::default()).then(|| Box::new(tunnel) as Box<dyn Stage>))
    },
};

/// Bytes; the default adds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Tunnel {
    outer: u32,
    header: u32,
    iv: u32,
    trailer: u32,
    /// Inner packet and trailer are padded to a multiple of this; 0 and 1 pad nothing.
    align: u32,
    icv: u32,
}

impl Tunnel {
    fn read(text: &str) -> Result<Tunnel, StageError> {
        let name = text.trim();
        if let Some((_, tunnel)) = NAMED.iter().find(|(named, _)| *named == name) {
            return Ok(*tunnel);
        }
        let form = StageError::Form("outer 20 header 8 iv 8 trailer 2 align 4 icv 16");
        let words = ["outer", "header", "iv", "trailer", "align", "icv", "fixed"];
        let ("", found) = value::parts(name, words).ok_or(form)? else {
            return Err(StageError::Form("esp-gcm, esp-cbc, gre, vxlan, fixed 50"));
        };
        let mut numbers = [0; 7];
        for (number, text) in numbers.iter_mut().zip(found) {
            let bytes: u64 = text.map_or(Ok(0), str::parse).map_err(|_| form)?;
            *number = u32::try_from(bytes)
                .ok()
                .filter(|bytes| *bytes <= MAX_PART)
                .ok_or(StageError::Overhead { max: MAX_PART })?;
        }
        let [outer, header, iv, trailer, align, icv, fixed] = numbers;
        if found.iter().all(Option::is_none) || found[6].is_some() && found[..6].iter().any(Option::is_some) {
            return Err(form);
        }
        Ok(Tunnel { outer: outer + fixed, header, iv, trailer, align, icv })
    }

    /// Returns the bytes that it adds to a packet of `inner` bytes.
    fn adds(&self, inner: u32) -> u32 {
        let padded = (inner + self.trailer).next_multiple_of(self.align.max(1));
        self.outer + self.header + self.iv + (padded - inner) + self.icv
    }
}

impl Stage for Tunnel {
    fn pass(&mut self, packet: Packet, exit: &mut Exit) {
        let (full, last) = packet.by_length();
        match last.filter(|last| self.adds(last.segment_bytes()) != self.adds(full.segment_bytes())) {
            // The last, shorter segment is padded differently.
            Some(last) => {
                [full, last].into_iter().for_each(|part| exit.push(part.longer(self.adds(part.segment_bytes()))))
            }
            None => exit.push(packet.longer(self.adds(full.segment_bytes()))),
        }
    }
}

const NAMED: &[(&str, Tunnel)] = &[
    // RFC 4106: 8 bytes of IV, 16 of ICV; RFC 4303, 2.4: a multiple of 4.
    ("esp-gcm", Tunnel { outer: 20, header: 8, iv: 8, trailer: 2, align: 4, icv: 16 }),
    // RFC 3602: the blocks and IV of AES have 16 bytes; RFC 2404: 12 of ICV.
    ("esp-cbc", Tunnel { outer: 20, header: 8, iv: 16, trailer: 2, align: 16, icv: 12 }),
    // RFC 2784, without key and checksum.
    ("gre", Tunnel { outer: 20, header: 4, iv: 0, trailer: 0, align: 0, icv: 0 }),
    // RFC 7348: IP and UDP; VXLAN and the inner Ethernet header.
    ("vxlan", Tunnel { outer: 28, header: 22, iv: 0, trailer: 0, align: 0, icv: 0 }),
];

/// No part of a tunnel is longer than this.
const MAX_PART: u32 = 4096;

/// Fragments: a box on the path whose next line takes shorter packets, and which cuts what is longer into IPv4 fragments
/// (RFC 791, 3.2) whatever the sender asked for, as boxes do that carry a tunnel's outer packets without DF. From here on
/// each fragment goes its own way: the line charges each its own IP header, and loss, duplication, jitter and
/// reordering hit them one by one, until `reassembly` puts them together.
const FRAGMENT: Row = Row {
    key: "fragment",
    help: "maximum length of a packet in bytes, encapsulation included, that a box on the path does not cut \
           into fragments",
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
fn limit(text: &str) -> Result<Option<u32>, StageError> {
    match text.parse::<Bytes>()?.0 {
        0 => Ok(None),
        bytes @ LEAST..=65_535 => Ok(Some(bytes as u32)),
        _ => Err(StageError::Length),
    }
}

/// Cuts each segment of `packet`, all of which are longer than `limit` bytes, into fragments of at most `limit`.
fn cut(packet: Packet, limit: u32, exit: &mut Exit) {
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

/// Policer: a token bucket. What finds enough tokens passes at once, what does not is lost; there is no queue, so the
/// round trip stays what it is while segments are lost. Providers enforce bought rates so.
///
/// Flach and others: An Internet-wide analysis of traffic policing, 2016.
const POLICER: Row = Row {
    key: "policer",
    help: "drops packets above a rate in IP bits (token bucket without a queue); with the bytes that may come \
           at once",
    sample: "100Mbit/s burst 256kB",
    events: None,
    needs: None,
    traits: Traits {
        dropped_by: "the link's policer",
        limit: Limit::Policer,
        rate: Some(|value| Policer::read(value).ok().map(|policer| policer.rate())),
        ..Traits::NONE
    },
    build: |value, _seed| Ok(Some(Box::new(Policer::read(value)?))),
};

struct Policer {
    /// Bits per second, at least 1.
    rate: u128,
    /// Content of the bucket when it is full, and now: nanoseconds times bits per second, so that nothing is rounded.
    burst: u128,
    tokens: u128,
    since: Duration,
}

impl Policer {
    fn read(text: &str) -> Result<Policer, StageError> {
        let form = StageError::Form(POLICER.sample);
        let (rate, [burst]) = value::parts(text, ["burst"]).ok_or(form)?;
        let rate = rate.parse::<Rate>()?;
        let burst = burst.ok_or(form)?.parse::<Bytes>()?;
        if rate.0 == 0 {
            return Err(StageError::NoRate);
        }
        let burst = tokens(burst.0);
        Ok(Policer { rate: u128::from(rate.0), burst, tokens: burst, since: Duration::ZERO })
    }

    fn rate(&self) -> Rate {
        Rate(u64::try_from(self.rate).unwrap_or(u64::MAX))
    }

    fn fill(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.since);
        self.tokens = self.burst.min(self.tokens + passed.as_nanos() * self.rate);
        self.since = self.since.max(now);
    }

    /// Returns the number of the packet's first segments that find tokens.
    fn room_for(&self, packet: &Packet) -> u32 {
        if tokens(packet.wire_bytes()) <= self.tokens {
            return packet.segments;
        }
        let each = tokens(packet.front(1).wire_bytes()).max(1);
        u32::try_from(self.tokens / each).unwrap_or(u32::MAX).min(packet.segments - 1)
    }

    fn take(&mut self, packet: Packet, exit: &mut Exit) {
        self.tokens -= tokens(packet.wire_bytes());
        exit.push(packet);
    }
}

impl Stage for Policer {
    fn pass(&mut self, packet: Packet, exit: &mut Exit) {
        self.fill(packet.at);
        let fitting = self.room_for(&packet);
        if fitting > 0 {
            self.take(packet.front(fitting), exit);
        }
        // The last segment of a packet is often shorter than the rest, and finds tokens where they did not.
        let last = packet.after(fitting.max(packet.segments - 1)).filter(|_| fitting < packet.segments);
        if let Some(last) = last.filter(|last| self.room_for(last) > 0) {
            self.take(last, exit);
        }
    }
}

/// Returns the tokens for `bytes`.
fn tokens(bytes: u64) -> u128 {
    u128::from(bytes) * 8 * 1_000_000_000
}
