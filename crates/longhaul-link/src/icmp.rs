//! ICMP messages that tell a sender that its packet exceeds the MTU, as frames of a TUN device.
//!
//! ICMP "fragmentation needed and DF set" (RFC 792, RFC 1191 section 4) behind an IPv4 header of 20 bytes:
//!
//! | offset | size | meaning |
//! | --- | --- | --- |
//! | 0 | 1 | type: 3, destination unreachable |
//! | 1 | 1 | code: 4, fragmentation needed |
//! | 2 | 2 | checksum over the whole message |
//! | 4 | 2 | 0 |
//! | 6 | 2 | the MTU of the next line |
//! | 8 | | the packet that was too big, its first 548 bytes at most (RFC 1812, 4.3.2.3: 576 bytes in all) |
//!
//! ICMPv6 "packet too big" (RFC 4443 section 3.2) behind an IPv6 header of 40 bytes:
//!
//! | offset | size | meaning |
//! | --- | --- | --- |
//! | 0 | 1 | type: 2, packet too big |
//! | 1 | 1 | code: 0 |
//! | 2 | 2 | checksum over a pseudo-header (RFC 8200, 8.1) and the whole message |
//! | 4 | 4 | the MTU of the next line |
//! | 8 | | the packet that was too big, its first 1232 bytes at most (1280 bytes in all) |
//!
//! All numbers are big-endian. The source address is the destination of the packet that was too big: the emulated path
//! has no address of its own, and a sender that checks the source of packets (rp_filter) expects that address there.

use crate::segment::{HEAD_MAX, Shape, VNET, cut, fold, sum};

/// Length of the longest message in bytes, virtio-net header included.
pub const MESSAGE_MAX: usize = VNET + 1280;

/// Writes into `message` the ICMP error that tells the sender of `frame` about an MTU of `mtu` bytes. `shape` is the
/// frame's own. Returns the length of the message.
///
/// Returns 0 where an error is forbidden (RFC 1122 3.2.2, RFC 4443 2.4 e): the packet is itself an ICMP error or a later
/// fragment, or does not go from one host to one host.
pub fn too_big(frame: &[u8], shape: &Shape, mtu: u32, message: &mut [u8; MESSAGE_MAX]) -> usize {
    let mut first = [0; HEAD_MAX];
    // The message quotes a packet that the sender knows: the first segment of a super-packet.
    let (head, payload) = match shape.size {
        0 => (frame.get(VNET..).unwrap_or_default(), &[][..]),
        _ => {
            let cut = cut(frame, shape, 0, 1, &mut first);
            (&first[VNET..cut.head], frame.get(cut.payload).unwrap_or_default())
        }
    };
    message.fill(0);
    let body = &mut message[VNET..];
    let written = match head.first().map(|byte| byte >> 4) {
        Some(4) if may_be_told(head) => write_v4(head, payload, mtu, body),
        Some(6) if may_be_told_v6(head) => write_v6(head, payload, mtu, body),
        _ => return 0,
    };
    VNET + written
}

/// Returns whether the IPv4 packet goes from one host to one host and is neither a later fragment nor an ICMP error.
fn may_be_told(packet: &[u8]) -> bool {
    let header = usize::from(packet[0] & 15) * 4;
    if header < IPV4_HEADER || packet.len() < header + 8 {
        return false;
    }
    let offset = u16::from_be_bytes([packet[6], packet[7]]) & 0x1fff;
    // No host: 0.0.0.0/8, and multicast and broadcast from 224.0.0.0 on.
    let is_host = |address: &[u8]| (1..224).contains(&address[0]);
    // RFC 792: these are echo, timestamp and information messages; all others are errors and redirects.
    let is_error = packet[9] == ICMP && ![0, 8, 13, 14, 15, 16].contains(&packet[header]);
    offset == 0 && !is_error && is_host(&packet[12..16]) && is_host(&packet[16..20])
}

/// Returns whether the IPv6 packet goes from one host to one host and is no ICMPv6 error.
fn may_be_told_v6(packet: &[u8]) -> bool {
    if packet.len() < IPV6_HEADER + 8 {
        return false;
    }
    let is_host = |address: &[u8]| address[0] != 0xff && address.iter().any(|byte| *byte != 0);
    // RFC 4443, 2.1: errors have types below 128.
    let is_error = packet[6] == ICMPV6 && packet[IPV6_HEADER] < 128;
    !is_error && is_host(&packet[8..24]) && is_host(&packet[24..40])
}

