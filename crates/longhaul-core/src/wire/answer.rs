//! The frames that relays send back to the prober, and the machine that finds them in a stream of bytes.
//!
//! Each relay of the path sends one report. After the report of the last relay, the prober sends its bytes. The last relay
//! echoes them and sends a receipt:
//!
//! ```text
//! prober ── preface, 1 hop to go ──> near relay ── preface, 0 hops to go ──> far relay
//!        <── report: passed on ─────            <── report: echoes ────────
//!        ── bytes ────────────────────────────────────────────────────────>
//!        <── the same bytes, receipt ──────────────────────────────────────
//! ```
//! Bytes of the server, such as a banner, may come before the first frame. The prober discards them.
//!
//! Every number is big-endian. A frame begins and ends like this:
//!
//! | offset | size | meaning |
//! | ---: | ---: | --- |
//! | 0 | 16 | [`MAGIC`] |
//! | 16 | 1 | version, 1 |
//! | 17 | 1 | kind: 1 is a report, 2 a receipt, 3 a challenge, 4 a proof |
//! | 18 | 2 | length of the frame in bytes, at most [`MAX_FRAME_BYTES`] |
//! | 20 | 16 | nonce of the preface |
//! | length - 4 | 4 | CRC-32C of the bytes before it |
//!
//! A report:
//!
//! | offset | size | meaning |
//! | ---: | ---: | --- |
//! | 36 | 1 | hops to go in the preface that this relay got |
//! | 37 | 1 | dial: 0 connected, 1 refused, 2 no answer, 3 failed otherwise, 4 not dialled, 5 no answer from the port of a host that answers |
//! | 38 | 1 | what follows: 0 echo, 1 passed on; nothing after 2 dial failed, 3 too many probes, 4 may not be passed on, 5 no proof of the key |
//! | 39 | 1 | 0 |
//! | 40 | 8 | clock of the relay, in µs since 1970-01-01 UTC |
//! | 48 | 4 | time that the dial took, in µs |
//! | 52 | 4 | round-trip time of the dial leg in µs, 0 if unknown |
//! | 56 | 4 | number of bytes that the relay will echo |
//! | 60 | .. | four texts, each one byte of length and then UTF-8: host name, version, next hop, and the reason of a failure or our end of the connection to the next hop |
//!
//! A receipt:
//!
//! | offset | size | meaning |
//! | ---: | ---: | --- |
//! | 36 | 4 | number of bytes that were echoed |
//! | 40 | 4 | CRC-32C of the bytes as they arrived |
//! | 44 | 4 | time from the first byte to the last, in µs |
//!
//! A challenge, from a relay that wants a proof of the shared key ([`proof`](super::proof)):
//!
//! | offset | size | meaning |
//! | ---: | ---: | --- |
//! | 36 | 1 | hops to go in the preface that this relay got |
//! | 37 | 3 | 0 |
//! | 40 | 32 | random bytes |
//!
//! A proof, the only frame that the prober sends:
//!
//! | offset | size | meaning |
//! | ---: | ---: | --- |
//! | 36 | 32 | HMAC-SHA256 |

use crate::text::printable;
use crate::wire::probe::{Nonce, VERSION};
use crate::wire::proof::{Challenge, Mac};

/// The first bytes of a frame. 0xFD is nowhere else in it.
pub const MAGIC: [u8; 16] = *b"\xfdlonghaul\r\n\x1a\0v!\xfe";

/// Maximum length of a frame in bytes.
pub const MAX_FRAME_BYTES: usize = 512;

/// Length of a proof in bytes.
pub const PROOF_BYTES: usize = 72;

/// Maximum length of each text of a report in bytes. Longer ones are cut, and end in `..` then.
pub const MAX_TEXT_BYTES: usize = 100;

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// The report of one relay.
    Report(Report),
    /// The receipt for the echoed bytes.
    Receipt(Receipt),
    /// The question for a proof of the shared key.
    Challenge(Challenge),
    /// The proof.
    Proof(Proof),
}

