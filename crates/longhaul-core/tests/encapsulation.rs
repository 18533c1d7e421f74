//! The sizes of packets inside encapsulations, against packets that are built byte by byte as the documents of each encapsulation say.
//!
//! `max_inner` and `outer_bytes` are arithmetic on a table of parts. The packers below know neither the table nor that arithmetic:
//! they append headers, padding and trailers, and the length of the result counts.

use longhaul_core::advice::{ENCAPSULATIONS, Encapsulation};
use longhaul_core::path::laws::packet::{MIN_MTU, mss};
use std::ops::RangeInclusive;

/// From the smallest MTU to that of jumbo frames.
const MTUS: RangeInclusive<u32> = MIN_MTU..=9000;

#[test]
fn the_largest_packet_fits_and_one_byte_more_does_not() {
    for encapsulation in ENCAPSULATIONS {
        for mtu in MTUS {
            let inner = max_inner(encapsulation, mtu);
            let [fits, next] = [inner, inner + 1].map(|bytes| pack(encapsulation.name, &ip_packet(bytes)).len());
            assert!(fits <= mtu as usize, "{}, MTU {mtu}: {inner} bytes make {fits}", encapsulation.name);
            assert!(next > mtu as usize, "{}, MTU {mtu}: {inner} bytes and one more make {next}", encapsulation.name);
        }
    }
}

#[test]
fn a_packet_is_as_long_as_its_bytes() {
    for encapsulation in ENCAPSULATIONS {
        for inner in 20..=9000 {
            let packed = pack(encapsulation.name, &ip_packet(inner)).len();
            assert_eq!(
                encapsulation.overhead.outer_bytes(inner) as usize,
                packed,
                "{}, {inner} bytes",
                encapsulation.name
            );
        }
    }
}

/// The limits of Azure's and Skytap's VPN: fragments of the outer packet at 1350, a tunnel MTU of 1400.
#[test]
fn the_mss_of_ipsec_is_as_published() {
    for (name, mtu, expected) in
        [("esp-gcm", 1350, 1254), ("esp-cbc", 1350, 1238), ("esp-gcm", 1400, 1306), ("esp-cbc", 1400, 1302)]
    {
        let encapsulation = Encapsulation::named(name).expect("a row");
        assert_eq!(mss(max_inner(encapsulation, mtu)), expected, "{name} at {mtu}");
    }
}

#[test]
fn nothing_fits_into_the_headers_alone() {
    for encapsulation in ENCAPSULATIONS {
        let smallest = pack(encapsulation.name, &[0]).len() as u32;
        assert_eq!(encapsulation.overhead.max_inner(smallest - 1), None, "{}", encapsulation.name);
        assert!(encapsulation.overhead.max_inner(smallest).is_some(), "{}", encapsulation.name);
    }
}

fn max_inner(encapsulation: &Encapsulation, mtu: u32) -> u32 {
    encapsulation
        .overhead
        .max_inner(mtu)
        .unwrap_or_else(|| panic!("{}: nothing fits into {mtu} bytes", encapsulation.name))
}

/// Returns the outer IP packet that carries the IP packet `inner` inside the encapsulation called `name`.
fn pack(name: &str, inner: &[u8]) -> Vec<u8> {
    match name {
        // RFC 4106 3.1 and 6: the IV has 8 bytes, the ICV 16. RFC 4303 2.4: the padded part ends at a multiple of 4 bytes.
        "esp-gcm" => ipv4(ESP, &esp(inner, Cipher { iv: 8, block: 4, icv: 16 })),
        // RFC 3602 2.1 and 2.4: IV and block have 16 bytes. RFC 2404: HMAC-SHA-1-96 has 96 bits.
        "esp-cbc" => ipv4(ESP, &esp(inner, Cipher { iv: 16, block: 16, icv: 12 })),
        "gre" => ipv4(GRE, &gre(inner)),
        "vxlan" => ipv4(UDP, &udp(4789, &vxlan(inner))),
        "wireguard" => ipv4(UDP, &udp(51820, &wireguard(inner))),
        // The guide says 50 bytes, and not which.
        "expressroute" => [&[0; 50], inner].concat(),
        unknown => panic!("write a packer for {unknown}"),
    }
}

