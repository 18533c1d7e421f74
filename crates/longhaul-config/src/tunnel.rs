//! A tunnel: a listener and where its connections go.
//!
//! To add a key, add a field here, a row in `keys/tunnel.rs` and the place in the relay that uses the field.

use crate::options::{Leg, LegOptions, key};
use ipnet::IpNet;
use longhaul_core::caps::Bandwidth;
use longhaul_core::ftp::Mode;
use longhaul_core::next_hop::{HopKey, Member, POLICIES, Policy};
use longhaul_core::proxy_header::{Accepts, Version};
use longhaul_core::reload::Listens;
use longhaul_core::sources::Limits;
use longhaul_units::Rate;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

/// A listener and where its connections go.
#[derive(Clone, Debug, PartialEq)]
pub struct Tunnel {
    /// Name in logs and metrics.
    pub name: String,
    /// Address to listen on; `[::]` means every address of the host, also IPv4.
    pub listen: SocketAddr,
    /// Next hops, at least one.
    pub to: Vec<NextHop>,
    /// Order in which the next hops are dialled.
    pub policy: &'static Policy,
    /// Active checks of the next hops.
    pub check: Check,
    /// Networks that may connect; empty means everybody.
    pub allow: Vec<IpNet>,
    /// PROXY headers that a connection must begin with; `None` means that it has none. Needs [`allow`](Tunnel::allow), which
    /// then names the proxies.
    pub proxy_in: Option<Accepts>,
    /// PROXY header that a dialled connection begins with; `None` sends none.
    pub proxy_out: Option<Version>,
    /// Maximum number of flows; further connections wait in the listen queue. With `None` the limit on open files decides.
    pub max_flows: Option<usize>,
    /// Maximum number of flows of one source; further connections are reset.
    pub max_flows_per_source: Option<usize>,
    /// Maximum number of new flows a second of one source; further connections are reset.
    pub new_flows_per_second_per_source: Option<u32>,
    /// Cap of all flows of the tunnel together, for each direction.
    pub bandwidth: Bandwidth,
    /// Cap of each flow, for each direction.
    pub flow_bandwidth: Option<Rate>,
    /// Whether its flows take what others leave.
    pub is_background: bool,
    /// Time that one address has to answer a dial.
    pub connect_timeout: Duration,
    /// Address to dial from; `None` lets the kernel choose.
    pub source: Option<IpAddr>,
    /// Whether bytes move through pipes with splice(2); `false` copies them through user space.
    pub splice: bool,
    /// Time between two probes that the daemon makes of the tunnel; `None` makes none.
    pub verify: Option<Duration>,
    /// Number of relays after this one. `None` means 1, and that only probes from this host are passed on.
    pub verify_hops: Option<u8>,
    /// Whether a probe dials the final host.
    pub verify_final: bool,
    /// Protocol that the flows carry.
    pub protocol: Protocol,
    /// Keys of FTP. Without effect unless `protocol` is [`Protocol::Ftp`].
    pub ftp: Ftp,
    /// Socket options of the accept leg.
    pub accept: LegOptions,
    /// Socket options of the dial leg.
    pub dial: LegOptions,
}

/// Protocol that the flows of a tunnel carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Any protocol over TCP. The bytes pass unchanged.
    Tcp,
    /// Control connections of FTP (RFC 959). The data connections that they name pass through the relay, too.
    Ftp,
}

/// Keys of a tunnel that carries FTP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ftp {
    /// Ports on which the relay listens for data connections; `None` lets the kernel choose each.
    pub ports: Option<RangeInclusive<u16>>,
    /// Address that the reply to PASV tells the client; `None` is the address that the client connected to.
    pub advertise: Option<Ipv4Addr>,
    /// Networks that may be an end of a data connection beside the peers of the control connection.
    pub data_from: Vec<IpNet>,
    /// Mode for which the next hop is asked.
    pub mode: Mode,
}

/// A host, by name or by address, and a port; or an SRV name, whose answer has hosts and ports.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NextHop {
    /// A DNS name or an IP address, without brackets.
    pub host: String,
    /// The TCP port, 1 to 65535; 0 if `host` is an SRV name.
    pub port: u16,
    /// Its weight, 1 to 256, for the policies that use weights.
    pub weight: u32,
}

/// Active checks of a tunnel's next hops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check {
    /// How a hop is checked; `None` if it is not.
    pub by: Option<CheckBy>,
    /// Time between the beginnings of two checks of a hop.
    pub interval: Duration,
    /// Number of good checks in a row after which a hop is up again.
    pub rise: u32,
    /// Number of failed checks in a row after which a hop is down.
    pub fall: u32,
}

/// How a next hop is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckBy {
    /// By a TCP connection, which is reset at once.
    Tcp,
    /// By a probe through the hop, which is a relay, to the final host.
    Verify,
}

impl Check {
    /// No checks, and the default times of checks. A dead hop is down after 15 s; its dials eject it before, if there are any.
    pub const NONE: Check = Check { by: None, interval: Duration::from_secs(5), rise: 2, fall: 3 };