/// Result of a relay's dial, with its number in a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dial {
    /// The next hop or the final host answered.
    Connected = 0,
    /// It answered with RST.
    Refused = 1,
    /// It did not answer in time.
    NoAnswer = 2,
    /// Another error, such as a name that cannot be resolved.
    Failed = 3,
    /// It was not dialled (`verify_final = false`).
    NotDialled = 4,
    /// Its port did not answer in time, and its host answered otherwise.
    PortSilent = 5,
}

/// Next step of a relay after its report, with its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Echoes the bytes that come.
    Echo = 0,
    /// Has passed the preface on.
    PassedOn = 1,
    /// Ends the connection: its dial failed.
    DialFailed = 2,
    /// Ends the connection: it answers no more probes at the moment.
    Busy = 3,
    /// Ends the connection: it does not pass this probe on (`verify_hops`).
    NotPassedOn = 4,
    /// Ends the connection: the prober has not proved the shared key.
    Unproven = 5,
}

/// The report of one relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The nonce of the preface.
    pub nonce: Nonce,
    /// Hops to go in the preface that the relay got.
    pub hops: u8,
    /// Result of its dial.
    pub dial: Dial,
    /// Its next step.
    pub next: Next,
    /// Its clock, in µs since 1970-01-01 UTC.
    pub clock_us: u64,
    /// Time that the dial took, in µs. At most 71 minutes.
    pub dial_us: u32,
    /// Round-trip time of the dial leg in µs, 0 if unknown.
    pub rtt_us: u32,
    /// Number of bytes that it will echo.
    pub echo_bytes: u32,
    /// Its host name.
    pub name: String,
    /// Its version, such as `0.1.0`.
    pub version: String,
    /// The address that it dialled; empty if none answered.
    pub next_hop: String,
    /// Why the dial failed. If it did not, the address of the relay's own end of that connection, by which the prober finds it if it
    /// comes back. Empty if nothing was dialled, and from older relays.
    pub why: String,
}

/// The receipt for the echoed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The nonce of the preface.
    pub nonce: Nonce,
    /// Number of bytes that were echoed.
    pub bytes: u32,
    /// CRC-32C of the bytes as they arrived at the relay.
    pub checksum: u32,
    /// Time from the first byte to the last, in µs.
    pub time_us: u32,
}

/// The proof of the shared key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The nonce of the preface.
    pub nonce: Nonce,
    /// Depends on the key and on the challenge.
    pub mac: Mac,
}

/// Why a frame cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is of another version.
    Version(u8),
    /// Its checksum is wrong.
    Checksum,
    /// Its length does not fit its kind, or a field has no meaning.
    Form,
}

impl Frame {
    /// Returns the frame as it is sent.
    pub fn bytes(&self) -> Vec<u8> {
        let (kind, nonce) = match self {
            Frame::Report(report) => (REPORT, &report.nonce),
            Frame::Receipt(receipt) => (RECEIPT, &receipt.nonce),
            Frame::Challenge(challenge) => (CHALLENGE, &challenge.nonce),
            Frame::Proof(proof) => (PROOF, &proof.nonce),
        };
        let mut bytes = Vec::with_capacity(MAX_FRAME_BYTES);
        bytes.extend(MAGIC);
        bytes.extend([VERSION, kind, 0, 0]);
        bytes.extend(nonce);
        match self {
            Frame::Report(report) => report.write(&mut bytes),
            Frame::Receipt(Receipt { bytes: echoed, checksum, time_us, .. }) => {
                [echoed, checksum, time_us].into_iter().for_each(|word| bytes.extend(word.to_be_bytes()));
            }
            Frame::Challenge(Challenge { hops, random, .. }) => {
                bytes.extend([*hops, 0, 0, 0]);
                bytes.extend(random);
            }
            Frame::Proof(Proof { mac, .. }) => bytes.extend(mac),
        }
        // At most 60 + 4 * 101 + 4 bytes, so it fits.
        let length = u16::try_from(bytes.len() + 4).unwrap_or(u16::MAX);
        bytes[18..20].copy_from_slice(&length.to_be_bytes());
        let checksum = crc32c::crc32c(&bytes);
        bytes.extend(checksum.to_be_bytes());
        bytes
    }

