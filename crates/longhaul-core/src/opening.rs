//! The first bytes of a connection: a PROXY header, a preface, or payload.
//!
//! ```text
//! the bytes so far, now ──> Opening::look ──> Found
//!                                    └── nothing yet: look again when more have come, or at Opening::until
//! ```
//! [`Asks`] has what is asked, when, and how long it waits.
//!
//! A header is at most [`MAX_BYTES`](crate::proxy_header::MAX_BYTES) long, a preface [`MAX_PREFACE_BYTES`]. So many bytes always
//! decide. A header and what follows it are two questions, the second one about the bytes behind the header.

use crate::proxy_header::{self, Accepts, Bad, Header};
use crate::wire::{PrefaceFault, measure, probe};
use std::fmt;
use std::time::{Duration, Instant};

/// The kind of a preface, with its fields. A new kind is a variant here, a row of `ROWS`, and what answers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefaceKind {
    /// Of a probe.
    Probe(probe::Preface),
    /// Of a connection of a measuring session.
    Measure(measure::Preface),
}

/// A kind of preface.
struct Row {
    /// Its first bytes. A connection is of this kind if and only if it begins with them.
    magic: &'static [u8; MAGIC_BYTES],
    /// Its maximum length in bytes.
    max_bytes: usize,
    /// Reads a preface from bytes that begin with the magic. `None`: it is not whole.
    read: fn(&[u8]) -> Result<Option<PrefaceKind>, PrefaceFault>,
}

const ROWS: &[Row] = &[Row {
    magic: &probe::MAGIC,
    max_bytes: probe::LENGTH,
    read: |bytes| match bytes.get(MAGIC_BYTES) {
        Some(&measure::VERSION) => {
            bytes.first_chunk().map(measure::Preface::parse).transpose().map(|read| read.map(PrefaceKind::Measure))
        }
        _ => Ok(probe::read(bytes)?.map(PrefaceKind::Probe)),
    },
}];

/// Length of each magic in bytes.
pub const MAGIC_BYTES: usize = 16;

/// Maximum length of a preface in bytes.
pub const MAX_PREFACE_BYTES: usize = {
    let (mut max, mut row) = (0, 0);
    while row < ROWS.len() {
        max = if ROWS[row].max_bytes > max { ROWS[row].max_bytes } else { max };
        row += 1;
    }
    max
};

/// Time in which a whole PROXY header must arrive, or the preface of an own probe. Both are sent at once, so this allows for four
/// lost packets, which the kernel sends again after 1, 3, 7 and 15 s in the worst case. See [`Opening::or_slower`].
pub const HEADER_TIME: Duration = Duration::from_secs(15);

/// The most that [`Opening::or_slower`] allows.
pub const MAX_HEADER_TIME: Duration = Duration::from_secs(120);

/// Time that the first byte behind a header that names no client is waited for. A health check ends instead, and a server that
/// speaks first makes a client wait so long.
pub const BEHIND_TIME: Duration = Duration::from_millis(200);

/// Time that a dial waits for the client's first bytes: longer than a LAN's round trip, and too short for a person to notice. The
/// near relay sends a preface right after its handshake.
pub const DIAL_TIME: Duration = Duration::from_millis(20);

/// Time that bytes like the beginning of a preface wait for the rest. A prober sends the preface by one call, so only a loss
/// separates its bytes.
pub const REST_TIME: Duration = Duration::from_secs(1);

/// What is asked about the first bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// Before the flow, where the tunnel expects one: which PROXY header? Waits [`HEADER_TIME`] for all of it.
    Header(Accepts),
    /// Behind a header that names no client: does payload follow, or is this a health check, which ends here? Waits
    /// [`BEHIND_TIME`] for the first byte.
    Behind,
    /// Before the flow, where the client is this process: is its preface here? Waits [`HEADER_TIME`] for the first bytes.
    OwnProbe,
    /// Before a dial, and after one that failed: is a preface here, or payload? Waits [`DIAL_TIME`] for the first bytes.
    BesideDial,
    /// When the flow reads its first bytes: are they a preface or payload? Waits [`REST_TIME`] after the first byte.
    Flow,
    /// The same of an FTP control connection: do they begin like a preface, whole or not?
    Control,
}

/// A question about the first bytes of a connection, and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    asks: Asks,
    began: Instant,
    until: Option<Instant>,
}