    /// Returns the time that a check has. A connection has 3 s: the kernel sends a lost SYN again after 1 s (RFC 6298 2.1), so a check
    /// survives one. A probe has the interval, but at least 5 s, because it takes six round trips and its relays dial, and at most 1 min.
    pub fn timeout(&self) -> Duration {
        match self.by {
            Some(CheckBy::Verify) => self.interval.clamp(Duration::from_secs(5), Duration::from_secs(60)),
            Some(CheckBy::Tcp) | None => Duration::from_secs(3),
        }
    }

    /// Returns the time in which a next hop that fails is down. `None` without checks.
    pub fn found_within(&self) -> Option<Duration> {
        self.by.map(|_| self.interval.max(self.timeout()) * (self.fall + 1))
    }
}

impl NextHop {
    /// Returns a next hop of weight 1.
    pub fn new(host: impl Into<String>, port: u16) -> NextHop {
        NextHop { host: host.into(), port, weight: 1 }
    }

    /// Returns the hop as a member of its group.
    pub fn member(&self) -> Member {
        Member { key: HopKey::of(&self.host, self.port), weight: self.weight }
    }

    /// Returns the next hop of the SRV name `name` (RFC 2782).
    pub fn srv(name: impl Into<String>) -> NextHop {
        // No host has port 0, so it can stand for the ports of the answer.
        NextHop::new(name, 0)
    }

    /// Returns whether the hosts and ports come from an SRV name.
    pub fn is_srv(&self) -> bool {
        self.port == 0
    }

    /// Returns the address, if no name has to be resolved.
    pub fn address(&self) -> Option<SocketAddr> {
        self.host.parse().ok().map(|ip: IpAddr| SocketAddr::new(ip, self.port))
    }
}

impl Tunnel {
    /// Default of [`connect_timeout`](Tunnel::connect_timeout). The kernel sends SYNs at 0, 1, 3 and 7 s (tcp(7)), so a dial
    /// survives three lost SYNs.
    pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

    /// Returns the lowest cap that a flow may have at any time of the week, by this tunnel's own keys. `None` without one.
    pub fn lowest_cap(&self) -> Option<Rate> {
        let windows = self.bandwidth.schedule.iter().filter_map(|window| window.rate);
        windows.chain(self.bandwidth.rate).chain(self.flow_bandwidth).min()
    }

    /// Returns a tunnel with the default of every optional key.
    pub fn new(name: impl Into<String>, listen: SocketAddr, to: Vec<NextHop>) -> Tunnel {
        Tunnel {
            name: name.into(),
            listen,
            to,
            policy: &POLICIES[0],
            check: Check::NONE,
            allow: Vec::new(),
            proxy_in: None,
            proxy_out: None,
            max_flows: None,
            max_flows_per_source: None,
            new_flows_per_second_per_source: None,
            bandwidth: Bandwidth::default(),
            flow_bandwidth: None,
            is_background: false,
            connect_timeout: Tunnel::CONNECT_TIMEOUT,
            source: None,
            splice: true,
            verify: None,
            verify_hops: None,
            verify_final: true,
            protocol: Protocol::Tcp,
            ftp: Ftp::default(),
            accept: LegOptions::default(),
            dial: LegOptions::default(),
        }
    }

    /// Returns whether the tunnel may listen for an FTP data connection on `port` of `ftp.ports`.
    pub(crate) fn has_data_port(&self, port: u16) -> bool {
        self.protocol == Protocol::Ftp && self.ftp.ports.as_ref().is_some_and(|ports| ports.contains(&port))
    }

    /// Returns the limits of each source.
    pub fn source_limits(&self) -> Limits {
        Limits { max_flows: self.max_flows_per_source, new_per_second: self.new_flows_per_second_per_source }
    }

    /// Returns whether `leg` speaks Multipath TCP.
    pub fn mptcp(&self, leg: Leg) -> bool {
        self.options(leg).is_on(key::MPTCP)
    }

    /// Returns the options of `leg`.
    pub fn options(&self, leg: Leg) -> &LegOptions {
        match leg {
            Leg::Accept => &self.accept,
            Leg::Dial => &self.dial,
        }
    }
}

impl Listens for Tunnel {
    fn name(&self) -> &str {
        &self.name
    }

    fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// Not every option can be changed on a listening socket of Multipath TCP.
    fn can_become(&self, next: &Tunnel) -> bool {
        self.accept == next.accept || !next.mptcp(Leg::Accept) && next.accept.follow_live(&self.accept)
    }
}

impl fmt::Display for NextHop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NextHop { host, port, .. } = self;
        match host {
            _ if self.is_srv() => write!(f, "srv:{host}"),
            _ if host.contains(':') => write!(f, "[{host}]:{port}"),
            _ => write!(f, "{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A probe over a satellite (600 ms) takes 3.6 s and more.
    #[test]
    fn a_check_survives_a_lost_syn_and_a_probe_has_its_interval() {
        let time = |by, milliseconds| {
            let interval = Duration::from_millis(milliseconds);
            Check { by: Some(by), interval, ..Check::NONE }.timeout().as_millis()
        };
        assert_eq!([100, 5000].map(|ms| time(CheckBy::Tcp, ms)), [3000, 3000]);
        assert_eq!([1000, 5000, 20_000, 3_600_000].map(|ms| time(CheckBy::Verify, ms)), [5000, 5000, 20_000, 60_000]);
    }
}
