//! Carrying a flow's bytes: two pumps, one each way, joined in one task. The decisions are
//! [`longhaul_core::pump`]'s; here they meet sockets.

use super::Relay;
use super::direction::Direction;
use super::end::Broken;
use super::stream::Stream;
use crate::config::Tunnel;
use longhaul_sys::sockopt::Leg;
use longhaul_sys::tcp_info::unacknowledged;
use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::AsFd;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

/// The bytes that a flow carried, each counted when the sink's socket took it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// From the accept leg to the dial leg.
    pub up: u64,
    /// From the dial leg to the accept leg.
    pub down: u64,
}

/// What a flow is carried with.
pub(super) struct Carry<'a> {
    pub(super) relay: &'a Relay,
    pub(super) tunnel: &'a Tunnel,
    pub(super) accept: &'a Arc<Stream>,
    pub(super) dial: &'a Arc<Stream>,
}

impl Carry<'_> {
    /// Carries every byte both ways until both directions have ended well, and writes what it carried to `tally` also
    /// when it is dropped before.
    ///
    /// # Errors
    /// The leg that broke, and how. Both legs are then to be reset.
    pub(super) async fn run(&self, tally: &mut Tally) -> Result<(), Broken> {
        let mut flow = Both {
            up: Direction::new(self, self.accept, self.dial, Leg::Dial),
            down: Direction::new(self, self.dial, self.accept, Leg::Accept),
            tally,
        };
        let mut half_open = HalfOpen { moved: 0, timer: None };
        // By the leg that has sent its FIN.
        let limits = (self.tunnel.accept.linger_half_open(), self.tunnel.dial.linger_half_open());
        // A pump blocked on its sink does not look at its source, and one that has ended looks at neither: without these
        // two, a RST on one leg would wait for the other leg's next byte.
        let mut accept_error = pin!(self.accept.failed());
        let mut dial_error = pin!(self.dial.failed());
        poll_fn(|cx| {
            let up = flow.up.poll(cx).map_err(|(end, err)| self.broken(end.of(Leg::Accept), &err))?;
            let down = flow.down.poll(cx).map_err(|(end, err)| self.broken(end.of(Leg::Dial), &err))?;
            if up.is_ready() && down.is_ready() {
                return Poll::Ready(Ok(()));
            }
            if accept_error.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(self.broken(Leg::Accept, &pending_error(self.accept))));
            }
            if dial_error.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(self.broken(Leg::Dial, &pending_error(self.dial))));
            }
            let limit = match (up.is_ready(), down.is_ready()) {
                (true, _) => limits.0,
                (_, true) => limits.1,
                _ => None,
            };
            half_open.poll(cx, limit, flow.up.pump.moved() + flow.down.pump.moved()).map(Err)
        })
        .await?;
        drop(flow);
        self.settle().await
    }

    /// Waits until the peers' kernels have acknowledged every byte. Until then a leg may still break, and while we hold
    /// it with SO_LINGER 0 that is told to the other one; the FINs themselves need no waiting for.
    async fn settle(&self) -> Result<(), Broken> {
        let mut pause = Duration::from_millis(1);
        loop {
            let mut all_acknowledged = true;
            for (leg, socket) in [(Leg::Accept, self.accept), (Leg::Dial, self.dial)] {
                // A FIN that is out and not acknowledged counts as one byte. A kernel that does not tell (an mptcp leg before
                // Linux 5.17, a seccomp filter) would never do so, and nothing else bounds this wait: the flow ends here, and
                // the kernel goes on sending what is left.
                if unacknowledged(socket.as_fd()).is_ok_and(|bytes| bytes > 1) {
                    all_acknowledged = false;
                    if let Some(err) = socket.take_error().ok().flatten() {
                        return Err(self.broken(leg, &err));
                    }
                }
            }
            if all_acknowledged {
                return Ok(());
            }
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(100));
        }
    }

    fn broken(&self, leg: Leg, err: &io::Error) -> Broken {
        Broken { leg, errno: err.raw_os_error().unwrap_or(libc::EIO) }
    }
}

/// Both directions, and where their counts go even when the flow's task is dropped.
struct Both<'a> {
    up: Direction<'a>,
    down: Direction<'a>,
    tally: &'a mut Tally,
}

impl Drop for Both<'_> {
    fn drop(&mut self) {
        *self.tally = Tally { up: self.up.pump.moved(), down: self.down.pump.moved() };
    }
}

/// The timer of `linger-half-open`: runs only while exactly one direction has ended, starts again with every byte.
struct HalfOpen {
    moved: u64,
    timer: Option<Pin<Box<Sleep>>>,
}

impl HalfOpen {
    fn poll(&mut self, cx: &mut Context<'_>, limit: Option<Duration>, moved: u64) -> Poll<Broken> {
        let Some(limit) = limit else { return Poll::Pending };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(limit)));
        if moved != self.moved {
            self.moved = moved;
            timer.set(sleep_until(Instant::now() + limit));
        }
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Broken { leg: Leg::Accept, errno: Broken::HALF_OPEN })
    }
}

/// The error for which the kernel woke us; a reset when somebody took it already.
fn pending_error(socket: &Stream) -> io::Error {
    match socket.take_error() {
        Ok(Some(err)) | Err(err) => err,
        Ok(None) => io::Error::from_raw_os_error(libc::ECONNRESET),
    }
}
