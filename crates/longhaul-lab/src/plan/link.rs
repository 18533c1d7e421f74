//! The emulated WAN as data: the settings of both directions, and the settings of a single direction.

use crate::plan::place::Direction;
use longhaul_core::path::laws;
use longhaul_link::{Change, Common, Limit, Link, Packet, Setting};
use longhaul_units::{Bytes, Rate, percentage};
use std::time::Duration;

/// The emulated WAN.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkSpec {
    /// The round trip; each direction takes half.
    pub rtt: Duration,
    /// IP bits per second (see [`longhaul_link`]); `None` means as fast as this machine.
    pub rate: Option<Rate>,
    /// The share of segments lost at random, in each direction, from 0 to 1.
    pub loss: f64,
    /// Size of the queue before the line in bytes; `None` means [`LinkSpec::default_queue`].
    pub queue: Option<Bytes>,
    /// Seed of the random generator that chooses the lost segments.
    pub seed: u64,
    /// Stages of each direction, in the order of [`Direction::BOTH`]. The stages `delay`, `rate` and `loss` override the fields
    /// above in their direction.
    pub stages: [Vec<Setting>; 2],
    /// Changes of each direction while the link runs. Their times count from the link's start, or from `Wan::begin`.
    pub schedules: [Vec<Change>; 2],
}

impl LinkSpec {
    /// Returns a link with this round trip and rate, with the default queue and without loss.
    pub fn new(rtt: Duration, rate: Option<Rate>) -> LinkSpec {
        LinkSpec {
            rtt,
            rate,
            loss: 0.0,
            queue: None,
            seed: 1,
            stages: Default::default(),
            schedules: Default::default(),
        }
    }

    /// Returns the link with one more stage in both directions.
    #[must_use]
    pub fn with(mut self, stage: Setting) -> LinkSpec {
        self.stages.iter_mut().for_each(|stages| stages.push(stage.clone()));
        self
    }

    /// Returns the bytes of one round trip at the link's rate; 0 without a rate.
    pub fn bandwidth_delay(&self) -> Bytes {
        self.rate.map_or(Bytes(0), |rate| laws::bandwidth_delay(rate, self.rtt))
    }

    /// Returns the default size of the queue in bytes: one bandwidth-delay product, at least 256 KiB.
    ///
    /// Routers of long paths are sized this way, because a single loss-based flow then keeps the line busy. The minimum gives
    /// room to a sender's first super-packets on a short path.
    pub fn default_queue(&self) -> Bytes {
        self.bandwidth_delay().max(Bytes(256 << 10))
    }

    /// Returns the size of the queue in force, in bytes.
    pub fn queue(&self) -> Bytes {
        self.queue.unwrap_or_else(|| self.default_queue())
    }

    /// Sets a stage in `directions`. It replaces a stage of the same kind.
    pub fn set(&mut self, directions: &[Direction], stage: &Setting) {
        for direction in directions {
            let stages = &mut self.stages[direction.index()];
            stages.retain(|other| other.row().key != stage.row().key);
            stages.push(stage.clone());
        }
    }

    /// Sets the schedule of `directions`.
    pub fn set_schedule(&mut self, directions: &[Direction], changes: &[Change]) {
        for direction in directions {
            self.schedules[direction.index()] = changes.to_vec();
        }
    }

    /// Returns the stages of one direction. The stages that both directions share come first.
    pub fn settings(&self, direction: Direction) -> Vec<Setting> {
        let own = &self.stages[direction.index()];
        let queue = self.queue().0;
        let common = [
            (Common::Rtt, Some(format!("{}ns", self.rtt.as_nanos() / 2))),
            (Common::Loss, Some(format!("{}%", self.loss * 100.0))),
            (Common::Rate, self.rate.map(|rate| format!("{}bit/s queue {queue}B", rate.0))),
        ];
        let is_overridden = |common: Common| own.iter().any(|stage| stage.row().traits.common == Some(common));
        let common = common.into_iter().filter(|(common, _)| !is_overridden(*common));
        common.filter_map(|(common, value)| Setting::of_common(common, &value?)).chain(own.iter().cloned()).collect()
    }

    /// Returns the schedule of one direction.
    pub fn schedule(&self, direction: Direction) -> &[Change] {
        &self.schedules[direction.index()]
    }

    /// Whether rate or delay change over time, or differ from [`LinkSpec::rtt`] and [`LinkSpec::rate`] in a direction.
    pub fn varies(&self) -> bool {
        let own = self.stages.iter().flatten().map(Setting::row);
        let scheduled = self.schedules.iter().flatten().map(Change::row);
        own.chain(scheduled).any(|row| row.traits.changes_timing)
    }

    /// Returns one direction of the link, ready to carry packets.
    pub(crate) fn fitted(&self, direction: Direction) -> Link {
        // The directions must not lose the same packets.
        let seed = match direction {
            Direction::Out => self.seed,
            Direction::Back => self.seed ^ 0x5eed,
        };
        Link::scheduled(&self.settings(direction), self.schedule(direction), seed)
    }

    /// Returns the long-term rate of a direction in IP bits: the rate of its line, or of a policer if that is lower.
    pub(crate) fn rate_of(&self, direction: Direction) -> Option<Rate> {
        self.settings(direction).iter().filter_map(Setting::rate).min()
    }

