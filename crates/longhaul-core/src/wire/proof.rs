//! The proof that a prober has the shared key: HMAC-SHA256 (RFC 2104, FIPS 180-4) over a challenge of the relay.
//!
//! The message of the HMAC, 70 bytes:
//!
//! | offset | size | meaning |
//! | ---: | ---: | --- |
//! | 0 | 17 | `longhaul probe 1` and a byte 0 |
//! | 17 | 16 | nonce of the preface |
//! | 33 | 1 | hops to go in the preface that the relay got |
//! | 34 | 4 | number of bytes to echo, big-endian |
//! | 38 | 32 | the challenge |
//!
//! That of a measuring session, 67 bytes: `longhaul measure 1` and a byte 0, the nonce of the session, and the challenge.
//!
//! The challenge is random and good for one connection, so no proof can be used twice. The message has every field of the
//! preface, so nobody can change one on the way.

use crate::wire::probe::{Nonce, Preface};
use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use std::fmt;

/// The bytes of a proof.
pub type Mac = [u8; 32];

/// The shared key.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(Vec<u8>);

/// The question for a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// The nonce of the preface.
    pub nonce: Nonce,
    /// Hops to go in the preface that the relay got.
    pub hops: u8,
    /// Random bytes of the relay.
    pub random: [u8; 32],
}

/// Least length of a key in bytes.
pub const MIN_KEY_BYTES: usize = 16;

impl Key {
    /// Returns the key with these bytes. Returns `None` if it is shorter than [`MIN_KEY_BYTES`].
    pub fn new(bytes: &[u8]) -> Option<Key> {
        (bytes.len() >= MIN_KEY_BYTES).then(|| Key(bytes.into()))
    }

    /// Returns the proof for `challenge`, which came to a probe with `echo_bytes`.
    pub fn prove(&self, challenge: &Challenge, echo_bytes: u32) -> Mac {
        self.mac(challenge, echo_bytes).finalize().into_bytes().into()
    }

    /// Whether `mac` is the proof for `challenge`, which was sent to the prober with `preface`. Takes the same time for every
    /// wrong proof.
    pub fn proves(&self, mac: &Mac, challenge: &Challenge, preface: &Preface) -> bool {
        let is_about_it = (challenge.nonce, challenge.hops) == (preface.nonce, preface.hops);
        is_about_it && self.mac(challenge, preface.echo_bytes).verify_slice(mac).is_ok()
    }

    /// Returns the proof for the challenge `random` of the measuring session `nonce`.
    pub fn prove_session(&self, nonce: &Nonce, random: &[u8; 32]) -> Mac {
        self.session_mac(nonce, random).finalize().into_bytes().into()
    }

    /// Whether `mac` is that proof. Takes the same time for every wrong one.
    pub fn proves_session(&self, mac: &Mac, nonce: &Nonce, random: &[u8; 32]) -> bool {
        self.session_mac(nonce, random).verify_slice(mac).is_ok()
    }

    fn session_mac(&self, nonce: &Nonce, random: &[u8; 32]) -> Hmac<Sha256> {
        let mut mac = self.keyed();
        mac.update(SESSION_LABEL);
        mac.update(nonce);
        mac.update(random);
        mac
    }

    fn mac(&self, challenge: &Challenge, echo_bytes: u32) -> Hmac<Sha256> {
        let mut mac = self.keyed();
        mac.update(LABEL);
        mac.update(&challenge.nonce);
        mac.update(&[challenge.hops]);
        mac.update(&echo_bytes.to_be_bytes());
        mac.update(&challenge.random);
        mac
    }

    fn keyed(&self) -> Hmac<Sha256> {
        // HMAC takes a key of any length.
        Hmac::<Sha256>::new_from_slice(&self.0).unwrap_or_else(|_| unreachable!("any length"))
    }
}

impl fmt::Debug for Key {
    /// Does not write the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// Tells this use of the key from others.
const LABEL: &[u8; 17] = b"longhaul probe 1\0";
const SESSION_LABEL: &[u8; 19] = b"longhaul measure 1\0";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn preface() -> Preface {
        Preface { hops: 1, echo_bytes: 1000, nonce: *b"0123456789abcdef" }
    }

    fn challenge() -> Challenge {
        Challenge { nonce: preface().nonce, hops: 1, random: [7; 32] }
    }

    /// By Python's hmac: `hmac.new(key, message, "sha256")`.
    #[test]
    fn a_proof_has_the_documented_bytes() {
        let mac = Key::new(b"a key of 16 byte").unwrap().prove(&challenge(), 1000);
        let hex: String = mac.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "33e1a11b8df31720afd3f19a88d12b52f62af843ec2ebacde55357cec7412a8d");
    }

    #[test]
    fn a_proof_for_a_session_has_the_documented_bytes_and_is_of_no_other() {
        let key = Key::new(b"a key of 16 byte").unwrap();
        let (nonce, random) = (*b"0123456789abcdef", [7; 32]);
        let mac = key.prove_session(&nonce, &random);
        let hex: String = mac.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "20a12200f9f21752e336891168c19a55c2fe13565d5896875f287b576005a90f");
        assert!(key.proves_session(&mac, &nonce, &random));
        assert!(!key.proves_session(&mac, &[0; 16], &random) && !key.proves_session(&mac, &nonce, &[8; 32]));
        assert!(!Key::new(b"A key of 16 byte").unwrap().proves_session(&mac, &nonce, &random));
        assert!(!key.proves_session(&key.prove(&challenge(), 1000), &nonce, &random), "that of a probe");
    }

    #[test]
    fn a_short_key_is_none_and_a_key_is_not_shown() {
        assert_eq!(Key::new(&[1; 15]), None);
        assert_eq!(format!("{:?}", Key::new(&[1; 16]).unwrap()), "Key(..)");
    }

    proptest! {
        #[test]
        fn only_the_key_and_the_same_fields_prove(
            key in proptest::collection::vec(any::<u8>(), 16..100),
            at in 0..32usize,
            flip in 1u8..,
        ) {
            let key_bytes = key;
            let key = Key::new(&key_bytes).unwrap();
            let (mac, good) = (key.prove(&challenge(), 1000), preface());
            prop_assert!(key.proves(&mac, &challenge(), &good));
            let mut other = key_bytes.clone();
            other[at % key_bytes.len()] ^= flip;
            prop_assert!(!Key::new(&other).unwrap().proves(&mac, &challenge(), &good), "another key");
            let mut changed = mac;
            changed[at] ^= flip;
            prop_assert!(!key.proves(&changed, &challenge(), &good), "another proof");
            let mut random = [7; 32];
            random[at] ^= flip;
            prop_assert!(!key.proves(&mac, &Challenge { random, ..challenge() }, &good), "another challenge");
            for preface in [
                Preface { hops: 0, ..good },
                Preface { echo_bytes: 1001, ..good },
                Preface { nonce: [0; 16], ..good },
            ] {
                prop_assert!(!key.proves(&mac, &challenge(), &preface), "another preface");
                let challenge = Challenge { nonce: preface.nonce, hops: preface.hops, ..challenge() };
                prop_assert!(!key.proves(&mac, &challenge, &preface), "the proof of another preface");
            }
        }
    }
}
