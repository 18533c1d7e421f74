//! A probe to make: where to, how much, and how long it may take.

use ipnet::IpNet;
use longhaul_config::Tunnel;
use longhaul_core::proxy_header;
use longhaul_core::wire::proof::Key;
use longhaul_sys::route::with_zone;
use longhaul_units::Rate;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// A probe to make.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The address to connect to: the tunnel's listener, or one of its next hops.
    pub address: SocketAddr,
    /// The address of the tunnel's listener, as configured.
    pub listen: SocketAddr,
    /// Networks that the tunnel admits; empty means everybody.
    pub allow: Vec<IpNet>,
    /// Bytes before the preface: a PROXY header for a tunnel with `proxy_in`.
    pub header: Vec<u8>,
    /// Whether the next hop gets a PROXY header.
    pub has_proxy_out: bool,
    /// The key to prove to a relay that asks.
    pub key: Option<Arc<Key>>,
    /// Number of relays after the first.
    pub hops: u8,
    /// Whether all of them have answered a probe before.
    pub are_known: bool,
    /// Number of bytes to echo, at least [`MIN_ECHO_BYTES`].
    pub echo_bytes: u32,
    /// Time to wait for each answer.
    pub limit: Duration,
    /// Time for the whole probe.
    pub total: Duration,
    /// Whether the daemon makes it. `longhaul verify` has flags for the payload, the times and the key.
    pub is_own: bool,
}

impl Plan {
    /// Returns the plan to verify `tunnel` from its own host. A listener on every address is reached on loopback. Without
    /// `limit`, the probe waits until the tunnel's dials have failed. The whole probe may take `limit` for each stage, and the
    /// time of its payload at 1 Mbit/s, or at a sixteenth of the tunnel's cap. A payload that a relay would not wait for at
    /// that rate is smaller.
    pub fn of(tunnel: &Tunnel, echo_bytes: u32, limit: Option<Duration>) -> Plan {
        let ip = match tunnel.listen.ip() {
            // `[::]` listens on IPv4 too, and a host may be without IPv6.
            ip if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            ip => ip,
        };
        let limit = limit.unwrap_or((dials(tunnel) + MARGIN).max(MIN_LIMIT));
        let hops = tunnel.verify_hops.unwrap_or(1);
        // The connection, the relays, and the payload.
        let stages = u32::from(hops) + 3;
        let (echo_bytes, payload_time) = payload(echo_bytes, tunnel.lowest_cap());
        Plan {
            address: with_zone(SocketAddr::new(ip, tunnel.listen.port()), tunnel.accept.bind_device()),
            listen: tunnel.listen,
            allow: tunnel.allow.clone(),
            header: tunnel.proxy_in.map(|accepts| proxy_header::write_own(accepts.version())).unwrap_or_default(),
            has_proxy_out: tunnel.proxy_out.is_some(),
            key: None,
            hops,
            are_known: false,
            echo_bytes,
            limit,
            total: limit.saturating_mul(stages).saturating_add(payload_time),
            is_own: false,
        }
    }

    /// Returns the plan of the daemon's own probe of `tunnel`, which may take the time of the tunnel's own dials and 15 s in
    /// all. It loads the path little, and is in time even below the least cap.
    pub(crate) fn of_own(tunnel: &Tunnel) -> Plan {
        let total = dials(tunnel) + MIN_LIMIT;
        // The listener admits it whatever `allow` and `proxy_in` say.
        let plan = Plan::of(tunnel, OWN_ECHO_BYTES, Some(total));
        Plan { total, allow: Vec::new(), header: Vec::new(), is_own: true, ..plan }
    }

    /// Returns the plan to probe the path behind `tunnel` by a connection to its next hop `address`, which must be a relay. The
    /// whole probe may take `total`.
    pub(crate) fn of_next_hop(tunnel: &Tunnel, address: SocketAddr, total: Duration) -> Plan {
        Plan {
            address,
            listen: tunnel.listen,
            allow: Vec::new(),
            header: tunnel.proxy_out.map(proxy_header::write_own).unwrap_or_default(),
            has_proxy_out: tunnel.proxy_out.is_some(),
            key: None,
            hops: tunnel.verify_hops.unwrap_or(1).saturating_sub(1),
            are_known: false,
            echo_bytes: MIN_ECHO_BYTES,
            limit: total,
            total,
            is_own: true,
        }
    }

    /// Whether the tunnel admits a probe from `ip`.
    pub(super) fn allows(&self, ip: IpAddr) -> bool {
        self.allow.is_empty() || self.allow.iter().any(|net| net.contains(&ip.to_canonical()))
    }
}

/// Returns the time that the dials of `tunnel` may take.
fn dials(tunnel: &Tunnel) -> Duration {
    tunnel.connect_timeout.saturating_mul(u32::try_from(tunnel.to.len()).unwrap_or(u32::MAX))
}

