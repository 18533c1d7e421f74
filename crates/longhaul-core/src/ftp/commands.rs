//! Takes the lines of the client: passes them on, rewrites them, or refuses them.
//!
//! A refused command is not passed on. It had to wait for its turn, so the session replies to it at once.

use super::address::{self, Bad};
use super::channels::{Channels, Opening, Transfer};
use super::dialogue::{Asked, Dialogue, Expected};
use super::line::Line;
use super::refused::Refused;
use super::rules::Mode;
use super::side::Side;
use super::verb::{Command, Form, Kind};
use std::net::SocketAddr;

/// The server's share in a command that was decided.
enum Decided {
    /// The server has it.
    Sent,
    /// The server never gets it, and the client gets this reply.
    Own(&'static str),
}

impl Dialogue {
    /// Takes a line that was passed on already.
    pub(super) fn passed(&mut self, line: &Line, channels: &mut impl Channels) {
        let command = Command::read(line.text());
        if command.is_empty() {
            return self.due.blank();
        }
        let is_during_transfer = self.due.has_transfer();
        self.due.command();
        let kind = command.verb.map(|verb| verb.kind);
        if is_during_transfer || kind == Some(Kind::Abort) || line.has_passed_iac() || !command.is_plain() {
            self.due.doubt();
        }
        match command.verb {
            Some(verb) if verb.kind == Kind::Transfer => {
                self.due.is_transfer();
                if self.channel > 0 {
                    channels.transfer(self.channel, Transfer { verb: verb.name, name: printable(command.argument) });
                }
            }
            Some(verb) if verb.kind == Kind::Auth => self.awaits_auth = true,
            _ => {}
        }
    }

    /// Whether this held line asks for a data connection.
    pub(super) fn needs_room(line: &Line) -> bool {
        let kind = Command::read(line.text()).verb.map(|verb| verb.kind);
        matches!(kind, Some(Kind::Passive(_) | Kind::Active(_)))
    }

    /// Takes a held line, whose turn it is. Appends to `to_server` what the server gets, or to `to_client` the session's own
    /// reply.
    pub(super) fn held(
        &mut self,
        line: &Line,
        channels: &mut impl Channels,
        to_client: &mut Vec<u8>,
        to_server: &mut Vec<u8>,
    ) {
        let own = match self.decide(line, channels, to_server) {
            Ok(Decided::Sent) => return self.due.command(),
            Ok(Decided::Own(reply)) => reply.to_string(),
            Err(why) => {
                channels.refused(&why);
                why.reply(why.code())
            }
        };
        if line.has_passed_iac() {
            // Nothing of the next line may become a part of a sequence that begins with it.
            to_server.push(TELNET_NOP);
        }
        if !self.due.is_closed() {
            to_client.extend_from_slice(own.as_bytes());
        }
    }

    /// Decides about a held line.
    fn decide(
        &mut self,
        line: &Line,
        channels: &mut impl Channels,
        to_server: &mut Vec<u8>,
    ) -> Result<Decided, Refused> {
        let command = Command::read(line.text());
        if line.is_long() {
            return Err(Refused::LongLine);
        }
        if command.has_return {
            return Err(Refused::BareReturn);
        }
        match command.verb.map(|verb| verb.kind) {
            Some(Kind::Passive(form)) => self.passive(form, command.argument, line.held(), channels, to_server),
            Some(Kind::Active(form)) => self.active(form, command.argument, channels, to_server),
            Some(Kind::Long) => Err(Refused::LongForm),
            Some(Kind::Auth | Kind::Transfer | Kind::Abort) | None => Err(Refused::Hidden),
        }
    }

