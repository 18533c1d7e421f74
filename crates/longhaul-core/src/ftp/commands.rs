//! Takes the lines of the client: passes them on, rewrites them, or refuses them.
//!
//! A refused command is not passed on. It had to wait for its turn, so the session replies to it at once.

use super::action::{Action, Opening, Out, Transfer};
use super::address::{self, Bad};
use super::dialogue::{Asked, Dialogue, Then};
use super::line::{Line, NOP};
use super::refused::Refused;
use super::rules::Mode;
use super::side::Side;
use super::verb::{Command, Form, Kind};
use crate::text::printable;
use std::net::SocketAddr;

/// A held command that is not refused.
enum Wanted {
    /// Passive mode, asked for in this form.
    Passive(Form),
    /// Active mode, to this address, which the client may name.
    Active(Form, SocketAddr),
    /// EPSV ALL: from now on only EPSV.
    OnlyEpsv,
}

/// The server's share in a command.
enum Decided {
    /// The server has it.
    Sent,
    /// A data connection is opened first.
    Asked,
    /// The server never gets it, and the client gets this reply.
    Own(&'static str),
}

impl Dialogue {
    /// Takes a line that was passed on already.
    pub(super) fn passed(&mut self, line: &Line, out: &mut Out) {
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
                if self.is_opened {
                    let transfer = Transfer { verb: verb.name, name: shown_name(command.argument) };
                    out.actions.push_back(Action::Transfer(transfer));
                }
            }
            Some(verb) if verb.kind == Kind::Auth => self.awaits_auth = true,
            _ => {}
        }
    }

    /// Whether this held line asks for a data connection, and is not refused.
    pub(super) fn needs_room(&self, line: &Line) -> bool {
        matches!(self.check(line), Ok(Wanted::Passive(_) | Wanted::Active(..)))
    }

    /// Takes a held line, whose turn it is: the server gets something, or the client the session's own reply.
    pub(super) fn held(&mut self, line: &Line, out: &mut Out) {
        let own = match self.decide(line, out) {
            Ok(Decided::Sent) => return self.due.command(),
            Ok(Decided::Asked) => return,
            Ok(Decided::Own(reply)) => reply.to_string(),
            Err(why) => {
                let code = why.code();
                out.refuse(why, code)
            }
        };
        if line.has_passed_iac() {
            // Nothing of the next line may become a part of a sequence that begins with it.
            out.to.server.push(NOP);
        }
        if !self.due.is_closed() {
            out.to.client.extend_from_slice(own.as_bytes());
        }
    }

    /// Reads a held line.
    ///
    /// # Errors
    /// The client may not ask for this.
    fn check(&self, line: &Line) -> Result<Wanted, Refused> {
        let command = Command::read(line.text());
        if line.is_long() {
            return Err(Refused::LongLine);
        }
        if command.has_return {
            return Err(Refused::BareReturn);
        }
        match command.verb.map(|verb| verb.kind) {
            Some(Kind::Passive(form)) => self.check_passive(form, command.argument),
            Some(Kind::Active(form)) => self.check_active(form, command.argument),
            Some(Kind::Refused(why)) => Err(why.clone()),
            Some(Kind::Auth | Kind::Transfer | Kind::Abort) | None => Err(Refused::Hidden),
        }
    }

    fn check_passive(&self, form: Form, argument: &[u8]) -> Result<Wanted, Refused> {
        let client = self.rules.ends.client;
        match form {
            Form::Plain if self.is_epsv_only => Err(Refused::EpsvOnly),
            Form::Plain if client.is_ipv6() => Err(Refused::NeedsEpsv),
            Form::Plain => Ok(Wanted::Passive(form)),
            Form::Extended if argument.eq_ignore_ascii_case(b"ALL") => Ok(Wanted::OnlyEpsv),
            Form::Extended => match (argument, client.is_ipv4()) {
                (b"", _) | (b"1", true) | (b"2", false) => Ok(Wanted::Passive(form)),
                (_, true) => Err(Refused::BadFamily("(1)")),
                (_, false) => Err(Refused::BadFamily("(2)")),
            },
        }
    }

    fn check_active(&self, form: Form, argument: &[u8]) -> Result<Wanted, Refused> {
        if self.is_epsv_only {
            return Err(Refused::EpsvOnly);
        }
        let named = match form {
            Form::Plain => address::read_port(argument).ok_or(Refused::BadAddress)?,
            Form::Extended => address::read_eprt(argument)?,
        };
        Ok(Wanted::Active(form, self.rules.admit(Side::Client, named)?))
    }

    /// Decides about a held line.
    fn decide(&mut self, line: &Line, out: &mut Out) -> Result<Decided, Refused> {
        match self.check(line)? {
            Wanted::Passive(form) => Ok(self.passive(form, line.held(), out)),
            Wanted::Active(form, dial) => Ok(self.active(form, dial, out)),
            Wanted::OnlyEpsv => {
                // The server gets PASV, PORT or EPRT, so it must not obey EPSV ALL.
                self.is_epsv_only = self.rules.mode == Mode::Active || !self.rules.ends.are_alike();
                if self.is_epsv_only {
                    return Ok(Decided::Own("200 EPSV ALL accepted\r\n"));
                }
                out.to.server.extend_from_slice(line.held());
                Ok(Decided::Sent)
            }
        }
    }

    /// PASV and EPSV: the server gets the form of its own IP version, or the address of a data listener of this relay. `line` is the
    /// line as it came.
    fn passive(&mut self, form: Form, line: &[u8], out: &mut Out) -> Decided {
        self.is_opened = false;
        if self.rules.mode == Mode::Active {
            self.ask(Opening::ForServer, Then::PortForPassive(form), out);
            return Decided::Asked;
        }
        match self.rules.ends.are_alike() {
            true => out.to.server.extend_from_slice(line),
            false => self.ask_for_passive(out),
        }
        self.expect(Asked::Passive(form));
        Decided::Sent
    }

    /// Appends the command for passive mode in the form of the server's IP version.
    fn ask_for_passive(&self, out: &mut Out) {
        out.to.server.extend_from_slice(if self.rules.ends.server.is_ipv4() { b"PASV\r\n" } else { b"EPSV\r\n" });
    }

    /// PORT and EPRT: the server gets the address of a data listener of this relay, or PASV or EPSV.
    fn active(&mut self, form: Form, dial: SocketAddr, out: &mut Out) -> Decided {
        self.is_opened = false;
        if self.rules.mode == Mode::Passive {
            self.ask_for_passive(out);
            self.expect(Asked::Active(dial));
            return Decided::Sent;
        }
        let opening = Opening::Listener { accept_from: Side::Server, dial };
        self.ask(opening, Then::Port(form), out);
        Decided::Asked
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
fn shown_name(name: &[u8]) -> String {
    let mut shown = String::new();
    for character in printable(&String::from_utf8_lossy(name)) {
        if shown.len() + character.len_utf8() > MAX_NAME_BYTES {
            break;
        }
        shown.push(character);
    }
    shown
}

/// The longest name that Linux file systems have.
const MAX_NAME_BYTES: usize = 255;
