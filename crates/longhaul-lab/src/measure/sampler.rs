//! Samples a run while its traffic flows: bytes that arrive, TCP_INFO of the senders, CPU time of the relays.

use crate::carrier::row::{DATA_PORTS, PORT, Protocol, Running, SSH_PORT};
use crate::error::{LabError, joined};
use crate::measure::diagnosis::Diagnosis;
use crate::measure::disturbance::{Shares, Ticks};
use crate::measure::rounded;
use crate::measure::sockets::{self, Sender};
use crate::plan::place::{Direction, Host};
use crate::plan::setup::Setup;
use crate::traffic::beside::Beside;
use crate::world::cables::LAN_DEVICE;
use crate::world::processes::Cpu;
use crate::world::wan::Wan;
use longhaul_core::path::diagnosis::Finding;
use longhaul_units::Rate;
use serde::Serialize;
use std::fs::File;
use std::net::IpAddr;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// A sample of the run at one moment. The names of its fields in JSON are fixed, because programs read them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Sample {
    /// Seconds since the traffic began.
    pub(crate) t_s: f64,
    /// MB/s that arrived at the receiving host since the previous sample, in 10^6 bytes of IP.
    #[serde(rename = "MBps")]
    pub(crate) speed: f64,
    /// Segments that the sender's congestion control allows in flight, summed over the connections across the WAN.
    pub(crate) cwnd: u64,
    /// The largest smoothed round trip of these connections in ms.
    pub(crate) rtt_ms: f64,
    /// Segments that they have retransmitted so far.
    #[serde(rename = "retrans")]
    pub(crate) retransmitted: u64,
    /// MB/s of another program's flows since the previous sample; `None` without such flows so far.
    #[serde(rename = "outside_MBps", skip_serializing_if = "Option::is_none")]
    pub(crate) outside: Option<f64>,
    /// The longest answer of a small message since the previous sample, in ms.
    #[serde(rename = "answer_ms", skip_serializing_if = "Option::is_none")]
    pub(crate) answer: Option<f64>,
}

/// All samples of a run, and their summary.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// The samples, in the order of time.
    pub(crate) series: Vec<Sample>,
    /// TCP_INFO of the host that sends.
    pub(crate) host: Sender,
    /// TCP_INFO of the sender over the WAN: the host itself, or the relay beside it.
    pub(crate) wan: Sender,
    /// What limited that sender; `None` if no connection of it was seen.
    pub(crate) finding: Option<Finding>,
    /// CPU time of the relays' programs.
    pub(crate) relay_cpu: Duration,
    /// Shares of the machine's processor time.
    pub(crate) shares: Shares,
}

/// A run to sample.
pub(crate) struct Watch<'a> {
    pub(crate) wan: &'a Wan,
    pub(crate) setup: &'a Setup,
    pub(crate) running: &'a Running,
    /// The direction of the bytes.
    pub(crate) direction: Direction,
    /// The protocol of the connections.
    pub(crate) protocol: Protocol,
    /// Whether OpenSSH carries the bytes.
    pub(crate) is_ssh: bool,
    /// The time that the traffic's start takes. It counts neither for the speed nor for the diagnosis.
    pub(crate) warm_up: Duration,
    /// The counts of the traffic's own threads.
    pub(crate) beside: &'a Beside,
    /// Receives one message when the traffic begins: the processor time until then.
    pub(crate) began: &'a Receiver<Ticks>,
    /// Closes when the traffic ends.
    pub(crate) ended: &'a Receiver<()>,
}

