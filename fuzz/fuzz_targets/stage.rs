//! Parses any text as the value of a stage and as a line of a schedule, and sends packets over the links built from it.
//! Nothing panics. Exactly the segments that `send` announced arrive, and no fragment leaves the link.

#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul_link::{Change, Link, Packet, ROWS, Setting};
use std::time::Duration;

fuzz_target!(|text: &str| {
    for row in ROWS {
        if let Ok(setting) = Setting::read(row.key, text) {
            carry(Link::new(&[setting], 1));
        }
    }
    let line = [("rate", "1Gbit/s"), ("delay", "1ms")].map(|(key, value)| Setting::read(key, value));
    if let ([Ok(rate), Ok(delay)], Ok(change)) = (line, Change::read(text)) {
        carry(Link::scheduled(&[rate, delay], &[change], 1));
    }
});

/// Sends super-packets for twenty seconds, half of them without DF, and receives them.
fn carry(mut link: Link) {
    let mut promised = 0;
    for slot in 0..20 {
        let at = Duration::from_secs(slot.into());
        let packet = Packet { segments: 9, headers: 52, size: 1448, payload: 12_000, ..Packet::single(slot, at, 0) };
        promised += link.send(Packet { dont_fragment: slot % 2 == 0, ..packet }).segments;
    }
    let mut arrived = 0;
    while let Some(packet) = link.receive(Duration::MAX) {
        assert!(packet.fragment.is_none() && packet.segments >= 1);
        arrived += u64::from(packet.segments);
    }
    assert_eq!(arrived, promised);
}