/// Kind of the first bytes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// This PROXY header.
    Header(Header),
    /// No PROXY header.
    NoHeader(Bad),
    /// This preface. There may be bytes behind it.
    Preface(PrefaceKind),
    /// A preface whose end is missing.
    Begun,
    /// A preface that cannot be used.
    Bad(PrefaceFault),
    /// The payload of an ordinary client.
    Payload,
    /// The connection ended without a byte.
    Ended,
    /// Nothing has come in time, or too little to tell.
    Undecided,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Found::Header(_) => f.write_str("a PROXY header"),
            Found::NoHeader(bad) => bad.fmt(f),
            Found::Preface(_) => f.write_str("a preface"),
            Found::Begun => f.write_str("a preface whose end is missing"),
            Found::Bad(fault) => write!(f, "a preface with {fault}"),
            Found::Payload => f.write_str("payload"),
            Found::Ended => f.write_str("an end without a byte"),
            Found::Undecided => f.write_str("too few bytes in time"),
        }
    }
}

impl Opening {
    /// Asks from `now` on.
    pub fn new(asks: Asks, now: Instant) -> Opening {
        let time = match asks {
            Asks::Header(_) | Asks::OwnProbe => Some(HEADER_TIME),
            Asks::Behind => Some(BEHIND_TIME),
            Asks::BesideDial => Some(DIAL_TIME),
            // Its client may take any time for its first byte.
            Asks::Flow | Asks::Control => None,
        };
        Opening { asks, began: now, until: time.map(|time| now + time) }
    }

    /// Waits longer if the sender's kernel may: `rto` is the retransmission timeout of the connection. Each one is twice the one
    /// before it, so four of them take 15 times as long.
    pub fn or_slower(self, rto: Duration) -> Opening {
        let slow = self.began + rto.saturating_mul(15).min(MAX_HEADER_TIME);
        Opening { until: self.until.map(|until| until.max(slow)), ..self }
    }

    /// Returns the time at which [`look`](Opening::look) decides without more bytes, if there is one.
    pub fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Decides on `bytes`, those of the connection from its beginning. `has_ended`: no more will come. Returns `None` if more bytes
    /// or time may decide.
    pub fn look(&mut self, bytes: &[u8], has_ended: bool, now: Instant) -> Option<Found> {
        let is_late = self.until.is_some_and(|until| until <= now);
        match self.asks {
            // A health check of a load balancer may be without a header.
            Asks::Header(_) | Asks::Behind if bytes.is_empty() && has_ended => return Some(Found::Ended),
            Asks::Header(accepts) => return header(bytes, accepts, has_ended, is_late.then(|| now - self.began)),
            Asks::Behind => return (is_late || !bytes.is_empty()).then_some(Found::Payload),
            _ => {}
        }
        let (found, is_over, is_begun) = (preface(bytes), has_ended || is_late, bytes.len() >= MAGIC_BYTES);
        match self.asks {
            _ if found.is_some() => found,
            Asks::Control if is_begun => Some(Found::Begun),
            // If only a part of a preface is here, nobody waits for the rest.
            Asks::OwnProbe | Asks::BesideDial if is_over || !bytes.is_empty() => Some(Found::Undecided),
            // A preface that is cut off is no payload, because the next hop could be a final host.
            _ if is_over => Some(if is_begun { Found::Begun } else { Found::Payload }),
            _ => {
                self.until = self.until.or((!bytes.is_empty()).then(|| now + REST_TIME));
                None
            }
        }
    }
}

/// `late`: the time waited, once it is over.
fn header(bytes: &[u8], accepts: Accepts, has_ended: bool, late: Option<Duration>) -> Option<Found> {
    match proxy_header::read(bytes, accepts) {
        Ok(Some(header)) => Some(Found::Header(header)),
        Err(bad) => Some(Found::NoHeader(bad)),
        Ok(None) if has_ended => Some(Found::NoHeader(Bad::Ended)),
        Ok(None) => late.map(|time| Found::NoHeader(Bad::Slow(time))),
    }
}

