//! Reads any bytes as the first bytes of a connection, and as a stream with frames. Reading never panics. A preface is found
//! whatever the pieces are in which it comes, and written again it is the same. The same input is read a second time with
//! the checksum that belongs to it, so that the checksum does not stop the search.

#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul_core::wire::answer::{Frames, MAX_FRAME_BYTES};
use longhaul_core::wire::probe::{LENGTH, Look, look};

fuzz_target!(|bytes: &[u8]| {
    read_preface(bytes);
    if bytes.len() >= LENGTH {
        let mut mended = bytes.to_vec();
        mended[44..48].copy_from_slice(&crc32c::crc32c(&bytes[..44]).to_be_bytes());
        read_preface(&mended);
    }
    read_frames(bytes);
    if let (true, Some((body, _))) = (bytes.len() <= MAX_FRAME_BYTES, bytes.split_last_chunk::<4>()) {
        read_frames(&[body, &crc32c::crc32c(body).to_be_bytes()].concat());
    }
});

fn read_preface(bytes: &[u8]) {
    let whole = look(bytes);
    if let Look::Preface(preface) = whole {
        assert_eq!(preface.bytes(), bytes[..LENGTH]);
    }
    for end in 0..bytes.len().min(LENGTH) {
        match look(&bytes[..end]) {
            Look::Maybe | Look::Begun => {}
            decided => assert_eq!(decided, whole),
        }
    }
}

fn read_frames(bytes: &[u8]) {
    let mut frames = Frames::default();
    for byte in bytes {
        match frames.take(*byte) {
            Ok(Some(frame)) => assert!(frame.bytes().len() <= MAX_FRAME_BYTES),
            Ok(None) => {}
            Err(_) => return,
        }
    }
}
