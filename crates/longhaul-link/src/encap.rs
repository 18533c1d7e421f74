//! Encapsulation: what a tunnel adds to each segment on the wire. It takes nothing and drops nothing: the stages behind it
//! see longer packets.
//!
//! | bytes | of |
//! | --- | --- |
//! | outer | the outer IP header, and UDP where there is one |
//! | header | the tunnel's own header |
//! | iv | the initialization vector |
//! | the inner packet and trailer, padded to align | ESP's trailer is 2: pad length and next header (RFC 4303, 2) |
//! | icv | the integrity check value |

use crate::{Exit, Packet, Row, Stage, StageError, Traits, value};

pub(super) const ROW: Row = Row {
    key: "encap",
    help: "what a tunnel adds to each segment: `esp-gcm`, `esp-cbc` (with SHA1-96), `gre`, `vxlan`, `fixed 50`, or all of \
           it: `outer 20 header 8 iv 8 trailer 2 align 4 icv 16` (what is left out is 0)",
    sample: "esp-gcm",
    events: None,
    needs: None,
    traits: Traits { has_closed_form: true, adds_bytes: true, ..Traits::NONE },
    build: |value, _seed| {
        let tunnel = Tunnel::read(value)?;
        Ok((tunnel != Tunnel::default()).then(|| Box::new(tunnel) as Box<dyn Stage>))
    },
};

/// Bytes; the default adds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Tunnel {
    outer: u32,
    header: u32,
    iv: u32,
    trailer: u32,
    /// Inner packet and trailer are padded to a multiple of this; 0 and 1 pad nothing.
    align: u32,
    icv: u32,
}

impl Tunnel {
    fn read(text: &str) -> Result<Tunnel, StageError> {
        let name = text.trim();
        if let Some((_, tunnel)) = NAMED.iter().find(|(named, _)| *named == name) {
            return Ok(*tunnel);
        }
        let form = StageError::Form("outer 20 header 8 iv 8 trailer 2 align 4 icv 16");
        let words = ["outer", "header", "iv", "trailer", "align", "icv", "fixed"];
        let ("", found) = value::parts(name, words).ok_or(form)? else {
            return Err(StageError::Form("esp-gcm, esp-cbc, gre, vxlan, fixed 50"));
        };
        let mut numbers = [0; 7];
        for (number, text) in numbers.iter_mut().zip(found) {
            let bytes: u64 = text.map_or(Ok(0), str::parse).map_err(|_| form)?;
            *number = u32::try_from(bytes).ok().filter(|bytes| *bytes <= MAX_PART).ok_or(StageError::Overhead)?;
        }
        let [outer, header, iv, trailer, align, icv, fixed] = numbers;
        if found.iter().all(Option::is_none) || found[6].is_some() && found[..6].iter().any(Option::is_some) {
            return Err(form);
        }
        Ok(Tunnel { outer: outer + fixed, header, iv, trailer, align, icv })
    }

    /// Returns the bytes that it adds to a packet of `inner` bytes.
    fn adds(&self, inner: u32) -> u32 {
        let padded = (inner + self.trailer).next_multiple_of(self.align.max(1));
        self.outer + self.header + self.iv + (padded - inner) + self.icv
    }
}

impl Stage for Tunnel {
    fn pass(&mut self, packet: Packet, exit: &mut Exit) {
        let (full, last) = packet.by_length();
        match last.filter(|last| self.adds(last.segment_bytes()) != self.adds(full.segment_bytes())) {
            // The last, shorter segment is padded differently.
            Some(last) => {
                [full, last].into_iter().for_each(|part| exit.push(part.longer(self.adds(part.segment_bytes()))))
            }
            None => exit.push(packet.longer(self.adds(full.segment_bytes()))),
        }
    }
}

const NAMED: &[(&str, Tunnel)] = &[
    // RFC 4106: 8 bytes of IV, 16 of ICV; RFC 4303, 2.4: a multiple of 4.
    ("esp-gcm", Tunnel { outer: 20, header: 8, iv: 8, trailer: 2, align: 4, icv: 16 }),
    // RFC 3602: the blocks and IV of AES have 16 bytes; RFC 2404: 12 of ICV.
    ("esp-cbc", Tunnel { outer: 20, header: 8, iv: 16, trailer: 2, align: 16, icv: 12 }),
    // RFC 2784, without key and checksum.
    ("gre", Tunnel { outer: 20, header: 4, iv: 0, trailer: 0, align: 0, icv: 0 }),
    // RFC 7348: IP and UDP; VXLAN and the inner Ethernet header.
    ("vxlan", Tunnel { outer: 28, header: 22, iv: 0, trailer: 0, align: 0, icv: 0 }),
];

/// No part of a tunnel is longer than this.
pub(super) const MAX_PART: u32 = 4096;
