//! The preface of a measuring session: the first bytes of each of its connections. `longhaul path` sends it to a relay or to
//! `longhaul responder`.
//!
//! It has the magic of a [probe](super::probe), and the next version. So a relay that does not know it resets the connection, and
//! passes none of its bytes on.
//!
//! Every number is big-endian.
//!
//! | offset | size | meaning |
//! | ---: | ---: | --- |
//! | 0 | 16 | [`MAGIC`] |
//! | 16 | 1 | 2 |
//! | 17 | 1 | kind: 0 is the control connection, 1 a connection of a run |
//! | 18 | 2 | version of the session's messages, 1 |
//! | 20 | 4 | number of the run; 0 on the control connection |
//! | 24 | 16 | nonce of the session |
//! | 40 | 4 | 0 |
//! | 44 | 4 | CRC-32C of the bytes 0 to 43 |

use super::PrefaceFault;
use super::probe::{LENGTH, MAGIC, Nonce};

/// The byte behind the magic.
pub const VERSION: u8 = 2;

/// The version of the session's messages that this code writes and reads.
pub const MESSAGES: u16 = 1;

/// The beginning of what the answerer sends on the control connection. Bytes of a server may come before it.
pub const GREETING: [u8; 16] = *b"\xfdlonghaul\r\n\x1a\0m!\xfe";

/// The preface of one connection of a measuring session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preface {
    /// The version of the messages. The answerer refuses a later one than [`MESSAGES`], and says so.
    pub messages: u16,
    /// Number of the run that the connection is for. `None`: it is the control connection.
    pub run: Option<u32>,
    /// The nonce of the session. Only the measuring client and the answerer know it.
    pub nonce: Nonce,
}

impl Preface {
    /// Reads the preface in `bytes`.
    ///
    /// # Errors
    /// It cannot be used.
    pub fn parse(bytes: &[u8; LENGTH]) -> Result<Preface, PrefaceFault> {
        let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if bytes[16] != VERSION {
            return Err(PrefaceFault::Version(bytes[16]));
        }
        if word(44) != crc32c::crc32c(&bytes[..44]) {
            return Err(PrefaceFault::Checksum);
        }
        let mut nonce = Nonce::default();
        nonce.copy_from_slice(&bytes[24..40]);
        let run = match (bytes[17], word(20)) {
            (0, 0) => None,
            (1, run) => Some(run),
            _ => return Err(PrefaceFault::Range),
        };
        let messages = u16::from_be_bytes([bytes[18], bytes[19]]);
        match word(40) == 0 && messages > 0 {
            true => Ok(Preface { messages, run, nonce }),
            false => Err(PrefaceFault::Range),
        }
    }

    /// Returns the preface as it is sent.
    pub fn bytes(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..16].copy_from_slice(&MAGIC);
        bytes[16] = VERSION;
        bytes[17] = u8::from(self.run.is_some());
        bytes[18..20].copy_from_slice(&self.messages.to_be_bytes());
        bytes[20..24].copy_from_slice(&self.run.unwrap_or(0).to_be_bytes());
        bytes[24..40].copy_from_slice(&self.nonce);
        let checksum = crc32c::crc32c(&bytes[..44]);
        bytes[44..].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn preface() -> impl Strategy<Value = Preface> {
        (1..u16::MAX, any::<Option<u32>>(), any::<Nonce>()).prop_map(|(messages, run, nonce)| Preface {
            messages,
            run,
            nonce,
        })
    }

    proptest! {
        #[test]
        fn a_preface_is_read_as_it_was_written(preface in preface()) {
            prop_assert_eq!(Preface::parse(&preface.bytes()), Ok(preface));
        }

        #[test]
        fn one_changed_byte_is_found(preface in preface(), at in 17..LENGTH, flip in 1u8..) {
            let mut bytes = preface.bytes();
            bytes[at] ^= flip;
            prop_assert_eq!(Preface::parse(&bytes), Err(PrefaceFault::Checksum));
        }
    }

    #[test]
    fn a_field_out_of_range_is_refused() {
        let good = Preface { messages: MESSAGES, run: None, nonce: [7; 16] };
        assert_eq!(Preface::parse(&Preface { messages: 0, ..good }.bytes()), Err(PrefaceFault::Range));
        let with = |at: usize, byte| {
            let mut bytes = good.bytes();
            bytes[at] = byte;
            let checksum = crc32c::crc32c(&bytes[..44]);
            bytes[44..].copy_from_slice(&checksum.to_be_bytes());
            Preface::parse(&bytes)
        };
        assert_eq!(with(17, 2), Err(PrefaceFault::Range));
        assert_eq!(with(23, 1), Err(PrefaceFault::Range), "a run on the control connection");
        assert_eq!(with(43, 1), Err(PrefaceFault::Range));
        assert_eq!(with(16, 3), Err(PrefaceFault::Version(3)));
    }
}
