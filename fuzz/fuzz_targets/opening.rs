//! Reads any bytes as the first bytes of a connection. Reading never panics. Whatever the pieces are in which they come, they are the
//! same, and their number and time are bounded. A header is whole at its last byte and not before, and what it names is read again
//! from a header that is written of it. A preface is written again as it was read. The same input is read a second time with the
//! checksum of a preface that belongs to it, so that the checksum does not stop the search.

#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul_core::opening::{Asks, Found, MAX_PREFACE_BYTES, Opening, PrefaceKind};
use longhaul_core::proxy_header::{Accepts, Bad, Header, MAX_BYTES, Version, read, write};
use longhaul_core::wire::probe::LENGTH;
use std::time::Instant;

fuzz_target!(|bytes: &[u8]| {
    read_all(bytes);
    if bytes.len() >= LENGTH {
        let mut mended = bytes.to_vec();
        mended[44..48].copy_from_slice(&crc32c::crc32c(&bytes[..44]).to_be_bytes());
        read_all(&mended);
    }
});

fn read_all(bytes: &[u8]) {
    let now = Instant::now();
    for accepts in [Accepts::V1, Accepts::V2, Accepts::Any] {
        if let Some(Found::Header(header)) = in_pieces(Opening::new(Asks::Header(accepts), now), bytes, MAX_BYTES, now)
        {
            check_header(bytes, accepts, header);
        }
    }
    if let Some(Found::Preface(kind)) = in_pieces(Opening::new(Asks::Flow, now), bytes, MAX_PREFACE_BYTES, now) {
        let written = match kind {
            PrefaceKind::Probe(preface) => preface.bytes(),
            PrefaceKind::Measure(preface) => preface.bytes(),
        };
        assert_eq!(written, bytes[..LENGTH]);
    }
    for asks in [Asks::OwnProbe, Asks::BesideDial, Asks::Control] {
        let mut glance = Opening::new(asks, now);
        let _ = glance.look(bytes, false, now);
        let until = glance.until().unwrap_or(now);
        assert!(
            glance.look(bytes, true, now).is_some() && (bytes.is_empty() || glance.look(bytes, false, until).is_some())
        );
    }
}

/// Gives `opening` one byte more each time. Returns what it finds, which is the same if all come at once.
fn in_pieces(opening: Opening, bytes: &[u8], max_bytes: usize, now: Instant) -> Option<Found> {
    let (mut at_once, mut piecewise) = (opening, opening);
    let whole = at_once.look(bytes, false, now);
    let found = (0..=bytes.len().min(max_bytes)).find_map(|end| piecewise.look(&bytes[..end], false, now));
    // The first byte of a header tells its version, and the next ones may be of none.
    let is_of_version = |found| matches!(found, Some(Found::NoHeader(Bad::Missing | Bad::NotAccepted(_))));
    assert!(found == whole || is_of_version(found) && is_of_version(whole));
    assert!(found.is_some() || bytes.len() < max_bytes);
    assert!(bytes.is_empty() || piecewise.until().is_none_or(|until| piecewise.look(bytes, false, until).is_some()));
    whole
}

fn check_header(bytes: &[u8], accepts: Accepts, header: Header) {
    assert!(header.bytes <= bytes.len().min(MAX_BYTES));
    assert_eq!(read(&bytes[..header.bytes], accepts), Ok(Some(header)));
    assert_eq!(read(&bytes[..header.bytes - 1], accepts), Ok(None));
    let Some(ends) = header.ends else { return };
    let is_mixed = ends.client.is_ipv4() != ends.to.is_ipv4();
    for version in [Version::V1, Version::V2] {
        let written = write(version, Some(ends));
        // Version 1 has no form for an IPv4 client of an IPv6 destination.
        let ends = (!is_mixed || version == Version::V2).then_some(ends);
        assert_eq!(read(&written, Accepts::Any), Ok(Some(Header { bytes: written.len(), ends })));
    }
}
