//! A look at a connection, as it goes over the wire: the fields of TCP_INFO that a decision needs.

use longhaul_core::path::Sample;
use longhaul_core::path::laws::MAX_UNSCALED_WINDOW;
use longhaul_sys::limits;
use longhaul_sys::tcp_info::TcpInfo;
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;
use std::time::Duration;

/// A look. Times are in µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Look {
    /// Time since the run began.
    pub at: u64,
    /// Fields of [`Sample`] with the same names.
    pub rtt: u64,
    /// The smallest round trip.
    pub min_rtt: u64,
    /// Segments in flight.
    pub in_flight: u32,
    /// Payload bytes of a full segment.
    pub mss: u32,
    /// Congestion window in segments.
    pub cwnd: u32,
    /// Window at which slow start ends.
    pub ssthresh: u32,
    /// Whether it recovers from a loss.
    pub recovering: bool,
    /// Bytes acknowledged.
    pub acked: u64,
    /// Bytes retransmitted.
    pub retransmitted: u64,
    /// Duplicates that the peer reported.
    pub duplicates: u32,
    /// Number of times that reordering was seen.
    pub reorderings: u32,
    /// Timeouts in a row.
    pub timeouts: u8,
    /// Segments received.
    pub answers: u32,
    /// Bytes not yet sent.
    pub unsent: u64,
    /// Whether the program waited for room in the send buffer.
    pub blocked: bool,
    /// The peer's window.
    pub window: u64,
    /// Pacing rate in bytes per second.
    pub pacing: u64,
    /// Largest pacing rate; 0 if none is set.
    pub max_pacing: u64,
    /// Delivery rate in bytes per second.
    pub delivery: u64,
    /// Whether the sender had too little to send.
    pub app_limited: bool,
    /// Time with bytes in flight.
    pub busy: u64,
    /// Time limited by the peer's window.
    pub by_peer: u64,
    /// Time limited by the send buffer.
    pub by_buffer: u64,
}

/// Returns the fields of `info` that decisions need, with their units.
pub fn sample(info: &TcpInfo) -> Sample {
    Sample {
        rtt: info.rtt,
        min_rtt: info.min_rtt,
        in_flight_segments: info.unacked_segments,
        mss_bytes: info.snd_mss,
        cwnd_segments: info.snd_cwnd,
        ssthresh_segments: info.snd_ssthresh,
        is_recovering: info.ca_state != CA_OPEN,
        acked_bytes: info.bytes_acked,
        retransmitted_bytes: info.bytes_retrans,
        duplicates: info.dsack_dups,
        reorderings: info.reorderings,
        timeouts: info.backoff,
        receive_rtt: info.rcv_rtt,
        received_bytes: info.bytes_received,
        received_segments: info.segments_received,
        out_of_order: info.out_of_order,
        since_received: info.last_data_received,
        unsent_bytes: info.notsent_bytes.into(),
        is_blocked: false,
        peer_window: info.snd_wnd.into(),
        max_peer_window: max_window(info.snd_wscale),
        pacing_rate: info.pacing_rate,
        max_pacing_rate: info.max_pacing_rate,
        delivery_rate: info.delivery_rate,
        is_app_limited: info.is_app_limited,
        busy: info.busy_time,
        limited_by_peer: info.rwnd_limited,
        limited_by_send_buffer: info.sndbuf_limited,
    }
}

/// Returns the largest window that a peer with this scale can offer. 0 if it has none because this kernel offers none (tcp(7),
/// tcp_window_scaling).
fn max_window(scale: Option<u8>) -> u64 {
    static WE_SCALE: OnceLock<bool> = OnceLock::new();
    let we_scale =
        || *WE_SCALE.get_or_init(|| limits::sysctl("net/ipv4/tcp_window_scaling").is_none_or(|value| value != "0"));
    if scale.is_some() || we_scale() { MAX_UNSCALED_WINDOW.0 << scale.unwrap_or(0) } else { 0 }
}

