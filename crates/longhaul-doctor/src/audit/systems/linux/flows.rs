//! `ss -ti`, `ss -tin`, `ss -tinm`: two lines for each connection, or more where a terminal broke them.
//!
//! ```text
//! ESTAB 0      1176076      10.9.0.1:35778     10.9.0.2:5201
//!      skmem:(r0,rb131072,t0,tb1631232,..) cubic wscale:10,3 rto:212 .. busy:2624ms rwnd_limited:2392ms(91.2%) .. snd_wnd:262144
//! ```
//!
//! A connection shows a limit in two ways. The scales bound its windows: the first is that of the peer's window, the second
//! that of this host's, and a window is 65,535 bytes shifted by its scale at most. And the kernel counts for how much of the
//! time the peer's window or the send buffer held data back; from [`MIN_LIMITED`] on, that is the limit.

use crate::audit::reader::{Facts, Hint, Shown, WindowLimit};
use crate::audit::systems::values::{keep_lowest, number};
use longhaul_core::path::laws::{MAX_UNSCALED_WINDOW, MAX_WINDOW_SCALE};
use longhaul_units::Bytes;

/// The connections that a paste shows. Of each kind of limit, the lowest is kept.
#[derive(Clone, Default)]
pub(super) struct Flows {
    /// The text of the connection that is being read.
    record: Option<String>,
    bounds: Vec<WindowLimit>,
    windows: Vec<WindowLimit>,
    /// Findings with the share of time in percent.
    hints: Vec<(f64, Hint)>,
}

/// One connection.
#[derive(Debug, Default)]
struct Flow {
    /// Both addresses.
    place: String,
    /// The scales of the peer's window and of this host's.
    scales: Option<(u8, u8)>,
    /// Whether the line has the part behind the scales: without scales there, the connection has none.
    is_behind_scales: bool,
    /// Share of the time for which the peer's window held data back, in percent.
    rwnd_limited: Option<f64>,
    /// Share of the time for which the send buffer did.
    sndbuf_limited: Option<f64>,
    /// The peer's window.
    snd_wnd: Option<u64>,
    /// The send buffer.
    sndbuf: Option<u64>,
}

impl Flows {
    /// Reads one line.
    pub(super) fn read(&mut self, line: &str) -> bool {
        let is_head = head(&words(line)).is_some();
        if is_head || line.contains("Recv-Q") && line.contains("Address:Port") {
            self.end();
            self.record = is_head.then(|| line.to_string());
            return true;
        }
        if !line.split_ascii_whitespace().any(is_key) {
            return false;
        }
        let Some(record) = self.record.take() else { return false };
        self.record = Some(joined(record, line)).filter(|record| record.len() <= MAX_RECORD_BYTES);
        true
    }

    /// Adds the limits of the connections. `largest_sndbuf`: the limit of autotuning, if a paste shows it.
    pub(super) fn add_to(&self, facts: &mut Facts, largest_sndbuf: Option<u64>) {
        let mut all = self.clone();
        all.end();
        let shown = |limit: &WindowLimit| Shown {
            name: limit.setting.into(),
            value: limit.value.clone(),
            from: limit.place.clone(),
        };
        facts.settings.extend(all.bounds.iter().map(shown));
        facts.bounds.extend(all.bounds);
        for mut limit in all.windows {
            let is_tuned = limit.setting == SNDBUF && largest_sndbuf == Some(limit.window.0);
            if is_tuned {
                // The sysctl itself is the limit, and is among them already.
                facts.settings.push(shown(&limit));
                continue;
            }
            // A buffer of another size than the limit of autotuning that holds data back is not tuned: the application has set it.
            if limit.setting == SNDBUF && largest_sndbuf.is_some() {
                limit.setting = "SO_SNDBUF";
                limit.what = "The application sets its send buffer itself, and so turns autotuning off.";
            }
            facts.settings.push(shown(&limit));
            facts.windows.push(limit);
        }
        facts.hints.extend(all.hints.into_iter().map(|(_, hint)| hint));
    }

    /// Ends the connection that is being read.
    pub(super) fn end(&mut self) {
        if let Some(flow) = self.record.take().and_then(|record| Flow::of(&record)) {
            self.add_scales(&flow);
            self.add_limits(flow);
        }
    }

