//! Random bytes of the kernel, for nonces and challenges.

use std::fs::File;
use std::io::{self, Read};

/// Returns `N` random bytes, which nobody can predict.
///
/// # Errors
/// /dev/urandom cannot be read, for example because no descriptor is free.
pub(crate) fn bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}
