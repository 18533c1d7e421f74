//! Receivers of a control connection, as other programs read it. They know nothing of the session.

/// Splits the bytes of a control connection into the lines that a program reads.
type Reader = fn(&[u8]) -> Vec<Vec<u8>>;

/// Every reader of commands.
const SERVERS: &[(&str, Reader)] = &[("plain", plain), ("BSD ftpd", bsd), ("proftpd", proftpd)];

/// Every reader of replies.
const CLIENTS: &[(&str, Reader)] = &[("plain", plain), ("tnftp", tnftp), ("lftp", lftp)];

/// An address of a third host, as it stands in PORT and in 227.
pub(super) const THIRD: &[u8] = b"10,0,0,9,";

/// Asserts that no server reads a PORT with [`THIRD`].
pub(super) fn assert_no_port(to_server: &[u8], sent: &[u8]) {
    for (name, read) in SERVERS {
        for line in read(to_server) {
            let text = line.trim_ascii_start().to_ascii_uppercase();
            let is_port = text.starts_with(b"PORT ") && has_third(&text);
            assert!(!is_port, "{name} reads {} in {}", line.escape_ascii(), sent.escape_ascii());
        }
    }
}

/// Asserts that no client reads a 227 with [`THIRD`].
pub(super) fn assert_no_227(to_client: &[u8], sent: &[u8]) {
    for (name, read) in CLIENTS {
        for line in read(to_client) {
            let is_named = line.starts_with(b"227") && has_third(&line);
            assert!(!is_named, "{name} reads {} in {}", line.escape_ascii(), sent.escape_ascii());
        }
    }
}

/// Asserts that no client reads [`THIRD`] in a line with 2 or 3 up to the first reply, to PASV. lftp and wget take an address from every
/// 2xx, FileZilla from 3xx as well, and wget takes any three digits and a space for a reply.
pub(super) fn assert_no_address_in_reply(to_client: &[u8], sent: &[u8]) {
    for (name, read) in CLIENTS {
        let lines = read(to_client);
        let is_reply = |line: &Vec<u8>| line.get(3) == Some(&b' ') && line[..3].iter().all(u8::is_ascii_digit);
        let first = lines.iter().position(is_reply).map_or(lines.len(), |at| at + 1);
        for line in lines[..first].iter().filter(|line| matches!(line[0], b'2' | b'3')) {
            assert!(!has_third(line), "{name} reads {} in {}", line.escape_ascii(), sent.escape_ascii());
        }
    }
}

fn has_third(line: &[u8]) -> bool {
    line.windows(THIRD.len()).any(|window| window == THIRD)
}

/// Ends a line at LF, and knows no telnet: curl, and servers such as pure-ftpd.
fn plain(bytes: &[u8]) -> Vec<Vec<u8>> {
    bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

/// Skips IAC with its verb and option, and IAC with any other byte. 255 is read for IAC IAC.
fn bsd(bytes: &[u8]) -> Vec<Vec<u8>> {
    let (mut text, mut bytes) = (Vec::new(), bytes.iter().copied());
    while let Some(byte) = bytes.next() {
        match (byte, if byte == 255 { bytes.next() } else { None }) {
            (255, Some(251..=254)) => drop(bytes.next()),
            (255, Some(255)) => text.push(255),
            (255, _) => {}
            (byte, _) => text.push(byte),
        }
    }
    plain(&text)
}

/// Reads replies as the servers of BSD read commands.
fn lftp(bytes: &[u8]) -> Vec<Vec<u8>> {
    bsd(bytes)
}

/// Skips IAC IAC as well.
fn tnftp(bytes: &[u8]) -> Vec<Vec<u8>> {
    let lines = bsd(bytes);
    lines.into_iter().map(|line| line.into_iter().filter(|byte| *byte != 255).collect()).collect()
}

/// Skips an option, IP and DM. IAC with another byte is text.
fn proftpd(bytes: &[u8]) -> Vec<Vec<u8>> {
    let (mut text, mut mode) = (Vec::new(), 0);
    for byte in bytes {
        match (mode, byte) {
            (255, 242 | 244 | 251..=254) => mode = *byte,
            (255, _) => {
                text.extend([255, *byte]);
                mode = 0;
            }
            (251..=254, _) => mode = 0,
            (_, 255) => mode = 255,
            _ => text.push(*byte),
        }
    }
    plain(&text)
}

/// Calls `check` with each row of up to `length` of `pieces`.
pub(super) fn rows(pieces: &[&[u8]], length: u32, mut check: impl FnMut(&[u8])) {
    for length in 0..=length {
        for number in 0..pieces.len().pow(length) {
            let piece = |at: u32| pieces[number / pieces.len().pow(at) % pieces.len()];
            check(&(0..length).map(piece).collect::<Vec<_>>().concat());
        }
    }
}