    /// Parses a whole frame, whose length is right.
    fn parse(bytes: &[u8]) -> Result<Frame, Fault> {
        let (body, checksum) = bytes.split_last_chunk().ok_or(Fault::Form)?;
        if u32::from_be_bytes(*checksum) != crc32c::crc32c(body) {
            return Err(Fault::Checksum);
        }
        let mut fields = Fields(body.get(20..).ok_or(Fault::Form)?);
        let nonce = fields.take()?;
        let frame = match body[17] {
            REPORT => Frame::Report(Report::read(nonce, &mut fields)?),
            RECEIPT => {
                let mut word = || fields.take().map(u32::from_be_bytes);
                Frame::Receipt(Receipt { nonce, bytes: word()?, checksum: word()?, time_us: word()? })
            }
            CHALLENGE => {
                let [hops, 0, 0, 0] = fields.take()? else { return Err(Fault::Form) };
                Frame::Challenge(Challenge { nonce, hops, random: fields.take()? })
            }
            PROOF => Frame::Proof(Proof { nonce, mac: fields.take()? }),
            _ => return Err(Fault::Form),
        };
        if fields.0.is_empty() { Ok(frame) } else { Err(Fault::Form) }
    }
}

impl Report {
    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend([self.hops, self.dial as u8, self.next as u8, 0]);
        bytes.extend(self.clock_us.to_be_bytes());
        [self.dial_us, self.rtt_us, self.echo_bytes].into_iter().for_each(|word| bytes.extend(word.to_be_bytes()));
        for text in [&self.name, &self.version, &self.next_hop, &self.why] {
            let text = shortened(text);
            bytes.push(text.len() as u8);
            bytes.extend(text.as_bytes());
        }
    }

    fn read(nonce: Nonce, fields: &mut Fields<'_>) -> Result<Report, Fault> {
        let [hops, dial, next, 0] = fields.take()? else { return Err(Fault::Form) };
        Ok(Report {
            nonce,
            hops,
            dial: *DIALS.iter().find(|known| **known as u8 == dial).ok_or(Fault::Form)?,
            next: *NEXTS.iter().find(|known| **known as u8 == next).ok_or(Fault::Form)?,
            clock_us: u64::from_be_bytes(fields.take()?),
            dial_us: u32::from_be_bytes(fields.take()?),
            rtt_us: u32::from_be_bytes(fields.take()?),
            echo_bytes: u32::from_be_bytes(fields.take()?),
            name: fields.text()?,
            version: fields.text()?,
            next_hop: fields.text()?,
            why: fields.text()?,
        })
    }
}

/// The bytes of a frame that are still to be read.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let (field, rest) = self.0.split_first_chunk().ok_or(Fault::Form)?;
        self.0 = rest;
        Ok(*field)
    }

    fn text(&mut self) -> Result<String, Fault> {
        let [length] = self.take()?;
        let (text, rest) = self.0.split_at_checked(length.into()).ok_or(Fault::Form)?;
        self.0 = rest;
        if text.len() > MAX_TEXT_BYTES {
            return Err(Fault::Form);
        }
        // The text is foreign, and reaches terminals and logs.
        std::str::from_utf8(text).map(|text| printable(text).collect()).map_err(|_| Fault::Form)
    }
}

/// Returns `text` as it can be [printed](printable). If it is longer than [`MAX_TEXT_BYTES`], it is cut, without a part of a
/// character, and ends in [`CUT`].
fn shortened(text: &str) -> String {
    let plain: String = printable(text).collect();
    if plain.len() <= MAX_TEXT_BYTES {
        return plain;
    }
    let end = (0..=MAX_TEXT_BYTES - CUT.len()).rev().find(|end| plain.is_char_boundary(*end));
    format!("{}{CUT}", plain[..end.unwrap_or(0)].trim_end())
}

/// Finds the frames in a stream. The bytes may come in pieces of any size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    /// The frame that has begun: a part of the magic, or the magic and what follows it.
    begun: Vec<u8>,
}

