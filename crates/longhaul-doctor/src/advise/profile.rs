//! Published sets of settings, with what is wrong with them. One row is one set.
//!
//! Source: TCP/IP Performance Tuning for Skytap on Azure IBM Power LPARs, May 2023. Of its tables 1 and 2 we know the values that
//! stand here. A value that is not here is not advised against; it is unknown to us.

use crate::path::Path;
use longhaul_core::advice::{Application, Encapsulation, System};
use longhaul_units::{Bytes, Rate};
use std::time::Duration;

/// A published set of settings.
#[derive(Debug)]
pub(super) struct Profile {
    /// Name on the command line.
    pub(super) name: &'static str,
    /// The path that it is for.
    pub(super) title: &'static str,
    rtt: Duration,
    rate: Rate,
    mtu: u32,
    encapsulation: &'static str,
    /// Where round trip and rate come from.
    pub(super) path_source: &'static str,
    /// The window of AIX that is published.
    pub(super) window: Bytes,
    application: &'static str,
    systems: &'static [&'static str],
    /// System, setting and value, as published.
    pub(super) published: &'static [[&'static str; 3]],
    /// Where the guide contradicts itself or arithmetic.
    pub(super) contradictions: &'static [&'static str],
}

impl Profile {
    /// Returns the path of the profile.
    pub(super) fn path(&self) -> Path {
        let encapsulation = Encapsulation::named(self.encapsulation);
        Path { mtu: self.mtu, encapsulation, ..Path::new(self.rtt, self.rate) }
    }

    /// Returns the systems that it is for.
    pub(super) fn systems(&self) -> Vec<&'static System> {
        self.systems.iter().filter_map(|name| System::named(name)).collect()
    }

    /// Returns the application that was measured.
    pub(super) fn application(&self) -> Option<&'static Application> {
        Application::named(self.application)
    }
}

/// The document of all profiles.
pub(super) const SOURCE: &str =
    "Skytap, TCP/IP Performance Tuning for Skytap on Azure IBM Power LPARs, May 2023, tables 1 and 2";

/// All profiles.
pub(super) const PROFILES: &[Profile] = &[
    Profile {
        name: "skytap-host",
        title: "two LPARs on one Power host",
        rtt: Duration::from_micros(100),
        rate: Rate(10_000_000_000),
        mtu: 9000,
        encapsulation: "",
        path_source: "round trip, rate and MTU are assumed: the guide gives none for this path",
        window: AIX_WINDOW,
        application: "",
        systems: BOTH,
        published: &[AIX_SEND, AIX_RECEIVE, IBMI_RECEIVE, IBMI_SEND],
        contradictions: &[SB_MAX],
    },
    Profile {
        name: "skytap-lan",
        title: "two LPARs in one environment and subnet",
        rtt: Duration::from_micros(500),
        rate: Rate(10_000_000_000),
        mtu: 1500,
        encapsulation: "",
        path_source: "round trip and rate are assumed: the guide gives none for this path",
        window: AIX_WINDOW,
        application: "",
        systems: BOTH,
        published: &[AIX_SEND, AIX_RECEIVE, IBMI_RECEIVE, IBMI_SEND],
        contradictions: &[SB_MAX],
    },
    Profile {
        name: "skytap-vpn",
        title: "Singapore to Hong Kong over a VPN",
        rtt: Duration::from_millis(34),
        rate: Rate(1_000_000_000),
        mtu: 1350,
        encapsulation: "esp-gcm",
        path_source: "34 ms from the guide. The rate is assumed. The outer limit of 1350 bytes follows from the guide's measurement: \
                      an MSS of 1254 fits, and 1255 does not",
        window: AIX_WINDOW,
        application: "ssh",
        systems: BOTH,
        published: &[
            AIX_SEND,
            AIX_RECEIVE,
            IBMI_RECEIVE,
            IBMI_SEND,
            ["both", "MTU", "1200"],
            ["VPN gateway", "MSS clamp", "1250"],
        ],
        contradictions: &[
            "An MTU of 1200 with an MSS of 1250 is impossible: the MSS is at most the MTU less 40 bytes of headers, 1160. Advised: \
             an MSS clamp of 1254, which is an MTU of 1294 inside the tunnel.",
            "The guide recommends an MTU of 1250 to 1330 for VPN and ExpressRoute, and measures the VPN with 1200.",
            "IBM i over the VPN: the table says buffers of 4 MiB, and the measured 1.58 MB/s at 38 ms is a window of 65,535 bytes. \
             So the buffers were not in force: look at the window on the wire.",
            SB_MAX,
        ],
    },
    Profile {
        name: "skytap-expressroute",
        title: "Singapore to Hong Kong over ExpressRoute",
        rtt: Duration::from_millis(33),
        rate: Rate(1_000_000_000),
        mtu: 1500,
        encapsulation: "expressroute",
        path_source: "33 ms and 1 Gbit/s from the guide",
        window: AIX_WINDOW,
        application: "ssh",
        systems: BOTH,
        published: &[AIX_SEND, AIX_RECEIVE, IBMI_RECEIVE, IBMI_SEND, ["both", "MTU", "1500"]],
        contradictions: &[
            "The guide recommends an MTU of 1250 to 1330 for VPN and ExpressRoute, and measures ExpressRoute with 1500. With its 50 \
             bytes of encapsulation, packets of 1450 bytes fit into 1500: advised is an MSS of 1410.",
            SB_MAX,
        ],
    },
];

const BOTH: &[&str] = &["aix", "ibmi"];
const AIX_WINDOW: Bytes = Bytes(2 << 20);
const AIX_SEND: [&str; 3] = ["AIX", "tcp_sendspace", "2097152"];
const AIX_RECEIVE: [&str; 3] = ["AIX", "tcp_recvspace", "2097152"];
const IBMI_RECEIVE: [&str; 3] = ["IBM i", "TCPRCVBUF", "4194304"];
const IBMI_SEND: [&str; 3] = ["IBM i", "TCPSNDBUF", "4194304"];
const SB_MAX: &str = "Buffers of 2 MiB need an sb_max of 4 MiB. The default of AIX is 1 MiB, which caps both buffers, and the guide \
                      does not raise it. Its 53 to 55 MB/s at 33 ms need 1.8 MB in flight, so it had been raised there. Advised: \
                      sb_max before any buffer that is raised.";
