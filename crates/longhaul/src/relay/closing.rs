//! A leg on which both FINs have passed and whose last bytes are not acknowledged yet.
//!
//! SO_LINGER 0 makes the kernel send RST when the relay dies or gives up a flow. In LAST_ACK and CLOSING it sends RST
//! only while bytes are unsent (net/ipv4/tcp.c, tcp_disconnect). Once everything was sent, it discards the
//! unacknowledged bytes and sends nothing, and the peer waits forever. So this module turns SO_LINGER off at that
//! moment. The kernel then delivers the rest by itself, even if the relay dies. The price: this peer can no longer be
//! told of a failure of the other leg. In every other state SO_LINGER stays 0.

use super::hangups::{Hangups, Watch};
use super::stream::Stream;
use longhaul_sys::sockopt;
use longhaul_sys::tcp_info::{State, TcpInfo, unacknowledged};
use std::future::Future;
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Sleep, sleep};

/// Progress of a leg's close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// At most one FIN has passed. Closing the socket sends RST.
    Open,
    /// Both FINs have passed and bytes are unsent. Closing the socket sends RST.
    Unsent,
    /// Everything was sent, and not all of it is acknowledged. Closing the socket would send nothing.
    Sent,
    /// Every byte is acknowledged, or the connection is gone.
    Acknowledged,
}

/// The FINs that a flow has passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fins {
    /// Ours on this leg. The peer's FIN is not read yet.
    Ours,
    /// Both.
    Both,
}

/// A leg after our FIN, watched until every byte is acknowledged.
pub(super) struct Closing {
    watch: Option<Watch>,
    /// The next look at the leg. The kernel does not report when unsent bytes are sent.
    next_look: Pin<Box<Sleep>>,
    pause: Duration,
    /// Unsent bytes at the last look.
    unsent: u32,
    /// The FINs that had passed at the last look. `None` makes the next poll look whether or not the watch reports a
    /// change.
    looked: Option<Fins>,
    /// Whether SO_LINGER is 0.
    is_loud: bool,
}

impl Closing {
    /// Begins to watch `leg`. The first [`poll`](Closing::poll) looks at its state.
    pub(super) fn new(hangups: &Arc<Hangups>, leg: &Stream) -> Closing {
        let watch = hangups.watch(leg);
        Closing {
            watch,
            next_look: Box::pin(sleep(Duration::ZERO)),
            pause: FIRST_PAUSE,
            unsent: 0,
            looked: None,
            is_loud: true,
        }
    }

    /// Turns SO_LINGER off when everything is sent. Ready once every byte is acknowledged. `fins` are the FINs that the
    /// flow has passed on; they decide where the kernel does not report the leg's state.
    ///
    /// # Errors
    /// The leg's error, when it broke before every byte was acknowledged.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, leg: &Stream, fins: Fins) -> Poll<io::Result<()>> {
        loop {
            let has_changed = self.watch.as_ref().is_some_and(|watch| watch.poll_changed(cx).is_ready());
            let is_due = self.next_look.as_mut().poll(cx).is_ready();
            if !has_changed && !is_due && self.looked == Some(fins) {
                return Poll::Pending;
            }
            self.looked = Some(fins);
            if let Some(err) = leg.take_error()? {
                return Poll::Ready(Err(err));
            }
            let info = TcpInfo::of(leg.as_fd()).ok();
            let progress = Progress::of(leg, info.as_ref(), fins);
            if self.is_loud && matches!(progress, Progress::Sent | Progress::Acknowledged) {
                self.is_loud = false;
                linger_off(leg);
            }
            let pause = match progress {
                Progress::Acknowledged => {
                    // The watch reports this change only once. Without this line, a later poll would not see it.
                    self.looked = None;
                    return Poll::Ready(Ok(()));
                }
                Progress::Open | Progress::Sent if self.watch.is_some() => WATCHED_PAUSE,
                _ => self.next_pause(info.map_or(0, |info| info.notsent_bytes)),
            };
            self.next_look.set(sleep(pause));
        }
    }

    /// Returns the time until the next look at a leg with `unsent` bytes. It is short while their number falls, because
    /// the leg must not stay long with everything sent and SO_LINGER 0. Otherwise it doubles each time, so that a long
    /// outage costs little however many flows it affects.
    fn next_pause(&mut self, unsent: u32) -> Duration {
        let is_moving = unsent < self.unsent;
        self.unsent = unsent;
        let pause = if is_moving { self.pause.min(MOVING_PAUSE) } else { self.pause };
        self.pause = (pause * 2).min(LAST_PAUSE);
        pause
    }
}

/// Whether the peer has acknowledged the `sent` bytes on `leg`, as far as one look can tell. Both FINs have passed on
/// the leg. The queue of a closed connection does not tell: a leg that was reset while only its FIN was unacknowledged
/// looks as if everything had arrived.
pub(super) fn is_settled(leg: &Stream, sent: u64) -> bool {
    match TcpInfo::of(leg.as_fd()) {
        Ok(info) if info.state == State::Closed => is_over(&info, sent),
        _ => is_acknowledged(leg),
    }
}