/// Returns `None` while more bytes decide. More bytes never change another result.
fn preface(bytes: &[u8]) -> Option<Found> {
    let known = bytes.len().min(MAGIC_BYTES);
    let Some(row) = ROWS.iter().find(|row| bytes[..known] == row.magic[..known]) else { return Some(Found::Payload) };
    if known < MAGIC_BYTES {
        return None;
    }
    (row.read)(bytes).map_or_else(|fault| Some(Found::Bad(fault)), |whole| whole.map(Found::Preface))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy_header::{Ends, MAX_BYTES, Version, write};
    use crate::wire::probe::tests::preface;
    use crate::wire::probe::{MAGIC, Preface};
    use proptest::prelude::*;

    fn headers() -> impl Strategy<Value = Vec<u8>> {
        let ends = any::<(std::net::SocketAddrV4, std::net::SocketAddrV4)>()
            .prop_map(|(client, to)| Ends { client: client.into(), to: to.into() });
        (prop_oneof![Just(Version::V1), Just(Version::V2)], prop::option::of(ends))
            .prop_map(|(version, ends)| write(version, ends))
    }

    /// Bytes that are a header or a preface, nearly one, the beginning of one, or anything; and more behind them.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let good = prop_oneof![preface().prop_map(|preface| preface.bytes().to_vec()), headers()];
        let damaged = (good, any::<prop::sample::Index>(), any::<u8>(), any::<bool>()).prop_map(
            |(mut bytes, at, byte, is_good)| {
                let at = at.index(bytes.len());
                bytes[at] = if is_good { bytes[at] } else { byte };
                bytes
            },
        );
        let cut = (damaged, any::<prop::sample::Index>(), any::<bool>()).prop_map(|(mut bytes, at, is_whole)| {
            bytes.truncate(if is_whole { bytes.len() } else { at.index(bytes.len()) });
            bytes
        });
        let any_bytes = || prop::collection::vec(any::<u8>(), 0..80);
        prop_oneof![9 => (cut, any_bytes()).prop_map(|(bytes, more)| [bytes, more].concat()), 1 => any_bytes()]
    }

    fn questions(now: Instant) -> [Opening; 8] {
        let [v1, v2, any] = [Accepts::V1, Accepts::V2, Accepts::Any].map(Asks::Header);
        [v1, v2, any, Asks::Behind, Asks::OwnProbe, Asks::BesideDial, Asks::Flow, Asks::Control]
            .map(|asks| Opening::new(asks, now))
    }

    /// Gives `opening` the first bytes in pieces that end at these places. Returns the decision, and the number of bytes that it took.
    fn in_pieces(mut opening: Opening, bytes: &[u8], ends: &[usize], now: Instant) -> Option<(Found, usize)> {
        ends.iter().find_map(|end| opening.look(&bytes[..*end], false, now).map(|found| (found, *end)))
    }

    /// Whether the bytes are refused because of the version of a header, or for lack of one.
    fn is_of_version(found: Option<Found>) -> bool {
        matches!(found, Some(Found::NoHeader(Bad::Missing | Bad::NotAccepted(_))))
    }

    proptest! {
        /// Only a glance depends on the pieces: it takes what is there. What it finds is what the whole is, too.
        #[test]
        fn every_split_gives_the_same(bytes in bytes(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6)) {
            let now = Instant::now();
            let mut ends: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).chain([bytes.len()]).collect();
            ends.sort_unstable();
            for opening in questions(now) {
                let mut at_once = opening;
                let whole = at_once.look(&bytes, false, now);
                let found = in_pieces(opening, &bytes, &ends, now).map(|(found, _)| found);
                match opening.asks {
                    Asks::OwnProbe | Asks::BesideDial => prop_assert!(found == whole || found == Some(Found::Undecided)),
                    // The magic alone comes before what is behind it.
                    Asks::Control => prop_assert!(found == whole || found == Some(Found::Begun) && super::preface(&bytes) != Some(Found::Payload)),
                    // The first byte tells the version, and the next ones may be of none.
                    Asks::Header(_) => prop_assert!(found == whole || is_of_version(found) && is_of_version(whole)),
                    Asks::Flow | Asks::Behind => prop_assert_eq!(found, whole),
                }
            }
        }

        #[test]
        fn each_question_is_decided_by_so_many_bytes_and_by_its_time(bytes in bytes()) {
            let now = Instant::now();
            for mut opening in questions(now) {
                let most = if let Asks::Header(_) = opening.asks { MAX_BYTES } else { MAX_PREFACE_BYTES };
                match opening.look(&bytes, false, now) {
                    None => prop_assert!(bytes.len() < most),
                    Some(found) => prop_assert!(found != Found::Undecided || matches!(opening.asks, Asks::OwnProbe | Asks::BesideDial)),
                }
                if let (None, Some(until)) = (opening.look(&bytes, false, now), opening.until()) {
                    prop_assert_eq!(opening.look(&bytes, false, until - Duration::from_nanos(1)), None);
                    prop_assert!(opening.look(&bytes, false, until).is_some());
                }
                prop_assert!(opening.look(&bytes, true, now).is_some());
            }
        }

        /// As on a tunnel with `proxy_in`: the second question is about the bytes behind the header.
        #[test]
        fn what_is_behind_a_header_is_found_as_without_one(head in headers(), tail in bytes(), byte in any::<prop::sample::Index>()) {
            let (now, whole) = (Instant::now(), [&head[..], &tail].concat());
            let ends = [byte.index(head.len()), whole.len()];
            let found = in_pieces(Opening::new(Asks::Header(Accepts::Any), now), &whole, &ends, now);
            let Some((Found::Header(header), _)) = found else { panic!("{found:?}") };
            prop_assert_eq!(header.bytes, head.len());
            prop_assert_eq!(Opening::new(Asks::Flow, now).look(&whole[header.bytes..], true, now), Opening::new(Asks::Flow, now).look(&tail, true, now));
        }
    }

    #[test]
    fn the_rest_of_a_preface_has_a_second_and_a_client_any_time_for_its_first_byte() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let late = start + 1_000_000 * second;
        for (bytes, found) in [(1, Found::Payload), (15, Found::Payload), (16, Found::Begun), (47, Found::Begun)] {
            let bytes = &Preface { hops: 1, echo_bytes: 0, nonce: [7; 16] }.bytes()[..bytes];
            let mut opening = Opening::new(Asks::Flow, start);
            assert_eq!((opening.look(&[], false, late), opening.until()), (None, None));
            assert_eq!((opening.look(&bytes[..1], false, late), opening.until()), (None, Some(late + second)));
            assert_eq!(opening.look(bytes, false, late + second / 2), None, "another byte gives no more time");
            assert_eq!(
                (opening.look(bytes, false, late + second), opening.until()),
                (Some(found), Some(late + second))
            );
        }
    }

    #[test]
    fn a_stream_that_ends_has_told_all() {
        let now = Instant::now();
        let ended = |mut opening: Opening, bytes: &[u8]| opening.look(bytes, true, now).unwrap();
        for bytes in 0..16 {
            assert_eq!(ended(Opening::new(Asks::Flow, now), &MAGIC[..bytes]), Found::Payload);
            assert_eq!(ended(Opening::new(Asks::Control, now), &MAGIC[..bytes]), Found::Payload);
            assert_eq!(ended(Opening::new(Asks::BesideDial, now), &MAGIC[..bytes]), Found::Undecided);
        }
        assert_eq!(ended(Opening::new(Asks::Flow, now), &MAGIC), Found::Begun);
        assert_eq!(ended(Opening::new(Asks::Header(Accepts::Any), now), b"PROXY "), Found::NoHeader(Bad::Ended));
        for asks in [Asks::Header(Accepts::Any), Asks::Behind] {
            assert_eq!(ended(Opening::new(asks, now), b""), Found::Ended);
        }
        assert_eq!(ended(Opening::new(Asks::Behind, now), b"x"), Found::Payload);
    }

    #[test]
    fn a_header_has_15_s_and_more_where_the_kernel_waits_longer_between_its_tries() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        for (rto, patience) in [(second / 5, 15), (second, 15), (3 * second, 45), (100 * second, 120)] {
            let mut opening = Opening::new(Asks::Header(Accepts::Any), now).or_slower(rto);
            assert_eq!(opening.until(), Some(now + patience * second));
            assert_eq!(opening.look(b"PROXY ", false, now + (patience - 1) * second), None);
            let slow = Some(Found::NoHeader(Bad::Slow(patience * second)));
            assert_eq!(opening.look(b"PROXY ", false, now + patience * second), slow);
        }
        assert_eq!(Bad::Slow(HEADER_TIME).to_string(), "no whole header in 15s");
    }

    #[test]
    fn each_kind_of_preface_is_known_by_its_magic() {
        for (row, nth) in ROWS.iter().zip(1..) {
            assert!(ROWS[nth..].iter().all(|other| other.magic != row.magic));
            // No text begins like this, so that no line of an ordinary client waits.
            assert!(std::str::from_utf8(&row.magic[..1]).is_err());
        }
    }

    #[test]
    fn a_preface_that_cannot_be_used_is_told_in_words() {
        let told = |at: usize, byte| {
            let mut bytes = Preface { hops: 1, echo_bytes: 0, nonce: [7; 16] }.bytes();
            bytes[at] = byte;
            super::preface(&bytes).unwrap().to_string()
        };
        let told = [told(16, 3), told(20, 9), Found::Begun.to_string()];
        let words = ["with the unknown version 3", "with a wrong checksum", "whose end is missing"];
        assert_eq!(told, words.map(|words| format!("a preface {words}")));
    }

    /// The first bytes of clients: none of them is held back.
    #[test]
    fn no_ordinary_protocol_begins_like_a_preface() {
        let clients: [&[u8]; 12] = [
            b"SSH-2.0-OpenSSH_9.2\r\n",
            b"\x16\x03\x01\x02\x00\x01", // TLS
            b"\x80\x2e\x01\x00\x02",     // SSL 2.0
            b"GET / HTTP/1.1\r\n",
            b"PRI * HTTP/2.0\r\n",
            b"\x00\x00\x00\x08\x04\xd2\x16\x2f", // PostgreSQL, SSLRequest
            b"\x00\xf4\x00\x00\x01\x00\x00\x00", // Oracle TNS, connect
            b"EHLO host\r\n",
            b"PROXY TCP4 192.0.2.1",
            b"\r\n\r\n\x00\r\nQUIT\n",   // PROXY v2
            b"\xff\xfd\x03",             // Telnet
            b"\x00\x29\xd0\x41\x00\x01", // DRDA
        ];
        for first in clients {
            assert_eq!(super::preface(&first[..1]), Some(Found::Payload), "{first:?}");
        }
    }
}
