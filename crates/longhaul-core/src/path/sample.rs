//! One look at a TCP connection: the fields of TCP_INFO that decisions need, with units.

use std::time::Duration;

/// State of a connection at one moment. A field that the kernel does not report is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Smoothed round-trip time; zero when it was never measured.
    pub rtt: Duration,
    /// The smallest round-trip time seen; zero when it was never measured.
    pub min_rtt: Duration,
    /// Segments sent and not yet acknowledged.
    pub in_flight_segments: u32,
    /// Payload bytes of a full segment.
    pub mss_bytes: u32,
    /// Congestion window, in segments.
    pub cwnd_segments: u32,
    /// Congestion window at which slow start ends, in segments; more than any window before the first loss.
    pub ssthresh_segments: u32,
    /// Whether the congestion control is reacting to a loss, to reordering or to an ECN mark.
    pub is_recovering: bool,
    /// Bytes that the peer acknowledged. SYN and FIN may count as one byte each.
    pub acked_bytes: u64,
    /// Payload bytes retransmitted.
    pub retransmitted_bytes: u64,
    /// Number of duplicates that the peer reported: segments that were sent again for nothing.
    pub duplicates: u32,
    /// Number of times that reordering was seen.
    pub reorderings: u32,
    /// Number of timeouts in a row without an acknowledgement.
    pub timeouts: u8,
    /// Round-trip time measured by payload that arrives. At least that of the path; zero when it was never measured.
    pub receive_rtt: Duration,
    /// Payload bytes received. FIN may count as one byte.
    pub received_bytes: u64,
    /// Segments received, those without payload too. Wraps around.
    pub received_segments: u32,
    /// Segments received out of order: others before them were lost, or came later. 0 also on kernels before 5.4.
    pub out_of_order: u32,
    /// Time since payload was last received.
    pub since_received: Duration,
    /// Bytes written by the program and not yet sent.
    pub unsent_bytes: u64,
    /// Whether the program has more bytes, and waits until the socket takes them.
    pub is_blocked: bool,
    /// The peer's receive window, in bytes. 0 also on kernels before 5.4, which do not report it.
    pub peer_window: u64,
    /// The largest receive window that the peer's window scale can express, in bytes. 0 if that is not known.
    pub max_peer_window: u64,
    /// Rate at which the kernel paces the segments, in bytes per second.
    pub pacing_rate: u64,
    /// Largest pacing rate, in bytes per second; `None` if none is set.
    pub max_pacing_rate: Option<u64>,
    /// The latest delivery rate, in bytes per second.
    pub delivery_rate: u64,
    /// Whether the sender had less to send than the path could take while `delivery_rate` was measured.
    pub is_app_limited: bool,
    /// Time with bytes in flight. Includes the next two.
    pub busy: Duration,
    /// Time during which the peer's receive window limited the sender.
    pub limited_by_peer: Duration,
    /// Time during which the send buffer limited the sender.
    pub limited_by_send_buffer: Duration,
}

impl Sample {
    /// Whether the segments are paced by the largest rate that the socket may have, and not by the congestion control.
    ///
    /// CUBIC and Reno pace with twice or 1.2 times the rate that their window gives, so a cap below that is the pacing rate.
    /// BBR paces with its estimate of the bandwidth, which a cap keeps just below the cap, and now and then with 0.75 times that
    /// (net/ipv4/tcp_bbr.c, bbr_pacing_gain). Then the delivery rate tells them apart: it is near the cap.
    pub(super) fn is_paced_by_cap(&self) -> bool {
        let Some(max) = self.max_pacing_rate else { return false };
        let is_above = |rate: u64, percent: u64| u128::from(rate) * 100 >= u128::from(max) * u128::from(percent);
        self.pacing_rate >= max || (is_above(self.pacing_rate, 70) && is_above(self.delivery_rate, 90))
    }

    /// Returns the shortest round-trip time of the path; zero when it was never measured. That of the handshake can be far too long: with
    /// TCP_DEFER_ACCEPT it includes the client's silence.
    pub fn least_rtt(&self) -> Duration {
        // The kernel measures this one in steps of a millisecond.
        let received = self.receive_rtt.saturating_add(Duration::from_millis(2));
        if self.receive_rtt.is_zero() || self.min_rtt <= received { self.min_rtt } else { self.receive_rtt }
    }

