//! Reads any bytes as a PROXY header. Reading never panics. A header is whole at its last byte and not before, bytes after it
//! change nothing, and what it names is read again from a header that is written of it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul_core::proxy_header::{Accepts, Header, MAX_BYTES, Version, read, write};

fuzz_target!(|bytes: &[u8]| {
    for accepts in [Accepts::V1, Accepts::V2, Accepts::Any] {
        let Ok(found) = read(bytes, accepts) else { continue };
        let Some(header) = found else {
            assert!(bytes.len() < MAX_BYTES);
            continue;
        };
        assert!(header.bytes <= bytes.len().min(MAX_BYTES));
        assert_eq!(read(&bytes[..header.bytes], accepts), Ok(Some(header)));
        assert_eq!(read(&bytes[..header.bytes - 1], accepts), Ok(None));
        let Some(ends) = header.ends else { continue };
        let is_mapped = [ends.client, ends.to].iter().any(|address| address.ip() != address.ip().to_canonical());
        for version in [Version::V1, Version::V2] {
            let written = write(version, Some(ends));
            let again = Header { bytes: written.len(), ends: Some(ends) };
            assert!(is_mapped || read(&written, Accepts::Any) == Ok(Some(again)));
        }
    }
});