impl Look {
    /// Returns the look `at` this time after the run began. `is_blocked`: the program waited for room.
    pub fn new(at: Duration, sample: &Sample, is_blocked: bool) -> Look {
        Look {
            at: micros(at),
            rtt: micros(sample.rtt),
            min_rtt: micros(sample.min_rtt),
            in_flight: sample.in_flight_segments,
            mss: sample.mss_bytes,
            cwnd: sample.cwnd_segments,
            ssthresh: sample.ssthresh_segments,
            recovering: sample.is_recovering,
            acked: sample.acked_bytes,
            retransmitted: sample.retransmitted_bytes,
            duplicates: sample.duplicates,
            reorderings: sample.reorderings,
            timeouts: sample.timeouts,
            answers: sample.received_segments,
            unsent: sample.unsent_bytes,
            blocked: is_blocked,
            window: sample.peer_window,
            pacing: sample.pacing_rate,
            max_pacing: sample.max_pacing_rate.unwrap_or(0),
            delivery: sample.delivery_rate,
            app_limited: sample.is_app_limited,
            busy: micros(sample.busy),
            by_peer: micros(sample.limited_by_peer),
            by_buffer: micros(sample.limited_by_send_buffer),
        }
    }

    /// Returns the time since the run began.
    pub fn time(&self) -> Duration {
        Duration::from_micros(self.at)
    }

    /// Returns what a decision takes.
    pub fn sample(&self) -> Sample {
        let time = Duration::from_micros;
        Sample {
            rtt: time(self.rtt),
            min_rtt: time(self.min_rtt),
            in_flight_segments: self.in_flight,
            mss_bytes: self.mss,
            cwnd_segments: self.cwnd,
            ssthresh_segments: self.ssthresh,
            is_recovering: self.recovering,
            acked_bytes: self.acked,
            retransmitted_bytes: self.retransmitted,
            duplicates: self.duplicates,
            reorderings: self.reorderings,
            timeouts: self.timeouts,
            receive_rtt: Duration::ZERO,
            received_bytes: 0,
            received_segments: self.answers,
            out_of_order: 0,
            since_received: Duration::ZERO,
            unsent_bytes: self.unsent,
            is_blocked: self.blocked,
            peer_window: self.window,
            max_peer_window: 0,
            pacing_rate: self.pacing,
            max_pacing_rate: Some(self.max_pacing).filter(|rate| *rate > 0),
            delivery_rate: self.delivery,
            is_app_limited: self.app_limited,
            busy: time(self.busy),
            limited_by_peer: time(self.by_peer),
            limited_by_send_buffer: time(self.by_buffer),
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// `TCP_CA_Open` of `linux/tcp.h`: nothing is lost, reordered or marked.
const CA_OPEN: u8 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_keeps_what_a_decision_takes() {
        let ms = Duration::from_millis;
        let sample = Sample {
            rtt: ms(1),
            min_rtt: ms(2),
            in_flight_segments: 3,
            mss_bytes: 4,
            cwnd_segments: 5,
            ssthresh_segments: 6,
            is_recovering: true,
            acked_bytes: 7,
            retransmitted_bytes: 8,
            duplicates: 9,
            reorderings: 10,
            timeouts: 11,
            receive_rtt: Duration::ZERO,
            received_bytes: 0,
            received_segments: 12,
            out_of_order: 0,
            since_received: Duration::ZERO,
            unsent_bytes: 13,
            is_blocked: true,
            peer_window: 14,
            max_peer_window: 0,
            pacing_rate: 15,
            max_pacing_rate: Some(16),
            delivery_rate: 17,
            is_app_limited: true,
            busy: ms(18),
            limited_by_peer: ms(19),
            limited_by_send_buffer: ms(20),
        };
        let look = Look::new(ms(100), &sample, true);
        assert_eq!((look.sample(), look.time()), (sample, ms(100)));
        let text = serde_json::to_string(&look).unwrap();
        assert_eq!(serde_json::from_str::<Look>(&text).unwrap(), look);
    }
}
