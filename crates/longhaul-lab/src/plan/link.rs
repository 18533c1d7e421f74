//! What to build: the link, and how the four hosts' TCP is set.

use crate::plan::place::Direction;
use crate::problem::Problem;
use longhaul_link::{Link, Packet, Place, percentage, row};
use longhaul_units::{Bytes, Rate};
use std::time::Duration;

/// The emulated WAN: what holds for both directions, and what one has of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkSpec {
    /// The round trip; each direction takes half.
    pub rtt: Duration,
    /// IP bits per second (see [`longhaul_link`]); nothing means as fast as this machine.
    pub rate: Option<Rate>,
    /// The share of segments lost at random, in each direction, from 0 to 1.
    pub loss: f64,
    /// What may wait before the line; nothing means [`LinkSpec::default_queue`].
    pub queue: Option<Bytes>,
    /// Chooses which segments are lost.
    pub seed: u64,
    /// Stages of the direction from near to far, as pairs of a key of [`longhaul_link::ROWS`] and its value. A key
    /// that is set above too (`delay`, `rate`, `loss`) has this value instead, in this direction.
    pub out: Vec<(String, String)>,
    /// The same for the direction from far to near.
    pub back: Vec<(String, String)>,
    /// What changes from near to far while the link runs: lines such as `at 10s down for 20s`, from the link's start, or from
    /// [`Wan::begin`](crate::Wan::begin).
    pub out_schedule: Vec<String>,
    /// The same for the direction from far to near.
    pub back_schedule: Vec<String>,
}

impl LinkSpec {
    /// A link without loss, with the default queue and nothing else.
    pub fn new(rtt: Duration, rate: Option<Rate>) -> LinkSpec {
        let (out, back, out_schedule, back_schedule) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        LinkSpec { rtt, rate, loss: 0.0, queue: None, seed: 1, out, back, out_schedule, back_schedule }
    }

    /// The same with one more stage in both directions.
    #[must_use]
    pub fn with(mut self, key: &str, value: &str) -> LinkSpec {
        self.out.push((key.to_string(), value.to_string()));
        self.back.push((key.to_string(), value.to_string()));
        self
    }

    /// What one round trip at the link's rate holds; 0 without a rate.
    pub fn bandwidth_delay(&self) -> Bytes {
        Bytes(self.rate.map_or(0, |rate| (rate.0 as f64 / 8.0 * self.rtt.as_secs_f64()) as u64))
    }

    /// One bandwidth-delay product, which is how routers of long paths are sized (a single loss-based flow then keeps
    /// the line busy), but at least 256 KiB: a sender's first super-packets must find room on a short path too.
    pub fn default_queue(&self) -> Bytes {
        self.bandwidth_delay().max(Bytes(256 << 10))
    }

    /// The queue in force.
    pub fn queue(&self) -> Bytes {
        self.queue.unwrap_or_else(|| self.default_queue())
    }

    /// What random loss lets a connection reach, in bytes a second, over a round trip of `rtt` with segments of 1448 bytes;
    /// nothing when nothing is lost, or for a congestion control that takes no loss for a full queue.
    pub fn loss_law(&self, congestion: &str, rtt: Duration) -> Option<f64> {
        let rtt = rtt.as_secs_f64();
        // Mathis, Semke, Mahdavi, Ott: The macroscopic behavior of the TCP congestion avoidance algorithm, 1997.
        let reno = 1.2 / self.loss.sqrt();
        // RFC 8312 equation 6; and 4.2: where Reno would be faster, CUBIC does as Reno does.
        let cubic = (1.054 * (rtt / self.loss).powf(0.75)).max(reno);
        let segments = match congestion {
            _ if self.loss <= 0.0 => None,
            "reno" => Some(reno),
            "cubic" => Some(cubic),
            _ => None,
        };
        segments.map(|segments| segments * 1448.0 / rtt)
    }

    /// Gives a stage of some directions its value.
    pub fn set(&mut self, directions: &[Direction], key: &str, value: String) {
        for direction in directions {
            let stages = match direction {
                Direction::Out => &mut self.out,
                Direction::Back => &mut self.back,
            };
            stages.retain(|(other, _)| other != key);
            stages.push((key.to_string(), value.clone()));
        }
    }

    /// Says when some directions change.
    pub fn set_schedule(&mut self, directions: &[Direction], lines: Vec<String>) {
        for direction in directions {
            match direction {
                Direction::Out => self.out_schedule = lines.clone(),
                Direction::Back => self.back_schedule = lines.clone(),
            }
        }
    }

    /// The settings of one direction, as [`longhaul_link::Link::new`] reads them.
    pub fn settings(&self, direction: Direction) -> Vec<(String, String)> {
        let mut common =
            vec![("delay", format!("{}ns", self.rtt.as_nanos() / 2)), ("loss", format!("{}%", self.loss * 100.0))];
        if let Some(rate) = self.rate {
            common.push(("rate", format!("{}bit/s queue {}B", rate.0, self.queue().0)));
        }
        let own = match direction {
            Direction::Out => &self.out,
            Direction::Back => &self.back,
        };
        common.retain(|(key, _)| own.iter().all(|(other, _)| other != key));
        common.into_iter().map(|(key, value)| (key.to_string(), value)).chain(own.iter().cloned()).collect()
    }

    /// The schedule of one direction, as [`longhaul_link::Link::scheduled`] reads it.
    pub fn schedule(&self, direction: Direction) -> &[String] {
        match direction {
            Direction::Out => &self.out_schedule,
            Direction::Back => &self.back_schedule,
        }
    }

