//! Goes on with a line when its data connection is opened: names its address to a side, or says why there is none.

use super::action::{Action, Opening, Out};
use super::address;
use super::dialogue::{Asked, Asking, ClientEnd, Dialogue, Then};
use super::refused::Refused;
use super::verb::Form;
use std::net::SocketAddr;

impl Dialogue {
    /// Asks the caller to open a data connection, or an end of it.
    pub(super) fn ask(&mut self, opening: Opening, then: impl Into<Option<Then>>, out: &mut Out) {
        self.is_opened = true;
        self.asking = Some(Asking { then: then.into(), is_heard: !self.due.is_closed() });
        out.actions.push_back(Action::Open(opening));
    }

    /// Goes on with the line that waited for a data connection. `opened` is its address, or why there is none.
    pub(super) fn opened(&mut self, opened: Result<SocketAddr, String>, out: &mut Out) {
        let Some(Asking { then, is_heard }) = self.asking.take() else {
            if let (ClientEnd::Due, Err(why)) = (&self.client, opened) {
                // The client was dialled before its transfer, which is refused.
                self.client = ClientEnd::Failed(why);
            }
            return;
        };
        let Some(then) = then else {
            self.client = opened.map_or_else(ClientEnd::Failed, |_| ClientEnd::Dialled);
            return;
        };
        if opened.is_ok() && matches!(then, Then::Port(_) | Then::Accepted) {
            self.client = ClientEnd::Due;
        }
        if opened.is_ok() && self.due.has_only_begun() {
            // STOU may have its 150 before PORT.
            out.actions.extend(self.transfer.take().map(Action::Transfer));
            out.actions.push_back(Action::Begin);
        }
        let reply = opened.map_err(Refused::NoListener).and_then(|address| match then {
            Then::Port(form) => Ok(self.name_to_server(form, address, out)),
            Then::PortForPassive(form) => {
                self.expect(Asked::Meeting(form));
                Ok(self.name_to_server(Form::Plain, address, out))
            }
            Then::Entering(form) => entering(form, address),
            Then::Accepted => Ok("200 PORT command successful\r\n".into()),
        });
        let reply = reply.unwrap_or_else(|why| out.refuse(why, 425));
        if is_heard {
            out.to.client.extend_from_slice(reply.as_bytes());
        }
    }

    /// Sends the server the command that names this address. Returns no reply, because the server sends one.
    fn name_to_server(&mut self, form: Form, address: SocketAddr, out: &mut Out) -> String {
        out.to.server.extend_from_slice(port_command(form, address).as_bytes());
        self.due.command();
        String::new()
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
