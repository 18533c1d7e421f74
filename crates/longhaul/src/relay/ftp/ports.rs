//! Opens a data listener on a free port.

use crate::relay::leg::{self, Protocol};
use crate::relay::lock::lock;
use longhaul_config::options::LegOptions;
use longhaul_sys::sockopt;
use socket2::Socket;
use std::collections::{BTreeSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::os::fd::AsFd;
use std::sync::Mutex;

/// Listens on the address of `local`, on a free port of `ports`, or on one that the kernel chooses. The port cannot be
/// foretold (RFC 2577 8), and the ports that were used last come last.
///
/// # Errors
/// No port is free, or the kernel refuses a call or an option. The text goes to the client.
pub(super) fn listen(
    local: SocketAddr,
    ports: Option<&RangeInclusive<u16>>,
    options: &LegOptions,
    protocol: Protocol,
) -> Result<Socket, String> {
    let try_port = |port| try_port(with_port(local, port), options, protocol);
    let Some(ports) = ports else { return try_port(0).map_err(ListenError::text) };
    for port in LATEST.order(ports, RandomState::new().hash_one(())) {
        match try_port(port) {
            Err(ListenError::InUse) => {}
            tried => {
                LATEST.add(port);
                return tried.map_err(ListenError::text);
            }
        }
    }
    Err(format!("no port of {}-{} is free", ports.start(), ports.end()))
}

/// The ports that data listeners had last, the latest first. A server that connects from port 20 cannot connect to the port of
/// its last data connection while that is in TIME_WAIT.
struct Latest(Mutex<VecDeque<u16>>);

/// Those of all control connections.
static LATEST: Latest = Latest(Mutex::new(VecDeque::new()));

impl Latest {
    /// Returns every port of `ports` in the order in which to try them: from a place that `random` chooses, and round again. The
    /// latest come last, at most half of the ports.
    fn order(&self, ports: &RangeInclusive<u16>, random: u64) -> impl Iterator<Item = u16> {
        let at = ports.start() + (random % ports.len().max(1) as u64) as u16;
        let latest: Vec<u16> = {
            let latest = lock(&self.0);
            latest.iter().copied().filter(|port| ports.contains(port)).take(ports.len() / 2).collect()
        };
        let are_latest: BTreeSet<u16> = latest.iter().copied().collect();
        let round = (at..=*ports.end()).chain(*ports.start()..at);
        round.filter(move |port| !are_latest.contains(port)).chain(latest.into_iter().rev())
    }

    fn add(&self, port: u16) {
        let mut latest = lock(&self.0);
        latest.retain(|other| *other != port);
        latest.push_front(port);
        latest.truncate(MAX_LATEST);
    }
}

/// Why a port cannot be listened on.
enum ListenError {
    InUse,
    Other(String),
}

impl ListenError {
    fn text(self) -> String {
        match self {
            ListenError::InUse => "no port is free".into(),
            ListenError::Other(text) => text,
        }
    }
}

fn with_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    // Keeps the interface of a link-local address.
    address.set_port(port);
    address
}

fn try_port(address: SocketAddr, options: &LegOptions, protocol: Protocol) -> Result<Socket, ListenError> {
    let of_call = |call: &str, err: &io::Error| match err.kind() {
        io::ErrorKind::AddrInUse => ListenError::InUse,
        _ => ListenError::Other(leg::failed(format!("{call}({address})"), err).to_string()),
    };
    let refused = |err: longhaul_sys::SysError| ListenError::Other(err.to_string());
    let socket = leg::open(&address, options, protocol).map_err(refused)?;
    // The port may have been used a moment ago, and its last connection be in TIME_WAIT (socket(7) SO_REUSEADDR).
    sockopt::set_reuse_address(socket.as_fd()).map_err(refused)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_only(socket.as_fd(), true).map_err(refused)?;
    }
    socket.bind(&address.into()).map_err(|err| of_call("bind", &err))?;
    socket.listen(BACKLOG).map_err(|err| of_call("listen", &err))?;
    Ok(socket)
}

/// Length of the listen queue. More than one, because strangers may be in it, too.
const BACKLOG: i32 = 16;
/// Number of ports that are remembered: TIME_WAIT lasts 60 s, and few relays begin more transfers in that time.
const MAX_LATEST: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn here() -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
    }

    fn listen_on(ports: &RangeInclusive<u16>) -> Result<Socket, String> {
        listen(here(), Some(ports), &LegOptions::default(), Protocol::Tcp)
    }

    fn port(socket: &Socket) -> u16 {
        socket.local_addr().unwrap().as_socket().unwrap().port()
    }

    #[test]
    fn every_port_of_the_range_is_found_and_then_none() {
        let free = listen(here(), None, &LegOptions::default(), Protocol::Tcp).unwrap();
        let only = port(&free)..=port(&free);
        let text = listen_on(&only).unwrap_err();
        assert_eq!(text, format!("no port of {0}-{0} is free", only.start()));
        drop(free);
        assert_eq!(port(&listen_on(&only).unwrap()), *only.start());
    }

    #[test]
    fn the_latest_ports_come_last_and_every_port_comes_once() {
        let (latest, ports) = (Latest(Mutex::default()), 50_000..=50_009);
        let order = |random| latest.order(&ports, random).collect::<Vec<_>>();
        assert_eq!(order(1237), [50_007, 50_008, 50_009, 50_000, 50_001, 50_002, 50_003, 50_004, 50_005, 50_006]);
        for port in [50_001, 50_008, 2000, 50_001, 50_004] {
            latest.add(port);
        }
        assert_eq!(order(7), [50_007, 50_009, 50_000, 50_002, 50_003, 50_005, 50_006, 50_008, 50_001, 50_004]);
        ports.clone().for_each(|port| latest.add(port));
        assert_eq!(order(0), [50_000, 50_001, 50_002, 50_003, 50_004, 50_005, 50_006, 50_007, 50_008, 50_009]);
        assert_eq!(latest.order(&(50_009..=50_009), u64::MAX).collect::<Vec<_>>(), [50_009], "used or not");
    }

    #[test]
    fn the_next_port_cannot_be_foretold() {
        let steps = |ports: &[u16]| ports.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect::<BTreeSet<_>>();
        let ports: Vec<u16> = (0..12).map(|_| port(&listen_on(&(20_000..=29_999)).unwrap())).collect();
        assert!(steps(&ports).len() > 3, "{ports:?}");
    }
}