impl Watch<'_> {
    /// Samples from the beginning of the traffic to its end, and calls `progress` with each sample.
    ///
    /// # Errors
    /// ss(8) or /proc cannot be read.
    pub(crate) fn sample(&self, mut progress: impl FnMut(&Sample)) -> Result<Seen, LabError> {
        let mut seen = Seen::default();
        // If the traffic fails before it begins, its own thread reports the error.
        let Ok(before) = self.began.recv() else { return Ok(seen) };
        let is_slow = self.setup.has_wan() && self.setup.link.rate.is_some_and(|rate| rate <= SLOW);
        let every = if is_slow { EVERY } else { SELDOM };
        let sampler = Sampler::open(self)?;
        let mut diagnosis = Diagnosis::new(self.is_ssh, self.warm_up);
        let mut cpu = Cpu::of(&self.running.programs);
        let start = Instant::now();
        let mut last = start;
        let mut bytes = sampler.arrived()?;
        let mut outside = 0;
        while let Err(RecvTimeoutError::Timeout) = self.ended.recv_timeout(every.saturating_sub(last.elapsed())) {
            let now = Instant::now();
            let arrived = sampler.arrived()?;
            let since = now.duration_since(last).as_secs_f64().max(1e-9);
            let speed = (arrived - bytes) as f64 / since / 1e6;
            let others = self.beside.outside();
            let of_others = (others > 0).then(|| rounded((others - outside) as f64 / since / 1e6));
            (last, bytes, outside) = (now, arrived, others);
            let hosts = sockets::sample(self.wan, sampler.host, &sampler.host_filter)?;
            let (wans, hosts_behind) = match sampler.relay {
                Some((relay, ref filter)) => (&sockets::sample(self.wan, relay, filter)?, &hosts[..]),
                None => (&hosts, &[][..]),
            };
            diagnosis.look(now, wans, hosts_behind);
            let rtt = wans.iter().map(|one| one.sample.rtt).max().unwrap_or_default();
            let sample = Sample {
                t_s: rounded((now - start).as_secs_f64()),
                speed: rounded(speed),
                cwnd: wans.iter().map(|one| u64::from(one.sample.cwnd_segments)).sum(),
                rtt_ms: rounded(rtt.as_secs_f64() * 1e3),
                retransmitted: wans.iter().map(|one| one.retransmitted).sum(),
                outside: of_others,
                answer: self.beside.take_answer().map(|time| rounded(time.as_secs_f64() * 1e3)),
            };
            seen.host.add(&hosts);
            seen.wan.add(wans);
            cpu.look();
            progress(&sample);
            seen.series.push(sample);
        }
        cpu.look();
        seen.finding = diagnosis.finding();
        seen.relay_cpu = cpu.used();
        seen.shares = Ticks::now().since(before);
        Ok(seen)
    }
}

/// The hosts and files from which samples are taken.
struct Sampler {
    /// The host that sends, and the filter for its connections.
    host: Host,
    host_filter: String,
    /// The relay that sends over the WAN, and the filter for its connections.
    relay: Option<(Host, String)>,
    /// /proc/net/dev of the receiving host.
    devices: File,
}

impl Sampler {
    fn open(watch: &Watch<'_>) -> Result<Sampler, LabError> {
        let Watch { wan, running, direction, protocol, .. } = *watch;
        let [host, receiver] = direction.ends();
        let what = LabError::io("opening /proc/net/dev");
        let opening = wan.on(receiver, || File::open("/proc/thread-self/net/dev").map_err(what));
        let devices = joined(opening)?;
        let direct = running.programs.is_empty();
        let relay = match (direct, direction) {
            (true, _) => None,
            (false, Direction::Out) => {
                let filter = |next: &IpAddr| match protocol {
                    Protocol::Tcp => format!("dst {next}"),
                    Protocol::Ftp => format!("dst {next} and {}", carried("dport", protocol)),
                };
                wan.relays().first().map(|(relay, next)| (*relay, filter(next)))
            }
            // The far relay sends on the connection that it has accepted.
            (false, Direction::Back) => {
                let filter = format!("( {} ) or sport = {SSH_PORT}", carried("sport", protocol));
                wan.relays().last().map(|(relay, _)| (*relay, filter))
            }
        };
        let host_filter = match direction {
            Direction::Out => carried("dport", protocol),
            Direction::Back => carried("sport", protocol),
        };
        Ok(Sampler { host, host_filter, relay, devices })
    }

    /// Returns the bytes that the receiving host has received on its cable.
    fn arrived(&self) -> Result<u64, LabError> {
        let mut text = vec![0; 4096];
        let length = self.devices.read_at(&mut text, 0).map_err(LabError::io("reading /proc/net/dev"))?;
        let text = String::from_utf8_lossy(&text[..length]);
        let fields = text.lines().find_map(|line| line.trim().strip_prefix(LAN_DEVICE)?.strip_prefix(':'));
        Ok(fields.and_then(|fields| fields.split_whitespace().next()?.parse().ok()).unwrap_or(0))
    }
}

/// Returns the filter of ss(8) for connections that carry the bytes of `protocol`. `side` is their port at host B or at a relay.
fn carried(side: &str, protocol: Protocol) -> String {
    match protocol {
        Protocol::Tcp => format!("{side} = {PORT}"),
        // A control connection has other windows, and its congestion control may differ.
        Protocol::Ftp => format!("{side} >= {} and {side} <= {}", DATA_PORTS.start(), DATA_PORTS.end()),
    }
}

/// Interval of samples: short enough for a curve, and long enough not to affect the measurement.
const EVERY: Duration = Duration::from_millis(250);
/// Interval of samples if no slow link limits the speed. A sample runs ss twice and reads /proc once, which takes 8 ms of CPU.
/// Both cores are busy then, and with the short interval the measurement would lack 3 % of one core.
const SELDOM: Duration = Duration::from_secs(1);
/// Up to this rate two cores have time to spare.
const SLOW: Rate = Rate(2_000_000_000);