    /// Whether a direction has a policer, which drops packets above its rate without a queue.
    pub(crate) fn is_policed(&self, direction: Direction) -> bool {
        self.settings(direction).iter().any(|stage| stage.row().traits.limit == Limit::Policer)
    }

    /// Whether the link changes while it runs.
    pub(crate) fn is_scheduled(&self) -> bool {
        self.schedules.iter().any(|changes| !changes.is_empty())
    }

    /// Whether the speed of a transfer can be computed: there is no schedule, and every stage has a closed form.
    pub(crate) fn is_plain(&self) -> bool {
        let is_known = |stage: &Setting| stage.row().traits.has_closed_form || stage.is_idle();
        !self.is_scheduled() && Direction::BOTH.iter().all(|direction| self.settings(*direction).iter().all(is_known))
    }

    /// Returns the bytes that a segment of `payload` bytes and `headers` bytes of headers occupies on the line in one direction,
    /// encapsulation included.
    pub(crate) fn wire_bytes(&self, direction: Direction, payload: u32, headers: u32) -> u64 {
        let packet = Packet { payload, headers, ..Packet::single(0, Duration::ZERO, 0) };
        let mut longer = self.settings(direction);
        longer.retain(|stage| stage.row().traits.adds_bytes);
        let mut link = Link::new(&longer, 0);
        link.send(packet);
        link.receive(Duration::MAX).unwrap_or(packet).wire_bytes()
    }
}

/// Reads a round trip from the command line.
///
/// # Errors
/// It is not a time from 1 ms to 10 s.
pub(crate) fn read_rtt(text: &str) -> Result<Duration, String> {
    rtt_like(text, "63ms")
}

/// Reads a round trip. `sample` is the example in the error message; in a file it is in quotes.
///
/// # Errors
/// As [`read_rtt`].
pub(crate) fn rtt_like(text: &str, sample: &str) -> Result<Duration, String> {
    let rtt = longhaul_units::duration(text).map_err(|err| format!("{err}; write for example {sample}"))?;
    let allowed = Duration::from_millis(1)..=Duration::from_secs(10);
    if allowed.contains(&rtt) {
        Ok(rtt)
    } else {
        Err(format!("a round trip is from 1ms to 10s; write for example {sample}"))
    }
}

/// Reads a rate.
///
/// # Errors
/// It is not a rate from 1 Mbit/s to 100 Gbit/s.
pub(crate) fn read_rate(text: &str) -> Result<Rate, String> {
    let rate: Rate = text.parse().map_err(|err| format!("{err}; write for example 1Gbit/s"))?;
    let allowed = Rate(1_000_000)..=Rate(100_000_000_000);
    let wrong = "a rate is from 1Mbit/s to 100Gbit/s; write for example 1Gbit/s";
    if allowed.contains(&rate) { Ok(rate) } else { Err(wrong.into()) }
}

/// Reads a share of lost segments, from 0 to 0.5.
///
/// # Errors
/// It is not a percentage up to 50 %.
pub(crate) fn read_loss(text: &str) -> Result<f64, String> {
    // The stage itself allows 100%, and its message says so.
    let wrong = "not a percentage from 0% to 50%, such as 0.1%";
    let loss = percentage(text).map_err(|_| wrong.to_string())?;
    if loss <= 0.5 { Ok(loss) } else { Err("nothing gets through above 50%; write for example 0.1%".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_direction_has_its_own_settings_instead_of_the_common_ones() {
        let mtu = Setting::read("mtu", "1400").unwrap();
        let mut link = LinkSpec::new(Duration::from_millis(10), Some(Rate(1_000_000))).with(mtu);
        link.stages[0].push(Setting::read("delay", "7ms jitter 1ms").unwrap());
        let settings =
            |direction| -> Vec<String> { link.settings(direction).iter().map(ToString::to_string).collect() };
        let rate = "rate 1000000bit/s queue 262144B";
        assert_eq!(settings(Direction::Out), ["loss 0%", rate, "mtu 1400", "delay 7ms jitter 1ms"]);
        assert_eq!(settings(Direction::Back), ["delay 5000000ns", "loss 0%", rate, "mtu 1400"]);
        assert!(link.varies());
    }

    #[test]
    fn an_encapsulation_of_the_link_adds_the_bytes_of_its_row_in_core() {
        for encapsulation in longhaul_core::advice::ENCAPSULATIONS {
            let encap = Setting::read("encap", encapsulation.name).expect(encapsulation.name);
            let link = LinkSpec::new(Duration::from_millis(10), None).with(encap);
            for packet in 41..=9000 {
                let on_line = link.wire_bytes(Direction::Out, packet - 40, 40);
                assert_eq!(
                    on_line,
                    u64::from(encapsulation.overhead.outer_bytes(packet)),
                    "{}, {packet} bytes",
                    encapsulation.name
                );
            }
        }
    }

    #[test]
    fn the_rate_of_a_direction_is_that_of_its_line_or_policer() {
        let mut link = LinkSpec::new(Duration::from_millis(10), Some(Rate(1_000_000_000)));
        link.stages[0].push(Setting::read("policer", "100 Mbit/s burst 256kB").unwrap());
        link.stages[1].push(Setting::read("rate", "2 Gbit/s").unwrap());
        assert_eq!(
            Direction::BOTH.map(|direction| link.rate_of(direction)),
            [Some(Rate(100_000_000)), Some(Rate(2_000_000_000))]
        );
    }
}