impl Frames {
    /// Takes one byte. Returns the frame that the byte completes, if it does. Bytes outside of frames are discarded.
    ///
    /// # Errors
    /// A frame has begun that cannot be used. The stream is of no use after that.
    pub fn take(&mut self, byte: u8) -> Result<Option<Frame>, Fault> {
        self.begun.push(byte);
        let known = self.begun.len();
        if known <= MAGIC.len() {
            if self.begun[known - 1] != MAGIC[known - 1] {
                self.begun.clear();
                // The first byte of the magic is nowhere else in it, so only this byte can begin another one.
                self.begun.extend((byte == MAGIC[0]).then_some(byte));
            }
            return Ok(None);
        }
        if self.begun[16] != VERSION {
            return Err(Fault::Version(self.begun[16]));
        }
        if known < 20 {
            return Ok(None);
        }
        let length = usize::from(u16::from_be_bytes([self.begun[18], self.begun[19]]));
        if !(MIN_FRAME_BYTES..=MAX_FRAME_BYTES).contains(&length) {
            return Err(Fault::Form);
        }
        if known < length {
            return Ok(None);
        }
        Frame::parse(&std::mem::take(&mut self.begun)).map(Some)
    }
}

/// All dial results.
const DIALS: [Dial; 6] =
    [Dial::Connected, Dial::Refused, Dial::NoAnswer, Dial::Failed, Dial::NotDialled, Dial::PortSilent];

/// All next steps.
const NEXTS: [Next; 6] = [Next::Echo, Next::PassedOn, Next::DialFailed, Next::Busy, Next::NotPassedOn, Next::Unproven];

const REPORT: u8 = 1;
const RECEIPT: u8 = 2;
const CHALLENGE: u8 = 3;
const PROOF: u8 = 4;

/// End of a text that was cut.
const CUT: &str = " ..";

