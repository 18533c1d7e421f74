//! Carries a flow's bytes by two pumps, one each way, joined in one task. [`longhaul_core::pump`] decides the steps;
//! this module applies them to sockets.
//!
//! ```text
//! the first bytes are a preface ──> probe: answer it
//! both directions run ── FIN passed on, both ways ──> settle: wait for the last acknowledgements
//!         └── a leg breaks: the direction into it stops, the direction out of it goes on to its end
//!                   └──> deliver: wait until the other leg's peer has acknowledged all ──> RST on both legs
//! ```

use crate::carry::buffer::with_scratch;
use crate::carry::direction::Direction;
use crate::carry::first_bytes::FirstBytes;
use crate::leg::closing::{self, Closing};
use crate::leg::stream::Stream;
use crate::live::how::{Broken, How};
use crate::live::tally::Tally;
use crate::probe::answer::{self, Answered};
use crate::state::legs::Legs;
use longhaul_config::options::Leg;
use longhaul_core::closing::Fins;
use longhaul_core::stall::Stall;
use longhaul_sys::tcp_info::{State, TcpInfo, unacknowledged};
use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

/// Carries every byte both ways until both directions have ended, and counts the bytes in the flow. `carried` is the
/// number of bytes that the legs took before this call.
///
/// Returns why the flow ended. Unless that is [`How::Finished`], the caller must reset both legs. If a leg broke, the
/// reason names the leg that broke first. Every byte that this leg had sent is delivered by then, unless the other leg
/// broke too or took nothing for [`PATIENCE`]. Also returns the [last look](LastLook) at the legs of a finished flow.
///
/// Not an async fn: an async fn would hold its arguments twice in the future of every idle flow.
pub(crate) fn run<'a>(legs: &'a Legs<'a>, carried: Tally) -> impl Future<Output = (How, LastLook)> {
    let mut pumps = Both {
        legs,
        first: FirstBytes::of(legs.flow, carried.up),
        up: Direction::new(legs, Leg::Accept, carried.up),
        down: Direction::new(legs, Leg::Dial, carried.down),
        broken: None,
        closing: Closings::default(),
    };
    let mut stall = StallTimer(None);
    let mut errors = [None, None];
    async move {
        loop {
            poll_fn(|cx| {
                while let Some(broken) = pumps.first_break(cx, &mut errors, |socket| socket.failed()) {
                    if pumps.breaks(broken).is_err() {
                        return Poll::Ready(());
                    }
                }
                if pumps.has_preface() {
                    return Poll::Ready(());
                }
                match pumps.has_ended() || stall.poll(cx, pumps.limit(), pumps.moved(), || left(pumps.legs)).is_ready()
                {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                }
            })
            .await;
            let Some((found, bytes)) = pumps.first.take_preface() else { break };
            match Box::pin(answer::answer(pumps.legs, found, bytes)).await {
                Answered::Ended(how) => return (how, None),
                Answered::PassOn(preface) => pumps.up.send_first(preface),
            }
        }
        drop(errors);
        let legs = pumps.legs;
        let broken = pumps.broken;
        let has_ended = pumps.has_ended();
        let may_be_probe = pumps.first.are_awaited();
        let sent = pumps.sent();
        let closing = std::mem::take(&mut pumps.closing);
        drop(pumps);
        let ended = match broken {
            None if !has_ended => return (How::HalfOpenTooLong, None),
            Some(broken) if !has_ended => return (broken.into(), None),
            Some(broken) => Err(broken),
            None => match settled(legs, sent) {
                Some(infos) => return (How::Finished, Some(infos)),
                None => Box::pin(settle(legs, closing)).await,
            },
        };
        let Err(broken) = ended else { return (How::Finished, None) };
        // Boxed, because the future would otherwise be part of every idle flow.
        (Box::pin(end_broken(legs, broken, may_be_probe)).await, None)
    }
}

