//! The PROXY protocol, versions 1 and 2 (haproxy.org, doc/proxy-protocol.txt): a header before the first byte of a
//! connection that names its client.
//!
//! ```text
//! version 1, text, at most 107 bytes:     PROXY TCP4 192.0.2.7 198.51.100.1 51234 6000 CR LF
//! version 2, binary, big endian:
//!   offset  size  meaning
//!        0    12  signature
//!       12     1  0x20: LOCAL, the connection is the proxy's own; 0x21: PROXY
//!       13     1  0x11: TCP over IPv4; 0x21: TCP over IPv6; others name no client of TCP
//!       14     2  number of bytes from offset 16 on
//!       16     n  source address, destination address, source port, destination port; then TLVs, which are skipped
//! ```
//! This module finds the end of a header and bounds its length. The crate `ppp` reads and writes its fields.

use longhaul_units::show_duration;
use ppp::v2::{IPv4, IPv6};
use ppp::{v1, v2};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// A version of the PROXY protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Text.
    V1,
    /// Binary.
    V2,
}

/// The versions that a reader accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepts {
    /// Version 1.
    V1,
    /// Version 2.
    V2,
    /// Both versions.
    Any,
}

/// Both ends of a client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Address of the client.
    pub client: SocketAddr,
    /// Address that the client connected to.
    pub to: SocketAddr,
}

impl Ends {
    /// An IPv4-mapped IPv6 address is the IPv4 address.
    fn new(client: impl Into<SocketAddr>, to: impl Into<SocketAddr>) -> Ends {
        let plain = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
        Ends { client: plain(client.into()), to: plain(to.into()) }
    }

    /// Returns the same addresses as IPv6, an IPv4 address as the mapped one.
    fn as_ipv6(self) -> Ends {
        let mapped = |address: SocketAddr| match address.ip() {
            IpAddr::V4(ip) => SocketAddr::new(ip.to_ipv6_mapped().into(), address.port()),
            IpAddr::V6(_) => address,
        };
        Ends { client: mapped(self.client), to: mapped(self.to) }
    }
}

/// A whole header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its length in bytes, at most [`MAX_BYTES`].
    pub bytes: usize,
    /// The client's connection. `None` if the header names none: LOCAL, UNKNOWN, or another protocol than TCP. The
    /// client is then the sender of the header itself.
    pub ends: Option<Ends>,
}

/// Why there is no accepted header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// They do not begin with a signature.
    Missing,
    /// They begin with the signature of this version, which is not accepted.
    NotAccepted(Version),
    /// The header has an invalid field.
    Malformed,
    /// The header is longer than [`MAX_BYTES`], or than 107 bytes in version 1.
    TooLong,
    /// The stream ended within the header, or before it.
    Ended,
    /// The header was not whole after this time.
    Slow(Duration),
}

/// Maximum length of an accepted header in bytes. The addresses take at most 52. The rest is for TLVs: HAProxy and
/// cloud load balancers send some hundred bytes of them.
pub const MAX_BYTES: usize = 4096;

impl Version {
    /// Returns its name: `v1` or `v2`.
    pub fn name(self) -> &'static str {
        match self {
            Version::V1 => "v1",
            Version::V2 => "v2",
        }
    }
}

impl Accepts {
    /// Returns the value with this name: `v1`, `v2` or `any`.
    pub fn named(name: &str) -> Option<Accepts> {
        [Accepts::V1, Accepts::V2, Accepts::Any].into_iter().find(|accepts| accepts.name() == name)
    }

    /// Returns its name: `v1`, `v2` or `any`.
    pub fn name(self) -> &'static str {
        match self {
            Accepts::V1 => "v1",
            Accepts::V2 => "v2",
            Accepts::Any => "any",
        }
    }

    /// Returns a version that it accepts.
    pub fn version(self) -> Version {
        match self {
            Accepts::V1 => Version::V1,
            Accepts::V2 | Accepts::Any => Version::V2,
        }
    }

    fn includes(self, version: Version) -> bool {
        match self {
            Accepts::V1 => version == Version::V1,
            Accepts::V2 => version == Version::V2,
            Accepts::Any => true,
        }
    }
}