/// Whether a connection is closed and its peer has acknowledged the `sent` bytes and, on the accept leg, our FIN.
pub(super) fn is_over(info: &TcpInfo, sent: u64) -> bool {
    // The FIN counts as one byte. On the dial leg the SYN counts too, so the FIN may still be unacknowledged there.
    info.state == State::Closed && info.bytes_acked > sent
}

fn is_acknowledged(leg: &Stream) -> bool {
    // An unacknowledged FIN counts as one byte and need not be waited for. Some kernels never report the queue (an
    // mptcp leg before Linux 5.17, a seccomp filter): then the flow ends here, and the kernel sends the rest.
    !unacknowledged(leg.as_fd()).is_ok_and(|bytes| bytes > 1)
}

/// Turns SO_LINGER off on a leg whose close would otherwise send nothing. Call it just before the close. Returns
/// whether it did so. In that case the kernel delivers the remaining bytes and the FIN, and no RST tells the peer how
/// the flow ended.
pub(super) fn let_go(leg: &Stream, info: &TcpInfo) -> bool {
    let delivers = Progress::of_info(info) == Some(Progress::Sent);
    if delivers {
        linger_off(leg);
    }
    delivers
}

/// Turns SO_LINGER off: closing `leg` no longer sends RST.
pub(super) fn linger_off(leg: &Stream) {
    // This fails only on a socket that is gone.
    let _ = sockopt::set_fin_on_close(leg.as_fd());
}

impl Progress {
    /// Returns the progress of `leg`, whose TCP_INFO is `info`, from its state and its unacknowledged bytes.
    fn of(leg: &Stream, info: Option<&TcpInfo>, fins: Fins) -> Progress {
        match info.and_then(Progress::of_info) {
            Some(Progress::Sent | Progress::Unsent) if is_acknowledged(leg) => Progress::Acknowledged,
            Some(Progress::Open) | None if fins == Fins::Both => {
                // TCP_INFO of an mptcp leg describes one subflow, which ends later.
                if is_acknowledged(leg) { Progress::Acknowledged } else { Progress::Unsent }
            }
            progress => progress.unwrap_or(Progress::Open),
        }
    }

    /// Returns the progress by TCP_INFO alone, or `None` when TCP_INFO does not tell.
    fn of_info(info: &TcpInfo) -> Option<Progress> {
        match info.state {
            State::LastAck | State::Closing if info.notsent_bytes > 0 => Some(Progress::Unsent),
            State::LastAck | State::Closing => Some(Progress::Sent),
            State::Closed => Some(Progress::Acknowledged),
            State::Other => None,
            _ => Some(Progress::Open),
        }
    }
}

/// First pause before another look at a leg with unsent bytes.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// Longest pause while the number of unsent bytes falls.
const MOVING_PAUSE: Duration = Duration::from_millis(10);
/// Longest pause while no bytes are sent.
const LAST_PAUSE: Duration = Duration::from_secs(1);
/// Interval between two looks at a leg that has a watch, which reports each change.
const WATCHED_PAUSE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::net::{Shutdown, TcpListener, TcpStream};

    /// A blocked pump may see the end of a leg before its flow waits for it, and the watch reports the end only once.
    #[tokio::test]
    async fn a_leg_that_was_acknowledged_stays_acknowledged() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let leg = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let peer = listener.accept().unwrap().0;
        leg.set_nonblocking(true).unwrap();
        leg.shutdown(Shutdown::Write).unwrap();
        let leg = Stream::new(leg.into()).unwrap();
        let mut closing = Closing::new(&Arc::default(), &leg);
        let is_ready = poll_fn(|cx| Poll::Ready(closing.poll(cx, &leg, Fins::Ours).is_ready())).await;
        assert!(!is_ready, "the peer has not sent its FIN");
        drop(peer);
        poll_fn(|cx| closing.poll(cx, &leg, Fins::Ours)).await.unwrap();
        let is_ready = poll_fn(|cx| Poll::Ready(closing.poll(cx, &leg, Fins::Both).is_ready())).await;
        assert!(is_ready, "the flow would wait for the next look, 60 s");
    }

    /// A reset leg has nothing left to wait for, and an unacknowledged FIN is not a good end.
    #[test]
    fn a_leg_that_was_reset_before_its_fin_was_acknowledged_is_not_over() {
        let after = |state, bytes_acked| TcpInfo { state, bytes_acked, ..TcpInfo::default() };
        assert!(!is_over(&after(State::Closed, 999), 1000), "a byte and the FIN");
        assert!(!is_over(&after(State::Closed, 1000), 1000), "the FIN");
        assert!(is_over(&after(State::Closed, 1001), 1000));
        assert!(!is_over(&after(State::LastAck, 1001), 1000), "its connection is still there");
    }
}
