//! A leg on which both FINs have passed and whose last bytes are not acknowledged yet.
//!
//! Once [`longhaul_core::closing`] says that a close would send nothing, this module turns SO_LINGER off. The kernel then
//! delivers the rest by itself, even if the relay dies. The price: this peer can no longer be told of a failure of the
//! other leg. In every other state SO_LINGER stays 0.

use crate::leg::hangups::{Hangups, Watch};
use crate::leg::rto;
use crate::leg::sample::closing_state;
use crate::leg::stream::Stream;
use longhaul_core::closing::{self, Fins, Looks, Progress};
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

/// A leg after our FIN, watched until every byte is acknowledged.
pub(crate) struct Closing {
    watch: Option<Watch>,
    /// The next look at the leg. The kernel does not report when unsent bytes are sent.
    next_look: Pin<Box<Sleep>>,
    looks: Looks,
    /// The FINs that had passed at the last look. `None` makes the next poll look whether or not the watch reports a
    /// change.
    looked: Option<Fins>,
    /// Whether SO_LINGER is 0.
    is_loud: bool,
}

impl Closing {
    /// Begins to watch `leg`. The first [`poll`](Closing::poll) looks at its state.
    pub(crate) fn new(hangups: &Arc<Hangups>, leg: &Stream) -> Closing {
        let watch = hangups.watch(leg);
        Closing {
            watch,
            next_look: Box::pin(sleep(Duration::ZERO)),
            looks: Looks::default(),
            looked: None,
            is_loud: true,
        }
    }

    /// Turns SO_LINGER off when everything is sent. Ready once every byte is acknowledged. `fins` are the FINs that the
    /// flow has passed on; they decide where the kernel does not report the leg's state.
    ///
    /// # Errors
    /// The leg's error, when it broke before every byte was acknowledged.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, leg: &Stream, fins: Fins) -> Poll<io::Result<()>> {
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
            let by_state = info.as_ref().and_then(progress_of);
            let progress = Progress::after(by_state, fins, || is_acknowledged(leg));
            if self.is_loud && progress.is_sent() {
                self.is_loud = false;
                linger_off(leg);
            }
            let unsent = info.map_or(0, |info| info.notsent_bytes);
            let Some(pause) = self.looks.next(progress, unsent, self.watch.is_some()) else {
                // The watch reports this change only once. Without this line, a later poll would not see it.
                self.looked = None;
                return Poll::Ready(Ok(()));
            };
            self.next_look.set(sleep(pause));
        }
    }
}

/// Returns TCP_INFO of `leg` if its peer has acknowledged the `sent` bytes, as far as one look can tell. Both FINs have passed
/// on the leg. The queue of a closed connection does not tell: a leg that was reset while only its FIN was unacknowledged
/// looks as if everything had arrived.
pub(crate) fn settled(leg: &Stream, sent: u64) -> Option<TcpInfo> {
    let info = TcpInfo::of(leg.as_fd()).unwrap_or_default();
    let is_settled = match info.state {
        State::Closed => is_over(&info, leg, sent),
        _ => is_acknowledged(leg),
    };
    is_settled.then_some(info)
}

/// Whether `leg` is closed and its peer has acknowledged our PROXY header, the `sent` bytes of the flow and, on the
/// accept leg, our FIN. `info` is a fresh TCP_INFO of the leg.
pub(crate) fn is_over(info: &TcpInfo, leg: &Stream, sent: u64) -> bool {
    closing::is_over(closing_state(info.state), info.bytes_acked, leg.header_sent() + sent)
}

fn is_acknowledged(leg: &Stream) -> bool {
    // An unacknowledged FIN counts as one byte and need not be waited for. Some kernels never report the queue (an
    // mptcp leg before Linux 5.17, a seccomp filter): then the flow ends here, and the kernel sends the rest.
    !unacknowledged(leg.as_fd()).is_ok_and(|bytes| bytes > 1)
}

/// Turns SO_LINGER off on a leg whose close would otherwise send nothing. Call it just before the close. Returns
/// whether it did so. In that case the kernel delivers the remaining bytes and the FIN, and no RST tells the peer how
/// the flow ended.
pub(crate) fn let_go(leg: &Stream, info: &TcpInfo) -> bool {
    let delivers = progress_of(info) == Some(Progress::Sent);
    if delivers {
        linger_off(leg);
    }
    delivers
}

/// Turns SO_LINGER off: closing `leg` no longer sends RST, and the kernel delivers the rest with its own limits.
pub(crate) fn linger_off(leg: &Stream) {
    rto::leave(leg);
    // This fails only on a socket that is gone.
    let _ = sockopt::set_fin_on_close(leg.as_fd());
}

/// Returns the progress of a leg's close by TCP_INFO alone, or `None` when TCP_INFO does not tell.
fn progress_of(info: &TcpInfo) -> Option<Progress> {
    Progress::of(closing_state(info.state), info.notsent_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leg::stream::pair;
    use socket2::SockRef;
    use std::future::poll_fn;
    use std::net::Shutdown;

    /// The kernel's count of acknowledged bytes includes the header, so it must not stand for bytes of the flow.
    #[tokio::test]
    async fn a_leg_with_a_header_is_over_only_after_its_last_byte() {
        let (leg, _peer) = pair();
        let closed = |bytes_acked| TcpInfo { state: State::Closed, bytes_acked, ..TcpInfo::default() };
        assert!(is_over(&closed(1001), &leg, 1000));
        leg.note_header_sent(28);
        assert!(!is_over(&closed(1028), &leg, 1000) && is_over(&closed(1029), &leg, 1000));
    }

    /// A blocked pump may see the end of a leg before its flow waits for it, and the watch reports the end only once.
    #[tokio::test]
    async fn a_leg_that_was_acknowledged_stays_acknowledged() {
        let (leg, peer) = pair();
        SockRef::from(&leg).shutdown(Shutdown::Write).unwrap();
        let mut closing = Closing::new(&Arc::default(), &leg);
        let is_ready = poll_fn(|cx| Poll::Ready(closing.poll(cx, &leg, Fins::Ours).is_ready())).await;
        assert!(!is_ready, "the peer has not sent its FIN");
        drop(peer);
        poll_fn(|cx| closing.poll(cx, &leg, Fins::Ours)).await.unwrap();
        let is_ready = poll_fn(|cx| Poll::Ready(closing.poll(cx, &leg, Fins::Both).is_ready())).await;
        assert!(is_ready, "the flow would wait for the next look, 60 s");
    }
}
