//! Frames of a TUN device with IFF_VNET_HDR: reads their headers and cuts runs of segments out of TCP super-packets.
//!
//! The frame begins with a virtio-net header, in the byte order of the machine (virtio 1.2, 5.1.6, legacy interface;
//! tun.c without TUNSETVNETLE):
//!
//! | offset | size | meaning |
//! | --- | --- | --- |
//! | 0 | 1 | flags: 1 = the checksum is partial, still to be completed |
//! | 1 | 1 | gso_type: 0 = none, 1 = TCP over IPv4, 4 = TCP over IPv6; 0x80 added: ECN, only the first segment keeps CWR |
//! | 2 | 2 | hdr_len: length of all headers, a hint |
//! | 4 | 2 | gso_size: payload bytes of each segment but the last |
//! | 6 | 2 | csum_start: where the transport header begins |
//! | 8 | 2 | csum_offset: where the checksum is, counted from csum_start |
//!
//! An IP packet follows. The bytes come from outside: reading and cutting them never panics, whatever they are.

use crate::packet::Packet;
use std::ops::Range;
use std::time::Duration;

/// Length of the virtio-net header.
pub const VNET: usize = 10;

/// Maximum length in bytes of the headers of a super-packet that can be cut, virtio-net header included: room for IPv6
/// extension headers and the longest TCP header.
pub const HEAD_MAX: usize = 256;

/// Layout of a frame, as far as the link needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// IP and transport headers in bytes; for a frame that offload will not cut, the whole packet.
    pub headers: usize,
    /// Payload bytes of each segment but the last; 0 for a frame that offload will not cut.
    pub size: usize,
    /// Payload bytes of all segments; 0 for a frame that offload will not cut.
    pub payload: usize,
    /// Whether a router must drop the packet rather than fragment it: IPv4 with DF, and always IPv6.
    pub dont_fragment: bool,
    /// Offset of the TCP header in the packet; 0 for a frame that offload will not cut.
    transport: usize,
}

/// Reason why a frame cannot be carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The frame is shorter than its own headers.
    Short,
    /// The frame asks for an offload that the lab never offers.
    Offload,
    /// The frame's headers contradict each other.
    Headers,
}

/// A run of segments cut out of a frame. The frame to send is the head followed by the payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Number of bytes used in the head.
    pub head: usize,
    /// Range of the payload in the frame that was cut.
    pub payload: Range<usize>,
}

/// Reads the headers of `frame`.
///
/// # Errors
/// [`Malformed`] if the frame holds no packet, or a super-packet whose headers contradict each other.
pub fn shape(frame: &[u8]) -> Result<Shape, Malformed> {
    let packet = frame.get(VNET..).filter(|packet| !packet.is_empty()).ok_or(Malformed::Short)?;
    let version = packet[0] >> 4;
    match (frame[GSO_TYPE] & !GSO_ECN, version) {
        (GSO_NONE, _) => {
            let dont_fragment = dont_fragment(packet);
            Ok(Shape { headers: packet.len(), size: 0, payload: 0, dont_fragment, transport: 0 })
        }
        (GSO_TCPV4, 4) => tcp_shape(frame, packet, IPV4_HEADER),
        (GSO_TCPV6, 6) => tcp_shape(frame, packet, IPV6_HEADER),
        (GSO_TCPV4 | GSO_TCPV6, _) => Err(Malformed::Headers),
        _ => Err(Malformed::Offload),
    }
}

/// Returns the TCP payload in bytes of the segments of `frame` that `packet` stands for; 0 if they are not TCP.
pub fn tcp_payload(frame: &[u8], packet: &Packet) -> u64 {
    match packet.size {
        0 => frame.get(VNET..).and_then(payload_of_one).unwrap_or_default() as u64,
        _ => u64::from(packet.payload),
    }
}

/// Cuts `segments` segments out of `frame`, from segment `first` on. Writes their virtio-net, IP and TCP headers into
/// `head` and returns the range of their payload. `shape` is the frame's own. The payload is short or empty if the frame
/// ends before.
///
/// The checksum stays partial, as it is in the frame: its field holds only the sum over the pseudo-header. In that sum
/// only the length changes (RFC 1624, equation 3, on the sum that is not yet complemented).
pub fn cut(frame: &[u8], shape: &Shape, first: u32, segments: u32, head: &mut [u8; HEAD_MAX]) -> Cut {
    let skipped = (first as usize).saturating_mul(shape.size).min(shape.payload);
    let length = (segments as usize).saturating_mul(shape.size).min(shape.payload - skipped);
    let start = (VNET + shape.headers + skipped).min(frame.len());
    let used = VNET + shape.headers;
    let cut = Cut { head: used, payload: start..(start + length).min(frame.len()) };
    head[..used].copy_from_slice(&frame[..used]);
    let is_last = skipped + length == shape.payload;
    let (vnet, packet) = head[..used].split_at_mut(VNET);
    if length <= shape.size {
        // One segment is no super-packet: nothing is left to cut. The checksum stays partial.
        vnet[GSO_TYPE] = GSO_NONE;
        vnet[GSO_SIZE].fill(0);
    }
    set_ip_length(packet, first, shape.headers + length);
    let tcp = &mut packet[shape.transport..];
    add_sequence(tcp, skipped);
    set_flags(tcp, first == 0, is_last);
    adjust_partial_checksum(tcp, shape.headers - shape.transport, shape.payload, length);
    cut
}

