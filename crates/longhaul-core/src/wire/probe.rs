//! The preface: the first bytes of a connection that is a probe. `longhaul verify` sends it to a tunnel's listener.
//!
//! Every number is big-endian.
//!
//! | offset | size | meaning |
//! | ---: | ---: | --- |
//! | 0 | 16 | [`MAGIC`] |
//! | 16 | 1 | version, 1 |
//! | 17 | 1 | hops to go: the number of relays after the one that reads this, 0 to [`MAX_HOPS`] |
//! | 18 | 2 | 0 |
//! | 20 | 4 | number of bytes to echo, 0 to [`MAX_ECHO_BYTES`] |
//! | 24 | 16 | nonce, which each answer repeats |
//! | 40 | 4 | 0 |
//! | 44 | 4 | CRC-32C of the bytes 0 to 43 |
//!
//! The magic and the version keep their place in every later version.
//!
//! A connection is a probe if and only if its first 16 bytes are [`MAGIC`]. Its first byte is in no text: UTF-8 never
//! contains 0xFD, ASCII ends at 0x7F, and EBCDIC has no character there. The table has the first bytes of some protocols:
//!
//! | protocol | first bytes of the client |
//! | --- | --- |
//! | ssh, HTTP, SMTP, PROXY v1, IBM MQ | a letter: `SSH-`, a method, `EHLO`, `PROXY `, `TSH ` |
//! | PROXY v2 | 0x0D |
//! | TLS | 0x16; SSL 2.0 begins with 0x80 |
//! | PostgreSQL | a length of 4 bytes, at most 10,000: 0x00 0x00 |
//! | Oracle TNS | a length of 2 bytes, then 0x00 0x00 |
//! | Telnet | 0xFF |
//!
//! A length that begins with the magic's bytes would be 64,876 (2 bytes, big-endian), 4.2 GB (4 bytes, big-endian) or 1.8 GB
//! (4 bytes, little-endian), each followed by `nghaul`.

use super::PrefaceFault;

/// The first bytes of a probe. CR, LF, SUB and NUL make the magic unlike any line of text.
pub const MAGIC: [u8; 16] = *b"\xfdlonghaul\r\n\x1a\0v?\xfe";

/// Length of a preface in bytes.
pub const LENGTH: usize = 48;

/// The version that this code writes and reads.
pub const VERSION: u8 = 1;

/// Maximum number of hops to go.
pub const MAX_HOPS: u8 = 8;

/// Maximum number of bytes that a relay echoes for one probe.
pub const MAX_ECHO_BYTES: u32 = 64 << 20;

/// A number that tells the answers of one probe from those of others.
pub type Nonce = [u8; 16];

/// The request of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preface {
    /// Number of relays after the one that reads this, 0 to [`MAX_HOPS`].
    pub hops: u8,
    /// Number of bytes to echo, 0 to [`MAX_ECHO_BYTES`].
    pub echo_bytes: u32,
    /// The nonce, which each answer repeats.
    pub nonce: Nonce,
}

/// Reads the preface in `first`, the bytes of a connection that begins with [`MAGIC`]. Returns `None` if it is not whole. More bytes
/// never change another result.
///
/// # Errors
/// It cannot be used.
pub fn read(first: &[u8]) -> Result<Option<Preface>, PrefaceFault> {
    match first.get(16) {
        Some(&VERSION) => first.first_chunk().map(Preface::parse).transpose(),
        Some(&other) => Err(PrefaceFault::Version(other)),
        None => Ok(None),
    }
}

impl Preface {
    fn parse(bytes: &[u8; LENGTH]) -> Result<Preface, PrefaceFault> {
        let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if word(44) != crc32c::crc32c(&bytes[..44]) {
            return Err(PrefaceFault::Checksum);
        }
        let mut nonce = Nonce::default();
        nonce.copy_from_slice(&bytes[24..40]);
        let preface = Preface { hops: bytes[17], echo_bytes: word(20), nonce };
        let is_zero = bytes[18..20] == [0; 2] && word(40) == 0;
        match is_zero && preface.hops <= MAX_HOPS && preface.echo_bytes <= MAX_ECHO_BYTES {
            true => Ok(preface),
            false => Err(PrefaceFault::Range),
        }
    }

    /// Returns the preface as it is sent.
    pub fn bytes(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..16].copy_from_slice(&MAGIC);
        bytes[16] = VERSION;
        bytes[17] = self.hops;
        bytes[20..24].copy_from_slice(&self.echo_bytes.to_be_bytes());
        bytes[24..40].copy_from_slice(&self.nonce);
        let checksum = crc32c::crc32c(&bytes[..44]);
        bytes[44..].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn preface() -> impl Strategy<Value = Preface> {
        (0..=MAX_HOPS, 0..=MAX_ECHO_BYTES, any::<Nonce>()).prop_map(|(hops, echo_bytes, nonce)| Preface {
            hops,
            echo_bytes,
            nonce,
        })
    }

    proptest! {
        #[test]
        fn a_preface_is_read_as_it_was_written(preface in preface()) {
            prop_assert_eq!(read(&preface.bytes()), Ok(Some(preface)));
        }

        #[test]
        fn one_changed_byte_is_found(preface in preface(), at in 17..LENGTH, flip in 1u8..) {
            let mut bytes = preface.bytes();
            bytes[at] ^= flip;
            prop_assert_eq!(read(&bytes), Err(PrefaceFault::Checksum));
        }
    }

    #[test]
    fn a_field_out_of_range_is_refused() {
        let good = Preface { hops: 0, echo_bytes: 0, nonce: [7; 16] };
        for bad in [Preface { hops: MAX_HOPS + 1, ..good }, Preface { echo_bytes: MAX_ECHO_BYTES + 1, ..good }] {
            assert_eq!(read(&bad.bytes()), Err(PrefaceFault::Range));
        }
        let mut later = good.bytes();
        later[16] = 2;
        assert_eq!(read(&later[..17]), Err(PrefaceFault::Version(2)), "without the rest");
    }
}
