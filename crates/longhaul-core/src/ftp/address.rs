//! The addresses in commands and replies: how they are read and written.
//!
//! | in | form | meaning |
//! | --- | --- | --- |
//! | PORT, 227 | `h1,h2,h3,h4,p1,p2` | IPv4 address `h1.h2.h3.h4`, port `p1 * 256 + p2` (RFC 959 4.1.2) |
//! | EPRT | `\|1\|192.0.2.1\|21\|`, `\|2\|2001:db8::1\|21\|` | any delimiter of 33 to 126 (RFC 2428 2) |
//! | 229 | `(\|\|\|21\|)` | port alone, any delimiter of 33 to 126 (RFC 2428 3) |

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Why the argument of EPRT is no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bad {
    /// It is malformed.
    Malformed,
    /// Its address family is neither 1 nor 2.
    Family,
}

/// Reads the argument of PORT.
pub(super) fn read_port(argument: &[u8]) -> Option<SocketAddr> {
    let run = read_run(argument)?;
    run.rest.is_empty().then_some(run.numbers).and_then(address)
}

/// Reads the address in the text of a reply 227. Servers differ in the words around it. It is the first run of exactly six
/// numbers with commas between them.
pub(super) fn read_227(text: &[u8]) -> Option<SocketAddr> {
    let mut rest = text;
    while let Some(start) = rest.iter().position(u8::is_ascii_digit) {
        let digits = &rest[start..];
        if let Some(run) = read_run(digits) {
            return if next_number(run.rest).is_none() { address(run.numbers) } else { None };
        }
        rest = skip_run(digits);
    }
    None
}

/// Reads the port in the text of a reply 229.
pub(super) fn read_229(text: &[u8]) -> Option<u16> {
    let brackets = text.split(|byte| *byte == b'(').skip(1);
    brackets.filter_map(|after| after.split(|byte| *byte == b')').next()).find_map(|inside| match inside {
        [first, second, third, port @ .., last]
            if DELIMITERS.contains(first) && [second, third, last].iter().all(|other| *other == first) =>
        {
            number(port)
        }
        _ => None,
    })
}

/// Reads the argument of EPRT.
///
/// # Errors
/// It is malformed, or of an unknown address family.
pub(super) fn read_eprt(argument: &[u8]) -> Result<SocketAddr, Bad> {
    let delimiter = argument.first().filter(|byte| DELIMITERS.contains(byte)).ok_or(Bad::Malformed)?;
    let fields: Vec<&[u8]> = argument.splitn(6, |byte| byte == delimiter).collect();
    let [[], family, ip, port, []] = fields[..] else { return Err(Bad::Malformed) };
    let ip = std::str::from_utf8(ip).map_err(|_| Bad::Malformed)?;
    let ip = match number(family).ok_or(Bad::Malformed)? {
        1 => ip.parse::<Ipv4Addr>().map(IpAddr::from),
        2 => ip.parse::<Ipv6Addr>().map(IpAddr::from),
        _ => return Err(Bad::Family),
    };
    let ip = ip.map_err(|_| Bad::Malformed)?;
    Ok(SocketAddr::new(ip.to_canonical(), number(port).ok_or(Bad::Malformed)?))
}

/// Returns the six numbers for an address. `None` if it is of IPv6.
pub(super) fn six_numbers(address: SocketAddr) -> Option<String> {
    let SocketAddr::V4(address) = address else { return None };
    let [h1, h2, h3, h4] = address.ip().octets();
    let [p1, p2] = address.port().to_be_bytes();
    Some(format!("{h1},{h2},{h3},{h4},{p1},{p2}"))
}

/// Returns the argument of EPRT for an address.
pub(super) fn eprt(address: SocketAddr) -> String {
    let family = if address.is_ipv4() { 1 } else { 2 };
    format!("|{family}|{}|{}|", address.ip(), address.port())
}

/// Returns the address, as IPv4 if it is an IPv4-mapped one of IPv6.
pub(super) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Six numbers at the beginning of a text.
struct Run<'a> {
    numbers: [u8; 6],
    rest: &'a [u8],
}

/// Reads six numbers of 0 to 255 at the beginning of `text`. Spaces may stand beside the commas.
fn read_run(text: &[u8]) -> Option<Run<'_>> {
    let mut run = Run { numbers: [0; 6], rest: text };
    for (index, number) in run.numbers.iter_mut().enumerate() {
        if index > 0 {
            run.rest = next_number(run.rest)?;
        }
        let (value, rest) = split_digits(run.rest);
        *number = std::str::from_utf8(value).ok()?.parse().ok()?;
        run.rest = rest;
    }
    Some(run)
}

/// Skips the run of numbers that `text` begins with.
fn skip_run(text: &[u8]) -> &[u8] {
    let mut rest = split_digits(text).1;
    while let Some(next) = next_number(rest) {
        rest = split_digits(next).1;
    }
    rest
}

/// Skips a comma and the spaces beside it. Returns `None` if no digit follows.
fn next_number(text: &[u8]) -> Option<&[u8]> {
    let after = text.trim_ascii_start().strip_prefix(b",")?.trim_ascii_start();
    after.first().is_some_and(u8::is_ascii_digit).then_some(after)
}

fn split_digits(text: &[u8]) -> (&[u8], &[u8]) {
    text.split_at(text.iter().take_while(|byte| byte.is_ascii_digit()).count())
}