/// Ends a flow after a leg broke: waits until the other leg has its last bytes. `may_be_probe`: the client has sent nothing. Returns
/// why the flow ended.
pub(crate) async fn end_broken(legs: &Legs<'_>, broken: Broken, may_be_probe: bool) -> How {
    deliver(legs, broken.leg.other()).await;
    // A next hop that resets at once may do so before the prober has sent its preface.
    if may_be_probe && broken.leg == Leg::Dial {
        answer::tell_reset(legs).await;
    }
    broken.into()
}

/// TCP_INFO of both legs by [`Leg::index`], of a flow that was over at one look. A short flow ends so, and its end reads nothing a
/// second time.
pub(crate) type LastLook = Option<[TcpInfo; 2]>;

fn settled(legs: &Legs<'_>, sent: Tally) -> LastLook {
    Some([closing::settled(legs.accept, sent.down)?, closing::settled(legs.dial, sent.up)?])
}

/// Waits until the peers' kernels have acknowledged every byte. A leg may still break until then.
async fn settle(legs: &Legs<'_>, mut closing: Closings) -> Result<(), Broken> {
    poll_fn(|cx| {
        let mut is_settled = true;
        for leg in Leg::ALL {
            match closing.begin(legs, leg).poll(cx, legs.of(leg), Fins::Both) {
                Poll::Ready(settled) => settled.map_err(|err| Broken::of(leg, &err))?,
                Poll::Pending => is_settled = false,
            }
        }
        if is_settled { Poll::Ready(Ok(())) } else { Poll::Pending }
    })
    .await
}

/// Waits until the peer of `leg` has acknowledged every byte, as long as it makes progress. A RST would make the kernel
/// discard the unacknowledged bytes.
async fn deliver(legs: &Legs<'_>, leg: Leg) {
    let mut stall = Stall::begin(PATIENCE, Instant::now().into_std(), 0, u32::MAX);
    let mut pause = Duration::from_millis(1);
    let socket = legs.of(leg);
    loop {
        if let Ok(info) = TcpInfo::of(socket.as_fd()) {
            // A connection that was reset keeps its queue, which nobody will acknowledge. An mptcp leg reports one
            // subflow, and another subflow may go on.
            if info.state == State::Closed && !legs.tunnel().mptcp(leg) {
                return;
            }
            closing::let_go(socket, &info);
        }
        match unacknowledged(socket.as_fd()) {
            Ok(0) | Err(_) => return,
            Ok(left) if stall.is_over(Instant::now().into_std(), 0, left) => return,
            Ok(_) => {}
        }
        sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(1));
    }
}

/// Returns the number of bytes that the peers of both legs have not acknowledged yet, in sum.
fn left(legs: &Legs<'_>) -> u32 {
    let left = |leg: &Stream| unacknowledged(leg.as_fd()).unwrap_or(0);
    left(legs.accept).saturating_add(left(legs.dial))
}

/// Both directions of a flow.
struct Both<'a> {
    legs: &'a Legs<'a>,
    /// Those that `up` has not got.
    first: FirstBytes,
    up: Direction<'a>,
    down: Direction<'a>,
    /// The leg that broke first. The direction out of it goes on until every byte that it had sent is delivered.
    broken: Option<Broken>,
    closing: Closings,
}

