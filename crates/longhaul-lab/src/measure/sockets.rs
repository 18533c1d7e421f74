//! Reads TCP_INFO of a host's connections from ss(8).
//!
//! sock_diag(7) over netlink would need requests, filters and the layout of TCP_INFO by kernel version. That is more code than
//! parsing one line. ss(8) comes with ip(8), which the lab needs anyway.

use crate::error::LabError;
use crate::plan::place::Host;
use crate::world::wan::Wan;
use longhaul_config::options::CONTROLS;
use longhaul_core::path::Sample;
use longhaul_units::Bytes;
use serde::Serialize;
use std::time::Duration;

/// One connection at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Connection {
    /// Its two addresses, which name it.
    pub(crate) ends: String,
    /// The congestion control in use.
    pub(crate) congestion: String,
    /// Segments retransmitted.
    pub(crate) retransmitted: u64,
    /// Its TCP_INFO.
    pub(crate) sample: Sample,
}

/// TCP_INFO of the sender of a transfer, summarised over all samples. The names of its fields in JSON are fixed, because programs
/// read them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Sender {
    /// The congestion control in use.
    pub(crate) congestion: String,
    /// The largest window that the receiver offered (`snd_wnd`).
    #[serde(rename = "window_bytes", serialize_with = "number")]
    pub(crate) window: Bytes,
    /// Maximum of bytes that the congestion control allowed in flight.
    #[serde(rename = "allowed_bytes", serialize_with = "number")]
    pub(crate) allowed: Bytes,
    /// Segments retransmitted.
    pub(crate) retransmitted: u64,
    /// The smallest round trip that TCP measured; zero if it measured none.
    #[serde(skip)]
    pub(crate) rtt: Duration,
}

fn number<S: serde::Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(bytes.0)
}

/// Returns the connections of `host` that match `filter`, which has the syntax of ss(8).
pub(crate) fn sample(wan: &Wan, host: Host, filter: &str) -> Result<Vec<Connection>, LabError> {
    let text = wan.output(host, "ss", &["-tinmHO", "state", "established", filter])?;
    Ok(text.lines().map(read).collect())
}

impl Sender {
    /// Adds the connections of a sample: the largest windows, and the sum of all retransmitted segments.
    pub(crate) fn add(&mut self, connections: &[Connection]) {
        let retransmitted = connections.iter().map(|connection| connection.retransmitted).sum();
        self.retransmitted = self.retransmitted.max(retransmitted);
        for Connection { congestion, sample, .. } in connections {
            self.window = self.window.max(Bytes(sample.peer_window));
            let allowed = u64::from(sample.cwnd_segments) * u64::from(sample.mss_bytes);
            self.allowed = self.allowed.max(Bytes(allowed));
            if !congestion.is_empty() {
                self.congestion.clone_from(congestion);
            }
            let rtts = [self.rtt, sample.min_rtt].into_iter().filter(|rtt| !rtt.is_zero());
            self.rtt = rtts.min().unwrap_or_default();
        }
    }
}

/// Parses one line of `ss -tinmHO`: two queues, two addresses, and words. A word is `name:value`, or a name before its value.
///
/// ss(8) prints no field that is 0. It never prints these, in misc/ss.c of iproute2:
///
/// - the state of the congestion control. The diagnosis does not ask for `is_recovering`;
/// - `ssthresh` of 65,535 segments and more: such a sender counts as in slow start;
/// - whether the program waits. Linux lets a program write again once a third of the send buffer is free (sk_stream_write_space), so one
///   with less is taken for a program that waits. One that has just written its last bytes looks the same for a moment.
///
/// Times are in whole milliseconds. Versions before 5.0 print no `bytes_retrans`, `dsack_dups` and `reord_seen`: with them no loss is seen.
fn read(line: &str) -> Connection {
    let words: Vec<&str> = line.split_whitespace().collect();
    let value =
        |name: &str| words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix(':')).unwrap_or_default();
    let count = |name: &str| leading(value(name)) as u64;
    let small = |name: &str| leading(value(name)) as u32;
    let millis = |name: &str| Duration::try_from_secs_f64(leading(value(name)) / 1e3).unwrap_or_default();
    // `pacing_rate 80000bps/90000bps`: the rate, and the largest one.
    let after = |name: &str| words.iter().skip_while(|word| **word != name).nth(1).copied().unwrap_or_default();
    let rate = |bits: &str| (leading(bits) / 8.0) as u64;
    let max_pacing = after("pacing_rate").split_once('/').map(|(_, max)| rate(max)).filter(|max| *max > 0);
    let memory =
        |name: &str| value("skmem").split([',', '(']).find_map(|part| part.strip_prefix(name)).map_or(0.0, leading);
    let ssthresh = Some(small("ssthresh")).filter(|segments| *segments > 0);
    // The window of a SYN is not scaled, and no rule of nft(8) reduces it. It counts no more once data is acknowledged; the SYN
    // itself counts as one byte.
    let is_told = count("bytes_acked") > 1;
    // Nagle's algorithm (RFC 896) holds back less than a segment, although every window has room. Such a sender has no more to send.
    let is_held_by_nagle = small("notsent") < small("mss") && small("unacked") < small("cwnd");
    let sample = Sample {
        rtt: millis("rtt"),
        min_rtt: millis("minrtt"),
        in_flight_segments: small("unacked"),
        mss_bytes: small("mss"),
        cwnd_segments: small("cwnd"),
        ssthresh_segments: ssthresh.unwrap_or(u32::MAX),
        is_recovering: false,
        // Of a receiver. Only the gain of a relay asks for these two.
        receive_rtt: Duration::ZERO,
        out_of_order: 0,
        max_peer_window: 0,
        acked_bytes: count("bytes_acked"),
        retransmitted_bytes: count("bytes_retrans"),
        duplicates: small("dsack_dups"),
        reorderings: small("reord_seen"),
        timeouts: leading(value("backoff")) as u8,
        received_bytes: count("bytes_received"),
        received_segments: small("segs_in"),
        since_received: millis("lastrcv"),
        unsent_bytes: if is_held_by_nagle { 0 } else { count("notsent") },
        is_blocked: memory("w") * 3.0 > memory("tb") * 2.0,
        peer_window: if is_told { count("snd_wnd") } else { 0 },
        pacing_rate: rate(after("pacing_rate")),
        max_pacing_rate: max_pacing,
        delivery_rate: rate(after("delivery_rate")),
        is_app_limited: words.contains(&"app_limited"),
        busy: millis("busy"),
        limited_by_peer: millis("rwnd_limited"),
        limited_by_send_buffer: millis("sndbuf_limited"),
    };
    let ends = words.get(2..4).unwrap_or_default().join(" ");
    let congestion = words.iter().find(|word| CONTROLS.contains(word)).unwrap_or(&"").to_string();
    // `retrans:<now>/<ever>`
    let retransmitted = value("retrans").split_once('/').map_or(0.0, |(_, ever)| leading(ever)) as u64;
    Connection { ends, congestion, retransmitted, sample }
}