/// Reads the header at the beginning of `bytes`. Returns `None` while more bytes are needed to tell. [`MAX_BYTES`] bytes
/// are always enough.
///
/// # Errors
/// No accepted header can begin with these bytes.
pub fn read(bytes: &[u8], accepts: Accepts) -> Result<Option<Header>, Bad> {
    let begins = |signature: &[u8]| bytes.iter().zip(signature).all(|(byte, wanted)| byte == wanted);
    let version = match (begins(SIGNATURE_V1), begins(SIGNATURE_V2)) {
        _ if bytes.is_empty() => return Ok(None),
        (true, _) => Version::V1,
        (_, true) => Version::V2,
        (false, false) => return Err(Bad::Missing),
    };
    match version {
        _ if !accepts.includes(version) => Err(Bad::NotAccepted(version)),
        Version::V1 => read_v1(bytes),
        Version::V2 => read_v2(bytes),
    }
}

fn read_v1(bytes: &[u8]) -> Result<Option<Header>, Bad> {
    let line = &bytes[..bytes.len().min(MAX_V1_BYTES)];
    let Some(end) = line.windows(2).position(|pair| pair == b"\r\n") else {
        return if line.len() == MAX_V1_BYTES { Err(Bad::TooLong) } else { Ok(None) };
    };
    let line = &line[..end + 2];
    let header = v1::Header::try_from(line).map_err(|_| Bad::Malformed)?;
    let ends = match header.addresses {
        v1::Addresses::Unknown => None,
        v1::Addresses::Tcp4(ip) => Some(ends_v4(ip)),
        v1::Addresses::Tcp6(ip) => Some(ends_v6(ip)),
    };
    // The crate reads a port with a sign, which the specification does not have.
    if header.header.len() != line.len() || (ends.is_some() && line.contains(&b'+')) {
        return Err(Bad::Malformed);
    }
    Ok(Some(Header { bytes: line.len(), ends }))
}

fn read_v2(bytes: &[u8]) -> Result<Option<Header>, Bad> {
    let Some(length) = bytes.get(14..16) else { return Ok(None) };
    let whole = 16 + usize::from(length[0]) * 256 + usize::from(length[1]);
    if whole > MAX_BYTES {
        return Err(Bad::TooLong);
    }
    let Some(bytes) = bytes.get(..whole) else { return Ok(None) };
    if bytes[12] == OWN_V2 {
        return Ok(Some(Header { bytes: whole, ends: None }));
    }
    let header = v2::Header::try_from(bytes).map_err(|_| Bad::Malformed)?;
    let ends = match (header.protocol, header.addresses) {
        (v2::Protocol::Stream, v2::Addresses::IPv4(ip)) => Some(ends_v4(ip)),
        (v2::Protocol::Stream, v2::Addresses::IPv6(ip)) => Some(ends_v6(ip)),
        _ => None,
    };
    Ok(Some(Header { bytes: whole, ends }))
}

fn ends_v4(ip: IPv4) -> Ends {
    Ends::new((ip.source_address, ip.source_port), (ip.destination_address, ip.destination_port))
}

fn ends_v6(ip: IPv6) -> Ends {
    Ends::new((ip.source_address, ip.source_port), (ip.destination_address, ip.destination_port))
}