    /// Whether the congestion control is still looking for the path's capacity (RFC 5681 3.1).
    pub fn is_in_slow_start(&self) -> bool {
        self.cwnd_segments < self.ssthresh_segments
    }

    /// Returns the time with bytes in flight during which neither the peer's window nor the send buffer limited the
    /// sender. A slow reader adds nothing to it.
    pub fn limited_by_path(&self) -> Duration {
        self.busy.saturating_sub(self.limited_by_peer.saturating_add(self.limited_by_send_buffer))
    }

    /// Returns the latest delivery rate in bytes per second, if the path set it. The leg carried `sent` bytes of payload in
    /// a flow that lasted `lasted`.
    ///
    /// The kernel's last measurement may cover a few packets. On a leg that sent little, or had nothing more to send, it
    /// says nothing about the path. The kernel's own flag is not enough. It keeps a rate from slow start until a better one
    /// comes: on loopback, 1,300 MB/s for a sender of 12 MB/s. A reader that stalls leaves the rate of its last small read.
    pub fn path_rate(&self, sent: u64, lasted: Duration) -> Option<u64> {
        let was_busy = self.busy.saturating_sub(self.limited_by_peer).saturating_mul(2) >= lasted;
        let is_of_path = sent > MIN_ACKED_BYTES && was_busy && !self.is_app_limited && self.delivery_rate > 0;
        is_of_path.then_some(self.delivery_rate)
    }
}

/// Whether the peer holds back its `answers`, which have acknowledged `acked` bytes in `elapsed`: up to 40 ms, while its reader is slower than
/// the bytes come and so its window does not grow (net/ipv4/tcp_input.c, __tcp_ack_snd_check). The smoothed round trip then has that time,
/// which is no queue. `segment` is the payload of a full segment.
pub fn is_answered_late(answers: u32, acked: u64, segment: u32, elapsed: Duration) -> bool {
    answers * SELDOM_ANSWERED < elapsed && acked >= MANY_SEGMENTS * u64::from(answers) * u64::from(segment)
}

/// Time from one acknowledgement to the next from which on they are late, if each is of so many full segments. Other peers acknowledge each
/// second segment, or what has arrived at once.
const SELDOM_ANSWERED: Duration = Duration::from_millis(20);
const MANY_SEGMENTS: u64 = 4;

/// Round-trip time from which on a leg counts as WAN. No LAN reaches it, every WAN does.
pub const WAN_RTT: Duration = Duration::from_millis(5);

/// Number of acknowledged bytes from which on the path's RTT is known, because some were acknowledged at once. The
/// handshake is not enough: with TCP_DEFER_ACCEPT its sample includes the client's silence, and with fast open there
/// may be no sample.
pub const MIN_ACKED_BYTES: u64 = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_shortest_round_trip_is_not_that_of_a_silent_client() {
        let millis = |number| SECOND / 1000 * number;
        for (min, receive, least) in [(63, 0, 63), (63, 70, 63), (63, 62, 63), (5000, 64, 64), (0, 64, 0), (0, 0, 0)] {
            let sample = Sample { min_rtt: millis(min), receive_rtt: millis(receive), ..Sample::default() };
            assert_eq!(sample.least_rtt(), millis(least), "{min} {receive}");
        }
    }

    #[test]
    fn a_rate_that_the_path_did_not_set_is_left_out() {
        let bulk = Sample { delivery_rate: 12_345_678, busy: SECOND, ..Sample::default() };
        let enough = MIN_ACKED_BYTES + 1;
        assert_eq!(bulk.path_rate(enough, 2 * SECOND), Some(12_345_678));
        assert_eq!(bulk.path_rate(enough, 3 * SECOND), None, "idle for most of the time");
        assert_eq!(bulk.path_rate(MIN_ACKED_BYTES, SECOND), None, "little was sent");
        let nothing = [
            ("the sender had no more", Sample { is_app_limited: true, ..bulk }),
            ("never measured", Sample { delivery_rate: 0, ..bulk }),
            ("a slow reader", Sample { limited_by_peer: SECOND / 2, ..bulk }),
        ];
        for (what, sample) in nothing {
            assert_eq!(sample.path_rate(enough, 2 * SECOND), None, "{what}");
        }
    }
}
