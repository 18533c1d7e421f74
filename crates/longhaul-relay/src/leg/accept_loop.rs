//! Takes connections from a listening socket. It never gives up: an error of accept(2) is told, and accept is tried again
//! after a pause.

use crate::leg::setup::failed;
use longhaul_sys::SysError;
use longhaul_sys::activation::{accept, has_connection};
use socket2::Socket;
use std::future::{Future, pending};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::time::sleep;

/// Who may have a connection that waits in the listen queue. A function admits everybody, and is told of errors.
pub(crate) trait Admission {
    /// The right to one connection.
    type Permit;

    /// Returns a permit if one is free now.
    fn try_enter(&self) -> Option<Self::Permit>;

    /// Waits for a permit. A connection waits in the listen queue. The wait may be dropped.
    fn enter(&self) -> impl Future<Output = Self::Permit> + Send;

    /// Hears that accept(2) has failed.
    fn failed(&self, err: &SysError);
}

impl<F: Fn(&SysError) + Sync> Admission for F {
    type Permit = ();

    fn try_enter(&self) -> Option<()> {
        Some(())
    }

    async fn enter(&self) {}

    fn failed(&self, err: &SysError) {
        self(err);
    }
}

/// Waits for the next connection of `listener`, and returns it with its peer and its permit. It awaits nothing while it has a
/// connection, so dropping it loses none.
pub(crate) async fn next<A: Admission>(listener: &AsyncFd<Socket>, admission: &A) -> (Socket, SocketAddr, A::Permit) {
    let mut pause = FIRST_PAUSE;
    loop {
        // This fails only when the runtime ends.
        let Ok(mut waiting) = listener.readable().await else { return pending().await };
        // Before accept, so that a connection without a permit stays in the listen queue. After a connection has come,
        // so that an unused tunnel holds no permit.
        let permit = match admission.try_enter() {
            Some(permit) => permit,
            // Readiness can be left over from the last connection. If none waits now, the log must not say that
            // connections wait.
            None if matches!(waiting.try_io(|socket| connection_waits(socket.get_ref())), Err(_nobody)) => continue,
            None => admission.enter().await,
        };
        match waiting.try_io(|socket| accept(socket.get_ref().as_fd())) {
            Ok(Ok((accepted, peer))) => return (accepted.into(), peer, permit),
            Err(_nobody) => {}
            Ok(Err(err)) if is_about_one_connection(&err) => {}
            Ok(Err(err)) => {
                admission.failed(&failed("accept4", &err));
                drop(permit);
                sleep(pause).await;
                pause = (pause * 2).min(LAST_PAUSE);
            }
        }
    }
}

/// Returns `Ok` when a connection waits for accept(2), and `WouldBlock` when none does.
fn connection_waits(listener: &Socket) -> io::Result<()> {
    match has_connection(listener.as_fd()) {
        Ok(false) => Err(io::ErrorKind::WouldBlock.into()),
        // If the kernel does not tell, assume that one waits.
        Ok(true) | Err(_) => Ok(()),
    }
}

/// Whether an error of accept(2) concerns only the new connection, which is gone already. Then accept(2) may work for
/// the next one.
fn is_about_one_connection(err: &io::Error) -> bool {
    matches!(err.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted)
}

/// First pause after accept(2) has failed.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// Longest pause after accept(2) has failed.
const LAST_PAUSE: Duration = Duration::from_secs(1);