    fn add_scales(&mut self, flow: &Flow) {
        let window = |scale: u8| MAX_UNSCALED_WINDOW.0 << scale.min(MAX_WINDOW_SCALE);
        let mut add = |setting, scale: u8, what| {
            let (value, place) = (format!("wscale:{scale}"), flow.place.clone());
            keep_lowest(&mut self.bounds, WindowLimit { setting, value, place, window: Bytes(window(scale)), what });
        };
        match flow.scales {
            Some((peer, own)) => {
                add(
                    "window scale of the peer",
                    peer,
                    "The peer's buffer was small when the connection began: audit the peer.",
                );
                add("window scale of this host", own, OWN_SCALE);
            }
            None if flow.is_behind_scales => {
                let (value, place) = ("none".into(), flow.place.clone());
                let (setting, window, what) = ("window scale", MAX_UNSCALED_WINDOW, NO_SCALE);
                keep_lowest(&mut self.windows, WindowLimit { setting, value, place, window, what });
            }
            None => {}
        }
    }

    fn add_limits(&mut self, flow: Flow) {
        // A window below a packet says that the receiver does not read, not how large its buffer is.
        let peer_window = flow.snd_wnd.filter(|window| *window >= MIN_WINDOW);
        let limits = [(RWND, flow.rwnd_limited, peer_window), (SNDBUF, flow.sndbuf_limited, flow.sndbuf)];
        for (setting, share, window) in limits {
            let Some(share) = share.filter(|share| *share >= MIN_LIMITED) else { continue };
            let (place, value) = (flow.place.clone(), format!("held data back for {share}% of the time"));
            match window {
                Some(window) => {
                    let value = format!("{window} ({value})");
                    let what = if setting == RWND { PEER } else { OWN };
                    keep_lowest(&mut self.windows, WindowLimit { setting, value, place, window: Bytes(window), what });
                }
                None => {
                    let known = self.hints.iter().position(|(_, hint)| hint.setting == setting);
                    if known.is_some_and(|at| self.hints[at].0 >= share) {
                        continue;
                    }
                    self.hints.retain(|(_, hint)| hint.setting != setting);
                    let what = "The connection waited for it; `ss -tinm` of a newer iproute2 shows its size.";
                    self.hints.push((share, Hint { setting, value, place, what, costs_rate: true }));
                }
            }
        }
    }
}

impl Flow {
    /// Returns the connection that `record` shows; `None` if it is not established, or does not leave the host.
    fn of(record: &str) -> Option<Flow> {
        let words = words(record);
        let Head { state, local, peer } = head(&words)?;
        let host = |address: &str| address.rsplit_once(':').map_or(address.to_string(), |(host, _)| host.into());
        let is_inside = is_loopback(local) || is_loopback(peer) || host(local) == host(peer);
        if is_inside || peer.ends_with(":*") || state.is_some_and(|state| state != "ESTAB") {
            return None;
        }
        let mut flow = Flow { place: format!("connection {local} {peer}"), ..Flow::default() };
        for word in words {
            flow.read(word);
        }
        Some(flow)
    }

    fn read(&mut self, word: &str) {
        let Some((key, value)) = word.split_once(':') else { return };
        let percent = || value.split_once('(')?.1.split_once('%')?.0.parse().ok().filter(|share: &f64| *share <= 100.0);
        match key {
            "wscale" => {
                let scales: Option<(u8, u8)> =
                    value.split_once(',').and_then(|(peer, own)| Some((peer.parse().ok()?, own.parse().ok()?)));
                self.scales = scales.filter(|(peer, own)| *peer.max(own) <= MAX_WINDOW_SCALE);
            }
            "rto" => self.is_behind_scales = true,
            "rwnd_limited" => self.rwnd_limited = percent(),
            "sndbuf_limited" => self.sndbuf_limited = percent(),
            "snd_wnd" => self.snd_wnd = number(value),
            "skmem" => {
                let mut parts = value.trim_matches(['(', ')']).split(',');
                self.sndbuf = parts.find_map(|part| number(part.strip_prefix("tb")?));
            }
            _ => {}
        }
    }
}

/// The first line of a connection.
struct Head<'l> {
    /// `None` if `ss` was asked for one state alone.
    state: Option<&'l str>,
    local: &'l str,
    /// Empty if the line is cut.
    peer: &'l str,
}

