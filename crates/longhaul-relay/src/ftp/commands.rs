//! The commands that a control connection has and has not passed on yet. The FIN of an upload waits for them.
//!
//! ```text
//! client   half a file    ABOR    closes the data connection
//! server   half a file    ABOR    FIN                          not before ABOR, or half a file would be a whole one
//! ```

use crate::leg::stream::Stream;
use crate::state::legs::Legs;
use longhaul_sys::splice;
use longhaul_sys::tcp_info::unacknowledged;
use std::os::fd::AsFd;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// How far a control connection has passed on its client's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    /// It may have read some that it has not sent yet.
    Busy,
    /// It has sent all that it had.
    Done,
    /// It reads none now.
    HeldUp,
}

/// The commands of a control connection, as its data connections see them.
#[derive(Clone)]
pub(super) struct Commands {
    pub(super) client: Weak<Stream>,
    pub(super) server: Weak<Stream>,
    pub(super) pass: watch::Receiver<Pass>,
}

impl Commands {
    /// Returns those of the control connection with these legs, which tells `pass`.
    pub(super) fn new(legs: &Legs<'_>, pass: watch::Receiver<Pass>) -> Commands {
        Commands { client: Arc::downgrade(legs.accept), server: Arc::downgrade(legs.dial), pass }
    }

    /// Waits until the server's kernel has every command that has come from the client, as far as the control connection reads them.
    /// Bounded, so that a control connection that hangs does not hold up the file.
    pub(super) async fn passed(mut self) {
        let passed = async {
            self.sent().await;
            let mut pause = Duration::from_millis(1);
            while self.server.upgrade().is_some_and(|server| unacknowledged(server.as_fd()).is_ok_and(|left| left > 0))
            {
                sleep(pause).await;
                pause *= 2;
            }
        };
        // The FIN is passed in either case.
        let _ = timeout(PATIENCE, passed).await;
    }

    async fn sent(&mut self) {
        while let Some(client) = self.client.upgrade() {
            // First, because bytes leave the socket after the control connection is busy.
            let has_unread = splice::peek(client.as_fd(), &mut [0]).is_ok_and(|bytes| bytes > 0);
            drop(client);
            let pass = *self.pass.borrow_and_update();
            if pass == Pass::HeldUp || pass == Pass::Done && !has_unread || self.pass.changed().await.is_err() {
                return;
            }
        }
    }
}

/// Time that a FIN waits for the commands before it.
const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leg::stream;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use tokio::task::yield_now;

    /// Returns the commands of a control connection, its legs, its sender, and the ends of the client and the server.
    fn commands() -> (Commands, [Arc<Stream>; 2], watch::Sender<Pass>, [TcpStream; 2]) {
        let [(accept, client), (dial, server)] = [stream::pair(), stream::pair()];
        let (sender, pass) = watch::channel(Pass::Done);
        let legs = [accept, dial].map(Arc::new);
        let [client_leg, server_leg] = legs.each_ref().map(Arc::downgrade);
        (Commands { client: client_leg, server: server_leg, pass }, legs, sender, [client, server])
    }

    #[tokio::test]
    async fn the_end_of_an_upload_waits_until_the_server_has_the_commands_before_it() {
        let (commands, [accept, dial], sender, [mut client, mut server]) = commands();
        client.write_all(b"ABOR\r\n").unwrap();
        let passed = tokio::spawn(commands.passed());
        let waits = async || {
            for _ in 0..10 {
                yield_now().await;
                assert!(!passed.is_finished());
            }
        };
        waits().await;
        sender.send_replace(Pass::Busy);
        let mut bytes = [0; 6];
        assert_eq!(splice::receive(accept.as_fd(), &mut bytes).unwrap(), 6);
        waits().await;
        splice::send(dial.as_fd(), &bytes).unwrap();
        sender.send_replace(Pass::Done);
        passed.await.unwrap();
        server.set_nonblocking(true).unwrap();
        assert_eq!(server.read(&mut bytes).unwrap(), 6);
    }

    #[tokio::test(start_paused = true)]
    async fn it_does_not_wait_for_a_control_connection_that_reads_nothing_or_is_over_and_not_for_long() {
        let began = tokio::time::Instant::now();
        for pass in [Pass::HeldUp, Pass::Done, Pass::Busy] {
            let (commands, legs, sender, [mut client, _server]) = commands();
            client.write_all(b"PORT 1\r\n").unwrap();
            match pass {
                Pass::HeldUp => drop(sender.send_replace(pass)),
                Pass::Done => drop(legs),
                Pass::Busy => drop(sender),
            }
            commands.passed().await;
            assert_eq!(began.elapsed(), Duration::ZERO, "{pass:?}");
        }
        let (commands, _legs, _sender, [mut client, _server]) = commands();
        client.write_all(b"ABOR\r\n").unwrap();
        commands.passed().await;
        assert_eq!(began.elapsed().as_secs(), PATIENCE.as_secs());
    }
}