    /// PASV and EPSV: the server gets the form of its own IP version, or the address of a data listener of this relay. `line` is the
    /// line as it came.
    fn passive(
        &mut self,
        form: Form,
        argument: &[u8],
        line: &[u8],
        channels: &mut impl Channels,
        to_server: &mut Vec<u8>,
    ) -> Result<Decided, Refused> {
        let ends = self.rules.ends;
        let is_active = self.rules.mode == Mode::Active;
        match form {
            Form::Plain if self.is_epsv_only => return Err(Refused::EpsvOnly),
            Form::Plain if ends.client.is_ipv6() => return Err(Refused::NeedsEpsv),
            Form::Extended if argument.eq_ignore_ascii_case(b"ALL") => {
                // The server gets PASV, PORT or EPRT, so it must not obey EPSV ALL.
                self.is_epsv_only = is_active || !ends.are_alike();
                if self.is_epsv_only {
                    return Ok(Decided::Own("200 EPSV ALL accepted\r\n"));
                }
                to_server.extend_from_slice(line);
                return Ok(Decided::Sent);
            }
            Form::Extended => {
                let (family, only) = if ends.client.is_ipv4() { (&b"1"[..], "(1)") } else { (&b"2"[..], "(2)") };
                if !argument.is_empty() && argument != family {
                    return Err(Refused::BadFamily(only));
                }
            }
            Form::Plain => {}
        }
        self.channel += 1;
        if is_active {
            let ours = channels.open_for_server(self.channel).map_err(Refused::NoListener)?;
            to_server.extend_from_slice(port_command(Form::Plain, ours).as_bytes());
            return Ok(self.expect(Asked::Meeting(form)));
        }
        match ends.are_alike() {
            true => to_server.extend_from_slice(line),
            false => self.ask_for_passive(to_server),
        }
        Ok(self.expect(Asked::Passive(form)))
    }

    /// Appends the command for passive mode in the form of the server's IP version.
    fn ask_for_passive(&self, to_server: &mut Vec<u8>) {
        to_server.extend_from_slice(if self.rules.ends.server.is_ipv4() { b"PASV\r\n" } else { b"EPSV\r\n" });
    }

    /// Notes that the reply to this request is to come.
    fn expect(&mut self, asked: Asked) -> Decided {
        if !self.due.is_closed() {
            self.expected = Some(Expected { channel: self.channel, asked });
        }
        Decided::Sent
    }

    /// PORT and EPRT: the server gets the address of a data listener of this relay, or PASV or EPSV.
    fn active(
        &mut self,
        form: Form,
        argument: &[u8],
        channels: &mut impl Channels,
        to_server: &mut Vec<u8>,
    ) -> Result<Decided, Refused> {
        if self.is_epsv_only {
            return Err(Refused::EpsvOnly);
        }
        let named = match form {
            Form::Plain => address::read_port(argument).ok_or(Refused::BadAddress)?,
            Form::Extended => address::read_eprt(argument)?,
        };
        let dial = self.rules.admit(Side::Client, named)?;
        self.channel += 1;
        if self.rules.mode == Mode::Passive {
            self.ask_for_passive(to_server);
            return Ok(self.expect(Asked::Active(dial)));
        }
        let opening = Opening { channel: self.channel, accept_from: Side::Server, dial };
        let ours = channels.open(opening).map_err(Refused::NoListener)?;
        to_server.extend_from_slice(port_command(form, ours).as_bytes());
        Ok(Decided::Sent)
    }
}

/// Returns the command that names this address to the server: PORT if the form is plain and the address is of IPv4, otherwise EPRT.
fn port_command(form: Form, address: SocketAddr) -> String {
    let address = address::canonical(address);
    match address::six_numbers(address) {
        Some(numbers) if form == Form::Plain => format!("PORT {numbers}\r\n"),
        _ => format!("EPRT {}\r\n", address::eprt(address)),
    }
}

impl From<Bad> for Refused {
    fn from(bad: Bad) -> Refused {
        match bad {
            Bad::Malformed => Refused::BadAddress,
            Bad::Family => Refused::BadFamily("(1,2)"),
        }
    }
}

/// Returns a name with `?` for each character that cannot be printed, at most [`MAX_NAME_BYTES`] bytes.
fn printable(name: &[u8]) -> String {
    let mut printable = String::new();
    for character in String::from_utf8_lossy(name).chars() {
        let character = match character.is_control() || character == char::REPLACEMENT_CHARACTER {
            true => '?',
            false => character,
        };
        if printable.len() + character.len_utf8() > MAX_NAME_BYTES {
            break;
        }
        printable.push(character);
    }
    printable
}

/// The second byte of the telnet sequence that does nothing (RFC 854).
const TELNET_NOP: u8 = 241;

/// The longest name that Linux file systems have.
const MAX_NAME_BYTES: usize = 255;
