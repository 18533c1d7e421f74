//! A tunnel: a listener and where its connections go.
//!
//! To add a key, add a field and a row here, and the place in the relay that uses the field. A key of a subject that has a file in
//! `keys/`, such as FTP, has its row there.

use crate::next_hop::{Check, NextHop};
use crate::options::{Leg, LegOptions, key};
use crate::remark::no_remarks;
use crate::row::{Argument, Flag, KeyDefault, KeyValue, Row};
use crate::value;
use ipnet::IpNet;
use longhaul_core::caps::Bandwidth;
use longhaul_core::ftp::Mode;
use longhaul_core::next_hop::{POLICIES, Policy};
use longhaul_core::proxy_header::{Accepts, Version};
use longhaul_core::reload::Listens;
use longhaul_core::sources::Limits;
use longhaul_units::{Rate, show_duration};
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

/// The keys of no subject that has a file in `keys/`, in the order of the manual.
pub(crate) const ROWS: &[Row<Tunnel>] = &[
    Row {
        name: "connect_timeout",
        default: KeyDefault::Value("\"10s\""),
        example: "\"5s\"",
        flag: Some(Flag {
            name: "connect-timeout",
            argument: Argument::Named("TIME"),
            short: "Time limit for one dial",
            long: "100ms to 10min. When a next hop's name has several addresses, each of them has this time to answer. \
                   Resolving the name may take the same time again. The kernel sends SYNs after 0, 1, 3 and 7 seconds, so \
                   the default allows for three lost SYNs.",
        }),
        value: KeyValue::One(|tunnel, text| value::connect_timeout(text).map(|time| tunnel.connect_timeout = time)),
        show: |tunnel| Some(format!("waits {} for an address to answer", show_duration(tunnel.connect_timeout))),
        check: no_remarks,
        doc: "Time that one address of a next hop has to answer, 100 ms to 10 min. Resolving the next hop's name may take the \
              same time again. The kernel sends SYNs after 0, 1, 3 and 7 s, so the default allows for three lost SYNs.",
    },
    Row {
        name: "splice",
        default: KeyDefault::Value("true"),
        example: "false",
        flag: Some(Flag {
            name: "no-splice",
            argument: Argument::Means("false"),
            short: "Copy bytes through user space",
            long: "Without this flag, bytes stay in the kernel, which moves them with splice(2). Copying is slower. Use this \
                   flag only where splice of the kernel or of a network driver is broken.",
        }),
        value: KeyValue::One(|tunnel, text| value::switch(text).map(|on| tunnel.splice = on)),
        show: |tunnel| (!tunnel.splice).then(|| "copies through user space".into()),
        check: no_remarks,
        doc: "`true` moves bytes inside the kernel with splice(2). `false` copies them through user space, which is slower. Use \
              `false` only where splice of the kernel or of a network driver is broken.",
    },
];

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