/// Returns a header for a client's connection, at most 107 bytes. IPv4-mapped IPv6 addresses are written as IPv4. If the addresses
/// differ in their IP version, version 2 writes both as IPv6. The header names no client if `ends` is `None`, or in version 1 if
/// they differ: its text has no mapped addresses.
pub fn write(version: Version, ends: Option<Ends>) -> Vec<u8> {
    let ends = ends.map(|Ends { client, to }| Ends::new(client, to));
    let is_mixed = ends.is_some_and(|ends| ends.client.is_ipv4() != ends.to.is_ipv4());
    match version {
        Version::V1 => {
            let ends = ends.filter(|_| !is_mixed);
            let addresses = ends.map_or(v1::Addresses::Unknown, |ends| (ends.client, ends.to).into());
            addresses.to_string().into_bytes()
        }
        Version::V2 => {
            let (protocol, addresses) = match ends {
                None => (v2::Protocol::Unspecified, v2::Addresses::Unspecified),
                Some(ends) => {
                    let ends = if is_mixed { ends.as_ipv6() } else { ends };
                    (v2::Protocol::Stream, (ends.client, ends.to).into())
                }
            };
            let builder = v2::Builder::with_addresses(v2::Version::Two | v2::Command::Proxy, protocol, addresses);
            // This fails only if the header is longer than 64 KiB.
            builder.build().unwrap_or_default()
        }
    }
}

/// Returns a header that names no client, for a connection of the sender itself: UNKNOWN of version 1, LOCAL of version 2.
pub fn write_own(version: Version) -> Vec<u8> {
    match version {
        Version::V1 => write(Version::V1, None),
        // AF_UNSPEC; no bytes after the length.
        Version::V2 => [SIGNATURE_V2, &[OWN_V2, 0, 0, 0]].concat(),
    }
}

/// Version 2, LOCAL: whatever follows, the family included, must be accepted and ignored (proxy-protocol.txt 2.2).
const OWN_V2: u8 = 0x20;

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bad::Missing => f.write_str("the first bytes are no PROXY header"),
            Bad::NotAccepted(version) => write!(f, "a header of {}, which proxy_in does not accept", version.name()),
            Bad::Malformed => f.write_str("the header is malformed"),
            Bad::TooLong => write!(f, "the header is longer than {MAX_V1_BYTES} bytes (v1) or {MAX_BYTES} bytes (v2)"),
            Bad::Ended => f.write_str("the connection ended before a whole header"),
            Bad::Slow(time) => write!(f, "no whole header in {}", show_duration(*time)),
        }
    }
}

