//! The bytes of a paste, as lines of text: UTF-8, UTF-16 with or without its mark, or a code page of the west.
//!
//! Memory is bounded: of a longer line than [`MAX_LINE_BYTES`], the rest is skipped. A program or an image has no lines,
//! although settings may be named in it.

use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};

/// Bytes of a line that are kept.
pub(super) const MAX_LINE_BYTES: usize = 8192;

/// The lines of a source.
pub(super) struct Lines<R> {
    source: BufReader<Chain<Cursor<Vec<u8>>, R>>,
    encoding: Encoding,
    bytes: Vec<u8>,
    /// The last line ended with CR, so that LF belongs to it.
    is_after_cr: bool,
}

/// How the bytes make characters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Encoding {
    /// UTF-8 or a code page: each line shows which.
    Bytes,
    /// There is no text.
    None,
    Utf16Le,
    Utf16Be,
}

/// One line.
pub(super) struct RawLine {
    /// The text without its line end.
    pub(super) text: String,
    /// The line was longer than [`MAX_LINE_BYTES`].
    pub(super) is_cut: bool,
}

impl<R: Read> Lines<R> {
    /// Returns the lines of `source`.
    ///
    /// # Errors
    /// The first bytes cannot be read.
    pub(super) fn of(mut source: R) -> io::Result<Lines<R>> {
        let mut head = Vec::new();
        source.by_ref().take(HEAD_BYTES).read_to_end(&mut head)?;
        let (encoding, mark) = match head.as_slice() {
            [0xff, 0xfe, ..] => (Encoding::Utf16Le, 2),
            [0xfe, 0xff, ..] => (Encoding::Utf16Be, 2),
            [0xef, 0xbb, 0xbf, ..] => (Encoding::Bytes, 3),
            // ASCII in UTF-16, whose mark is missing.
            [1..=127, 0, 1..=127, 0, ..] => (Encoding::Utf16Le, 0),
            [0, 1..=127, 0, 1..=127, ..] => (Encoding::Utf16Be, 0),
            // Text has no two zeros in a row, not even if UTF-16 was added to a file of ASCII.
            bytes if bytes.windows(2).any(|pair| pair == [0, 0]) => (Encoding::None, bytes.len()),
            _ => (Encoding::Bytes, 0),
        };
        let head = Cursor::new(head.split_off(mark));
        let source = BufReader::with_capacity(BUFFER_BYTES, head.chain(source));
        Ok(Lines { source, encoding, bytes: Vec::new(), is_after_cr: false })
    }

    /// Returns the next line; `None` at the end.
    ///
    /// # Errors
    /// The source cannot be read.
    pub(super) fn next(&mut self) -> io::Result<Option<RawLine>> {
        self.bytes.clear();
        let (mut is_cut, mut is_begun) = (false, false);
        while let Some(char) = self.character()? {
            let is_second = std::mem::take(&mut self.is_after_cr) && char == u32::from(b'\n');
            match u8::try_from(char) {
                Ok(b'\n') if is_second => continue,
                Ok(b'\n' | FORM_FEED) => return Ok(Some(self.line(is_cut))),
                Ok(b'\r') => {
                    self.is_after_cr = true;
                    return Ok(Some(self.line(is_cut)));
                }
                _ => is_begun = true,
            }
            is_cut |= !self.keep(char);
        }
        Ok(is_begun.then(|| self.line(is_cut)))
    }

    /// Returns the next byte, or the next character of UTF-16.
    fn character(&mut self) -> io::Result<Option<u32>> {
        let Some(first) = self.byte()? else { return Ok(None) };
        if self.encoding == Encoding::Bytes {
            return Ok(Some(first.into()));
        }
        let second = self.byte()?.unwrap_or_default();
        Ok(Some(
            match self.encoding {
                Encoding::Utf16Be => u16::from_be_bytes([first, second]),
                _ => u16::from_le_bytes([first, second]),
            }
            .into(),
        ))
    }

    fn byte(&mut self) -> io::Result<Option<u8>> {
        let byte = loop {
            match self.source.fill_buf() {
                Ok(bytes) => break bytes.first().copied(),
                Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
                Err(err) => return Err(err),
            }
        };
        self.source.consume(usize::from(byte.is_some()));
        Ok(byte)
    }

