//! Finds the limit of a sender at one moment, from a single look at its connection.
//!
//! ```text
//! program ── blocked? ──> send buffer: unsent bytes | bytes in flight ──> peer
//! ```
//! Unsent bytes wait for a window. Without them, either the program has no more, or the send buffer holds no more.

use super::sample::Sample;
use std::fmt;

/// The cause that keeps a sender from sending more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The program has no more bytes.
    Application,
    /// Every byte that the send buffer holds is in flight, and the program has more.
    SendBuffer,
    /// The peer's receive window is full of bytes in flight.
    ReceiveWindow,
    /// The congestion window is full, or the congestion control paces the segments.
    CongestionWindow,
    /// Both windows have room. The segments are paced at the largest rate that the socket may have.
    Cap,
}

impl Limit {
    /// All limits, in the order in which views list them.
    pub const ALL: [Limit; 5] =
        [Limit::Application, Limit::SendBuffer, Limit::ReceiveWindow, Limit::CongestionWindow, Limit::Cap];

    /// Returns the limit of a sender at the moment of `sample`.
    pub fn of(sample: &Sample) -> Limit {
        if sample.unsent_bytes == 0 {
            return if sample.is_blocked { Limit::SendBuffer } else { Limit::Application };
        }
        // The kernel does not report the bytes in flight. Full segments are the upper bound.
        let in_flight = u64::from(sample.in_flight_segments) * u64::from(sample.mss_bytes);
        let is_window_full = in_flight + u64::from(sample.mss_bytes) > sample.peer_window;
        // Nothing is in flight into a window of 0, so with bytes in flight 0 stands for a kernel that does not report it.
        let is_reported = sample.peer_window > 0 || sample.in_flight_segments == 0;
        match (sample.in_flight_segments < sample.cwnd_segments, is_window_full && is_reported) {
            (false, _) => Limit::CongestionWindow,
            (true, true) => Limit::ReceiveWindow,
            (true, false) if sample.is_paced_by_cap() => Limit::Cap,
            (true, false) => Limit::CongestionWindow,
        }
    }

    /// Returns its name, as documents and metrics show it.
    pub fn name(self) -> &'static str {
        match self {
            Limit::Application => "application",
            Limit::SendBuffer => "send buffer",
            Limit::ReceiveWindow => "receive window",
            Limit::CongestionWindow => "congestion window",
            Limit::Cap => "cap",
        }
    }

    /// Returns the limit that [`Limit::name`] calls `name`.
    pub fn named(name: &str) -> Option<Limit> {
        Limit::ALL.into_iter().find(|limit| limit.name() == name)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_for_one_limit() {
        for limit in Limit::ALL {
            assert_eq!(Limit::named(limit.name()), Some(limit));
        }
        assert_eq!(Limit::named("-"), None);
    }

    #[test]
    fn one_look_tells_the_limit() {
        let idle = Sample { cwnd_segments: 10, mss_bytes: 1448, peer_window: 65_535, ..Sample::default() };
        assert_eq!(Limit::of(&idle), Limit::Application);
        let answered_soon = Sample { in_flight_segments: 3, ..idle };
        assert_eq!(Limit::of(&answered_soon), Limit::Application, "nothing waits");
        assert_eq!(Limit::of(&Sample { is_blocked: true, ..answered_soon }), Limit::SendBuffer);
        let waits = Sample { unsent_bytes: 100_000, is_blocked: true, ..answered_soon };
        assert_eq!(Limit::of(&waits), Limit::CongestionWindow, "paced: both windows have room");
        assert_eq!(Limit::of(&Sample { in_flight_segments: 10, ..waits }), Limit::CongestionWindow);
        let old = Sample { cwnd_segments: 100, in_flight_segments: 45, ..waits };
        assert_eq!(Limit::of(&old), Limit::ReceiveWindow, "45 of 1448 bytes, and the next one does not fit");
        assert_eq!(Limit::of(&Sample { cwnd_segments: 45, ..old }), Limit::CongestionWindow, "both are full");
        assert_eq!(Limit::of(&Sample { peer_window: 0, ..old }), Limit::CongestionWindow, "not reported");
        assert_eq!(Limit::of(&Sample { peer_window: 0, in_flight_segments: 0, ..old }), Limit::ReceiveWindow, "closed");
        Limit::of(&Sample { in_flight_segments: u32::MAX, mss_bytes: u32::MAX, ..waits });
    }

    #[test]
    fn a_paced_sender_with_room_in_both_windows_is_limited_by_the_cap() {
        let capped = Sample {
            unsent_bytes: 100_000,
            in_flight_segments: 3,
            cwnd_segments: 10,
            mss_bytes: 1448,
            peer_window: 65_535,
            pacing_rate: 5_000_000,
            max_pacing_rate: Some(5_000_000),
            ..Sample::default()
        };
        assert_eq!(Limit::of(&capped), Limit::Cap);
        assert_eq!(
            Limit::of(&Sample { in_flight_segments: 10, ..capped }),
            Limit::CongestionWindow,
            "its window is full"
        );
        assert_eq!(Limit::of(&Sample { peer_window: 5_000, ..capped }), Limit::ReceiveWindow);
        assert_eq!(Limit::of(&Sample { unsent_bytes: 0, ..capped }), Limit::Application);
        assert_eq!(Limit::of(&Sample { max_pacing_rate: None, ..capped }), Limit::CongestionWindow, "no cap");
        let bbr = Sample { pacing_rate: 3_700_000, delivery_rate: 4_900_000, ..capped };
        assert_eq!(Limit::of(&bbr), Limit::Cap, "BBR drains its queue");
        assert_eq!(
            Limit::of(&Sample { delivery_rate: 3_800_000, ..bbr }),
            Limit::CongestionWindow,
            "the path is slower"
        );
        let huge = Sample { pacing_rate: u64::MAX, delivery_rate: u64::MAX, max_pacing_rate: Some(u64::MAX), ..capped };
        assert_eq!(Limit::of(&huge), Limit::Cap);
    }
}
