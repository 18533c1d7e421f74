//! What limits a run: looks at one of its connections over the WAN, for the decision of longhaul-core.

use crate::measure::sockets::Connection;
use longhaul_core::path::Sample;
use longhaul_core::path::diagnosis::{Facts, Finding, Findings, Looks, Watch};
use longhaul_core::path::laws::LossResponse;
use std::time::{Duration, Instant};

/// The looks at a run.
///
/// Of several connections, one is looked at: the one with the most bytes acknowledged at its first look, until it ends. Shares of a limit
/// cannot be added, and the connections of a run are alike.
#[derive(Debug, Default)]
pub(crate) struct Diagnosis {
    /// Whether OpenSSH carries the bytes.
    is_ssh: bool,
    /// Duration of slow start. Looks before its end do not count.
    start: Duration,
    /// Time of the first look that saw a connection.
    began: Option<Instant>,
    /// The ends of the connection that is looked at.
    ends: String,
    watch: Watch,
    found: Findings,
    /// Maximum number of connections at once.
    connections: usize,
}

impl Diagnosis {
    /// Returns a diagnosis without looks. `is_ssh` tells whether OpenSSH carries the bytes, and `start` how long slow start takes.
    pub(crate) fn new(is_ssh: bool, start: Duration) -> Diagnosis {
        Diagnosis { is_ssh, start, ..Diagnosis::default() }
    }

    /// Looks at the senders over the WAN, `wans`. Behind a relay, `hosts` are the connections of the host that sends to it. Without one, the
    /// host itself is the sender, and `hosts` is empty.
    pub(crate) fn look(&mut self, now: Instant, wans: &[Connection], hosts: &[Connection]) {
        let known = wans.iter().find(|one| one.ends == self.ends);
        let Some(one) = known.or_else(|| wans.iter().max_by_key(|one| one.sample.acked_bytes)) else { return };
        self.connections = self.connections.max(wans.len());
        if now.saturating_duration_since(*self.began.get_or_insert(now)) < self.start {
            return;
        }
        if one.ends != self.ends {
            (self.ends, self.watch) = (one.ends.clone(), Watch::default());
        }
        let carried = one.sample.acked_bytes;
        // Which of the host's connections leads to this one is not known, so all are compared with all.
        let came: u64 = hosts.iter().map(|host| host.sample.acked_bytes).sum();
        let held = came.saturating_sub(wans.iter().map(written).sum());
        // The relay's own TCP_INFO of this leg is not read. The host's is that of the same cable.
        let rtt = hosts.iter().map(|host| host.sample.min_rtt).max().unwrap_or_default();
        let source = Sample { rtt, received_bytes: carried + held, ..Sample::default() };
        let looks = Looks {
            source,
            sink: one.sample,
            carried,
            line_acked: wans.iter().map(|one| one.sample.acked_bytes).sum(),
        };
        if let Some(facts) = self.watch.look(now, &looks, || LossResponse::of(&one.congestion)) {
            self.found.add(Facts { is_ssh: self.is_ssh, ..facts }.finding());
        }
    }

    /// Returns what has limited the run for the longest time; `None` if no connection was seen.
    pub(crate) fn finding(self) -> Option<Finding> {
        self.began?;
        let short = || Finding::unknown("it ended too soon after slow start for a finding");
        let finding = self.found.longest().unwrap_or_else(short);
        let evidence = match self.connections {
            1 => finding.evidence,
            several => format!("of one of {several} connections: {}", finding.evidence),
        };
        Some(Finding { evidence, ..finding })
    }
}