/// Returns the size of a payload that is to have `bytes`, and the time that it may take, [`MAX_PAYLOAD_TIME`] at most. Below a
/// `cap` it needs no more than a part of it: see [`CAP_SHARE`].
fn payload(bytes: u32, cap: Option<Rate>) -> (u32, Duration) {
    let (rate, max) = match cap {
        None => (MIN_RATE, u64::MAX),
        Some(Rate(cap)) => {
            let share = (cap / CAP_SHARE).max(1);
            (share.min(MIN_RATE), share.saturating_mul(MAX_PAYLOAD_TIME.as_secs()) / 8)
        }
    };
    let bytes = bytes.min(u32::try_from(max).unwrap_or(u32::MAX).max(MIN_ECHO_BYTES));
    (bytes, Duration::from_secs((u64::from(bytes) * 8).div_ceil(rate)).min(MAX_PAYLOAD_TIME))
}

/// Least number of bytes of an echo.
pub const MIN_ECHO_BYTES: u32 = 1024;

/// Least time to wait for an answer by default: the default of `connect_timeout` of the far relay, which is not known here,
/// and a margin.
const MIN_LIMIT: Duration = Duration::from_secs(15);

/// Rate in bits per second at which a payload is in time. A path of longhaul is faster.
const MIN_RATE: u64 = 1_000_000;

/// Divisor of a cap: a payload is in time at this part of it. Other flows use the cap, too, and below 100 kbit/s the share of a
/// flow is uneven for seconds.
const CAP_SHARE: u64 = 16;

/// Maximum time of a payload. A relay does not answer for longer.
const MAX_PAYLOAD_TIME: Duration = Duration::from_secs(120);

/// Number of bytes of the echo of the daemon's own probes.
const OWN_ECHO_BYTES: u32 = 16 * 1024;

/// Time beyond the tunnel's own dials.
const MARGIN: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_config::NextHop;

    #[test]
    fn a_listener_on_every_address_is_reached_on_loopback() {
        let plan = |listen: &str| Plan::of(&Tunnel::new("t", listen.parse().unwrap(), Vec::new()), 1024, None);
        assert_eq!(plan("[::]:6000").address, "127.0.0.1:6000".parse().unwrap());
        assert_eq!(plan("0.0.0.0:6000").address, "127.0.0.1:6000".parse().unwrap());
        assert_eq!(plan("[2001:db8::1]:6000").address, "[2001:db8::1]:6000".parse().unwrap());
        assert_eq!((plan("[::]:6000").hops, plan("[::]:6000").limit), (1, MIN_LIMIT));
    }

    #[test]
    fn a_probe_has_a_limit_that_comes_from_those_of_its_stages() {
        let plan = |hops, bytes, limit| {
            let mut tunnel = Tunnel::new("t", "127.0.0.1:1".parse().unwrap(), Vec::new());
            tunnel.verify_hops = hops;
            Plan::of(&tunnel, bytes, limit).total.as_secs()
        };
        let second = Some(Duration::from_secs(1));
        assert_eq!(plan(None, 1 << 20, None), 4 * 15 + 9);
        assert_eq!([plan(Some(0), 1024, second), plan(Some(2), 1 << 20, second)], [3 + 1, 5 + 9]);
        assert_eq!(plan(None, 64 << 20, second), 4 + 120);
    }

    #[test]
    fn a_cap_makes_the_payload_s_time_longer_and_then_the_payload_smaller() {
        let plan = |cap, bytes| {
            let mut tunnel = Tunnel::new("t", "127.0.0.1:1".parse().unwrap(), Vec::new());
            tunnel.flow_bandwidth = Some(Rate(cap));
            let plan = Plan::of(&tunnel, bytes, Some(Duration::from_secs(1)));
            (plan.echo_bytes, plan.total.as_secs() - 4)
        };
        assert_eq!(plan(1_000_000_000, 64 << 20), (64 << 20, 120));
        assert_eq!(plan(8_000_000, 1 << 20), (1 << 20, 17));
        assert_eq!(plan(1_000_000, 100_000), (100_000, 13));
        // A relay waits for 120 s. At the cap itself, this payload takes 7.5 s.
        assert_eq!(plan(1_000_000, 1 << 20), (937_500, 120));
    }

    #[test]
    fn the_daemon_s_own_payload_fits_a_cap_too() {
        let own = |cap| {
            let mut tunnel = Tunnel::new("t", "127.0.0.1:1".parse().unwrap(), vec![NextHop::new("192.0.2.1", 1)]);
            tunnel.bandwidth.rate = cap;
            let plan = Plan::of_own(&tunnel);
            (plan.echo_bytes, plan.total.as_secs())
        };
        assert_eq!([own(None), own(Some(Rate(1_000_000)))], [(OWN_ECHO_BYTES, 25); 2]);
    }
}
