//! The verbs of FTP that matter to a session, one row each.

use super::line::{Fate, IAC};
use super::refused::Refused;

/// A verb that matters.
#[derive(Debug)]
pub(super) struct Verb {
    /// The verb in capitals.
    pub(super) name: &'static str,
    /// Kind of command.
    pub(super) kind: Kind,
}

/// The two ways to write an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// RFC 959: six numbers, IPv4 only. PORT, PASV and the reply 227.
    Plain,
    /// RFC 2428: EPRT, EPSV and the reply 229.
    Extended,
}

/// How a session treats a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The server names an address in its reply, which is rewritten.
    Passive(Form),
    /// The client names an address, which is rewritten.
    Active(Form),
    /// It is refused.
    Refused(&'static Refused),
    /// The server may agree to encryption.
    Auth,
    /// A transfer, whose name is noted.
    Transfer,
    /// The end of a transfer. pure-ftpd does not reply to it if there is none.
    Abort,
}

/// Every verb that matters.
pub(super) static VERBS: &[Verb] = &[
    Verb { name: "PASV", kind: Kind::Passive(Form::Plain) },
    Verb { name: "P@SW", kind: Kind::Passive(Form::Plain) }, // PASV for vsftpd and pure-ftpd
    Verb { name: "EPSV", kind: Kind::Passive(Form::Extended) },
    Verb { name: "PORT", kind: Kind::Active(Form::Plain) },
    Verb { name: "EPRT", kind: Kind::Active(Form::Extended) },
    Verb { name: "LPSV", kind: Kind::Refused(&Refused::LongForm) },
    Verb { name: "LPRT", kind: Kind::Refused(&Refused::LongForm) },
    Verb { name: "AUTH", kind: Kind::Auth },
    Verb { name: "ABOR", kind: Kind::Abort },
    Verb { name: "RETR", kind: Kind::Transfer },
    Verb { name: "STOR", kind: Kind::Transfer },
    Verb { name: "APPE", kind: Kind::Transfer },
    Verb { name: "STOU", kind: Kind::Transfer },
    Verb { name: "LIST", kind: Kind::Transfer },
    Verb { name: "NLST", kind: Kind::Transfer },
    Verb { name: "MLSD", kind: Kind::Transfer },
];

/// A command line, read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Command<'a> {
    /// Its verb. `None` if the verb does not matter.
    pub(super) verb: Option<&'static Verb>,
    /// The text after the verb, without spaces and line ends around it.
    pub(super) argument: &'a [u8],
    /// Whether CR stands inside. Some servers end the command there.
    pub(super) has_return: bool,
    word: &'a [u8],
}

impl Kind {
    /// Whether the whole line is held until it is decided what the server gets. `holds_transfers`: a transfer is, too.
    fn is_held(self, holds_transfers: bool) -> bool {
        matches!(self, Kind::Passive(_) | Kind::Active(_) | Kind::Refused(_))
            || holds_transfers && self == Kind::Transfer
    }
}

impl Command<'_> {
    /// Reads the text of a whole line.
    pub(super) fn read(text: &[u8]) -> Command<'_> {
        let text = trim(text);
        let (word, argument) = text.split_at(word_length(text));
        let is_same = |verb: &&Verb| verb.name.as_bytes().eq_ignore_ascii_case(word);
        let has_return = text.contains(&b'\r');
        Command { verb: VERBS.iter().find(is_same), argument: trim(argument), has_return, word }
    }

    /// Whether it has only bytes that servers expect in a command. pure-ftpd does not reply to some others.
    pub(super) fn is_plain(&self) -> bool {
        let is_plain = |byte: &u8| matches!(byte, b' '..=b'~' | 128..=254);
        self.word.iter().chain(self.argument).all(is_plain)
    }

    /// Whether the line has nothing but blanks.
    pub(super) fn is_empty(&self) -> bool {
        self.word.is_empty()
    }
}

/// Whether this text of a line, which may lack its LF, is an ABOR.
pub(super) fn is_abort(text: &[u8]) -> bool {
    Command::read(text).verb.is_some_and(|verb| verb.kind == Kind::Abort)
}

/// Returns the fate of a command line that begins with this text. `holds_transfers`: that of a transfer is [`Fate::Hold`].
pub(super) fn fate(text: &[u8], holds_transfers: bool) -> Fate {
    let Some(start) = text.iter().position(|byte| !is_blank(*byte)) else { return Fate::Undecided };
    let text = &text[start..];
    let word = &text[..word_length(text)];
    if word.contains(&IAC) {
        // Some servers skip this IAC, and with it the byte after it. The verb that they read is not known.
        return Fate::Hold;
    }
    let is_whole = word.len() < text.len();
    let could_be = |verb: &&Verb| match is_whole {
        true => verb.name.as_bytes().eq_ignore_ascii_case(word),
        false => verb.name.as_bytes().get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word)),
    };
    match VERBS.iter().filter(|verb| verb.kind.is_held(holds_transfers)).find(could_be) {
        None => Fate::Pass,
        Some(_) if is_whole => Fate::Hold,
        Some(_) => Fate::Undecided,
    }
}

/// Returns the number of bytes before the first blank.
fn word_length(text: &[u8]) -> usize {
    text.iter().position(|byte| is_blank(*byte)).unwrap_or(text.len())
}

fn trim(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|byte| !is_blank(*byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !is_blank(*byte)).map_or(start, |last| last + 1);
    &text[start..end]
}

/// Whether some server takes this byte for a space or for the end of the line: isspace(3), and NUL, which ends strings in C.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r' | 0)
}