/// Returns the number with which `text` begins, such as 63.1 of `63.1/0.2` and 1640 of `1640ms(81.2%)`; 0 without one.
fn leading(text: &str) -> f64 {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text[..end].parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    /// Of iproute2 6.1 and Linux 6.18, on a path that loses and reorders. The pacing rate has got a maximum.
    const LINE: &str = "0      585984 10.10.10.10:56966 10.20.20.10:6000 skmem:(r0,rb131072,t0,tb1138176,f320,w601792,o0,bl0,d3) \
        cubic wscale:10,10 rto:268 backoff:2 rtt:64.365/0.83 mss:1448 pmtu:1500 rcvmss:536 advmss:1448 cwnd:16 ssthresh:16 \
        bytes_sent:5540504 bytes_retrans:27512 bytes_acked:5488377 bytes_received:21 segs_out:3831 segs_in:1746 \
        data_segs_out:3827 send 2879577bps lastsnd:8 lastrcv:5980 lastack:8 pacing_rate 3455472bps/8000000bps \
        delivery_rate 3241384bps delivered:3794 app_limited busy:5944ms rwnd_limited:160ms(2.7%) sndbuf_limited:12ms(0.2%) \
        unacked:17 retrans:0/19 sacked:1 dsack_dups:1 reordering:104 reord_seen:19 rcv_space:14480 rcv_ssthresh:64088 \
        notsent:561368 minrtt:63.05 snd_wnd:5693440";

    #[test]
    fn a_line_of_ss_is_read() {
        let sample = Sample {
            rtt: Duration::from_micros(64_365),
            min_rtt: Duration::from_micros(63_050),
            in_flight_segments: 17,
            mss_bytes: 1448,
            cwnd_segments: 16,
            ssthresh_segments: 16,
            is_recovering: false,
            acked_bytes: 5_488_377,
            retransmitted_bytes: 27_512,
            duplicates: 1,
            reorderings: 19,
            timeouts: 2,
            received_bytes: 21,
            received_segments: 1746,
            since_received: 5980 * MS,
            unsent_bytes: 561_368,
            is_blocked: false,
            peer_window: 5_693_440,
            pacing_rate: 431_934,
            max_pacing_rate: Some(1_000_000),
            delivery_rate: 405_173,
            is_app_limited: true,
            busy: 5944 * MS,
            limited_by_peer: 160 * MS,
            limited_by_send_buffer: 12 * MS,
            receive_rtt: Duration::ZERO,
            out_of_order: 0,
            max_peer_window: 0,
        };
        let (ends, congestion) = ("10.10.10.10:56966 10.20.20.10:6000".into(), "cubic".into());
        assert_eq!(read(LINE), Connection { ends, congestion, retransmitted: 19, sample });
    }

    #[test]
    fn what_ss_does_not_print_is_not_known() {
        let unknown = Sample { ssthresh_segments: u32::MAX, ..Sample::default() };
        for nonsense in
            ["", "nonsense", "a:b skmem:(w,tb rtt: pacing_rate", "rtt:inf minrtt:-1 cwnd:x pacing_rate bps/"]
        {
            assert_eq!(read(nonsense).sample, unknown, "{nonsense}");
        }
        let changed = |from, to| read(&LINE.replace(from, to)).sample;
        assert_eq!(changed("acked:5488377", "acked:1").peer_window, 0, "the window of the SYN");
        assert_eq!(changed("notsent:561368", "notsent:1447").unsent_bytes, 1447, "the congestion window is full");
        let nagle = LINE.replace("notsent:561368", "notsent:1447").replace("unacked:17", "unacked:15");
        assert_eq!(read(&nagle).sample.unsent_bytes, 0);
        assert!(changed("w601792", "w800000").is_blocked, "more than two thirds of the buffer");
        assert_eq!(changed("/8000000bps", "").max_pacing_rate, None);
    }

    #[test]
    fn a_sender_is_the_summary_of_its_connections() {
        let one = read(LINE);
        let smaller = Sample { min_rtt: Duration::ZERO, peer_window: 9, ..one.sample };
        let mut sender = Sender::default();
        sender.add(&[one.clone(), Connection { sample: smaller, congestion: String::new(), ..one }]);
        sender.add(&[]);
        let (window, allowed) = (Bytes(5_693_440), Bytes(16 * 1448));
        let rtt = Duration::from_micros(63_050);
        assert_eq!(sender, Sender { congestion: "cubic".into(), window, allowed, retransmitted: 38, rtt });
    }
}
