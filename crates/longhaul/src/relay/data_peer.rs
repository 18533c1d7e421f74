//! The peer of an FTP data connection, and the command that uses it. The client may send the command before or after its data
//! connection begins.

use super::lock::lock;
use longhaul_core::ftp::Transfer;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

/// The command that uses a data connection, once it is known.
#[derive(Debug, Default)]
pub(super) struct Naming(Mutex<Option<Transfer>>);

/// The commands of the latest channels of a control connection, by the channel's number.
#[derive(Debug, Default)]
pub(super) struct Namings(BTreeMap<u64, Arc<Naming>>);

/// The peer of a data connection that came to us.
#[derive(Clone, Debug)]
pub(super) struct DataPeer {
    /// Its address.
    pub(super) address: SocketAddr,
    /// The command that uses the connection.
    pub(super) naming: Arc<Naming>,
    /// Becomes true when the dial for it has ended, with or without a connection.
    pub(super) has_dialled: watch::Sender<bool>,
}

impl Naming {
    /// Records the command. The last one counts, because the server may have refused the ones before it.
    pub(super) fn set(&self, transfer: Transfer) {
        *lock(&self.0) = Some(transfer);
    }

    /// Returns the command. `None` until the client has sent it.
    pub(super) fn get(&self) -> Option<Transfer> {
        lock(&self.0).clone()
    }
}

impl Namings {
    /// Returns the command of `channel`, which may be known or not.
    pub(super) fn of(&mut self, channel: u64) -> Arc<Naming> {
        let naming = self.0.entry(channel).or_default().clone();
        if self.0.len() > MAX_NAMINGS {
            self.0.pop_first();
        }
        naming
    }

    /// Forgets the channels before `channel`.
    pub(super) fn forget_before(&mut self, channel: u64) {
        self.0 = self.0.split_off(&channel);
    }
}

/// Maximum number of channels whose commands are kept. The server may refuse every PASV, so that none is ever opened. No client
/// that we know sends a second PASV before it has the reply to the first.
const MAX_NAMINGS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_of_channels_that_never_open_are_forgotten() {
        let transfer = |channel: u64| Transfer { verb: "RETR", name: channel.to_string() };
        let mut namings = Namings::default();
        for channel in 1..=30_000 {
            namings.of(channel).set(transfer(channel));
        }
        assert_eq!(namings.0.len(), MAX_NAMINGS);
        assert_eq!(namings.of(30_000).get(), Some(transfer(30_000)));
        namings.forget_before(29_990);
        assert_eq!((namings.0.len(), namings.of(29_990).get()), (11, Some(transfer(29_990))));
    }
}