fn write_v4(head: &[u8], payload: &[u8], mtu: u32, message: &mut [u8]) -> usize {
    let quoted = quote(head, payload, &mut message[IPV4_HEADER + 8..576]);
    let length = IPV4_HEADER + 8 + quoted;
    message[..4].copy_from_slice(&[0x45, 0, (length >> 8) as u8, length as u8]);
    // RFC 6864, 4.1: a packet with DF needs no identification.
    message[6..10].copy_from_slice(&[0x40, 0, 64, ICMP]);
    message[12..16].copy_from_slice(&head[16..20]);
    message[16..20].copy_from_slice(&head[12..16]);
    set_checksum(message, 10, 0..IPV4_HEADER, 0);
    let mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
    message[IPV4_HEADER..IPV4_HEADER + 2].copy_from_slice(&[3, 4]);
    message[IPV4_HEADER + 6..IPV4_HEADER + 8].copy_from_slice(&mtu.to_be_bytes());
    set_checksum(message, IPV4_HEADER + 2, IPV4_HEADER..length, 0);
    length
}

fn write_v6(head: &[u8], payload: &[u8], mtu: u32, message: &mut [u8]) -> usize {
    let quoted = quote(head, payload, &mut message[IPV6_HEADER + 8..1280]);
    let length = 8 + quoted;
    message[0] = 0x60;
    message[4..8].copy_from_slice(&[(length >> 8) as u8, length as u8, ICMPV6, 64]);
    message[8..24].copy_from_slice(&head[24..40]);
    message[24..40].copy_from_slice(&head[8..24]);
    message[IPV6_HEADER] = 2;
    message[IPV6_HEADER + 4..IPV6_HEADER + 8].copy_from_slice(&mtu.to_be_bytes());
    let pseudo = u32::from(sum(&message[8..40])) + length as u32 + u32::from(ICMPV6);
    set_checksum(message, IPV6_HEADER + 2, IPV6_HEADER..IPV6_HEADER + length, pseudo);
    IPV6_HEADER + length
}

/// Copies as much of the packet as fits into `room`; returns the number of bytes copied.
fn quote(head: &[u8], payload: &[u8], room: &mut [u8]) -> usize {
    let from_head = head.len().min(room.len());
    room[..from_head].copy_from_slice(&head[..from_head]);
    let from_payload = payload.len().min(room.len() - from_head);
    room[from_head..from_head + from_payload].copy_from_slice(&payload[..from_payload]);
    from_head + from_payload
}