    /// Adds a character to the line. Returns whether there was room.
    fn keep(&mut self, char: u32) -> bool {
        if self.bytes.len() >= MAX_LINE_BYTES {
            return false;
        }
        match self.encoding {
            Encoding::Bytes => self.bytes.push(u8::try_from(char).unwrap_or(b'?')),
            // Half of a character beyond the first 65,536 is no word that is looked for.
            _ => {
                let char = char::from_u32(char).unwrap_or(char::REPLACEMENT_CHARACTER);
                self.bytes.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        true
    }

    fn line(&self, is_cut: bool) -> RawLine {
        RawLine { text: decoded(&self.bytes), is_cut }
    }
}

/// Returns the text of UTF-8, or else of a code page.
fn decoded(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        // Only the last character is not whole: the line was cut there.
        Err(err) if err.error_len().is_none() => String::from_utf8_lossy(&bytes[..err.valid_up_to()]).into(),
        Err(_) => bytes.iter().map(|byte| western(*byte)).collect(),
    }
}

/// Returns the letter of a byte. From 0xa0, ISO 8859-1 and Windows-1252 agree. Below, consoles have the letters of code page 850,
/// where the other two have quotation marks or nothing.
fn western(byte: u8) -> char {
    match byte.checked_sub(0x80) {
        Some(high) => CP850.get(usize::from(high)).copied().unwrap_or(char::from(byte)),
        None => char::from(byte),
    }
}

/// Bytes 0x80 to 0x9f of code page 850.
const CP850: [char; 32] = [
    'Ç', 'ü', 'é', 'â', 'ä', 'à', 'å', 'ç', 'ê', 'ë', 'è', 'ï', 'î', 'ì', 'Ä', 'Å', 'É', 'æ', 'Æ', 'ô', 'ö', 'ò', 'û',
    'ù', 'ÿ', 'Ö', 'Ü', 'ø', '£', 'Ø', '×', 'ƒ',
];
const FORM_FEED: u8 = 0x0c;
/// Bytes by which the encoding is told.
const HEAD_BYTES: u64 = 8192;
const BUFFER_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8]) -> Vec<String> {
        let mut lines = Lines::of(bytes).unwrap();
        std::iter::from_fn(|| lines.next().unwrap()).map(|line| line.text).collect()
    }

    #[test]
    fn every_line_end_ends_one_line() {
        for text in ["a\nb\n", "a\r\nb\r\n", "a\rb\r", "a\x0cb", "\u{feff}a\nb"] {
            assert_eq!(lines(text.as_bytes()), ["a", "b"], "{text:?}");
        }
        assert_eq!(lines(b"a\r\n\r\nb"), ["a", "", "b"]);
        assert_eq!(lines(b""), [""; 0]);
        assert_eq!(lines(b"\x7fELF\x02\0\0\0\nsack = 0\n"), [""; 0]);
    }

    #[test]
    fn utf16_with_and_without_its_mark_and_code_pages() {
        let utf16 = |order: fn(u16) -> [u8; 2], text: &str| text.encode_utf16().flat_map(order).collect::<Vec<u8>>();
        for text in ["\u{feff}Größe\r\nx", "Gr: ö\r\nx"] {
            let expected = [text.trim_start_matches('\u{feff}').split("\r\n").next().unwrap(), "x"];
            assert_eq!(lines(&utf16(u16::to_le_bytes, text)), expected);
            assert_eq!(lines(&utf16(u16::to_be_bytes, text)), expected);
        }
        // Code page 850 has ö at 0x94, Windows-1252 at 0xf6.
        assert_eq!(lines(b"L\x94sung\nL\xf6sung\nL\xc3\xb6sung"), ["Lösung"; 3]);
    }

    #[test]
    fn a_line_without_end_takes_no_memory() {
        let mut lines = Lines::of(io::repeat(b'x').take(10_000_000)).unwrap();
        let line = lines.next().unwrap().unwrap();
        assert_eq!((line.text.len(), line.is_cut), (MAX_LINE_BYTES, true));
        assert!(lines.next().unwrap().is_none());
        assert!(lines.bytes.capacity() <= 2 * MAX_LINE_BYTES);
    }
}