impl<'a> Both<'a> {
    /// Moves bytes in both directions until both have to wait. Returns the first break that it finds. The caller
    /// repeats the call until it returns `None`.
    fn first_break<F: Future<Output = ()>>(
        &mut self,
        cx: &mut Context<'_>,
        errors: &mut [Option<Pin<Box<F>>>; 2],
        failed: impl Fn(&'a Stream) -> F,
    ) -> Option<Broken> {
        if let Poll::Ready(Err(broken)) = self.poll_up(cx) {
            return Some(broken);
        }
        // A probe that came before the next hop's reset is still answered.
        if self.has_preface() {
            return None;
        }
        if let Poll::Ready(Err(broken)) = self.poll_down(cx) {
            return Some(broken);
        }
        // A blocked pump does not look at its source, and an ended pump looks at neither socket. Without this check, a
        // RST on one leg would wait for the other leg's next byte. While both pumps wait for their sources, as in an
        // idle flow, they notice errors on both legs themselves.
        if !(self.up.is_waiting() && self.down.is_waiting()) {
            for (leg, error) in Leg::ALL.into_iter().zip(errors) {
                // The error of a broken leg is known already.
                if self.is_broken(leg) {
                    continue;
                }
                let socket = self.legs.of(leg);
                let error = error.get_or_insert_with(|| Box::pin(failed(socket)));
                if error.as_mut().poll(cx).is_ready() {
                    return Some(Broken::of(leg, &pending_error(socket)));
                }
            }
        }
        Leg::ALL.into_iter().find_map(|leg| self.closing_break(cx, leg))
    }

    /// Moves bytes from the accept leg to the dial leg, unless the first ones are a preface.
    fn poll_up(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        if matches!(self.first, FirstBytes::Passed) || self.up.has_ended() {
            return self.up.poll(cx);
        }
        with_scratch(|scratch| {
            let first = ready!(self.first.poll(&mut self.up, cx, scratch));
            if first.as_ref().is_ok_and(|bytes| scratch[..*bytes].starts_with(SSH_BANNER)) {
                self.legs.flow.note_ssh();
            }
            self.up.filled(first.map_err(|err| Broken::of(Leg::Accept, &err))?)?;
            self.up.poll_from(cx, scratch)
        })
    }

    /// Moves bytes from the dial leg to the accept leg. A next hop may end before a byte, and before a prober's preface has come. Its FIN
    /// waits a moment for that, unless nobody reads the client any more.
    fn poll_down(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        self.down.may_hold_fin = self.first.may_be_preface() && !self.up.has_ended();
        let polled = self.down.poll(cx);
        if polled.is_pending() && self.down.is_holding_fin() && self.first.poll_before_fin(cx).is_ready() {
            self.down.may_hold_fin = false;
            return self.down.poll(cx);
        }
        polled
    }

    fn has_preface(&self) -> bool {
        matches!(self.first, FirstBytes::Preface(_))
    }

    /// Watches `leg` once we have sent our FIN on it while the pump that reads it is blocked. The pump would not see
    /// the peer's FIN, and after that FIN a close with SO_LINGER 0 may send no RST.
    fn closing_break(&mut self, cx: &mut Context<'_>, leg: Leg) -> Option<Broken> {
        if self.is_broken(leg) || !self.out_of(leg.other()).has_sent_fin() || !self.out_of(leg).is_blocked() {
            return None;
        }
        match self.closing.begin(self.legs, leg).poll(cx, self.legs.of(leg), Fins::Ours) {
            Poll::Ready(Err(err)) => Some(Broken::of(leg, &err)),
            _ => None,
        }
    }

    /// Records a break. The direction into the leg stops, the direction out of it goes on.
    ///
    /// # Errors
    /// The other leg was broken already, so nothing can be delivered any more.
    fn breaks(&mut self, broken: Broken) -> Result<(), ()> {
        match self.broken {
            None => {
                self.broken = Some(broken);
                self.out_of(broken.leg.other()).stop();
                // The bytes that it had sent are still delivered.
                self.out_of(broken.leg).source_is_broken = true;
            }
            // The direction out of the leg has come to its end.
            Some(first) if first.leg == broken.leg => self.out_of(broken.leg).stop(),
            Some(_) => return Err(()),
        }
        Ok(())
    }

    /// Returns the direction whose source is `leg`. Its sink is the other leg.
    fn out_of(&mut self, leg: Leg) -> &mut Direction<'a> {
        match leg {
            Leg::Accept => &mut self.up,
            Leg::Dial => &mut self.down,
        }
    }

    fn is_broken(&self, leg: Leg) -> bool {
        self.broken.is_some_and(|broken| broken.leg == leg)
    }

    /// Whether both directions have ended.
    fn has_ended(&self) -> bool {
        self.up.has_ended() && self.down.has_ended()
    }

