//! Stages at the entry of the link: outage, MTU, encapsulation, fragmentation and policer.

use crate::error::StageError;
use crate::packet::Fragment;
use crate::packet::Packet;
use crate::row::{Exit, Limit, Row, Stage, Traits};
use crate::value;
use longhaul_units::{Bytes, Rate};
use std::time::Duration;

/// Stages of the entry, in the order in which a packet passes them.
pub(super) const ROWS: &[Row] = &[DOWN, MTU, ENCAP, FRAGMENT, POLICER];

/// Down: an outage; no packet gets through. Meant for the schedule (`at 10s down for 20s`). Its losses are counted apart
/// from those of other stages. Packets already under way still arrive.
const DOWN: Row = Row {
    key: "down",
    help: "drops every packet: `down = \"20s to 60s\"`, or `at 20s down for 40s` in a schedule",
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

/// MTU: the largest IP packet that enters the path. Like a router, the stage fragments longer IPv4 segments without DF.
/// It drops longer segments with DF or over IPv6, and tells the sender with ICMP (RFC 1191, RFC 8201) unless the path is a
/// black hole.
///
/// All segments of a super-packet but the last have the same length. So either all of them are too long, or none, and
/// one message is enough.
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
        let (bytes, [black_hole]) = value::parts(value, ["black-hole"]).ok_or_else(|| form.clone())?;
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
        pass_up_to(self.limit, packet, exit, |part, exit| {
            if !part.dont_fragment {
                return cut(part, self.limit, exit);
            }
            exit.happened(u64::from(part.segments));
            if !self.is_black_hole {
                exit.too_big(self.limit);
            }
        });
    }
}

/// Encapsulation: the bytes that a tunnel adds to each segment on the wire. The stage drops nothing; the stages after it
/// see longer packets.
///
/// | part | bytes |
/// | --- | --- |
/// | outer | the outer IP header, with the UDP header if there is one |
/// | header | the tunnel's own header |
/// | iv | the initialization vector |
/// | trailer, align | the trailer (ESP: 2, pad length and next header, RFC 4303, 2), padded with the inner packet to align |
/// | icv | the integrity check value |
const ENCAP: Row = Row {
    key: "encap",
    help: "bytes that a tunnel adds to each segment: `esp-gcm`, `esp-cbc` (with SHA1-96), `gre`, `vxlan`, \
           `wireguard`, `expressroute`, `fixed 50`, or all parts: `outer 20 header 8 iv 8 trailer 2 align 4 icv 16` (a part that \
           is left out is 0)",
    sample: "esp-gcm",
    events: None,
    needs: None,
    traits: Traits { has_closed_form: true, adds_bytes: true, ..Traits::NONE },
    build: |value, _seed| {
        let encapsulation = Encapsulation::read(value)?;
        Ok((encapsulation != Encapsulation::default()).then(|| Box::new(encapsulation) as Box<dyn Stage>))
    },
};

/// Lengths of the parts in bytes; the default adds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Encapsulation {
    outer: u32,
    header: u32,
    iv: u32,
    trailer: u32,
    /// Inner packet and trailer are padded to a multiple of `align`; 0 and 1 mean no padding.
    align: u32,
    icv: u32,
}

impl Encapsulation {
    fn read(text: &str) -> Result<Encapsulation, StageError> {
        let name = text.trim();
        if let Some((_, tunnel)) = NAMED.iter().find(|(named, _)| *named == name) {
            return Ok(*tunnel);
        }
        let form = StageError::Form("outer 20 header 8 iv 8 trailer 2 align 4 icv 16");
        let words = ["outer", "header", "iv", "trailer", "align", "icv", "fixed"];
        let ("", found) = value::parts(name, words).ok_or_else(|| form.clone())? else {
            return Err(StageError::Form("esp-gcm, esp-cbc, gre, vxlan, wireguard, expressroute, fixed 50"));
        };
        let mut numbers = [0; 7];
        for (number, text) in numbers.iter_mut().zip(found) {
            let bytes: u64 = text.map_or(Ok(0), str::parse).map_err(|_| form.clone())?;
            *number = u32::try_from(bytes)
                .ok()
                .filter(|bytes| *bytes <= MAX_PART)
                .ok_or(StageError::Overhead { max: MAX_PART })?;
        }
        let [outer, header, iv, trailer, align, icv, fixed] = numbers;
        if found.iter().all(Option::is_none) || found[6].is_some() && found[..6].iter().any(Option::is_some) {
            return Err(form);
        }
        Ok(Encapsulation { outer: outer + fixed, header, iv, trailer, align, icv })
    }

    /// Returns the bytes that the tunnel adds to a packet of `inner` bytes.
    fn adds(&self, inner: u32) -> u32 {
        let padded = (inner + self.trailer).next_multiple_of(self.align.max(1));
        self.outer + self.header + self.iv + (padded - inner) + self.icv
    }
}

impl Stage for Encapsulation {
    fn pass(&mut self, packet: Packet, exit: &mut Exit) {
        let (full, last) = packet.by_length();
        match last.filter(|last| self.adds(last.segment_bytes()) != self.adds(full.segment_bytes())) {
            // The shorter last segment gets different padding.
            Some(last) => {
                [full, last].into_iter().for_each(|part| exit.push(part.longer(self.adds(part.segment_bytes()))))
            }
            None => exit.push(packet.longer(self.adds(full.segment_bytes()))),
        }
    }
}

