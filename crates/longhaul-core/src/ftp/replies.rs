//! Takes the lines of the server: passes them on, or replaces the addresses in them.
//!
//! A reply is one line `227 text`, or several: the first `227-text`, the last `227 text`, the others anything (RFC 959 4.2).
//! Each command has one reply, in the order of the commands, and any number of preliminary replies (1xx) before it.

use super::address;
use super::channels::{Channels, Joining, Opening};
use super::dialogue::{Asked, Begun, Dialogue, Expected};
use super::due::{BEGINNINGS, Code};
use super::line::{Fate, IAC, Line};
use super::refused::Refused;
use super::side::Side;
use super::verb::Form;
use std::net::SocketAddr;

impl Dialogue {
    /// Returns the fate of a line of the server that begins with this text.
    ///
    /// 227 and 229 never pass as they are, whether PASV waits or not, and whatever stands before, between and after the digits:
    /// some client may read an address in such a line. That holds inside a reply of several lines, too.
    pub(super) fn fate(&self, text: &[u8]) -> Fate {
        if self.begun.is_some_and(|begun| begun.fate == Fate::Hold) {
            return Fate::Hold;
        }
        let awaits_accepted =
            matches!(self.expected, Some(Expected { asked: Asked::Meeting(_), .. })) && self.begun.is_none();
        // Some clients take a letter after a byte 255 for a part of a telnet sequence.
        let read = |skips: bool| {
            let is_skipped = |at: usize| skips && at.checked_sub(1).is_some_and(|before| text[before] == IAC);
            let bytes = text.iter().enumerate().filter(|(at, byte)| byte.is_ascii_graphic() && !is_skipped(*at));
            fate_of(bytes.map(|(_, byte)| *byte), awaits_accepted)
        };
        match (read(false), read(true)) {
            (Fate::Hold, _) | (_, Fate::Hold) => Fate::Hold,
            (Fate::Undecided, _) | (_, Fate::Undecided) => Fate::Undecided,
            (Fate::Pass, Fate::Pass) => Fate::Pass,
        }
    }

    /// Takes a whole line of the server. Returns whether everything after it is encrypted.
    pub(super) fn reply(&mut self, line: &Line, channels: &mut impl Channels, to_client: &mut Vec<u8>) -> bool {
        let is_inside_other = self.begun.is_some_and(|begun| begun.fate != Fate::Hold);
        let Some(code) = self.last_line(line) else {
            if is_inside_other && line.fate() == Fate::Hold {
                channels.refused(&Refused::Unasked);
                // curl, lftp and tnftp take any three digits and a space for the last line of a reply.
                if !line.is_long() {
                    to_client.extend_from_slice(b"- ");
                    to_client.extend_from_slice(line.held());
                }
            }
            return false;
        };
        if line.fate() == Fate::Hold {
            self.named(line, code, channels, to_client);
            return false;
        }
        if code == *AUTH_ACCEPTED && self.awaits_auth {
            return true;
        }
        match self.expected {
            Some(_) if code[0] == b'1' || LATE.contains(&&code) => {}
            Some(expected) => {
                self.expected = None;
                self.late = Some(expected.asked);
                self.due.forget();
            }
            None => {
                if BEGINNINGS.contains(&&code) || code == *TRANSFERRED && self.due.has_transfer() {
                    channels.begins();
                }
                self.due.reply(code);
            }
        }
        self.awaits_auth &= !self.due.is_none();
        false
    }

    /// Returns the code if this line is the last of its reply.
    fn last_line(&mut self, line: &Line) -> Option<Code> {
        let text = line.text();
        let code = text.first_chunk().filter(|code: &&Code| code.iter().all(u8::is_ascii_digit)).copied();
        let end = text.get(3);
        match self.begun {
            Some(begun) if code == Some(begun.code) && matches!(end, Some(b' ' | b'\r' | b'\n')) => {
                self.begun = None;
                code
            }
            Some(_) => None,
            None => {
                let begun = code.filter(|_| end == Some(&b'-')).map(|code| Begun { code, fate: line.fate() });
                self.begun = begun;
                match begun {
                    Some(_) => None,
                    // No digits at its beginning, but 227 or 229 if other bytes are skipped.
                    None if line.fate() == Fate::Hold => Some(code.unwrap_or_default()),
                    None => code,
                }
            }
        }
    }