    /// Whether rate or delay are not the same all the time and both ways as [`LinkSpec::rtt`] and [`LinkSpec::rate`] say.
    pub fn varies(&self) -> bool {
        let own = self.out.iter().chain(&self.back).map(|(key, _)| key.as_str());
        let scheduled = self.out_schedule.iter().chain(&self.back_schedule).flat_map(|line| line.split_whitespace());
        own.chain(scheduled).any(|word| ["rate", "delay", "reorder"].contains(&word))
    }

    /// One direction of the link.
    ///
    /// # Errors
    /// A stage's value or a line of the schedule is wrong.
    pub(crate) fn fitted(&self, direction: Direction) -> Result<Link, Problem> {
        let (settings, schedule) = (self.settings(direction), self.schedule(direction));
        let pairs: Vec<(&str, &str)> = settings.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let lines: Vec<&str> = schedule.iter().map(String::as_str).collect();
        // The directions must not lose the same packets.
        let seed = match direction {
            Direction::Out => self.seed,
            Direction::Back => self.seed ^ 0x5eed,
        };
        Link::scheduled(&pairs, &lines, seed).map_err(|(place, err)| match place {
            Place::Setting(index) => {
                let (key, value) = pairs[index];
                Problem::Link { what: format!("{key} = {value:?}"), err, sample: row(key).map(|row| row.sample) }
            }
            Place::Line(index) => {
                let what = format!("line {} of the schedule, {:?}", index + 1, lines[index]);
                Problem::Link { what, err, sample: Some("at 30s loss 1% for 5s") }
            }
        })
    }

    /// The rate at which a direction carries bits of IP in the long run: that of its line, or of a policer below it.
    pub(crate) fn rate_of(&self, direction: Direction) -> Option<Rate> {
        let settings = self.settings(direction);
        let limits = settings.iter().filter(|(key, _)| ["rate", "policer"].contains(&key.as_str()));
        limits.filter_map(|(_, value)| first_rate(value)).min()
    }

    /// Whether it has nothing but a delay, a rate and an encapsulation: then arithmetic knows what it carries.
    pub(crate) fn is_plain(&self) -> bool {
        let known = |(key, value): &(String, String)| {
            ["delay", "rate", "encap"].contains(&key.as_str()) || (key == "loss" && value == "0%")
        };
        let changes = !self.out_schedule.is_empty() || !self.back_schedule.is_empty();
        !changes && Direction::BOTH.iter().all(|direction| self.settings(*direction).iter().all(known))
    }

    /// What a segment of `payload` bytes and `headers` bytes of headers occupies of the line in one direction: an encapsulation
    /// adds to it.
    pub(crate) fn wire_bytes(&self, direction: Direction, payload: u32, headers: u32) -> u64 {
        let packet = Packet { payload, headers, ..Packet::single(0, Duration::ZERO, 0) };
        let settings = self.settings(direction);
        let encap = settings.iter().find(|(key, _)| key == "encap");
        let passed = encap.and_then(|(key, value)| {
            let mut link = Link::new(&[(key, value)], 0).ok()?;
            link.send(packet);
            link.receive(Duration::MAX)
        });
        passed.unwrap_or(packet).wire_bytes()
    }

    /// Whether both directions can be made.
    ///
    /// # Errors
    /// As [`LinkSpec::fitted`].
    pub(crate) fn check(&self) -> Result<(), Problem> {
        Direction::BOTH.iter().try_for_each(|direction| self.fitted(*direction).map(drop))
    }
}

/// The rate that a line's or a policer's value begins with: `1 Gbit/s queue 8MB`.
pub(crate) fn first_rate(value: &str) -> Option<Rate> {
    let rate = ["queue", "burst"].iter().fold(value, |text, word| text.split(word).next().unwrap_or(text));
    rate.trim().parse().ok()
}

/// Reads a round trip from the command line.
///
/// # Errors
/// It is not a time from 1 ms to 10 s.
pub(crate) fn read_rtt(text: &str) -> Result<Duration, String> {
    rtt_like(text, "63ms")
}

/// Reads a round trip; `sample` shows how one is written there, which in a file is in quotes.
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
    let loss = percentage(text).map_err(|err| err.to_string())?;
    if loss <= 0.5 { Ok(loss) } else { Err("nothing gets across above 50%; write for example 0.1%".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_direction_has_its_own_settings_instead_of_the_common_ones() {
        let mut link = LinkSpec::new(Duration::from_millis(10), Some(Rate(1_000_000))).with("mtu", "1400");
        link.out.push(("delay".to_string(), "7ms jitter 1ms".to_string()));
        let settings = |direction| -> Vec<String> {
            link.settings(direction).into_iter().map(|(key, value)| format!("{key} {value}")).collect()
        };
        let rate = "rate 1000000bit/s queue 262144B";
        assert_eq!(settings(Direction::Out), ["loss 0%", rate, "mtu 1400", "delay 7ms jitter 1ms"]);
        assert_eq!(settings(Direction::Back), ["delay 5000000ns", "loss 0%", rate, "mtu 1400"]);
        assert!(link.varies());
    }

    #[test]
    fn the_rate_of_a_direction_is_that_of_its_line_or_policer() {
        let mut link = LinkSpec::new(Duration::from_millis(10), Some(Rate(1_000_000_000)));
        link.out.push(("policer".to_string(), "100 Mbit/s burst 256kB".to_string()));
        link.back.push(("rate".to_string(), "2 Gbit/s".to_string()));
        assert_eq!(
            Direction::BOTH.map(|direction| link.rate_of(direction)),
            [Some(Rate(100_000_000)), Some(Rate(2_000_000_000))]
        );
    }
}
