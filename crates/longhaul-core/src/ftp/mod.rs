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
//! client   PASV ------------ open_for_server(50003) -> PORT (relay, port 50003)    server, Mode::Active
//!          227 (relay, port 50004) <-- meet(50004) -- 200
//! ```
//! A [`Session`] takes the bytes of both sides and returns the bytes for both. It asks its caller for data listeners
//! ([`Channels::open`]), and names their addresses instead of those that the sides named. Everything else passes byte for
//! byte. An address of a third host or a port below 1024 is refused unless the [`Rules`] allow it, so that no side can make
//! the relay or the other side dial somebody else (RFC 2577).
//!
//! A session's memory is bounded: [`MAX_COMMAND_BYTES`] and [`MAX_REPLY_BYTES`] of lines, and the bytes that the caller gives it
//! while it [waits](Session::is_waiting).
//!
//! In the order in which a byte passes them:
//!
//! ```text
//! session    bytes in, bytes out
//! line       finds lines, skips telnet sequences, passes or holds each byte
//! verb       the table of verbs that matter
//! commands   what the server gets for a command
//! due        how many replies the server owes
//! replies    what the client gets for a reply
//! address    the addresses in both, read and written
//! rules      which addresses a side may name
//! refused    why a command or a reply was refused
//! channels   what the caller does for a session
//! dialogue   the state that commands and replies share
//! side       the client, the server, and their addresses
//! ```

mod address;
mod channels;
mod commands;
mod dialogue;
mod due;
mod line;
mod refused;
mod replies;
mod rules;
mod session;
mod side;
mod verb;

pub use channels::{Channels, Joining, Opening, Transfer};
pub use refused::Refused;
pub use rules::{Mode, Rules};
pub use session::{MAX_COMMAND_BYTES, MAX_REPLY_BYTES, Session};
pub use side::{Ends, Side};

#[cfg(test)]
mod tests;
