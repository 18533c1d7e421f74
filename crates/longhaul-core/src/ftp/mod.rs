//! Rewrites FTP control connections (RFC 959, RFC 2428), so that data connections go through relays as well.
//!
//! ```text
//! client   PASV ------------------------------------------> PASV                   server
//!          227 (relay, port 50001) <-- open(50001) -- 227 (server, port 30005)
//!
//! client   PORT (client, port 4000) -- open(50002) --> PORT (relay, port 50002)    server
//!          200 <-------------------------------------------- 200
//!
//! client   PORT (client, port 4000) -----------------> PASV                        server, Mode::Passive
//!          200 <-------------- join(4000, 30006) -- 227 (server, port 30006)
//!
//! client   PASV --------------- open(50003) ---------> PORT (relay, port 50003)    server, Mode::Active
//!          227 (relay, port 50004) <-- open(50004) -- 200
//! ```
//! A [`Session`] is told what came from both sides, and when. It tells what to send, and which data connections to open: their addresses
//! are named instead of those that the sides named. Everything else passes byte for byte. An address of a third host or a port below 1024
//! is refused unless the [`Rules`] allow it, so that no side can make the relay or the other side dial somebody else (RFC 2577).
//!
//! In the order in which a byte passes them:
//!
//! ```text
//! session    bytes in, bytes out; the times; how the connection ends
//! rewriter   the lines of both sides in their order
//! line       finds lines, skips telnet sequences, passes or holds each byte
//! verb       the table of verbs that matter
//! commands   what the server gets for a command
//! due        how many replies the server owes
//! replies    what the client gets for a reply
//! opened     goes on with either when its data connection is opened
//! address    the addresses in both, read and written
//! rules      which addresses a side may name
//! refused    why a command or a reply was refused
//! dialogue   the state that commands and replies share
//! action     what the caller does for a session
//! side       the client, the server, and their addresses
//! ```

mod action;
mod address;
mod commands;
mod dialogue;
mod due;
mod line;
mod opened;
mod refused;
mod replies;
mod rewriter;
mod rules;
mod session;
mod side;
mod verb;

pub use action::{Action, End, Opening, Transfer};
pub use refused::Refused;
pub use rewriter::{MAX_COMMAND_BYTES, MAX_REPLY_BYTES};
pub use rules::{Mode, Rules};
pub use session::{Data, Session};
pub use side::{Ends, Side};

#[cfg(test)]
mod tests;