const NAMED: &[(&str, Encapsulation)] = &[
    // RFC 4106: 8 bytes of IV, 16 of ICV. RFC 4303, 2.4: padded to a multiple of 4.
    ("esp-gcm", Encapsulation { outer: 20, header: 8, iv: 8, trailer: 2, align: 4, icv: 16 }),
    // RFC 3602: AES has blocks and IV of 16 bytes. RFC 2404: 12 bytes of ICV.
    ("esp-cbc", Encapsulation { outer: 20, header: 8, iv: 16, trailer: 2, align: 16, icv: 12 }),
    // RFC 2784, without key and checksum.
    ("gre", Encapsulation { outer: 20, header: 4, iv: 0, trailer: 0, align: 0, icv: 0 }),
    // RFC 7348: outer = IP and UDP, header = VXLAN and the inner Ethernet header.
    ("vxlan", Encapsulation { outer: 28, header: 22, iv: 0, trailer: 0, align: 0, icv: 0 }),
    // wireguard.com/protocol: 16 bytes of header, the inner packet padded to 16, 16 of ICV.
    ("wireguard", Encapsulation { outer: 28, header: 16, iv: 0, trailer: 0, align: 16, icv: 16 }),
    // Skytap on Azure, May 2023: 50 bytes, which are not named.
    ("expressroute", Encapsulation { outer: 50, header: 0, iv: 0, trailer: 0, align: 0, icv: 0 }),
];

/// Maximum length of a part of a tunnel in bytes.
const MAX_PART: u32 = 4096;

/// Fragment: a box on the path whose next line takes only shorter packets. It cuts longer packets into IPv4 fragments
/// (RFC 791, 3.2) even if the sender set DF. Boxes that carry a tunnel's outer packets without DF do this.
///
/// After this stage each fragment travels separately. The line charges each fragment its own IP header. Loss, duplication,
/// jitter and reordering hit each fragment by itself, until `reassembly` joins them.
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
        pass_up_to(self.limit, packet, exit, |part, exit| {
            exit.happened(u64::from(part.segments));
            cut(part, self.limit, exit);
        });
    }
}

/// Reads the maximum length of a packet in bytes; `None` for `0`, which means no limit.
fn limit(text: &str) -> Result<Option<u32>, StageError> {
    match text.parse::<Bytes>()?.0 {
        0 => Ok(None),
        bytes @ MIN_MTU_BYTES..=65_535 => Ok(Some(bytes as u32)),
        _ => Err(StageError::Length),
    }
}

/// Passes the segments of `packet` that have at most `limit` bytes, and calls `too_long` with those that have more.
fn pass_up_to(limit: u32, packet: Packet, exit: &mut Exit, too_long: impl Fn(Packet, &mut Exit)) {
    if packet.segment_bytes() <= limit {
        return exit.push(packet);
    }
    let (full, last) = packet.by_length();
    for part in [Some(full), last].into_iter().flatten() {
        match part.segment_bytes() <= limit {
            true => exit.push(part),
            false => too_long(part, exit),
        }
    }
}

/// Cuts each segment of `packet` into fragments of at most `limit` bytes. All segments must be longer than `limit`.
fn cut(packet: Packet, limit: u32, exit: &mut Exit) {
    // RFC 791, 3.2: each fragment except the last carries a multiple of 8 bytes.
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

/// Minimum MTU. RFC 791, 3.2: every line must take a packet of 68 bytes.
const MIN_MTU_BYTES: u64 = 68;
/// Length in bytes of an IPv4 header without options.
const IP_HEADER: u32 = 20;

/// Policer: a token bucket. A segment passes at once if there are enough tokens, otherwise it is lost. There is no queue,
/// so losses do not change the round trip. Providers enforce the rate of a contract with policers.
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
    /// Capacity of the bucket in nanoseconds times bits per second, so that nothing is rounded.
    burst: u128,
    /// Content of the bucket at `since`, in the same unit.
    tokens: u128,
    since: Duration,
}

impl Policer {
    fn read(text: &str) -> Result<Policer, StageError> {
        let form = StageError::Form(POLICER.sample);
        let (rate, [burst]) = value::parts(text, ["burst"]).ok_or_else(|| form.clone())?;
        let rate = rate.parse::<Rate>()?;
        let burst = burst.ok_or_else(|| form.clone())?.parse::<Bytes>()?;
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

    /// Returns the number of leading segments for which there are enough tokens.
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
        // The last segment is often shorter than the rest, so the remaining tokens may be enough for it.
        let last = packet.after(fitting.max(packet.segments - 1)).filter(|_| fitting < packet.segments);
        if let Some(last) = last.filter(|last| self.room_for(last) > 0) {
            self.take(last, exit);
        }
    }
}

/// Returns the tokens that `bytes` cost.
fn tokens(bytes: u64) -> u128 {
    u128::from(bytes) * 8 * 1_000_000_000
}
