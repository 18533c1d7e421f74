//! The limits of a leg that retransmits: the longest time between two retransmissions, and the time until it gives up. Also a new try
//! for a leg that cannot send at all.
//!
//! The kernel's own hold at first, and again before a close that leaves bytes to the kernel, which has other rules for a socket
//! without a program (net/ipv4/tcp_timer.c, tcp_orphan_retries): 8 retransmissions, but none if its timer has reached the maximum.
//! With a maximum of 1 s alone, the unacknowledged bytes would be gone after 3 s.

use crate::leg::stream::Stream;
use longhaul_core::silence::{Limits, NEVER};
use longhaul_sys::sockopt;
use socket2::{Domain, SockRef, Socket, Type};
use std::os::fd::AsFd;
use std::sync::LazyLock;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::time::Duration;

/// Returns the kernel's own longest time between two retransmissions. `None` if the kernel does not let us set it.
pub(crate) fn kernels() -> Option<Duration> {
    *OF_KERNEL
}

/// Sets the limits of `leg`, or those of the kernel with `None`. Does nothing if they are about the same already, or once the leg's
/// last bytes were [left](leave) to the kernel.
pub(crate) fn limit(leg: &Stream, limits: Option<Limits>) {
    let Some(longest) = kernels() else { return };
    let limits = limits.filter(|limits| limits.rto_max < longest);
    let ends = |limits: Limits| if limits.user_timeout < NEVER { ENDS } else { 0 };
    let new = limits.map_or(KERNELS, |limits| limits.rto_max.as_millis() as u32 | ends(limits));
    let old = leg.rto_max.load(Relaxed);
    // The difference is large if only one of both ends.
    let is_near = old != KERNELS && new != KERNELS && new.abs_diff(old) <= (old & !ENDS) / 4;
    if old == new || old == LEFT || is_near || leg.rto_max.compare_exchange(old, new, AcqRel, Relaxed).is_err() {
        return;
    }
    match limits {
        // In this order, because the kernel must at no time have the maximum alone. Calls fail only on a broken connection.
        Some(Limits { rto_max, user_timeout }) => {
            let _ = sockopt::set_user_timeout(leg.as_fd(), Some(user_timeout));
            let _ = sockopt::set_rto_max(leg.as_fd(), rto_max);
        }
        None => reset(leg),
    }
    // The flow's task may have left the leg to the kernel meanwhile, and closes it next.
    if leg.rto_max.load(Relaxed) == LEFT {
        reset(leg);
    }
}

/// Sets the kernel's own limits for good, because the leg's last bytes are left to the kernel. No call if they hold already.
pub(crate) fn leave(leg: &Stream) {
    if !matches!(leg.rto_max.swap(LEFT, AcqRel), KERNELS | LEFT) {
        reset(leg);
    }
}

/// Makes the kernel try to send the unsent bytes of `leg` now. Otherwise it waits for the timer of its window probes, which doubles up
/// to 2 minutes. A try counts as no probe. To turn off a cork that is not on does this and nothing else (net/ipv4/tcp.c,
/// __tcp_sock_set_cork).
pub(crate) fn try_again(leg: &Stream) {
    // Fails only on a broken connection.
    let _ = SockRef::from(leg).set_tcp_cork(false);
}

/// Whether `leg` has limits that are not the kernel's own.
pub(crate) fn is_limited(leg: &Stream) -> bool {
    !matches!(leg.rto_max.load(Relaxed), KERNELS | LEFT)
}

/// Returns the longest time between two retransmissions that is set on `leg`, in ms. 0 if the kernel's own holds.
#[cfg(test)]
pub(crate) fn milliseconds(leg: &Stream) -> u32 {
    match leg.rto_max.load(Relaxed) {
        LEFT => KERNELS,
        set => set & !ENDS,
    }
}

fn reset(leg: &Stream) {
    if let Some(own) = kernels() {
        let _ = sockopt::set_rto_max(leg.as_fd(), own);
        let _ = sockopt::set_user_timeout(leg.as_fd(), None);
    }
}

/// Value of `Stream::rto_max`: the kernel's own limits hold.
const KERNELS: u32 = 0;
/// Bit of it: the user-timeout is not [`NEVER`].
const ENDS: u32 = 1 << 31;
/// Value of it: they hold for good.
const LEFT: u32 = u32::MAX;

static OF_KERNEL: LazyLock<Option<Duration>> = LazyLock::new(|| {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).ok()?;
    sockopt::rto_max(socket.as_fd()).ok()
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leg::closing::linger_off;
    use crate::leg::stream::pair;
    use longhaul_config::options::{Leg, Value, row};

    /// Returns the longest time between two retransmissions, and the user-timeout in ms.
    fn of(leg: &Stream) -> (Duration, u64) {
        let timeout = row(Leg::Dial, "user-timeout").unwrap().read(leg.as_fd()).unwrap();
        let Some(Value::Number(timeout)) = timeout else { panic!("{timeout:?}") };
        (sockopt::rto_max(leg.as_fd()).unwrap(), timeout)
    }

    #[tokio::test]
    async fn limits_hold_until_the_last_bytes_are_left_to_the_kernel() {
        let Some(own) = kernels() else { return println!("SKIP: before Linux 6.15 there is no TCP_RTO_MAX_MS") };
        let (leg, _peer) = pair();
        let limits = |ms| Some(Limits { rto_max: Duration::from_millis(ms), user_timeout: NEVER });
        let ends = |ms| limits(ms).map(|limits| Limits { user_timeout: Duration::from_secs(900), ..limits });
        let never = NEVER.as_millis() as u64;
        let after = |limits| {
            limit(&leg, limits);
            (of(&leg).0.as_millis(), of(&leg).1)
        };
        let kernels = (own.as_millis(), 0);
        assert_eq!(after(None), kernels);
        assert_eq!(after(limits(1000)), (1000, never));
        assert_eq!(after(limits(1200)), (1000, never), "about the same");
        assert_eq!(after(limits(1300)), (1300, never));
        assert_eq!([after(ends(1300)), after(ends(1400))], [(1300, 900_000); 2], "the patience is almost over");
        assert_eq!(after(limits(1300)), (1300, never), "an answer came");
        assert_eq!(after(limits(120_000)), kernels, "no less than the kernel's");
        assert_eq!(after(limits(1000)), (1000, never));
        assert_eq!(after(None), kernels, "the window is closed");
        assert_eq!(after(limits(1000)), (1000, never));
        linger_off(&leg);
        assert_eq!(after(limits(1000)), kernels, "its close leaves the rest to the kernel");
    }
}
