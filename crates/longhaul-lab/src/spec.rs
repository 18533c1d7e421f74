//! What to build: the link, and how the four hosts' TCP is set.

use crate::host::HostSpec;
use crate::problem::Problem;
use longhaul_link::{Link, Packet, Place, row};
use longhaul_units::{Bytes, Rate};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// The emulated WAN: what holds for both directions, and what one has of its own.
#[derive(Clone, Debug)]
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
    /// [`Wan::begin`](super::Wan::begin).
    pub out_schedule: Vec<String>,
    /// The same for the direction from far to near.
    pub back_schedule: Vec<String>,
}

/// One way over the WAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the near relay to the far one.
    Out,
    /// From the far relay to the near one.
    Back,
}

/// One of the four hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// Where connections begin.
    A,
    /// The relay beside it.
    Near,
    /// The relay at the other end of the WAN.
    Far,
    /// Where connections end.
    B,
}

/// How a host's TCP is set.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Names below /proc/sys/net/ipv4 and their values.
    pub sysctls: Vec<(&'static str, String)>,
    /// Its kernel's congestion control; `None` leaves it what this machine has.
    pub congestion: Option<String>,
    /// Attributes of the host's routes, as ip-route(8) takes them: `window 262144 advmss 1460`.
    pub route: String,
    /// The most that the host's TCP may write into a header's window field, before scaling; needs nft(8).
    pub window_field: Option<u16>,
    /// MTU of the host's interfaces in bytes.
    pub mtu: u32,
    /// Whether it hands super-packets to its interface to be cut there.
    pub offload: bool,
    /// Whether it has the sysctls of packaging/90-longhaul.conf, which come after the others.
    pub shipped: bool,
}

impl Host {
    /// All four, in the order of the path.
    pub const ALL: [Host; 4] = [Host::A, Host::Near, Host::Far, Host::B];

    /// What it is called.
    pub fn name(self) -> &'static str {
        ["A", "near", "far", "B"][self.index()]
    }

    /// Its place on the path, from 0.
    pub fn index(self) -> usize {
        self as usize
    }

    /// Its address on its site's LAN: for the relays, where their own host reaches them.
    pub fn lan(self) -> IpAddr {
        IpAddr::V4(match self {
            Host::A => Ipv4Addr::new(10, 10, 10, 10),
            Host::Near => Ipv4Addr::new(10, 10, 10, 20),
            Host::Far => Ipv4Addr::new(10, 20, 20, 20),
            Host::B => Ipv4Addr::new(10, 20, 20, 10),
        })
    }

    /// As [`Host::lan`], with IPv6.
    pub fn lan6(self) -> IpAddr {
        let site = if matches!(self, Host::A | Host::Near) { 0x10 } else { 0x20 };
        let host = if matches!(self, Host::A | Host::B) { 0x10 } else { 0x20 };
        IpAddr::V6(Ipv6Addr::new(0xfd00, site, 0, 0, 0, 0, 0, host))
    }

    /// A relay's address on the WAN, where the other relay reaches it; the hosts have none and give their LAN's.
    pub fn wan(self) -> IpAddr {
        match self {
            Host::Near => IpAddr::V4(Ipv4Addr::new(10, 99, 0, 1)),
            Host::Far => IpAddr::V4(Ipv4Addr::new(10, 99, 0, 2)),
            Host::A | Host::B => self.lan(),
        }
    }

    /// As [`Host::wan`], with IPv6.
    pub fn wan6(self) -> IpAddr {
        match self {
            Host::Near => IpAddr::V6(Ipv6Addr::new(0xfd00, 0x99, 0, 0, 0, 0, 0, 1)),
            Host::Far => IpAddr::V6(Ipv6Addr::new(0xfd00, 0x99, 0, 0, 0, 0, 0, 2)),
            Host::A | Host::B => self.lan6(),
        }
    }
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

impl Direction {
    /// Both, from near to far first.
    pub const BOTH: [Direction; 2] = [Direction::Out, Direction::Back];
}

impl Profile {
    /// A Linux host of today with everything at its default.
    pub fn plain() -> Profile {
        Profile {
            sysctls: Vec::new(),
            congestion: None,
            route: String::new(),
            window_field: None,
            mtu: 1500,
            offload: true,
            shipped: false,
        }
    }

    /// A Linux host of today whose buffers may grow to `most`.
    pub fn buffers(most: Bytes) -> Profile {
        let sysctl = |name, first: u64| (name, format!("4096 {} {}", first.min(most.0), most.0));
        let sysctls = vec![sysctl("tcp_rmem", 131_072), sysctl("tcp_wmem", 65_536)];
        Profile { sysctls, ..Profile::plain() }
    }

    /// Adds an attribute of its routes.
    pub(crate) fn add_route(&mut self, attribute: &str) {
        if !self.route.is_empty() {
            self.route.push(' ');
        }
        self.route.push_str(attribute);
    }

    /// A host like AIX at its defaults on 10 GbE or virtual Ethernet: windows of `window` bytes, Reno, no SACK, none of
    /// the newer ways of Linux to find losses.
    pub fn aix_like(window: Bytes) -> Profile {
        HostSpec { window: Some(window), congestion: "reno".into(), sack: false, ..HostSpec::default() }.profile()
    }

    /// A relay host whose buffers cover the path, as the advice for relays is: twice the bandwidth-delay product, for
    /// the kernel counts its overhead in them, and as much again for what waits in the link's queue; and whose kernel's own
    /// congestion control is CUBIC.
    pub fn relay(link: &LinkSpec) -> Profile {
        HostSpec { buffers: Some(Profile::relay_buffer(link)), ..HostSpec::default() }.profile()
    }

    /// The largest buffer of [`Profile::relay`]: at least what Linux has by default since 6.16.
    pub fn relay_buffer(link: &LinkSpec) -> Bytes {
        let path = link.bandwidth_delay().0.saturating_mul(4).next_power_of_two();
        Bytes(path.clamp(32 << 20, 1 << 30))
    }
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
