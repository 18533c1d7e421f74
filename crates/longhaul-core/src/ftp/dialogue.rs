//! The state that commands and replies share.

use super::action::Transfer;
use super::due::{Code, Due};
use super::line::Fate;
use super::rules::Rules;
use super::verb::Form;
use std::net::SocketAddr;

/// The state that commands and replies share.
#[derive(Debug)]
pub(super) struct Dialogue {
    pub(super) rules: Rules,
    /// The replies that the server owes.
    pub(super) due: Due,
    /// The reply of several lines whose last line has not come yet.
    pub(super) begun: Option<Begun>,
    /// Whether the data connection that the client asked for last was opened. Otherwise a transfer has none.
    pub(super) is_opened: bool,
    /// The client's end of that one in active mode.
    pub(super) client: ClientEnd,
    /// The latest transfer. It may begin before its data connection is opened.
    pub(super) transfer: Option<Transfer>,
    /// Whether there is a data connection, or one is waited for.
    pub(super) has_data: bool,
    /// The request that waits for its reply. Nothing else is sent to the server meanwhile.
    pub(super) expected: Option<Asked>,
    /// The request of an earlier PASV or EPSV, to which 227 or 229 may still come. Its reply was an error, which may have been the
    /// late reply to another command, or none came in time.
    pub(super) late: Option<Asked>,
    /// Whether the client may take an address from the next reply: from the request for a data connection to the first reply that every
    /// client takes for one.
    pub(super) is_guarded: bool,
    /// Whether AUTH waits for its reply.
    pub(super) awaits_auth: bool,
    /// Whether the session itself has accepted EPSV ALL. RFC 2428 4: every other command that names an address is then
    /// refused.
    pub(super) is_epsv_only: bool,
    /// The line that waits until the caller has opened a data connection.
    pub(super) asking: Option<Asking>,
}

/// The client's end of a data connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ClientEnd {
    /// There is none, or the client opens it.
    None,
    /// It is dialled before the next transfer.
    Due,
    /// It was dialled.
    Dialled,
    /// It could not be dialled, for this reason.
    Failed(String),
}

/// A line that waits until the caller has opened a data connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asking {
    /// `None`: the line has another turn.
    pub(super) then: Option<Then>,
    /// Whether the client gets a reply if none is opened. It does not once the server has ended.
    pub(super) is_heard: bool,
}

/// Continuation of a line when the data connection is opened.
#[derive(Clone, Copy, Debug)]
pub(super) enum Then {
    /// The server gets PORT or EPRT.
    Port(Form),
    /// The server gets PORT or EPRT in place of a request for passive mode of this form.
    PortForPassive(Form),
    /// The client gets the reply to a request for passive mode of this form.
    Entering(Form),
    /// The client gets the reply to PORT.
    Accepted,
}

/// The client's request that waits for the server's reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// Passive mode, in this form. The server was asked for passive mode.
    Passive(Form),
    /// Active mode, to its address. The server was asked for passive mode.
    Active(SocketAddr),
    /// Passive mode, in this form. The server was asked for active mode, so both sides will connect to this relay.
    Meeting(Form),
}

/// A reply of several lines that has begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    pub(super) code: Code,
    /// The fate of all its lines.
    pub(super) fate: Fate,
}

impl Dialogue {
    /// Returns the state of a new connection.
    pub(super) fn new(rules: Rules) -> Dialogue {
        Dialogue {
            rules,
            due: Due::new(),
            begun: None,
            is_opened: false,
            client: ClientEnd::None,
            transfer: None,
            has_data: false,
            expected: None,
            late: None,
            is_guarded: false,
            awaits_auth: false,
            is_epsv_only: false,
            asking: None,
        }
    }

    /// Notes that the reply to this request is to come.
    pub(super) fn expect(&mut self, asked: Asked) {
        if !self.due.is_closed() {
            self.is_guarded = true;
            self.expected = Some(asked);
        }
    }

    /// Forgets what the server owes. The reply to PASV or EPSV may still come.
    pub(super) fn forget(&mut self) {
        self.due.forget();
        self.begun = None;
        self.late = self.expected.take().or(self.late);
    }

    /// Forgets what the server owes, for good: it sends no reply any more.
    pub(super) fn close(&mut self) {
        self.due.close();
        self.forget();
    }
}