/// Sets the checksum at `at` over the bytes of `range`, plus the sum `more`. The checksum field must be 0 before.
fn set_checksum(message: &mut [u8], at: usize, range: std::ops::Range<usize>, more: u32) {
    let checksum = !fold(u32::from(sum(&message[range])) + more);
    message[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
}

const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

#[cfg(test)]
mod tests {
    use super::super::segment::shape;
    use super::*;
    use proptest::prelude::*;

    /// A frame with a UDP datagram that fills `length` bytes of IP packet.
    fn udp(v6: bool, length: usize) -> Vec<u8> {
        let mut packet: Vec<u8> = (0..length).map(|byte| byte as u8).collect();
        if v6 {
            packet[..8].copy_from_slice(&[0x60, 0, 0, 0, 0, 0, 17, 64]);
            packet[8..40].copy_from_slice(&[[0xfd; 16], [0xfe; 16]].concat());
        } else {
            packet[..12].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0]);
            packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        }
        [vec![0; VNET], packet].concat()
    }

    /// Returns the message about `frame`; empty if none may be sent.
    fn message_for(frame: &[u8], mtu: u32) -> Vec<u8> {
        let mut message = [0xff; MESSAGE_MAX];
        let length = too_big(frame, &shape(frame).unwrap(), mtu, &mut message);
        message[..length].to_vec()
    }

    #[test]
    fn the_sender_of_an_ipv4_packet_is_told() {
        let frame = udp(false, 1500);
        let message = message_for(&frame, 1400);
        assert_eq!(message.len(), VNET + 576);
        assert_eq!(message[..VNET], [0; VNET]);
        let (ip, icmp) = message[VNET..].split_at(20);
        assert_eq!(ip[..10], [0x45, 0, 2, 64, 0, 0, 0x40, 0, 64, 1]);
        assert_eq!(ip[12..], [10, 0, 0, 2, 10, 0, 0, 1], "from the packet's destination to its source");
        assert_eq!((icmp[..2].to_vec(), icmp[4..8].to_vec()), (vec![3, 4], vec![0, 0, 0x05, 0x78]));
        assert_eq!((sum(ip), sum(icmp)), (0xffff, 0xffff), "checksums");
        assert_eq!(icmp[8..], frame[VNET..VNET + 548]);
    }

    #[test]
    fn the_sender_of_an_ipv6_packet_is_told() {
        let frame = udp(true, 1500);
        let message = message_for(&frame, 1400);
        assert_eq!(message.len(), VNET + 1280);
        let (ip, icmp) = message[VNET..].split_at(40);
        assert_eq!(ip[..8], [0x60, 0, 0, 0, 0x04, 0xd8, 58, 64]);
        assert_eq!(ip[8..], [[0xfe; 16], [0xfd; 16]].concat());
        assert_eq!((icmp[..2].to_vec(), icmp[4..8].to_vec()), (vec![2, 0], vec![0, 0, 0x05, 0x78]));
        let pseudo = fold(u32::from(sum(&ip[8..])) + icmp.len() as u32 + 58);
        assert_eq!(fold(u32::from(pseudo) + u32::from(sum(icmp))), 0xffff, "checksum");
        assert_eq!(icmp[8..], frame[VNET..VNET + 1232]);
    }

    #[test]
    fn the_message_quotes_the_first_segment_of_a_super_packet() {
        let mut frame = udp(false, 20 + 20 + 3000);
        frame[..10].copy_from_slice(
            &[&[1, 1, 0, 0][..], &1400u16.to_ne_bytes(), &20u16.to_ne_bytes(), &16u16.to_ne_bytes()].concat(),
        );
        frame[VNET + 9] = 6;
        frame[VNET + 20 + 12] = 0x50;
        let quoted = message_for(&frame, 1300)[VNET + 28..].to_vec();
        assert_eq!(quoted[2..4], 1440u16.to_be_bytes(), "length of the first segment");
        assert_eq!(quoted[20..28], frame[VNET + 20..VNET + 28], "ports and sequence number");
        assert_eq!(quoted[40..], frame[VNET + 40..VNET + 548]);
    }

    #[test]
    fn no_message_for_fragments_errors_and_group_addresses() {
        // Returns whether a packet with these bytes changed gets no message.
        let changed = |v6: bool, changes: &[(usize, u8)]| {
            let mut frame = udp(v6, 1500);
            changes.iter().for_each(|(at, byte)| frame[VNET + at] = *byte);
            message_for(&frame, 1400).is_empty()
        };
        assert!(changed(false, &[(7, 1)]), "a later fragment");
        assert!(changed(false, &[(9, 1), (20, 3)]), "an ICMP error");
        assert!(!changed(false, &[(9, 1), (20, 8)]), "a ping gets a message");
        assert!(changed(false, &[(12, 0)]) && changed(false, &[(16, 224)]), "an address of no host");
        assert!(changed(true, &[(6, 58), (40, 1)]) && !changed(true, &[(6, 58), (40, 128)]));
        assert!(changed(true, &[(24, 0xff)]) && changed(true, &[(8, 0xff)]));
        assert!(changed(false, &[(0, 0x15)]) && changed(false, &[(0, 0x42)]), "an invalid IP header");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(mut frame in prop::collection::vec(any::<u8>(), 0..1500), mtu: u32, v6: bool) {
            if let Some(version) = frame.get_mut(VNET) {
                *version = if v6 { 0x60 } else { 0x45 };
            }
            if let Ok(shape) = shape(&frame) {
                let length = too_big(&frame, &shape, mtu, &mut [0; MESSAGE_MAX]);
                prop_assert!(length <= MESSAGE_MAX && length <= VNET + 48 + frame.len());
            }
        }
    }
}