fn address([h1, h2, h3, h4, p1, p2]: [u8; 6]) -> Option<SocketAddr> {
    let port = u16::from_be_bytes([p1, p2]);
    (port > 0).then(|| SocketAddr::from(([h1, h2, h3, h4], port)))
}

/// Reads a number of 1 to 65535.
fn number(text: &[u8]) -> Option<u16> {
    let is_plain = text.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(text).ok().filter(|_| is_plain)?;
    text.parse().ok().filter(|number| *number > 0)
}

/// RFC 2428 2: the delimiter is one of these characters.
const DELIMITERS: std::ops::RangeInclusive<u8> = 33..=126;

#[cfg(test)]
mod tests {
    use super::*;

    fn ip4(port: u16) -> SocketAddr {
        SocketAddr::from(([10, 1, 2, 3], port))
    }

    /// Servers differ in the words of 227.
    #[test]
    fn the_six_numbers_of_227_are_found_in_any_wording() {
        for text in [
            " Entering Passive Mode (10,1,2,3,4,5).\r\n",
            " Entering Passive Mode (10,1,2,3,4,5)\r\n",
            " Entering Passive Mode 10,1,2,3,4,5\r\n",
            " Entering Passive Mode. 10, 1, 2, 3, 4, 5.",
            " =10,1,2,3,4,5\r\n",
            " Entering Passive Mode [ 10 ,1 , 2,3,4,5 ]",
            " Data transfer will passively listen to 10,1,2,3,4,5",
            " OK, 2 servers, v1.2: (010,001,002,003,004,005,)",
        ] {
            assert_eq!(read_227(text.as_bytes()), Some(ip4(4 * 256 + 5)), "{text}");
        }
    }

    #[test]
    fn a_227_without_six_good_numbers_names_nothing() {
        for text in [
            "",
            " Entering Passive Mode",
            " (10,1,2,3,4)",
            " (10,1,2,3,4,)",
            " (10,1,2,3,4,256)",
            " (300,10,1,2,3,4,5)",
            " (10,1,2,3,4,5,6)",
            " (10,1,2,3,0,0)",
            " (10.1.2.3,4,5)",
            " (-10,1,2,3,+4,5)",
            " 10 1 2 3 4 5",
            " (99999999999999999999,1,2,3,4,5)",
        ] {
            assert_eq!(read_227(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn port_is_six_numbers_and_nothing_else() {
        assert_eq!(read_port(b"10,1,2,3,255,255"), Some(ip4(65535)));
        assert_eq!(read_port(b"10, 1, 2, 3, 0, 21"), Some(ip4(21)));
        for bad in
            ["", "10,1,2,3,4", "10,1,2,3,4,5,6", "10,1,2,3,4,5 x", "(10,1,2,3,4,5)", "10,1,2,3,0,0", "a,b,c,d,e,f"]
        {
            assert_eq!(read_port(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn any_delimiter_of_rfc_2428_is_read() {
        for (argument, address) in [
            ("|1|10.1.2.3|6446|", "10.1.2.3:6446"),
            ("!1!10.1.2.3!6446!", "10.1.2.3:6446"),
            ("~2~2001:db8::7~6446~", "[2001:db8::7]:6446"),
            ("|2|::ffff:10.1.2.3|6446|", "10.1.2.3:6446"),
        ] {
            assert_eq!(read_eprt(argument.as_bytes()), Ok(address.parse().unwrap()), "{argument}");
            assert_eq!(read_eprt(eprt(address.parse().unwrap()).as_bytes()), Ok(address.parse().unwrap()));
        }
        for text in [" (|||6446|)", " Entering Extended Passive Mode (!!!6446!).", " Passive (EPSV) mode (11164461)"] {
            assert_eq!(read_229(text.as_bytes()), Some(6446), "{text}");
        }
    }

    #[test]
    fn malformed_eprt_and_229_name_nothing() {
        for (argument, bad) in [
            ("", Bad::Malformed),
            ("|", Bad::Malformed),
            ("|1|10.1.2.3|", Bad::Malformed),
            ("|1|10.1.2.3|6446", Bad::Malformed),
            ("|1|10.1.2.3|6446|x", Bad::Malformed),
            ("|1|10.1.2.3|6446||", Bad::Malformed),
            ("|1|10.1.2.3|0|", Bad::Malformed),
            ("|1|10.1.2.3|65536|", Bad::Malformed),
            ("|1|10.1.2.3|+21|", Bad::Malformed),
            ("|1|10.1.2.03|21|", Bad::Malformed),
            ("|1|2001:db8::7|6446|", Bad::Malformed),
            ("|2|10.1.2.3|6446|", Bad::Malformed),
            ("|2|fe80::1%eth0|6446|", Bad::Malformed),
            ("|3|10.1.2.3|6446|", Bad::Family),
            ("\u{7f}1\u{7f}10.1.2.3\u{7f}6446\u{7f}", Bad::Malformed),
        ] {
            assert_eq!(read_eprt(argument.as_bytes()), Err(bad), "{argument}");
        }
        for text in
            ["", "(|||6446", "(||6446|)", "(|||0|)", "(|||65536|)", "(|||6446!)", "(|1|10.1.2.3|6446|)", "(   6446 )"]
        {
            assert_eq!(read_229(text.as_bytes()), None, "{text}");
        }
    }
}