const SIGNATURE_V1: &[u8] = b"PROXY ";
const SIGNATURE_V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// proxy-protocol.txt 2.1: the longest line of version 1, with CR LF.
const MAX_V1_BYTES: usize = 107;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ends(client: &str, to: &str) -> Ends {
        Ends { client: client.parse().unwrap(), to: to.parse().unwrap() }
    }

    fn v4() -> Ends {
        ends("192.0.2.7:51234", "198.51.100.1:6000")
    }

    fn v6() -> Ends {
        ends("[2001:db8::7]:51234", "[2001:db8:1::1]:6000")
    }

    /// Returns a header of version 2 with this byte for the command, this one for the protocol, and these bytes after
    /// the length.
    fn binary(command: u8, protocol: u8, rest: &[u8]) -> Vec<u8> {
        let length = (rest.len() as u16).to_be_bytes();
        [SIGNATURE_V2, &[command, protocol], &length, rest].concat()
    }

    const IPV4: [u8; 12] = [192, 0, 2, 7, 198, 51, 100, 1, 0xc8, 0x22, 0x17, 0x70];

    /// Asserts that `header` is whole exactly at its last byte, and that bytes after it change nothing.
    fn whole(header: &[u8], accepts: Accepts) -> Option<Ends> {
        for end in 0..header.len() {
            assert_eq!(read(&header[..end], accepts), Ok(None), "{end} of {} bytes", header.len());
        }
        let found = read(header, accepts).unwrap().unwrap();
        assert_eq!(found.bytes, header.len());
        assert_eq!(read(&[header, b"\r\nGET / \r\n"].concat(), accepts), Ok(Some(found)));
        found.ends
    }

    #[test]
    fn a_header_of_the_sender_itself_is_read_and_names_no_client() {
        assert_eq!(write_own(Version::V1), b"PROXY UNKNOWN\r\n");
        for accepts in [Accepts::V1, Accepts::V2, Accepts::Any] {
            assert_eq!(whole(&write_own(accepts.version()), accepts), None);
        }
    }

    #[test]
    fn the_bytes_of_both_versions_are_those_of_the_specification() {
        assert_eq!(write(Version::V1, Some(v4())), b"PROXY TCP4 192.0.2.7 198.51.100.1 51234 6000\r\n");
        assert_eq!(write(Version::V1, Some(v6())), b"PROXY TCP6 2001:db8::7 2001:db8:1::1 51234 6000\r\n");
        assert_eq!(write(Version::V1, None), b"PROXY UNKNOWN\r\n");
        assert_eq!(write(Version::V2, Some(v4())), binary(0x21, 0x11, &IPV4));
        assert_eq!(write(Version::V2, None), binary(0x21, 0x00, &[]));
        let mapped = ends("[::ffff:192.0.2.7]:51234", "[::ffff:198.51.100.1]:6000");
        assert_eq!(write(Version::V1, Some(mapped)), write(Version::V1, Some(v4())));
    }

    #[test]
    fn a_client_of_another_ip_version_than_its_destination_keeps_its_address() {
        for mixed in [Ends { client: v4().client, to: v6().to }, Ends { client: v6().client, to: v4().to }] {
            let header = write(Version::V2, Some(mixed));
            assert_eq!((header[13], header.len()), (0x21, 16 + 36), "both are written as IPv6");
            assert_eq!(whole(&header, Accepts::V2), Some(mixed), "and read as what they are");
            assert_eq!(write(Version::V1, Some(mixed)), write(Version::V1, None));
        }
        let mapped = b"PROXY TCP6 ::ffff:192.0.2.7 2001:db8:1::1 51234 6000\r\n";
        assert_eq!(whole(mapped, Accepts::V1), Some(Ends { client: v4().client, to: v6().to }));
    }

    #[test]
    fn a_header_is_whole_at_its_last_byte() {
        for version in [Version::V1, Version::V2] {
            let own = Accepts::named(version.name()).unwrap();
            for accepts in [own, Accepts::Any] {
                for ends in [Some(v4()), Some(v6()), None] {
                    assert_eq!(whole(&write(version, ends), accepts), ends);
                }
            }
        }
        let long =
            ends("[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535", "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe]:65535");
        assert_eq!(whole(&write(Version::V1, Some(long)), Accepts::Any), Some(long));
    }

    #[test]
    fn tlvs_are_skipped_and_what_is_no_client_of_tcp_is_left_out() {
        let tlvs = [&IPV4[..], &[0xee, 0, 2, 1, 2], &[0x04, 0, 0]].concat();
        assert_eq!(whole(&binary(0x21, 0x11, &tlvs), Accepts::V2), Some(v4()));
        let garbage = [&IPV4[..], &[0xee, 0xff, 0xff]].concat();
        assert_eq!(whole(&binary(0x21, 0x11, &garbage), Accepts::V2), Some(v4()));
        assert_eq!(whole(&binary(0x20, 0x11, &IPV4), Accepts::V2), None, "LOCAL");
        for (family, rest) in [(0x00, &b""[..]), (0x11, b""), (0x11, b"abcd"), (0x31, b""), (0xf5, b"")] {
            assert_eq!(whole(&binary(0x20, family, rest), Accepts::V2), None, "LOCAL");
        }
        assert_eq!(whole(&binary(0x21, 0x12, &IPV4), Accepts::V2), None, "UDP");
        assert_eq!(whole(&binary(0x21, 0x31, &[b'x'; 216]), Accepts::V2), None, "a Unix socket");
        assert_eq!(whole(b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", Accepts::V1), None);
    }

    #[test]
    fn bad_headers_are_refused_as_soon_as_they_are_known() {
        for (bytes, bad) in [
            (&b"G"[..], Bad::Missing),
            (b"PROXYv", Bad::Missing),
            (b"\r\n\r\nx", Bad::Missing),
            (b"\x16\x03\x01", Bad::Missing),
            (b"PROXY \r\n", Bad::Malformed),
            (b"PROXY TCP4\r\n", Bad::Malformed),
            (b"PROXY UDP4 192.0.2.7 198.51.100.1 1 2\r\n", Bad::Malformed),
            (b"PROXY TCP4 192.0.2.7 198.51.100.1 1 65536\r\n", Bad::Malformed),
            (b"PROXY TCP4 192.0.2.7 198.51.100.1 +100 2\r\n", Bad::Malformed),
            (b"PROXY TCP4 192.0.2.7 198.51.100.1 1 +2\r\n", Bad::Malformed),
            (b"PROXY TCP4 192.0.2.7 198.51.100.1 1\r\n", Bad::Malformed),
            (b"PROXY TCP4 192.0.2.7 198.51.100.1 1 2 3\r\n", Bad::Malformed),
            (b"PROXY TCP4 2001:db8::7 2001:db8::1 1 2\r\n", Bad::Malformed),
            (b"PROXY TCP4 192.0.2.07 198.51.100.1 1 2\r\n", Bad::Malformed),
            (b"PROXY TCP4 192.0.2.\xff 198.51.100.1 1 2\r\n", Bad::Malformed),
            (&[b"PROXY ", &[b'x'; 101][..]].concat(), Bad::TooLong),
            (&[b"PROXY UNKNOWN ", &[b'x'; 93][..], b"\r\n"].concat(), Bad::TooLong),
            (&binary(0x21, 0x11, &IPV4[1..]), Bad::Malformed),
            (&binary(0x31, 0x11, &IPV4), Bad::Malformed),
            (&binary(0x22, 0x11, &IPV4), Bad::Malformed),
            (&binary(0x21, 0x41, &IPV4), Bad::Malformed),
            (&binary(0x21, 0x13, &IPV4), Bad::Malformed),
            (&binary(0x21, 0x11, &[0; MAX_BYTES - 15])[..16], Bad::TooLong),
        ] {
            assert_eq!(read(bytes, Accepts::Any), Err(bad), "{}", bytes.escape_ascii());
        }
        assert_eq!(read(b"P", Accepts::V2), Err(Bad::NotAccepted(Version::V1)));
        assert_eq!(read(b"\r", Accepts::V1), Err(Bad::NotAccepted(Version::V2)));
        let longest = binary(0x21, 0x11, &[&IPV4[..], &[0; MAX_BYTES - 28]].concat());
        assert_eq!(read(&longest, Accepts::V2), Ok(Some(Header { bytes: MAX_BYTES, ends: Some(v4()) })));
    }

    proptest! {
        #[test]
        fn no_bytes_panic_and_the_longest_header_tells(head in 0usize..3, tail in prop::collection::vec(any::<u8>(), 0..5000)) {
            let bytes = [[&b""[..], SIGNATURE_V1, SIGNATURE_V2][head], &tail].concat();
            for accepts in [Accepts::V1, Accepts::V2, Accepts::Any] {
                match read(&bytes, accepts) {
                    Ok(Some(header)) => prop_assert!(header.bytes <= bytes.len().min(MAX_BYTES)),
                    Ok(None) => prop_assert!(bytes.len() < MAX_BYTES),
                    Err(_) => {}
                }
            }
        }

        #[test]
        fn written_headers_are_read(client in any::<([u8; 16], u16)>(), to in any::<([u8; 16], u16)>(), is_v4 in any::<bool>()) {
            let address = |(ip, port): ([u8; 16], u16)| match is_v4 {
                true => SocketAddr::from(([ip[0], ip[1], ip[2], ip[3]], port)),
                false => SocketAddr::from((ip, port)),
            };
            let ends = Ends { client: address(client), to: address(to) };
            for version in [Version::V1, Version::V2] {
                let bytes = write(version, Some(ends));
                prop_assert!(bytes.len() <= MAX_V1_BYTES);
                prop_assert_eq!(read(&bytes, Accepts::Any), Ok(Some(Header { bytes: bytes.len(), ends: Some(ends) })));
            }
        }
    }
}
