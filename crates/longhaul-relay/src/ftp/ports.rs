//! Opens a data listener on a free port.

use crate::leg::setup;
use crate::lock::lock;
use longhaul_config::options::LegOptions;
use longhaul_sys::{SysError, sockopt};
use socket2::Socket;
use std::collections::{BTreeSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Listens on the address of `local`, on a free port of `ports`, or on one that the kernel chooses. The port cannot be
/// foretold (RFC 2577 8), and the ports that were used last come last.
///
/// # Errors
/// No port is free, or the kernel refuses a call or an option. The text goes to the client.
pub(super) fn listen(
    local: SocketAddr,
    ports: Option<&RangeInclusive<u16>>,
    options: &LegOptions,
) -> Result<Socket, String> {
    let Some(ports) = ports else {
        let found = first_free(local, [0], options)?;
        return found.map(|(_, socket)| socket).ok_or("no port is free".into());
    };
    // Before any port is tried: a client may ask for many listeners in a row.
    if FULL.has(local.ip(), ports, Instant::now()) {
        return Err(none_free(ports));
    }
    let order = LATEST.order(ports, RandomState::new().hash_one(()));
    let Some((port, socket)) = first_free(local, order, options)? else {
        FULL.add(local.ip(), ports, Instant::now());
        return Err(none_free(ports));
    };
    LATEST.add(port);
    Ok(socket)
}

fn none_free(ports: &RangeInclusive<u16>) -> String {
    format!("no port of {}-{} is free", ports.start(), ports.end())
}

/// Notes that a data listener on `ip` is closed.
pub(super) fn closed(ip: IpAddr) {
    FULL.remove(ip);
}

/// The ranges in which no port was free a moment ago. Each search takes a system call for each port, and a client may ask 170 times in
/// one packet: with 1,000 ports it held up other flows for 7 s.
struct Full(Mutex<Vec<Searched>>);

/// A search that found no free port.
struct Searched {
    ip: IpAddr,
    ports: RangeInclusive<u16>,
    at: Instant,
}

/// Those of all control connections.
static FULL: Full = Full(Mutex::new(Vec::new()));

impl Full {
    fn has(&self, ip: IpAddr, ports: &RangeInclusive<u16>, now: Instant) -> bool {
        let is_same = |searched: &Searched| (searched.ip, &searched.ports) == (ip, ports);
        lock(&self.0).iter().any(|searched| is_same(searched) && searched.is_recent(now))
    }

    fn add(&self, ip: IpAddr, ports: &RangeInclusive<u16>, now: Instant) {
        let mut all = lock(&self.0);
        all.retain(|searched| searched.is_recent(now));
        all.push(Searched { ip, ports: ports.clone(), at: now });
    }

    fn remove(&self, ip: IpAddr) {
        lock(&self.0).retain(|searched| searched.ip != ip);
    }
}

impl Searched {
    fn is_recent(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) < SEARCHED_AGAIN
    }
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

/// Listens on the first free one of `ports`. Returns it, or `None` if no port is free.
///
/// All ports are tried with one socket, because a worker that makes a socket with its options for each of them carries no other
/// flow meanwhile.
fn first_free(
    local: SocketAddr,
    ports: impl IntoIterator<Item = u16>,
    options: &LegOptions,
) -> Result<Option<(u16, Socket)>, String> {
    let mut unbound = None;
    for port in ports {
        let socket = match unbound.take() {
            Some(socket) => socket,
            None => open(local, options).map_err(|err| err.to_string())?,
        };
        let address = with_port(local, port);
        if is_free(address, "bind", socket.bind(&address.into()))? {
            // Another socket may have been bound to the port, and listen since then. This one stays bound: it is of no more use.
            if is_free(address, "listen", socket.listen(BACKLOG))? {
                return Ok(Some((port, socket)));
            }
        } else {
            // bind(2) has changed nothing.
            unbound = Some(socket);
        }
    }
    Ok(None)
}

/// Returns whether the port of `address` was free for `call`.
///
/// # Errors
/// The call failed for another reason.
fn is_free(address: SocketAddr, call: &str, result: io::Result<()>) -> Result<bool, String> {
    match result {
        Ok(()) => Ok(true),
        Err(err) if err.kind() == io::ErrorKind::AddrInUse => Ok(false),
        Err(err) => Err(setup::failed(format!("{call}({address})"), &err).to_string()),
    }
}

fn with_port(mut address: SocketAddr, port: u16) -> SocketAddr {
    // Keeps the interface of a link-local address.
    address.set_port(port);
    address
}

/// Returns a socket that can be bound to a port of `address`.
fn open(address: SocketAddr, options: &LegOptions) -> Result<Socket, SysError> {
    let socket = setup::open(&address, options)?;
    // The port may have been used a moment ago, and its last connection be in TIME_WAIT (socket(7) SO_REUSEADDR).
    sockopt::set_reuse_address(socket.as_fd())?;
    if address.is_ipv6() {
        sockopt::set_ipv6_only(socket.as_fd(), true)?;
    }
    Ok(socket)
}

/// Time after which a range without a free port is searched again, although no data listener of this relay has closed.
const SEARCHED_AGAIN: Duration = Duration::from_millis(100);
/// Length of the listen queue. More than one, because strangers may be in it, too.
const BACKLOG: i32 = 16;
/// Number of ports that are remembered: TIME_WAIT lasts 60 s, and few relays begin more transfers in that time.
const MAX_LATEST: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn here() -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
    }

    /// Ports that the kernel gives to nobody by itself.
    const UNUSED: RangeInclusive<u16> = 20_000..=29_999;

    fn listen_on(ports: &RangeInclusive<u16>) -> Result<Socket, String> {
        listen(here(), Some(ports), &LegOptions::default())
    }

    fn port(socket: &Socket) -> u16 {
        socket.local_addr().unwrap().as_socket().unwrap().port()
    }

    #[test]
    fn every_port_of_the_range_is_found_and_then_none() {
        let free = listen_on(&UNUSED).unwrap();
        let only = port(&free)..=port(&free);
        let text = listen_on(&only).unwrap_err();
        assert_eq!(text, format!("no port of {0}-{0} is free", only.start()));
        drop(free);
        closed(here().ip());
        assert_eq!(port(&listen_on(&only).unwrap()), *only.start());
    }

    #[test]
    fn a_range_without_a_free_port_is_searched_again_when_a_listener_closes_and_after_a_moment() {
        let (full, ports, now) = (Full(Mutex::default()), 50_000..=50_009, Instant::now());
        let (here, other) = (here().ip(), IpAddr::from([127, 0, 0, 2]));
        full.add(here, &ports, now);
        let later = now + SEARCHED_AGAIN - Duration::from_millis(1);
        assert!(full.has(here, &ports, later) && !full.has(other, &ports, later) && !full.has(here, &(1..=2), later));
        assert!(!full.has(here, &ports, now + SEARCHED_AGAIN));
        full.remove(other);
        assert!(full.has(here, &ports, later));
        full.remove(here);
        assert!(!full.has(here, &ports, later));
    }

    /// On the same socket, which a failed bind(2) leaves as it was.
    #[test]
    fn a_free_port_is_found_behind_many_that_are_in_use() {
        for here in [here(), SocketAddr::from((Ipv6Addr::LOCALHOST, 0))] {
            let listen = |ports: &[u16]| first_free(here, ports.iter().copied(), &LegOptions::default());
            let Ok(Some((_, taken))) = first_free(here, UNUSED, &LegOptions::default()) else {
                panic!("no port of {here}")
            };
            let (port, mut ports) = (port(&taken), vec![port(&taken); 1000]);
            assert!(listen(&ports).unwrap().is_none());
            ports.push(0);
            let (last, socket) = listen(&ports).unwrap().unwrap();
            assert_eq!((last, socket.is_listener().unwrap(), self::port(&socket) == port), (0, true, false));
            let address = with_port(here, self::port(&socket));
            std::net::TcpStream::connect(address).unwrap();
            drop((socket, taken));
            assert_eq!(listen(&[port]).unwrap().unwrap().0, port);
        }
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
        // A port that is free again at once.
        let ports: Vec<u16> = (0..20).map(|_| port(&listen_on(&(19_900..=19_909)).unwrap())).collect();
        assert!(ports.windows(6).all(|six| !six[..5].contains(&six[5])), "one of the last five: {ports:?}");
    }

    #[test]
    fn the_next_port_cannot_be_foretold() {
        let steps = |ports: &[u16]| ports.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect::<BTreeSet<_>>();
        let ports: Vec<u16> = (0..12).map(|_| port(&listen_on(&UNUSED).unwrap())).collect();
        assert!(steps(&ports).len() > 3, "{ports:?}");
    }
}