/// Length of a frame without a body.
const MIN_FRAME_BYTES: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn report() -> impl Strategy<Value = Report> {
        let text = "[a-zA-Z0-9 .:ä-]{0,40}";
        let fixed = (any::<Nonce>(), any::<u8>(), 0..DIALS.len(), 0..NEXTS.len(), any::<u64>(), any::<[u32; 3]>());
        (fixed, text, text, text, text).prop_map(|(fixed, name, version, next_hop, why)| {
            let (nonce, hops, dial, next, clock_us, [dial_us, rtt_us, echo_bytes]) = fixed;
            let (dial, next) = (DIALS[dial], NEXTS[next]);
            Report { nonce, hops, dial, next, clock_us, dial_us, rtt_us, echo_bytes, name, version, next_hop, why }
        })
    }

    fn frame() -> impl Strategy<Value = Frame> {
        let receipt = (any::<Nonce>(), any::<[u32; 3]>()).prop_map(|(nonce, [bytes, checksum, time_us])| Receipt {
            nonce,
            bytes,
            checksum,
            time_us,
        });
        let challenge = (any::<Nonce>(), any::<u8>(), any::<[u8; 32]>()).prop_map(|(nonce, hops, random)| Challenge {
            nonce,
            hops,
            random,
        });
        let proof = (any::<Nonce>(), any::<Mac>()).prop_map(|(nonce, mac)| Proof { nonce, mac });
        prop_oneof![
            report().prop_map(Frame::Report),
            receipt.prop_map(Frame::Receipt),
            challenge.prop_map(Frame::Challenge),
            proof.prop_map(Frame::Proof),
        ]
    }

    fn found(stream: &[u8]) -> Result<Vec<Frame>, Fault> {
        let mut frames = Frames::default();
        let mut found = Vec::new();
        for byte in stream {
            found.extend(frames.take(*byte)?);
        }
        Ok(found)
    }

    proptest! {
        /// A banner has no complete magic, but may have parts of it.
        #[test]
        fn frames_are_found_behind_and_between_banners(
            pieces in proptest::collection::vec((proptest::collection::vec(any::<u8>(), 0..30), 0..16usize, frame()), 1..4),
        ) {
            let mut stream = Vec::new();
            for (banner, part, frame) in &pieces {
                stream.extend(banner);
                stream.extend(&MAGIC[..*part]);
                stream.extend(frame.bytes());
            }
            let frames: Vec<_> = pieces.into_iter().map(|(_, _, frame)| frame).collect();
            prop_assert_eq!(found(&stream), Ok(frames));
        }

        #[test]
        fn nothing_panics_and_memory_is_bounded(bytes in proptest::collection::vec(any::<u8>(), 0..2000), at in 0..2000usize) {
            let mut stream = bytes;
            let at = at.min(stream.len());
            stream.splice(at..at, MAGIC);
            let mut frames = Frames::default();
            for byte in stream {
                if frames.take(byte).is_err() {
                    break;
                }
                prop_assert!(frames.begun.len() <= MAX_FRAME_BYTES);
            }
        }

        #[test]
        fn one_changed_byte_is_found(frame in frame(), at in 0usize..1000, flip in 1u8..) {
            let mut bytes = frame.bytes();
            let at = at % bytes.len();
            bytes[at] ^= flip;
            // In the magic it hides the frame. A larger length waits for more.
            let found = found(&bytes);
            prop_assert!(found.as_ref().map_or(true, Vec::is_empty), "{:?}", found);
        }
    }

    /// The bytes are from the tables of docs/protocol.md.
    #[test]
    fn a_report_has_the_bytes_of_the_protocol() {
        let report = Report {
            nonce: *b"0123456789abcdef",
            hops: 3,
            dial: Dial::PortSilent,
            next: Next::DialFailed,
            clock_us: 0x0102_0304_0506_0708,
            dial_us: 0x1112_1314,
            rtt_us: 0x2122_2324,
            echo_bytes: 0x3132_3334,
            name: "far".into(),
            version: "0.1.0".into(),
            next_hop: String::new(),
            why: "no answer".into(),
        };
        let bytes = b"\xfdlonghaul\r\n\x1a\0v!\xfe\x01\x01\x00\x550123456789abcdef\
            \x03\x05\x02\x00\x01\x02\x03\x04\x05\x06\x07\x08\x11\x12\x13\x14\x21\x22\x23\x24\x31\x32\x33\x34\
            \x03far\x050.1.0\x00\x09no answer\
            \x61\x64\x46\x16";
        assert_eq!(Frame::Report(report.clone()).bytes(), bytes);
        assert_eq!(found(bytes), Ok(vec![Frame::Report(report.clone())]));
        let numbers = [
            (0, Dial::Connected, Next::Echo),
            (1, Dial::Refused, Next::PassedOn),
            (2, Dial::NoAnswer, Next::DialFailed),
            (3, Dial::Failed, Next::Busy),
            (4, Dial::NotDialled, Next::NotPassedOn),
            (5, Dial::PortSilent, Next::Unproven),
        ];
        for (number, dial, next) in numbers {
            let bytes = Frame::Report(Report { dial, next, ..report.clone() }).bytes();
            assert_eq!(bytes[37..39], [number; 2], "{dial:?}, {next:?}");
        }
    }

    #[test]
    fn a_proof_has_its_length() {
        let proof = Proof { nonce: [1; 16], mac: [2; 32] };
        assert_eq!(Frame::Proof(proof).bytes().len(), PROOF_BYTES);
    }

    #[test]
    fn a_long_text_is_cut_and_a_character_that_cannot_be_printed_is_replaced() {
        let long = Report {
            nonce: [1; 16],
            hops: 0,
            dial: Dial::Failed,
            next: Next::DialFailed,
            clock_us: 1,
            dial_us: 2,
            rtt_us: 3,
            echo_bytes: 4,
            name: "ä".repeat(80),
            version: "v".repeat(101),
            next_hop: "a\nb\u{1b}".into(),
            why: String::new(),
        };
        let bytes = Frame::Report(long).bytes();
        assert!(bytes.len() <= MAX_FRAME_BYTES);
        let Some(Frame::Report(read)) = found(&bytes).unwrap().pop() else { panic!("no report") };
        assert_eq!((read.name, read.version), ("ä".repeat(48) + " ..", "v".repeat(97) + " .."));
        assert_eq!((read.next_hop.as_str(), read.why.as_str()), ("a?b?", ""));
        // Another program may write such characters itself.
        let (mut foreign, checksum) = (bytes.clone(), bytes.len() - 4);
        let at = bytes.windows(4).position(|bytes| bytes == b"a?b?").unwrap();
        foreign[at..at + 4].copy_from_slice("\u{202e}\n".as_bytes());
        let new = crc32c::crc32c(&foreign[..checksum]);
        foreign[checksum..].copy_from_slice(&new.to_be_bytes());
        let Some(Frame::Report(read)) = found(&foreign).unwrap().pop() else { panic!("no report") };
        assert_eq!(read.next_hop, "??");
    }
}
