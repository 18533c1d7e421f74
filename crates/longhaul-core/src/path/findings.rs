//! Findings about a finished leg: whether a buffer limited it, and the rate that its path has set.

use super::sample::{MIN_ACKED_BYTES, Sample, WAN_RTT};
use std::time::Duration;

/// One of the two buffers that limit a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// Our send buffer.
    Ours,
    /// The peer's receive buffer, which sets the window that it offers.
    Peers,
}

/// Returns the buffer that was too small for a leg's long path, if one was. `was_full_under_way` is the result of
/// [`is_full_under_way`] for the leg.
pub fn limiting_buffer(sample: &Sample, was_full_under_way: bool) -> Option<Buffer> {
    // NDT's threshold for "limited by" (RFC 4898 counters): 15 % of the busy time.
    let limits = |part: Duration| part.as_secs_f64() >= 0.15 * sample.busy.as_secs_f64().max(1.0);
    // A program that reads slowly closes its window too, and a larger buffer would not help it. So the window must be
    // about the number of bytes carried per round trip. A much larger window had room left. A much smaller one was left
    // full by the reader.
    let carried = sample.acked_bytes as f64 * sample.rtt.as_secs_f64() / sample.busy.as_secs_f64();
    let window = sample.peer_window as f64;
    let was_used = (window / 2.0..=window * 2.0).contains(&carried);
    match sample.rtt {
        rtt if rtt < WAN_RTT => None,
        _ if was_full_under_way || limits(sample.limited_by_send_buffer) => Some(Buffer::Ours),
        _ if limits(sample.limited_by_peer) && was_used => Some(Buffer::Peers),
        _ => None,
    }
}

/// Whether a larger send buffer would have sent more. The buffer was seen full `full` times, and `under_way` times
/// every byte in it was in flight. The kernel's own measure (tcpi_sndbuf_limited) counts only calls that send something
/// and leave no room (net/ipv4/tcp_output.c, tcp_cwnd_validate). A sender without pacing that never waits seldom makes
/// such a call.
pub fn is_full_under_way(full: u32, under_way: u32) -> bool {
    full >= MIN_FULL && under_way >= full / 2
}

/// Returns the latest delivery rate in bytes per second, if the path set it. The leg carried `sent` bytes of payload in
/// a flow that lasted `lasted`.
///
/// The kernel's last measurement may cover a few packets. On a leg that sent little, or had nothing more to send, it
/// says nothing about the path. The kernel's own flag is not enough. It keeps a rate from slow start until a better one
/// comes: on loopback, 1,300 MB/s for a sender of 12 MB/s. A reader that stalls leaves the rate of its last small read.
pub fn path_rate(sample: &Sample, sent: u64, lasted: Duration) -> Option<u64> {
    let was_busy = sample.busy.saturating_sub(sample.limited_by_peer).saturating_mul(2) >= lasted;
    let is_of_path = sent > MIN_ACKED_BYTES && was_busy && !sample.is_app_limited && sample.delivery_rate > 0;
    is_of_path.then_some(sample.delivery_rate)
}

/// Minimum number of looks at a full send buffer for a finding.
const MIN_FULL: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_rate_that_the_path_did_not_set_is_left_out() {
        let bulk = Sample { delivery_rate: 12_345_678, busy: SECOND, ..Sample::default() };
        let enough = MIN_ACKED_BYTES + 1;
        assert_eq!(path_rate(&bulk, enough, 2 * SECOND), Some(12_345_678));
        assert_eq!(path_rate(&bulk, enough, 3 * SECOND), None, "idle for most of the time");
        assert_eq!(path_rate(&bulk, MIN_ACKED_BYTES, SECOND), None, "little was sent");
        let nothing = [
            ("the sender had no more", Sample { is_app_limited: true, ..bulk }),
            ("never measured", Sample { delivery_rate: 0, ..bulk }),
            ("a slow reader", Sample { limited_by_peer: SECOND / 2, ..bulk }),
        ];
        for (what, sample) in nothing {
            assert_eq!(path_rate(&sample, enough, 2 * SECOND), None, "{what}");
        }
    }

    #[test]
    fn a_slow_reader_is_no_small_window() {
        // 10 s over 100 ms, half of them held back by the peer's window of 1 MB.
        let full = Sample {
            rtt: SECOND / 10,
            busy: 10 * SECOND,
            limited_by_peer: 5 * SECOND,
            peer_window: 1_000_000,
            acked_bytes: 100_000_000,
            ..Sample::default()
        };
        let cases = [
            ("a window in each round trip", full, Some(Buffer::Peers)),
            ("half of one: it grew on the way", Sample { acked_bytes: 50_000_000, ..full }, Some(Buffer::Peers)),
            ("a slow reader who caught up at the end", Sample { acked_bytes: 49_000_000, ..full }, None),
            ("a slow reader who has not", Sample { peer_window: 1_000, ..full }, None),
            ("seldom held back", Sample { limited_by_peer: SECOND, ..full }, None),
            ("a LAN", Sample { rtt: SECOND / 1000, ..full }, None),
            ("our own buffer", Sample { limited_by_send_buffer: 2 * SECOND, ..full }, Some(Buffer::Ours)),
            ("nothing was sent", Sample { rtt: SECOND, ..Sample::default() }, None),
        ];
        for (what, sample, buffer) in cases {
            assert_eq!(limiting_buffer(&sample, false), buffer, "{what}");
        }
        assert_eq!(limiting_buffer(&full, true), Some(Buffer::Ours));
    }

    #[test]
    fn a_buffer_full_of_bytes_under_way_is_too_small() {
        assert!(is_full_under_way(8, 4) && is_full_under_way(9, 4));
        assert!(!is_full_under_way(7, 7), "too few looks");
        assert!(!is_full_under_way(10, 4), "mostly something waited for the congestion window");
    }
}