impl Shape {
    /// Returns the number of segments that offload will cut the packet into.
    pub fn segments(&self) -> u32 {
        if self.size == 0 { 1 } else { self.payload.div_ceil(self.size).max(1) as u32 }
    }

    /// Returns the whole packet as the link's stages see it: in the caller's buffer `slot`, arriving at `at`.
    pub fn packet(&self, slot: u32, at: Duration) -> Packet {
        let Shape { headers, size, payload, dont_fragment, .. } = *self;
        let (headers, size, payload) = (headers as u32, size as u32, payload as u32);
        Packet { slot, at, segments: self.segments(), headers, size, payload, dont_fragment, ..Packet::default() }
    }
}

/// Returns the shape of a TCP super-packet whose IP header has at least `min` bytes.
fn tcp_shape(frame: &[u8], packet: &[u8], min: usize) -> Result<Shape, Malformed> {
    let transport = usize::from(native(frame, CSUM_START));
    let size = usize::from(native(frame, GSO_SIZE));
    let offset = packet.get(transport + TCP_OFFSET).ok_or(Malformed::Short)?;
    let headers = transport + usize::from(offset >> 4) * 4;
    let ip_header = if min == IPV4_HEADER { usize::from(packet[0] & 15) * 4 } else { min };
    let checksum_is_tcps = frame[0] & NEEDS_CSUM != 0 && usize::from(native(frame, CSUM_OFFSET)) == TCP_CHECKSUM.start;
    if size == 0 || ip_header < min || transport < ip_header || headers < transport + TCP_HEADER || !checksum_is_tcps {
        return Err(Malformed::Headers);
    }
    if VNET + headers > HEAD_MAX || packet.len() <= headers {
        return Err(Malformed::Short);
    }
    Ok(Shape { headers, size, payload: packet.len() - headers, dont_fragment: dont_fragment(packet), transport })
}

/// Returns the payload bytes of the TCP segment in an IP packet; `None` for any other packet. A packet with IPv6
/// extension headers and a fragment other than the first also count as other packets.
fn payload_of_one(packet: &[u8]) -> Option<usize> {
    let (protocol, transport) = match packet.first()? >> 4 {
        4 if packet.get(6)? & 0x1f == 0 && *packet.get(7)? == 0 => (*packet.get(9)?, usize::from(packet[0] & 15) * 4),
        6 => (*packet.get(6)?, IPV6_HEADER),
        _ => return None,
    };
    let offset = packet.get(transport + TCP_OFFSET).filter(|_| protocol == IPPROTO_TCP)?;
    packet.len().checked_sub(transport + usize::from(offset >> 4) * 4)
}

/// Returns whether routers may not fragment the packet. RFC 791, 3.1: DF is the second highest bit of byte 6. RFC 8200, 5:
/// routers never fragment IPv6.
fn dont_fragment(packet: &[u8]) -> bool {
    packet[0] >> 4 != 4 || packet.get(6).is_some_and(|flags| flags & 0x40 != 0)
}

/// Sets the length of an IP packet to `length`. For IPv4 also adds `first` to the identification, as offload does.
fn set_ip_length(packet: &mut [u8], first: u32, length: usize) {
    if packet[0] >> 4 == 6 {
        // RFC 8200 3: the length excludes the fixed header.
        packet[4..6].copy_from_slice(&((length - IPV6_HEADER) as u16).to_be_bytes());
        return;
    }
    packet[2..4].copy_from_slice(&(length as u16).to_be_bytes());
    let id = u16::from_be_bytes([packet[4], packet[5]]).wrapping_add(first as u16);
    packet[4..6].copy_from_slice(&id.to_be_bytes());
    packet[10..12].fill(0);
    let header = usize::from(packet[0] & 15) * 4;
    let checksum = !sum(&packet[..header]);
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
}

fn add_sequence(tcp: &mut [u8], skipped: usize) {
    let sequence = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]).wrapping_add(skipped as u32);
    tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
}

/// Clears flags that belong to other segments: FIN and PSH belong to the last byte, CWR to the first segment after the
/// window was reduced (RFC 3168 6.1.2).
fn set_flags(tcp: &mut [u8], is_first: bool, is_last: bool) {
    if !is_last {
        tcp[13] &= !(FIN | PSH);
    }
    if !is_first {
        tcp[13] &= !CWR;
    }
}

