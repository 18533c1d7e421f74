//! Takes the lines of the server: passes them on, or replaces the addresses in them.
//!
//! A reply is one line `227 text`, or several: the first `227-text`, the last `227 text`, the others anything (RFC 959 4.2).
//! Each command has one reply, in the order of the commands, and any number of preliminary replies (1xx) before it.

use super::action::{Action, Opening, Out};
use super::address;
use super::dialogue::{Asked, Begun, ClientEnd, Dialogue, Then};
use super::due::{BEGINNINGS, Code, Ended};
use super::line::{ControlLine, Fate, IAC, NOP};
use super::refused::Refused;
use super::side::Side;
use std::net::SocketAddr;

impl Dialogue {
    /// Returns the fate of a line of the server that begins with this text.
    ///
    /// 227 and 229 never pass as they are, whether PASV waits or not, and whatever stands before, between and after the digits:
    /// some client may read an address in such a line. That holds inside a reply of several lines, too. While the dialogue is
    /// [guarded](Dialogue::is_guarded), each line that begins with 2 or 3 is held: lftp and wget take an address from every 2xx,
    /// FileZilla from 3xx as well, and wget from a line inside another reply.
    pub(super) fn fate(&self, text: &[u8]) -> Fate {
        if self.begun.is_some_and(|begun| begun.fate == Fate::Hold) {
            return Fate::Hold;
        }
        // Some clients skip a byte 255 and the one after it, so the digits that they read are not known.
        let Some((bytes, length)) = beginning(text) else { return Fate::Hold };
        let seen = &bytes[..length];
        match (length, seen.first()) {
            (_, Some(b'2' | b'3')) if self.is_guarded => Fate::Hold,
            _ if !PASSIVE.starts_with(seen) && !EXTENDED_PASSIVE.starts_with(seen) => Fate::Pass,
            (3, _) => Fate::Hold,
            _ => Fate::Undecided,
        }
    }

    /// Takes a whole line of the server. Returns whether everything after it is encrypted.
    pub(super) fn reply(&mut self, line: &ControlLine, out: &mut Out) -> bool {
        let is_inside = self.begun.is_some();
        let last = self.last_line(line);
        if line.fate() == Fate::Hold {
            if line.has_passed_iac() {
                // Nothing that follows may become a part of a sequence that begins with it, or of its line.
                out.to.client.extend([NOP, b'\r', b'\n']);
            }
            match (last, self.begun) {
                (Some(code), _) if self.leads_to_address(code) => {
                    self.named(line, code, out);
                    return false;
                }
                (None, Some(begun)) if self.leads_to_address(begun.code) => {}
                (None, Some(_)) if is_inside && is_named(line.text()) => pass_behind_dash(line, out),
                _ => pass_without_address(line, out),
            }
        }
        let Some(code) = last else { return false };
        if code == *AUTH_ACCEPTED && self.awaits_auth {
            return true;
        }
        self.is_guarded &= code[0] == b'1' || LATE.contains(&&code) || line.text().get(3) != Some(&b' ');
        match self.expected {
            Some(_) if code[0] == b'1' || LATE.contains(&&code) || is_odd(line) => {}
            Some(asked) => {
                self.expected = None;
                // What does not accept the address refuses it.
                self.late = Some(asked).filter(|asked| !matches!(asked, Asked::Meeting(_)));
                self.due.answered();
            }
            None => {
                if BEGINNINGS.contains(&&code) || TRANSFERRED.contains(&&code) && self.due.has_transfer() {
                    out.actions.push_back(Action::Begin);
                }
                let ended = self.due.reply(code);
                match ended {
                    Ended::Refused if self.is_opened => out.actions.push_back(Action::RefusedTransfer),
                    Ended::WithoutData if self.is_opened => out.actions.push_back(Action::LacksData),
                    _ => {}
                }
                if self.client == ClientEnd::Dialled && ended != Ended::No {
                    // The caller looks at it before the next transfer.
                    self.client = ClientEnd::Due;
                }
            }
        }
        self.awaits_auth &= !self.due.is_none();
        false
    }

    /// Whether a held reply with this code leads to an address, or may lead some client to one. 000: it has no code.
    fn leads_to_address(&self, code: Code) -> bool {
        let asked = self.expected.or(self.late);
        let awaits_accepted = matches!(asked, Some(Asked::Meeting(_)));
        matches!(&code, PASSIVE | EXTENDED_PASSIVE | [0, 0, 0]) || awaits_accepted && code == *ACCEPTED
    }