/// RFC 791 3.1: a header of 20 bytes without options.
fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend_from_slice(&(20 + payload.len() as u16).to_be_bytes());
    packet.extend_from_slice(&[0, 0, 0x40, 0]); // identification; DF
    packet.extend_from_slice(&[64, protocol, 0, 0]); // TTL, protocol, checksum
    packet.extend_from_slice(&[192, 0, 2, 1]);
    packet.extend_from_slice(&[198, 51, 100, 1]);
    packet.extend_from_slice(payload);
    packet
}

/// RFC 768.
fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut datagram = Vec::new();
    datagram.extend_from_slice(&port.to_be_bytes());
    datagram.extend_from_slice(&port.to_be_bytes());
    datagram.extend_from_slice(&(8 + payload.len() as u16).to_be_bytes());
    datagram.extend_from_slice(&[0; 2]); // checksum
    datagram.extend_from_slice(payload);
    datagram
}

/// The lengths that an algorithm of ESP brings, in bytes.
struct Cipher {
    iv: usize,
    block: usize,
    icv: usize,
}

/// RFC 4303 2, in tunnel mode: SPI, sequence number, IV, the inner packet, padding, pad length, next header, ICV.
fn esp(inner: &[u8], cipher: Cipher) -> Vec<u8> {
    let mut encrypted = inner.to_vec();
    let mut padding = 0;
    // 2.4: pad length and next header end at a multiple of the block.
    while (encrypted.len() + 2) % cipher.block != 0 {
        padding += 1;
        encrypted.push(padding); // 2.4: 1, 2, 3, ..
    }
    encrypted.push(padding);
    encrypted.push(4); // IPv4
    let mut payload = vec![0, 0, 0x10, 1]; // SPI
    payload.extend_from_slice(&[0, 0, 0, 1]); // sequence number
    payload.resize(payload.len() + cipher.iv, 0xaa);
    payload.extend_from_slice(&encrypted);
    payload.resize(payload.len() + cipher.icv, 0xcc);
    payload
}

/// RFC 2784 2: without checksum.
fn gre(inner: &[u8]) -> Vec<u8> {
    let mut payload = vec![0, 0]; // flags and version
    payload.extend_from_slice(&[0x08, 0x00]); // protocol type: IPv4
    payload.extend_from_slice(inner);
    payload
}

/// RFC 7348 5: the VXLAN header, and an inner Ethernet frame without its FCS.
fn vxlan(inner: &[u8]) -> Vec<u8> {
    let mut payload = vec![0x08, 0, 0, 0]; // the flag I
    payload.extend_from_slice(&[0, 0, 42, 0]); // VNI
    payload.extend_from_slice(&[2, 0, 0, 0, 0, 1]);
    payload.extend_from_slice(&[2, 0, 0, 0, 0, 2]);
    payload.extend_from_slice(&[0x08, 0x00]);
    payload.extend_from_slice(inner);
    payload
}

/// The protocol's page, "Subsequent Messages: Exchange of Data Packets": the packet is padded with zeros to a multiple of 16 bytes.
fn wireguard(inner: &[u8]) -> Vec<u8> {
    let mut plain = inner.to_vec();
    while plain.len() % 16 != 0 {
        plain.push(0);
    }
    let mut payload = vec![4, 0, 0, 0]; // type, reserved
    payload.extend_from_slice(&[0, 0, 0, 7]); // receiver
    payload.extend_from_slice(&1u64.to_le_bytes()); // counter
    payload.extend_from_slice(&plain);
    payload.extend_from_slice(&[0xcc; 16]); // Poly1305
    payload
}

/// Returns an IPv4 packet of `bytes` bytes, at least 20.
fn ip_packet(bytes: u32) -> Vec<u8> {
    ipv4(TCP, &vec![0x55; bytes as usize - 20])
}

// IANA's protocol numbers.
const TCP: u8 = 6;
const UDP: u8 = 17;
const GRE: u8 = 47;
const ESP: u8 = 50;
