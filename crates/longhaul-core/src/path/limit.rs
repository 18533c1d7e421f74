//! Finds the limit of a sender at one moment, from a single look at its connection.
//!
//! ```text
//! program ── blocked? ──> send buffer: unsent bytes | bytes in flight ──> peer
//! ```
//! Unsent bytes wait for a window. Without them, either the program has no more, or the send buffer holds no more.

use std::fmt;

/// One look at a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Bytes that the program has written and the kernel has not sent yet.
    pub unsent_bytes: u32,
    /// Segments sent and not yet acknowledged.
    pub in_flight_segments: u32,
    /// Congestion window, in segments.
    pub cwnd_segments: u32,
    /// Payload bytes of a full segment.
    pub mss_bytes: u32,
    /// The peer's receive window, in bytes. 0 also on kernels before 5.4, which do not report it.
    pub peer_window: u32,
    /// Rate at which the kernel paces the segments, in bytes per second.
    pub pacing_rate: u64,
    /// Largest pacing rate, in bytes per second; `None` if none is set.
    pub max_pacing_rate: Option<u64>,
    /// The latest delivery rate, in bytes per second.
    pub delivery_rate: u64,
    /// Whether the program has more bytes, and waits until the socket takes them.
    pub is_blocked: bool,
}

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

impl Look {
    /// Whether the segments are paced by the largest rate that the socket may have, and not by the congestion control.
    ///
    /// CUBIC and Reno pace with twice or 1.2 times the rate that their window gives, so a cap below that is the pacing rate.
    /// BBR paces with its estimate of the bandwidth, which a cap keeps just below the cap, and now and then with 0.75 times that
    /// (net/ipv4/tcp_bbr.c, bbr_pacing_gain). Then the delivery rate tells them apart: it is near the cap.
    fn is_paced_by_cap(&self) -> bool {
        let Some(max) = self.max_pacing_rate else { return false };
        let is_above = |rate: u64, percent: u64| u128::from(rate) * 100 >= u128::from(max) * u128::from(percent);
        self.pacing_rate >= max || (is_above(self.pacing_rate, 70) && is_above(self.delivery_rate, 90))
    }
}

impl Limit {
    /// All limits, in the order in which views list them.
    pub const ALL: [Limit; 5] =
        [Limit::Application, Limit::SendBuffer, Limit::ReceiveWindow, Limit::CongestionWindow, Limit::Cap];

    /// Returns the limit of the sender at the moment of `look`.
    pub fn of(look: &Look) -> Limit {
        if look.unsent_bytes == 0 {
            return if look.is_blocked { Limit::SendBuffer } else { Limit::Application };
        }
        // The kernel does not report the bytes in flight. Full segments are the upper bound.
        let in_flight = u64::from(look.in_flight_segments) * u64::from(look.mss_bytes);
        let is_window_full = in_flight + u64::from(look.mss_bytes) > look.peer_window.into();
        // Nothing is in flight into a window of 0, so with bytes in flight 0 stands for a kernel that does not report it.
        let is_reported = look.peer_window > 0 || look.in_flight_segments == 0;
        match (look.in_flight_segments < look.cwnd_segments, is_window_full && is_reported) {
            (false, _) => Limit::CongestionWindow,
            (true, true) => Limit::ReceiveWindow,
            (true, false) if look.is_paced_by_cap() => Limit::Cap,
            (true, false) => Limit::CongestionWindow,
        }
    }

    /// Returns its name, as documents and metrics show it.
    pub fn name(self) -> &'static str {
        let [name, _] = self.words();
        name
    }

    /// Returns its name in at most six letters, for a column.
    pub fn short(self) -> &'static str {
        let [_, short] = self.words();
        short
    }

    /// Returns the limit that [`Limit::name`] calls `name`.
    pub fn named(name: &str) -> Option<Limit> {
        Limit::ALL.into_iter().find(|limit| limit.name() == name)
    }

    /// The table of the names: the full one, and the short one.
    fn words(self) -> [&'static str; 2] {
        match self {
            Limit::Application => ["application", "app"],
            Limit::SendBuffer => ["send buffer", "sndbuf"],
            Limit::ReceiveWindow => ["receive window", "rwnd"],
            Limit::CongestionWindow => ["congestion window", "cwnd"],
            Limit::Cap => ["cap", "cap"],
        }
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
            assert!((1..=6).contains(&limit.short().len()), "{limit}");
        }
        assert_eq!(Limit::named("-"), None);
    }

    #[test]
    fn one_look_tells_the_limit() {
        let idle = Look { cwnd_segments: 10, mss_bytes: 1448, peer_window: 65_535, ..Look::default() };
        assert_eq!(Limit::of(&idle), Limit::Application);
        let answered_soon = Look { in_flight_segments: 3, ..idle };
        assert_eq!(Limit::of(&answered_soon), Limit::Application, "nothing waits");
        assert_eq!(Limit::of(&Look { is_blocked: true, ..answered_soon }), Limit::SendBuffer);
        let waits = Look { unsent_bytes: 100_000, is_blocked: true, ..answered_soon };
        assert_eq!(Limit::of(&waits), Limit::CongestionWindow, "paced: both windows have room");
        assert_eq!(Limit::of(&Look { in_flight_segments: 10, ..waits }), Limit::CongestionWindow);
        let old = Look { cwnd_segments: 100, in_flight_segments: 45, ..waits };
        assert_eq!(Limit::of(&old), Limit::ReceiveWindow, "45 of 1448 bytes, and the next one does not fit");
        assert_eq!(Limit::of(&Look { cwnd_segments: 45, ..old }), Limit::CongestionWindow, "both are full");
        assert_eq!(Limit::of(&Look { peer_window: 0, ..old }), Limit::CongestionWindow, "not reported");
        assert_eq!(Limit::of(&Look { peer_window: 0, in_flight_segments: 0, ..old }), Limit::ReceiveWindow, "closed");
        Limit::of(&Look { in_flight_segments: u32::MAX, mss_bytes: u32::MAX, ..waits });
    }

    #[test]
    fn a_paced_sender_with_room_in_both_windows_is_limited_by_the_cap() {
        let capped = Look {
            unsent_bytes: 100_000,
            in_flight_segments: 3,
            cwnd_segments: 10,
            mss_bytes: 1448,
            peer_window: 65_535,
            pacing_rate: 5_000_000,
            max_pacing_rate: Some(5_000_000),
            ..Look::default()
        };
        assert_eq!(Limit::of(&capped), Limit::Cap);
        assert_eq!(
            Limit::of(&Look { in_flight_segments: 10, ..capped }),
            Limit::CongestionWindow,
            "its window is full"
        );
        assert_eq!(Limit::of(&Look { peer_window: 5_000, ..capped }), Limit::ReceiveWindow);
        assert_eq!(Limit::of(&Look { unsent_bytes: 0, ..capped }), Limit::Application);
        assert_eq!(Limit::of(&Look { max_pacing_rate: None, ..capped }), Limit::CongestionWindow, "no cap");
        let bbr = Look { pacing_rate: 3_700_000, delivery_rate: 4_900_000, ..capped };
        assert_eq!(Limit::of(&bbr), Limit::Cap, "BBR drains its queue");
        assert_eq!(Limit::of(&Look { delivery_rate: 3_800_000, ..bbr }), Limit::CongestionWindow, "the path is slower");
        let huge = Look { pacing_rate: u64::MAX, delivery_rate: u64::MAX, max_pacing_rate: Some(u64::MAX), ..capped };
        assert_eq!(Limit::of(&huge), Limit::Cap);
    }
}