/// Adjusts the partial checksum to a payload of `after` instead of `before` bytes; `header` is the TCP header's length.
fn adjust_partial_checksum(tcp: &mut [u8], header: usize, before: usize, after: usize) {
    let sum = u32::from(u16::from_be_bytes([tcp[TCP_CHECKSUM.start], tcp[TCP_CHECKSUM.start + 1]]));
    let without = sum + u32::from(!((header + before) as u16));
    let folded = fold(without + u32::from((header + after) as u16));
    tcp[TCP_CHECKSUM].copy_from_slice(&folded.to_be_bytes());
}

/// Returns the ones' complement sum of RFC 1071 over `bytes`, not complemented.
pub(super) fn sum(bytes: &[u8]) -> u16 {
    fold(bytes.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]))).sum())
}

/// Adds the carries of `sum` back until it fits 16 bits (RFC 1071).
pub(super) fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn native(frame: &[u8], field: Range<usize>) -> u16 {
    u16::from_ne_bytes([frame[field.start], frame[field.start + 1]])
}

const NEEDS_CSUM: u8 = 1;
const GSO_TYPE: usize = 1;
const GSO_SIZE: Range<usize> = 4..6;
const CSUM_START: Range<usize> = 6..8;
const CSUM_OFFSET: Range<usize> = 8..10;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_ECN: u8 = 0x80;
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
const TCP_HEADER: usize = 20;
const IPPROTO_TCP: u8 = 6;
const TCP_OFFSET: usize = 12;
const TCP_CHECKSUM: Range<usize> = 16..18;
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns a super-packet of `payload` bytes as Linux gives it to a TUN device.
    fn frame(v6: bool, payload: usize, size: u16, flags: u8) -> Vec<u8> {
        let ip = if v6 { IPV6_HEADER } else { IPV4_HEADER };
        let tcp_header = 32;
        let mut frame = vec![0; VNET + ip + tcp_header];
        frame[0] = NEEDS_CSUM;
        frame[1] = if v6 { GSO_TCPV6 } else { GSO_TCPV4 };
        frame[2..4].copy_from_slice(&((ip + tcp_header) as u16).to_ne_bytes());
        frame[4..6].copy_from_slice(&size.to_ne_bytes());
        frame[6..8].copy_from_slice(&(ip as u16).to_ne_bytes());
        frame[8..10].copy_from_slice(&16u16.to_ne_bytes());
        let packet = &mut frame[VNET..];
        for (index, byte) in packet[..ip].iter_mut().enumerate() {
            *byte = index as u8;
        }
        packet[0] = if v6 { 0x60 } else { 0x45 };
        let tcp = &mut packet[ip..];
        tcp[4..8].copy_from_slice(&0xffff_f000u32.to_be_bytes());
        tcp[12] = (tcp_header as u8 / 4) << 4;
        tcp[13] = flags;
        frame.extend((0..payload).map(|byte| byte as u8));
        let length = (tcp_header + payload) as u16;
        let partial = pseudo_sum(&frame[VNET..], length);
        frame[VNET + ip + 16..VNET + ip + 18].copy_from_slice(&partial.to_be_bytes());
        frame
    }

    /// Returns the sum over the pseudo-header of a packet with transport length `length` (RFC 9293 3.1, RFC 8200 8.1).
    fn pseudo_sum(packet: &[u8], length: u16) -> u16 {
        let addresses = if packet[0] >> 4 == 6 { &packet[8..40] } else { &packet[12..20] };
        fold(u32::from(sum(addresses)) + 6 + u32::from(length))
    }

    /// Cuts `frame` into pieces of so many segments, checks each piece's headers, and returns the joined payload.
    fn reassemble(frame: &[u8], pieces: &[u32]) -> Vec<u8> {
        let shape = shape(frame).unwrap();
        let mut bytes = Vec::new();
        let mut first = 0;
        for &segments in pieces {
            let segments = segments.min(shape.segments() - first);
            if segments == 0 {
                break;
            }
            let mut head = [0; HEAD_MAX];
            let cut = cut(frame, &shape, first, segments, &mut head);
            check_headers(&head[..cut.head], cut.payload.len(), frame, &shape, first);
            bytes.extend_from_slice(&frame[cut.payload]);
            first += segments;
        }
        bytes
    }

    fn check_headers(head: &[u8], payload: usize, frame: &[u8], whole: &Shape, first: u32) {
        let packet = &head[VNET..];
        let tcp = &head[VNET + whole.transport..];
        let original = &frame[VNET + whole.transport..];
        let sequence = |tcp: &[u8]| u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
        assert_eq!(sequence(tcp), sequence(original).wrapping_add(first * whole.size as u32));
        let transport_length = (whole.headers - whole.transport + payload) as u16;
        let expected = pseudo_sum(packet, transport_length);
        assert_eq!(u16::from_be_bytes([tcp[16], tcp[17]]) % 0xffff, expected % 0xffff, "partial checksum");
        if packet[0] >> 4 == 4 {
            assert_eq!(sum(&packet[..20]), 0xffff, "IPv4 header checksum");
            assert_eq!(usize::from(u16::from_be_bytes([packet[2], packet[3]])), whole.headers + payload);
        } else {
            assert_eq!(usize::from(u16::from_be_bytes([packet[4], packet[5]])), whole.headers - 40 + payload);
        }
        let is_last = first as usize * whole.size + payload == whole.payload;
        assert_eq!(tcp[13] & (FIN | PSH), if is_last { original[13] & (FIN | PSH) } else { 0 });
        assert_eq!(tcp[13] & CWR, if first == 0 { original[13] & CWR } else { 0 });
        assert_eq!(head[1] == GSO_NONE, payload <= whole.size, "one segment is no super-packet");
    }

    #[test]
    fn a_packet_without_offload_is_one_segment() {
        let mut frame = vec![0; VNET];
        frame.extend([0x45; 84]);
        let shape = shape(&frame).unwrap();
        assert_eq!((shape.segments(), shape.packet(7, Duration::ZERO)), (1, Packet::single(7, Duration::ZERO, 84)));
    }

    #[test]
    fn contradicting_headers_are_refused() {
        let good = frame(false, 3000, 1448, 0);
        assert_eq!(shape(&good[..VNET]), Err(Malformed::Short));
        assert_eq!(shape(&good[..VNET + 52]), Err(Malformed::Short));
        let with = |at: usize, byte: u8| {
            let mut frame = good.clone();
            frame[at] = byte;
            shape(&frame)
        };
        assert_eq!(with(1, 5), Err(Malformed::Offload));
        assert_eq!(with(1, GSO_TCPV6), Err(Malformed::Headers));
        assert_eq!(with(0, 0), Err(Malformed::Headers));
        assert_eq!(with(VNET + 20 + 12, 0), Err(Malformed::Headers));
        assert_eq!(with(VNET, 0x4f), Err(Malformed::Headers));
    }

    proptest! {
        #[test]
        fn pieces_make_the_whole(
            v6: bool, payload in 1usize..65000, size in 200u16..9000, flags: u8, at in prop::collection::vec(1u32..20, 1..6),
        ) {
            let frame = frame(v6, payload, size, flags);
            let total = shape(&frame).unwrap().segments();
            let mut pieces: Vec<u32> = at;
            pieces.push(total);
            prop_assert_eq!(&reassemble(&frame, &pieces)[..], &frame[VNET + shape(&frame).unwrap().headers..]);
        }

        #[test]
        fn no_bytes_panic(mut frame in prop::collection::vec(any::<u8>(), 0..400), first: u32, segments: u32, tcp: bool) {
            if tcp && frame.len() > VNET {
                // `shape` refuses most random bytes at once. With these headers some get further.
                frame[1] = GSO_TCPV4;
                frame[0] |= NEEDS_CSUM;
                frame[VNET] = 0x45;
                frame[6..8].copy_from_slice(&20u16.to_ne_bytes());
                frame[8..10].copy_from_slice(&16u16.to_ne_bytes());
            }
            if let Ok(shape) = shape(&frame) {
                prop_assert!(shape.segments() >= 1);
                if shape.size > 0 {
                    let cut = cut(&frame, &shape, first, segments, &mut [0; HEAD_MAX]);
                    prop_assert!(cut.payload.end <= frame.len());
                }
            }
        }
    }

    #[test]
    fn tcp_payload_excludes_all_headers() {
        for v6 in [false, true] {
            let mut whole = frame(v6, 5000, 1448, 0);
            let protocol = VNET + if v6 { 6 } else { 9 };
            whole[protocol] = 6;
            let packet = shape(&whole).unwrap().packet(0, Duration::ZERO);
            assert_eq!(tcp_payload(&whole, &packet), 5000);
            assert_eq!(tcp_payload(&whole, &packet.front(2)), 2896);
            // The same bytes as one packet without offload. The IPv4 packet is no fragment.
            let mut one = whole.clone();
            one[1] = GSO_NONE;
            one[VNET + 6..VNET + 8].copy_from_slice(&if v6 { [6, 0] } else { [0x40, 0] });
            let packet = shape(&one).unwrap().packet(0, Duration::ZERO);
            assert_eq!(tcp_payload(&one, &packet), 5000);
            one[protocol] = 17;
            assert_eq!(tcp_payload(&one, &packet), 0);
            assert_eq!(tcp_payload(&one[..VNET + 12], &packet), 0);
        }
    }
}
