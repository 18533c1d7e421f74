//! Reads any bytes as a stream with frames. Reading never panics. The same input is read a second time with the checksum that belongs
//! to it, so that the checksum does not stop the search. No proof in it is one of the key.

#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul_core::wire::answer::{Frame, Frames, MAX_FRAME_BYTES};
use longhaul_core::wire::probe::Preface;
use longhaul_core::wire::proof::{Challenge, Key};

fuzz_target!(|bytes: &[u8]| {
    read_frames(bytes);
    if let (true, Some((body, _))) = (bytes.len() <= MAX_FRAME_BYTES, bytes.split_last_chunk::<4>()) {
        read_frames(&[body, &crc32c::crc32c(body).to_be_bytes()].concat());
    }
});

fn read_frames(bytes: &[u8]) {
    let mut frames = Frames::default();
    for byte in bytes {
        match frames.take(*byte) {
            Ok(Some(frame)) => {
                let written = frame.bytes();
                assert!(written.len() <= MAX_FRAME_BYTES);
                prove(&frame);
            }
            Ok(None) => {}
            Err(_) => return,
        }
    }
}

/// Whoever does not know the key has no proof, and whoever does has one.
fn prove(frame: &Frame) {
    let key = Key::new(b"a key that no input of the search has").expect("it is long enough");
    match frame {
        Frame::Proof(proof) => {
            let preface = Preface { hops: 0, echo_bytes: 0, nonce: proof.nonce };
            let challenge = Challenge { nonce: proof.nonce, hops: 0, random: [7; 32] };
            assert!(!key.proves(&proof.mac, &challenge, &preface));
        }
        Frame::Challenge(challenge) => {
            let preface = Preface { hops: challenge.hops, echo_bytes: 9, nonce: challenge.nonce };
            assert!(key.proves(&key.prove(challenge, 9), challenge, &preface));
        }
        Frame::Report(_) | Frame::Receipt(_) => {}
    }
}
