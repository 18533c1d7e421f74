//! Reads any bytes as a frame of a TUN device. Reading never panics, and the pieces cut from a super-packet are its whole
//! payload, in order. The first two bytes of the input choose the length of the pieces and the MTU in the ICMP message to the
//! sender. That message must be a valid frame itself.

#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul_link::icmp::{self, MESSAGE_MAX};
use longhaul_link::segment::{HEAD_MAX, VNET, cut, shape};

fuzz_target!(|bytes: &[u8]| {
    let [step, more, frame @ ..] = bytes else { return };
    let Ok(whole) = shape(frame) else { return };
    let segments = whole.segments();
    assert!(segments >= 1 && VNET + whole.headers + whole.payload == frame.len());
    let mut message = [0; MESSAGE_MAX];
    let length = icmp::too_big(frame, &whole, u32::from(*step) * 256 + u32::from(*more), &mut message);
    assert!(length == 0 || shape(&message[..length]).is_ok_and(|reply| VNET + reply.headers == length));
    if whole.size == 0 {
        return;
    }
    let (mut first, mut at) = (0, VNET + whole.headers);
    while first < segments {
        let run = u32::from(*step) + u32::from(*more) * 256 + 1;
        let piece = cut(frame, &whole, first, run, &mut [0; HEAD_MAX]);
        assert_eq!(piece.payload.start, at);
        at = piece.payload.end;
        first = first.saturating_add(run);
    }
    assert_eq!(at, frame.len());
});