    /// Returns the code if this line is the last of its reply.
    fn last_line(&mut self, line: &ControlLine) -> Option<Code> {
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
                    None if is_named(text) => Some(code.unwrap_or_default()),
                    None => code,
                }
            }
        }
    }

    /// Takes a reply that names an address, or accepts one. Every reply before it has come, or will never come.
    fn named(&mut self, line: &ControlLine, code: Code, out: &mut Out) {
        let is_late = self.expected.is_none();
        let asked = self.expected.take().or(self.late);
        self.late = None;
        if is_late {
            self.due.reply(code);
            self.is_opened &= asked.is_none();
        } else {
            self.due.answered();
        }
        self.is_guarded = false;
        let asks = match asked {
            None => Err(Refused::Unasked),
            Some(_) if line.is_long() => Err(Refused::LongLine),
            Some(asked) => self.opening(asked, line.text(), code),
        };
        match asks {
            Ok((opening, then)) => self.ask(opening, then, out),
            Err(why) => {
                let reply = out.refuse(why, 425);
                out.to.client.extend_from_slice(reply.as_bytes());
            }
        }
    }

    /// Returns the data connection to which the last line of a reply with this code leads: a listener for the address in it, or one that
    /// joins the address with the client's. If the server accepts the address of a listener, one for the client.
    fn opening(&self, asked: Asked, text: &[u8], code: Code) -> Result<(Opening, Then), Refused> {
        match asked {
            Asked::Passive(form) => {
                let dial = self.read_address(text, code)?;
                Ok((Opening::Listener { accept_from: Side::Client, dial }, Then::Entering(form)))
            }
            Asked::Active(client) => {
                Ok((Opening::Join { server: self.read_address(text, code)?, client }, Then::Accepted))
            }
            Asked::Meeting(form) if code == *ACCEPTED => Ok((Opening::ForClient, Then::Entering(form))),
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

/// Returns the first three printable bytes of a line, and how many of them have come. `None` if a byte 255 stands before the third.
fn beginning(text: &[u8]) -> Option<(Code, usize)> {
    let (mut bytes, mut length) = ([0; 3], 0);
    for byte in text.iter().filter(|byte| byte.is_ascii_graphic() || **byte == IAC) {
        if *byte == IAC {
            return None;
        }
        bytes[length] = *byte;
        length += 1;
        if length == bytes.len() {
            break;
        }
    }
    Some((bytes, length))
}

/// Whether some clients do not take this line for a reply, and look for an address in the next one. An error may end the wait all the
/// same.
fn is_odd(line: &ControlLine) -> bool {
    line.text().get(3) != Some(&b' ') && !matches!(line.text().first(), Some(b'4' | b'5'))
}

/// Whether some client may take this line for 227 or 229.
fn is_named(text: &[u8]) -> bool {
    beginning(text).is_none_or(|(code, _)| matches!(&code, PASSIVE | EXTENDED_PASSIVE))
}

/// Passes a line like 227 on, inside a reply of several lines. curl, lftp and tnftp take any three digits and a space for the last line
/// of a reply, so it gets a dash in front.
fn pass_behind_dash(line: &ControlLine, out: &mut Out) {
    out.actions.push_back(Action::Refused(Refused::Unasked));
    if !line.is_long() {
        out.to.client.extend_from_slice(b"- ");
        out.to.client.extend_from_slice(line.held());
    }
}

/// Passes a line on that came while a reply leads to an address, but without an address.
fn pass_without_address(line: &ControlLine, out: &mut Out) {
    let commas = line.held().iter().filter(|byte| **byte == b',').count();
    // Some clients skip the byte after a byte 255, even if it is the end of the line.
    if commas < ADDRESS_COMMAS && !line.text().contains(&IAC) && !line.is_long() {
        return out.to.client.extend_from_slice(line.held());
    }
    out.actions.push_back(Action::Refused(Refused::Unasked));
    let start = line.text().get(..4).filter(|start| start[..3].iter().all(u8::is_ascii_digit));
    out.to.client.extend_from_slice(start.unwrap_or_default());
    out.to.client.extend_from_slice(b"the relay has left out an address\r\n");
}

/// Number of commas in the address of the reply 227.
const ADDRESS_COMMAS: usize = 5;
/// RFC 959 5.4, RFC 2428 2: PORT or EPRT is accepted.
const ACCEPTED: &Code = b"200";
/// RFC 959 4.2: entering passive mode.
const PASSIVE: &Code = b"227";
/// RFC 2428 3: entering extended passive mode.
const EXTENDED_PASSIVE: &Code = b"229";
/// RFC 2228: security data exchange complete.
const AUTH_ACCEPTED: &Code = b"234";
/// RFC 959 5.4: the last replies to a transfer. A server may leave out that it begins.
const TRANSFERRED: &[&Code] = &[b"226", b"250"];
/// RFC 959 5.4: the last replies to a transfer and to ABOR. PASV never has them, but they may come late.
const LATE: &[&Code] = &[b"225", b"226", b"250", b"426"];