    /// Takes a reply that names an address, or accepts one. Every reply before it has come, or will never come.
    fn named(&mut self, line: &Line, code: Code, channels: &mut impl Channels, to_client: &mut Vec<u8>) {
        let expected = match (self.expected.take(), self.late.take()) {
            (Some(expected), _) => {
                self.due.forget();
                Ok(expected)
            }
            (None, Some(asked)) => {
                self.due.reply(code);
                self.channel += 1;
                Ok(Expected { channel: self.channel, asked })
            }
            (None, None) => {
                self.due.reply(code);
                Err(Refused::Unasked)
            }
        };
        let opened = match expected {
            Ok(_) if line.is_long() => Err(Refused::LongLine),
            Ok(expected) => self.lead_to_address(expected, line.text(), code, channels),
            Err(why) => Err(why),
        };
        let reply = opened.unwrap_or_else(|why| {
            channels.refused(&why);
            why.reply(425)
        });
        to_client.extend_from_slice(reply.as_bytes());
    }

    /// Takes the last line of a reply with this code: opens a data listener for the address in it, or joins the address with the
    /// client's. If the server accepts the address of a listener, opens one for the client. Returns the reply for the client.
    fn lead_to_address(
        &self,
        Expected { channel, asked }: Expected,
        text: &[u8],
        code: Code,
        channels: &mut impl Channels,
    ) -> Result<String, Refused> {
        match asked {
            Asked::Passive(form) => {
                let opening = Opening { channel, accept_from: Side::Client, dial: self.read_address(text, code)? };
                entering(form, channels.open(opening).map_err(Refused::NoListener)?)
            }
            Asked::Active(client) => {
                let joining = Joining { channel, server: self.read_address(text, code)?, client };
                channels.join(joining).map_err(Refused::NoListener)?;
                Ok("200 PORT command successful\r\n".into())
            }
            Asked::Meeting(form) if code == *ACCEPTED => entering(form, channels.meet().map_err(Refused::NoListener)?),
            Asked::Meeting(_) => Err(Refused::Unasked),
        }
    }

    /// Returns the address in the last line of a reply with this code, if the server may name it.
    fn read_address(&self, text: &[u8], code: Code) -> Result<SocketAddr, Refused> {
        let text = text.get(code.len()..).unwrap_or_default();
        let named = match &code {
            PASSIVE => address::read_227(text),
            EXTENDED_PASSIVE => address::read_229(text).map(|port| SocketAddr::new(self.rules.ends.server, port)),
            _ => None,
        };
        self.rules.admit(Side::Server, named.ok_or(Refused::BadAddress)?)
    }
}

/// Returns the reply to PASV or EPSV that names this address.
fn entering(form: Form, address: SocketAddr) -> Result<String, Refused> {
    let address = address::canonical(address);
    match form {
        Form::Plain => {
            let numbers = address::six_numbers(address).ok_or(Refused::NeedsEpsv)?;
            Ok(format!("227 Entering Passive Mode ({numbers}).\r\n"))
        }
        Form::Extended => Ok(format!("229 Entering Extended Passive Mode (|||{}|)\r\n", address.port())),
    }
}

/// Returns the fate of a line of the server with these printable bytes. `awaits_accepted`: 200 is held, too.
fn fate_of(bytes: impl Iterator<Item = u8>, awaits_accepted: bool) -> Fate {
    let (mut seen, mut length) = ([0; 3], 0);
    for byte in bytes.take(3) {
        seen[length] = byte;
        length += 1;
    }
    let begins = |code: &Code| code.starts_with(&seen[..length]);
    let may_matter = begins(PASSIVE) || begins(EXTENDED_PASSIVE) || awaits_accepted && begins(ACCEPTED);
    match length {
        _ if !may_matter => Fate::Pass,
        3 => Fate::Hold,
        _ => Fate::Undecided,
    }
}

/// RFC 959 5.4, RFC 2428 2: PORT or EPRT is accepted.
const ACCEPTED: &Code = b"200";
/// RFC 959 4.2: entering passive mode.
const PASSIVE: &Code = b"227";
/// RFC 2428 3: entering extended passive mode.
const EXTENDED_PASSIVE: &Code = b"229";
/// RFC 2228: security data exchange complete.
const AUTH_ACCEPTED: &Code = b"234";
/// RFC 959 5.4: the last reply to a transfer. A server may leave out that it begins.
const TRANSFERRED: &Code = b"226";
/// RFC 959 5.4: the last replies to a transfer and to ABOR. PASV never has them, but they may come late.
const LATE: &[&Code] = &[b"225", b"226", b"250", b"426"];