    /// Returns the number of bytes moved, both ways.
    fn moved(&self) -> u64 {
        self.up.pump.moved() + self.down.pump.moved()
    }

    /// Returns the time after which a flow that makes no progress is ended: `linger-half-open` of the leg that has sent
    /// its FIN, or [`PATIENCE`] once a leg is broken.
    fn limit(&self) -> Option<Duration> {
        let tunnel = self.legs.tunnel();
        match (self.up.has_ended(), self.down.has_ended()) {
            _ if self.broken.is_some() => Some(PATIENCE),
            (true, _) => tunnel.accept.linger_half_open(),
            (_, true) => tunnel.dial.linger_half_open(),
            _ => None,
        }
    }

    /// Returns the number of bytes that each leg has taken so far.
    fn sent(&self) -> Tally {
        Tally { up: self.up.pump.moved(), down: self.down.pump.moved() }
    }
}

/// The watches of legs that close, by leg. Most flows need none.
#[derive(Default)]
struct Closings([Option<Box<Closing>>; 2]);

impl Closings {
    fn begin(&mut self, legs: &Legs<'_>, leg: Leg) -> &mut Closing {
        self.0[leg.index()].get_or_insert_with(|| Box::new(Closing::new(&legs.relay.hangups, legs.of(leg))))
    }
}

/// Ends a flow that makes no progress for too long. The timer is created when a limit first applies.
struct StallTimer(Option<Box<Running>>);

struct Running {
    stall: Stall,
    timer: Pin<Box<Sleep>>,
}

impl StallTimer {
    /// Ready when the flow has [stalled](Stall) for `limit`. `moved` is the number of bytes that it has moved, `left` the
    /// number of those that the peers have not acknowledged. A changed limit restarts the timer.
    fn poll(&mut self, cx: &mut Context<'_>, limit: Option<Duration>, moved: u64, left: impl Fn() -> u32) -> Poll<()> {
        let Some(limit) = limit else { return Poll::Pending };
        let begin = || {
            let stall = Stall::begin(limit, Instant::now().into_std(), moved, left());
            Box::new(Running { stall, timer: Box::pin(sleep(stall.step())) })
        };
        let running = self.0.get_or_insert_with(begin);
        if running.stall.limit() != limit {
            *running = begin();
        }
        while running.timer.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            if running.stall.is_over(now.into_std(), moved, left()) {
                return Poll::Ready(());
            }
            running.timer.set(sleep_until(now + running.stall.step()));
        }
        Poll::Pending
    }
}

/// Returns the error for which the kernel woke us, or ECONNRESET when the error was taken already.
pub(crate) fn pending_error(socket: &Stream) -> io::Error {
    match socket.take_error() {
        Ok(Some(err)) | Err(err) => err,
        Ok(None) => io::Error::from_raw_os_error(libc::ECONNRESET),
    }
}

/// Time that the last bytes of a broken leg wait for a peer that takes nothing. Then the reset overtakes them.
const PATIENCE: Duration = Duration::from_secs(30);
/// The first bytes of SSH (RFC 4253 4.2).
const SSH_BANNER: &[u8] = b"SSH-";

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// In virtual time: a peer that reads slowly from a large buffer, for an hour, and then stops.
    #[tokio::test(start_paused = true)]
    async fn a_peer_that_acknowledges_has_not_stalled() {
        let (left, begin) = (Cell::new(1_000_000), Instant::now());
        let mut stall = StallTimer(None);
        let mut over = async |time| {
            let waits = poll_fn(|cx| stall.poll(cx, Some(PATIENCE), 7, || left.get()));
            tokio::time::timeout(time, waits).await.is_ok()
        };
        for _ in 0..180 {
            assert!(!over(Duration::from_secs(20)).await, "after {:?}", begin.elapsed());
            left.set(left.get() - 1);
        }
        assert!(!over(PATIENCE).await);
        assert!(over(PATIENCE / 4).await);
    }
}
