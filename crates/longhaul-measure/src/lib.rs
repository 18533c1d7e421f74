//! A measuring session: `longhaul path` measures a path to a relay or to `longhaul responder` (docs/protocol.md).
//!
//! ```text
//! client ── preface ──────────────> answerer     control connection: messages
//!        <── greeting, messages ──>
//!        ── preface, bytes ───────>              connections of a run: bulk, up or down
//!        <── datagrams ──────────>              path MTU, fragments
//! ```
//! Both ends are blocking code in threads: there is one session at a time, and a thread that waits for a socket sees its clock. Each
//! file uses only those above it:
//!
//! [`message`] has the messages, [`talk`] sends and reads them, [`look`] is a look at a connection, [`bulk`] sends and receives bulk,
//! [`datagram`] has the datagrams, and [`answer`] is the side that answers. [`through`] is how a client gets its connections from a relay.
//! [`echo`] answers a probe of `longhaul verify`.

#![forbid(unsafe_code)]

pub mod answer;
pub mod bulk;
pub mod datagram;
pub mod echo;
pub mod look;
pub mod message;
pub mod talk;
pub mod through;

use std::fs::File;
use std::io::{self, Read};

/// Returns `N` random bytes, which nobody can predict.
///
/// # Errors
/// /dev/urandom cannot be read, for example because no descriptor is free.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}
