//! Takes the lines of the client: passes them on, rewrites them, or refuses them.
//!
//! A refused command is not passed on. It had to wait for its turn, so the session replies to it at once.

use super::action::{Action, Opening, Out, Transfer};
use super::address::{self, Bad};
use super::dialogue::{Asked, ClientEnd, Dialogue, Then};
use super::line::{ControlLine, Fate, NOP};
use super::refused::Refused;
use super::rules::Mode;
use super::side::Side;
use super::verb::{self, Command, Form, Kind};
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
    /// A transfer, for which the client is dialled first.
    Transfer,
}

/// The decision about a held line.
enum Decided {
    /// The server has it, or a data connection is opened for it first.
    Taken,
    /// The server never gets it, and the client gets this reply.
    Own(&'static str),
    /// It needs another turn.
    Later,
}

impl Dialogue {
    /// Returns the fate of a line of the client that begins with this text.
    pub(super) fn command_fate(&self, text: &[u8]) -> Fate {
        verb::fate(text, matches!(self.client, ClientEnd::Due | ClientEnd::Failed(_)))
    }

    /// Takes a line that was passed on already.
    pub(super) fn passed(&mut self, line: &ControlLine, out: &mut Out) {
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
                let transfer = Transfer { verb: verb.name, name: shown_name(command.argument) };
                if self.is_opened {
                    out.actions.push_back(Action::Transfer(transfer.clone()));
                }
                self.transfer = Some(transfer);
            }
            Some(verb) if verb.kind == Kind::Auth => self.awaits_auth = true,
            _ => {}
        }
    }

    /// Whether this held line asks for a data connection, and is not refused.
    pub(super) fn needs_room(&self, line: &ControlLine) -> bool {
        matches!(self.check(line), Ok(Wanted::Passive(_) | Wanted::Active(..)))
    }

    /// Takes a held line, whose turn it is: the server gets something, or the client the session's own reply. Returns false if the line
    /// needs another turn.
    pub(super) fn held(&mut self, line: &ControlLine, out: &mut Out) -> bool {
        let own = match self.decide(line, out) {
            Ok(Decided::Taken) => return true,
            Ok(Decided::Later) => return false,
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
        true
    }

    /// Reads a held line.
    ///
    /// # Errors
    /// The client may not ask for this.
    fn check(&self, line: &ControlLine) -> Result<Wanted, Refused> {
        let command = Command::read(line.text());
        if line.is_long() {
            return Err(Refused::LongLine);
        }
        match command.verb.map(|verb| verb.kind) {
            Some(Kind::Transfer) => Ok(Wanted::Transfer),
            _ if command.has_return => Err(Refused::BareReturn),
            Some(Kind::Passive(form)) => self.check_passive(form, command.argument),
            Some(Kind::Active(form)) => self.check_active(form, command.argument),
            Some(Kind::Refused(why)) => Err(why.clone()),
            Some(Kind::Auth | Kind::Abort) | None => Err(Refused::Hidden),
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
    fn decide(&mut self, line: &ControlLine, out: &mut Out) -> Result<Decided, Refused> {
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
                self.due.command();
                Ok(Decided::Taken)
            }
            Wanted::Transfer => self.transfer(line, out),
        }
    }

    /// PASV and EPSV: the server gets the form of its own IP version, or the address of a data listener of this relay. `line` is the
    /// line as it came.
    fn passive(&mut self, form: Form, line: &[u8], out: &mut Out) -> Decided {
        (self.is_opened, self.client) = (false, ClientEnd::None);
        if self.rules.mode == Mode::Active {
            self.ask(Opening::ForServer, Then::PortForPassive(form), out);
            return Decided::Taken;
        }
        match self.rules.ends.are_alike() {
            true => out.to.server.extend_from_slice(line),
            false => self.ask_for_passive(out),
        }
        self.expect(Asked::Passive(form));
        self.due.command();
        Decided::Taken
    }

    /// Appends the command for passive mode in the form of the server's IP version.
    fn ask_for_passive(&self, out: &mut Out) {
        out.to.server.extend_from_slice(if self.rules.ends.server.is_ipv4() { b"PASV\r\n" } else { b"EPSV\r\n" });
    }

    /// PORT and EPRT: the server gets the address of a data listener of this relay, or PASV or EPSV.
    fn active(&mut self, form: Form, dial: SocketAddr, out: &mut Out) -> Decided {
        (self.is_opened, self.client) = (false, ClientEnd::None);
        if self.rules.mode == Mode::Passive {
            self.ask_for_passive(out);
            self.expect(Asked::Active(dial));
            self.due.command();
            return Decided::Taken;
        }
        let opening = Opening::Listener { accept_from: Side::Server, dial };
        self.ask(opening, Then::Port(form), out);
        Decided::Taken
    }

    /// A transfer in active mode: the server gets it once the client was dialled. Otherwise it could send a file, and say that it was
    /// sent, to a client that cannot get it.
    fn transfer(&mut self, line: &ControlLine, out: &mut Out) -> Result<Decided, Refused> {
        match std::mem::replace(&mut self.client, ClientEnd::Due) {
            ClientEnd::Due if !self.due.is_closed() => {
                self.ask(Opening::Client, None, out);
                return Ok(Decided::Later);
            }
            ClientEnd::Failed(why) => return Err(Refused::ClientPort(why)),
            other => self.client = other,
        }
        out.to.server.extend_from_slice(line.held());
        self.passed(line, out);
        Ok(Decided::Taken)
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