/// Returns the first line of a connection: a state, two numbers, two addresses.
fn head<'l>(words: &[&'l str]) -> Option<Head<'l>> {
    let words = words.strip_prefix(&["tcp"]).unwrap_or(words);
    let state = words.first().copied().filter(|word| STATES.contains(word));
    let [recv, send, local, rest @ ..] = &words[usize::from(state.is_some())..] else { return None };
    let is_address = |word: &str| word.contains(':') && !is_key(word);
    number(recv).and(number(send)).filter(|_| is_address(local))?;
    let peer = rest.first().copied().filter(|word| is_address(word)).unwrap_or_default();
    Some(Head { state, local, peer })
}

/// Joins the lines of a connection. A terminal breaks a line anywhere, and then no blank is there.
fn joined(record: String, line: &str) -> String {
    let is_start = line.split_ascii_whitespace().next().is_none_or(|word| is_key(word) || WORDS.contains(&word));
    let is_end = record.split_ascii_whitespace().last().is_none_or(|word| word.contains(':') || WORDS.contains(&word));
    let is_apart = line.starts_with(char::is_whitespace) || record.ends_with(char::is_whitespace) || is_start && is_end;
    record + if is_apart { " " } else { "" } + line
}

/// Returns whether `word` is a value of `ss` with its name, such as `cwnd:10`.
fn is_key(word: &str) -> bool {
    word.split_once(':').is_some_and(|(key, value)| KEYS.contains(&key) && !value.is_empty())
}

fn is_loopback(address: &str) -> bool {
    ["127.", "[::1]", "[::ffff:127.", "localhost:"].iter().any(|loopback| address.starts_with(loopback))
}

fn words(text: &str) -> Vec<&str> {
    text.split_ascii_whitespace().take(MAX_WORDS).collect()
}

/// Share of the time from which on a window is the limit: NDT's threshold, in percent.
const MIN_LIMITED: f64 = 15.0;
/// A packet on Ethernet.
const MIN_WINDOW: u64 = 1500;
/// The settings of the limits that the kernel counts.
const RWND: &str = "receive window of the peer";
const PEER: &str = "The peer's receive buffer is the limit: audit the peer.";
const OWN: &str =
    "The send buffer is the limit. Paste also `sysctl net.ipv4.tcp_wmem`, which caps it unless the program sets it.";
const SNDBUF: &str = "net.ipv4.tcp_wmem";
const OWN_SCALE: &str = "This host's receive buffer, or the window of the route, was small when the connection began.";
const NO_SCALE: &str = "One of the two hosts, or a firewall between them, does not scale windows.";
const STATES: &[&str] = &[
    "CLOSE-WAIT", "CLOSING", "ESTAB", "FIN-WAIT-1", "FIN-WAIT-2", "LAST-ACK", "LISTEN", "SYN-RECV", "SYN-SENT",
    "TIME-WAIT", "UNCONN",
];
/// The names of values (iproute2, misc/ss.c).
const KEYS: &[&str] = &[
    "advmss", "ato", "backoff", "bbr", "busy", "bytes_acked", "bytes_received", "bytes_retrans", "bytes_sent", "cwnd",
    "data_segs_in", "data_segs_out", "delivered", "delivered_ce", "dsack_dups", "ino", "lastack", "lastrcv", "lastsnd",
    "lost", "minrtt", "mss", "notsent", "pmtu", "rcv_ooopack", "rcv_rtt", "rcv_space", "rcv_ssthresh", "rcv_wnd",
    "rcvmss", "reord_seen", "reordering", "retrans", "rto", "rtt", "rwnd_limited", "sacked", "segs_in", "segs_out",
    "sk", "skmem", "snd_wnd", "sndbuf_limited", "ssthresh", "timer", "uid", "unacked", "users", "wscale",
];
/// The words that stand without a value behind a colon.
const WORDS: &[&str] = &[
    "app_limited", "bbr", "bic", "cdg", "cubic", "dctcp", "delivery_rate", "ecn", "ecnseen", "fastopen", "highspeed",
    "htcp", "hybla", "illinois", "lp", "max_pacing_rate", "nv", "pacing_rate", "reno", "sack", "scalable", "send",
    "ts", "vegas", "veno", "westwood", "yeah",
];
const MAX_RECORD_BYTES: usize = 4096;
const MAX_WORDS: usize = 128;