/// Returns about the number of bytes that the program has written. Segments in flight count as full ones.
fn written(connection: &Connection) -> u64 {
    let Sample { acked_bytes, unsent_bytes, in_flight_segments, mss_bytes, .. } = connection.sample;
    acked_bytes + unsent_bytes + u64::from(in_flight_segments) * u64::from(mss_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::path::diagnosis::Kind;

    const MS: Duration = Duration::from_millis(1);

    /// Returns one connection over 63 ms at the time `at`, which has carried `rate` bytes per second and has nothing to send.
    fn connection(ends: &str, rate: u64, at: Duration) -> Connection {
        let sample = Sample {
            rtt: 63 * MS,
            min_rtt: 63 * MS,
            mss_bytes: 1448,
            cwnd_segments: 10_000,
            acked_bytes: rate * at.as_millis() as u64 / 1000,
            received_segments: at.as_millis() as u32,
            peer_window: 4 << 20,
            busy: at,
            ..Sample::default()
        };
        Connection { ends: ends.into(), congestion: "cubic".into(), retransmitted: 0, sample }
    }

    /// Returns the finding after looks every 250 ms for `time`. `seen` returns the senders over the WAN, and the host's behind a relay.
    fn finding(
        is_ssh: bool,
        time: Duration,
        seen: impl Fn(Duration) -> (Vec<Connection>, Vec<Connection>),
    ) -> Option<Finding> {
        let (began, mut diagnosis) = (Instant::now(), Diagnosis::new(is_ssh, 1000 * MS));
        for at in (1..).map(|count| count * 250 * MS).take_while(|at| *at <= time) {
            let (wans, hosts) = seen(at);
            diagnosis.look(began + at, &wans, &hosts);
        }
        diagnosis.finding()
    }

    /// The window of 256 KiB is always full, and 100 kB wait for it.
    fn windowed(ends: &str, at: Duration) -> Connection {
        let one = connection(ends, 4_160_000, at);
        let (unsent_bytes, peer_window, in_flight_segments) = (100_000, 262_140, 181);
        let sample = Sample { unsent_bytes, peer_window, in_flight_segments, limited_by_peer: at, ..one.sample };
        Connection { sample, ..one }
    }

    #[test]
    fn each_world_has_its_finding() {
        type World = (&'static str, bool, fn(Duration) -> (Vec<Connection>, Vec<Connection>), Kind);
        let worlds: [World; 6] = [
            ("a window", false, |at| (vec![windowed("a", at)], vec![]), Kind::ReceiverWindow),
            ("scp with a small window", true, |at| (vec![windowed("a", at)], vec![]), Kind::ReceiverWindow),
            (
                "scp with a large one",
                true,
                |at| (vec![connection("a", 31_000_000, at)], vec![]),
                Kind::ApplicationWindow,
            ),
            (
                "a program that has no more",
                false,
                |at| (vec![connection("a", 2_000_000, at)], vec![]),
                Kind::Application,
            ),
            (
                "the same behind a relay",
                false,
                |at| (vec![connection("a", 2_000_000, at)], vec![connection("b", 2_000_000, at)]),
                Kind::Application,
            ),
            (
                "a relay that does not keep up",
                false,
                |at| (vec![connection("a", 2_000_000, at)], vec![connection("b", 3_000_000, at)]),
                Kind::Unknown,
            ),
        ];
        for (what, is_ssh, seen, kind) in worlds {
            // The cable between a host and its relay takes no time.
            let near = |one: Connection| Connection { sample: Sample { min_rtt: MS, ..one.sample }, ..one };
            let seen = |at| {
                let (wans, hosts) = seen(at);
                (wans, hosts.into_iter().map(near).collect())
            };
            let found = finding(is_ssh, 6000 * MS, seen).unwrap();
            assert_eq!(found.kind, kind, "{what}: {}", found.evidence);
        }
    }

    #[test]
    fn one_of_several_connections_is_looked_at() {
        let two = |at| (vec![connection("a", 1000, at), windowed("b", at)], vec![]);
        let found = finding(false, 6000 * MS, two).unwrap();
        assert_eq!(found.kind, Kind::ReceiverWindow);
        assert!(
            found.evidence.starts_with("of one of 2 connections: the receiver's window of 262140 bytes"),
            "{}",
            found.evidence
        );
        // Each lives for two seconds, which is too short.
        let after = |at: Duration| (vec![windowed(&format!("{}", at.as_secs() / 2), at)], vec![]);
        assert_eq!(finding(false, 20_000 * MS, after).unwrap().kind, Kind::Unknown);
    }

    #[test]
    fn a_short_run_has_no_finding() {
        let window = |at| (vec![windowed("a", at)], vec![]);
        let found = finding(false, 2500 * MS, window).unwrap();
        assert_eq!(
            (found.kind, found.evidence.as_str()),
            (Kind::Unknown, "it ended too soon after slow start for a finding")
        );
        assert_eq!(finding(false, 6000 * MS, |_| (vec![], vec![])), None);
    }
}
