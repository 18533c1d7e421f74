//! One look at a TCP connection: the fields of TCP_INFO that decisions need, with units.

use std::time::Duration;

/// State of a connection at one moment. A field that the kernel does not report is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Smoothed round-trip time; zero when it was never measured.
    pub rtt: Duration,
    /// The smallest round-trip time seen; zero when it was never measured.
    pub min_rtt: Duration,
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
    /// Bytes written by the program and not yet sent.
    pub unsent_bytes: u64,
    /// The peer's receive window, in bytes.
    pub peer_window: u64,
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
    /// Whether the congestion control is still looking for the path's capacity (RFC 5681 3.1).
    pub fn is_in_slow_start(&self) -> bool {
        self.cwnd_segments < self.ssthresh_segments
    }

    /// Returns the time with bytes in flight during which neither the peer's window nor the send buffer limited the
    /// sender. A slow reader adds nothing to it.
    pub fn limited_by_path(&self) -> Duration {
        self.busy.saturating_sub(self.limited_by_peer.saturating_add(self.limited_by_send_buffer))
    }
}

/// Round-trip time from which on a leg counts as WAN. No LAN reaches it, every WAN does.
pub const WAN_RTT: Duration = Duration::from_millis(5);

/// Number of acknowledged bytes from which on the path's RTT is known, because some were acknowledged at once. The
/// handshake is not enough: with TCP_DEFER_ACCEPT its sample includes the client's silence, and with fast open there
/// may be no sample.
pub const MIN_ACKED_BYTES: u64 = 64 * 1024;
