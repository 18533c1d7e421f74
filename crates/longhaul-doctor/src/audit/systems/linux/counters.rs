//! `nstat`, `nstat -az`: counters since the host started, or since the last `nstat`. Their ratio is the same.

use crate::audit::reader::{Facts, Hint, Shown, WHOLE_SYSTEM};
use crate::audit::systems::values::number;

/// The counters that a paste shows, in the order of [`NAMES`].
#[derive(Default)]
pub(super) struct Counters([Option<u64>; NAMES.len()]);

impl Counters {
    /// Reads `TcpRetransSegs                  1176               0.0`.
    pub(super) fn read(&mut self, line: &str) -> bool {
        let words: Vec<&str> = line.split_ascii_whitespace().take(4).collect();
        let [name, value, rate] = words.as_slice() else { return line.trim() == "#kernel" };
        let is_counter = GROUPS.iter().any(|group| name.starts_with(group)) && rate.parse::<f64>().is_ok();
        let Some(value) = number(value).filter(|_| is_counter) else { return false };
        if let Some(at) = NAMES.iter().position(|known| known == name) {
            self.0[at] = Some(value);
        }
        true
    }

    /// Adds the counters, and the findings.
    pub(super) fn add_to(&self, facts: &mut Facts) {
        let shown = |(name, value): (&&str, &Option<u64>)| {
            value.map(|value| Shown { name: (*name).into(), value: value.to_string(), from: "nstat".into() })
        };
        facts.settings.extend(NAMES.iter().zip(&self.0).filter_map(shown));
        for share in SHARES {
            let (Some(of), counts) = (self.counter(share.of), share.counts.iter().map(|name| self.counter(name)))
            else {
                continue;
            };
            // One packet can be counted in several of them; the largest is a sure lower bound.
            let Some(count) = counts.flatten().max().filter(|count| *count >= MIN_COUNT) else { continue };
            let part = count as f64 / of as f64;
            // More than all: a counter is full, or the paste has other numbers.
            if part >= share.least && count <= of {
                let value = format!("{:.3}%", part * 100.0);
                let Share { setting, what, .. } = *share;
                facts.hints.push(Hint { setting, value, place: WHOLE_SYSTEM.into(), what, costs_rate: true });
            }
        }
    }

    fn counter(&self, name: &str) -> Option<u64> {
        NAMES.iter().zip(&self.0).find(|(known, _)| **known == name).and_then(|(_, value)| *value)
    }
}

/// A share of packets that is a finding.
struct Share {
    /// Name of the finding.
    setting: &'static str,
    /// Counters of the packets.
    counts: &'static [&'static str],
    /// Counter of all.
    of: &'static str,
    /// Share from which on it is a finding.
    least: f64,
    what: &'static str,
}

const SHARES: &[Share] = &[
    Share {
        setting: "TcpRetransSegs",
        counts: &["TcpRetransSegs"],
        of: "TcpOutSegs",
        // A tenth of the 1 % that NDT calls excessive: by Reno's law it leaves a window of 38 packets, less than 64 KiB.
        least: 0.001,
        what: "Share of the packets that TCP sent again, on all paths: packets get lost.",
    },
    Share {
        setting: "TcpExtRcvPruned",
        counts: &["TcpExtOfoPruned", "TcpExtRcvPruned", "TcpExtTCPRcvQDrop"],
        of: "TcpInSegs",
        least: 0.000_01,
        what: "Share of the packets that arrived and were thrown away, because a receive buffer or tcp_mem was full.",
    },
    Share {
        setting: "TcpExtTCPBacklogDrop",
        counts: &["TcpExtTCPBacklogDrop"],
        of: "TcpInSegs",
        least: 0.000_01,
        what: "Share of the packets that arrived and were thrown away, because the application held the socket too long.",
    },
    Share {
        setting: "IpReasmFails",
        counts: &["IpReasmFails"],
        of: "IpReasmReqds",
        least: 0.01,
        what: "IP packets of which fragments were missing, per fragment that arrived: packets are larger than the path takes.",
    },
];
/// Fewer packets say nothing.
const MIN_COUNT: u64 = 10;
/// The counters that are read.
const NAMES: &[&str] = &[
    "IpReasmFails", "IpReasmReqds", "TcpInSegs", "TcpOutSegs", "TcpRetransSegs", "TcpExtOfoPruned",
    "TcpExtPruneCalled", "TcpExtRcvPruned", "TcpExtTCPBacklogDrop", "TcpExtTCPMemoryPressures",
    "TcpExtTCPRcvCollapsed", "TcpExtTCPRcvQDrop", "TcpExtTCPTimeouts",
];
/// The beginnings of a counter's name.
const GROUPS: &[&str] = &["Icmp", "Ip", "MPTcp", "Sctp", "Tcp", "Udp"];
