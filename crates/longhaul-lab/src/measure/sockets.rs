//! Reads TCP_INFO of a host's connections from ss(8).
//!
//! sock_diag(7) over netlink would need requests, filters and the layout of TCP_INFO by kernel version. That is more code than
//! parsing one line. ss(8) comes with ip(8), which the lab needs anyway.

use crate::error::LabError;
use crate::plan::place::Host;
use crate::world::wan::Wan;
use longhaul_config::options::CONTROLS;
use longhaul_units::Bytes;
use serde::Serialize;
use std::time::Duration;

/// TCP_INFO of the sender of a transfer, summarised over all samples. The names of its fields in JSON are fixed, because programs
/// read them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Sender {
    /// The congestion control in use.
    pub(crate) congestion: String,
    /// The largest window that the receiver offered (`snd_wnd`).
    #[serde(rename = "window_bytes", serialize_with = "number")]
    pub(crate) window: Bytes,
    /// Maximum of bytes that the congestion control allowed in flight, and the same in segments.
    #[serde(rename = "allowed_bytes", serialize_with = "number")]
    pub(crate) allowed: Bytes,
    #[serde(skip)]
    pub(crate) cwnd: u64,
    /// Segments retransmitted.
    pub(crate) retransmitted: u64,
    /// The smallest round trip that TCP measured.
    #[serde(skip)]
    pub(crate) rtt: Duration,
    /// The latest smoothed round trip.
    #[serde(skip)]
    pub(crate) srtt: Duration,
}

fn number<S: serde::Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(bytes.0)
}

/// Returns the connections of `host` that match `filter`, which has the syntax of ss(8).
pub(crate) fn sample(wan: &Wan, host: Host, filter: &str) -> Result<Vec<Sender>, LabError> {
    let text = wan.output(host, "ss", &["-tinHO", "state", "established", filter])?;
    Ok(text.lines().map(read).collect())
}

impl Sender {
    /// Returns the summary after another sample.
    pub(crate) fn with(self, later: Sender) -> Sender {
        let known = |rtt: Duration| if rtt.is_zero() { Duration::MAX } else { rtt };
        Sender {
            window: self.window.max(later.window),
            rtt: if self.rtt.is_zero() && later.rtt.is_zero() {
                Duration::ZERO
            } else {
                known(self.rtt).min(known(later.rtt))
            },
            congestion: if later.congestion.is_empty() { self.congestion } else { later.congestion },
            srtt: if later.srtt.is_zero() { self.srtt } else { later.srtt },
            cwnd: self.cwnd.max(later.cwnd),
            allowed: self.allowed.max(later.allowed),
            retransmitted: self.retransmitted.max(later.retransmitted),
        }
    }
}

/// Combines the connections of one sample: the largest windows, and the sum of all retransmitted segments.
pub(crate) fn together(senders: &[Sender]) -> Sender {
    let retransmitted = senders.iter().map(|sender| sender.retransmitted).sum();
    Sender { retransmitted, ..senders.iter().cloned().fold(Sender::default(), Sender::with) }
}

/// Parses one line of `ss -tinHO`: words, most of them `name:value`.
fn read(line: &str) -> Sender {
    let value = |name: &str| line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix(':'));
    // `rtt:63.1/0.2` is the round trip and its deviation.
    let first = |value: &str| value.split('/').next()?.parse::<f64>().ok();
    let number = |name: &str| value(name).and_then(first).unwrap_or_default();
    let congestion = line.split_whitespace().find(|word| CONTROLS.contains(word)).unwrap_or_default();
    // The window of a SYN is not scaled, and no rule of nft(8) reduces it. It counts no more once data is acknowledged; the SYN
    // itself counts as one byte.
    let is_told = number("bytes_acked") > 1.0;
    Sender {
        window: Bytes(if is_told { number("snd_wnd") as u64 } else { 0 }),
        rtt: Duration::try_from_secs_f64(number("minrtt") / 1e3).unwrap_or_default(),
        congestion: congestion.to_string(),
        srtt: Duration::try_from_secs_f64(number("rtt") / 1e3).unwrap_or_default(),
        cwnd: number("cwnd") as u64,
        allowed: Bytes((number("cwnd") * number("mss")) as u64),
        // `retrans:<now>/<ever>`
        retransmitted: value("retrans").and_then(|both| both.split_once('/')?.1.parse().ok()).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_ss_is_read() {
        let line = "0 2 10.0.0.1:40000 10.0.0.2:6000 reno wscale:7,7 rto:268 rtt:63.1/0.2 mss:1448 cwnd:181 \
            ssthresh:180 retrans:0/17 bytes_acked:9 snd_wnd:262144 minrtt:63.05";
        let read = read(line);
        assert_eq!((read.window, read.allowed, read.retransmitted), (Bytes(262_144), Bytes(181 * 1448), 17));
        assert_eq!((read.rtt, read.congestion.as_str()), (Duration::from_micros(63_050), "reno"));
        assert_eq!(super::read("nonsense"), Sender::default());
        assert_eq!(super::read(&line.replace("acked:9", "acked:1")).window, Bytes(0));
        assert_eq!(Sender::default().with(read.clone()), read);
    }
}
