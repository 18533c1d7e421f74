//! The route to a network, by ip(8).

use super::program::output;
use std::io;
use std::process::Command;

/// Returns the route to `network` as ip(8) shows it, without the state of its device; `None` if there is no such route.
///
/// # Errors
/// ip(8) fails, or shows a route that it cannot change: one with several next hops, one that expires, one of several.
pub(super) fn read(network: &str) -> io::Result<Option<String>> {
    let shown = output(ip(network).args(["route", "show", network]))?;
    let mut lines = shown.lines();
    let Some(line) = lines.next() else { return Ok(None) };
    if lines.next().is_some() {
        return Err(io::Error::other(
            "there are several routes to it, or several next hops: change them by hand, as `longhaul advise` says",
        ));
    }
    let words = line.split_whitespace().filter(|word| !STATES.contains(word));
    match words.clone().find(|word| ["expires", "nexthop", "nhid"].contains(word)) {
        Some(word) => Err(io::Error::other(format!("ip(8) cannot change a route with the word {word:?}"))),
        None => Ok(Some(words.collect::<Vec<_>>().join(" "))),
    }
}

/// Replaces the route that `route` names, as [`read`] returned it, with its words.
///
/// # Errors
/// ip(8) fails, with what it says.
pub(super) fn change(route: &str) -> io::Result<()> {
    output(ip(route).args(["route", "change"]).args(words(route))).map(drop)
}

/// Returns the words of a route for ip(8). It shows `rto_min lock 200ms` and takes `rto_min 200ms`, which is always locked.
fn words(route: &str) -> Vec<&str> {
    let mut words: Vec<&str> = route.split(' ').collect();
    if let Some(at) = words.windows(2).position(|pair| pair == ["rto_min", "lock"]) {
        words.remove(at + 1);
    }
    words
}

/// Returns `route` with the metrics of `words`, such as `mtu lock 1400 advmss 1360`, which are those of IPv4.
pub(super) fn with_packets(route: &str, words: &str) -> String {
    let mut old = route.split(' ');
    let mut kept = Vec::new();
    while let Some(word) = old.next() {
        match word {
            "mtu" | "advmss" if old.next() == Some("lock") => drop(old.next()),
            "mtu" | "advmss" => {}
            word => kept.push(word),
        }
    }
    // The headers of IPv6 have 20 bytes more. Without advmss, the kernel computes the MSS from the MTU.
    let words = if is_ipv6(route) { words.split(" advmss").next().unwrap_or(words) } else { words };
    format!("{} {words}", kept.join(" "))
}

/// Returns the MTU that `route` has of its own.
pub(super) fn mtu(route: &str) -> Option<u32> {
    let mut words = route.split(' ').skip_while(|word| *word != "mtu").skip(1).filter(|word| *word != "lock");
    words.next()?.parse().ok()
}

/// Whether two routes have the same words.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    let sorted = |route: &str| {
        let mut words: Vec<String> = route.split(' ').map(str::to_string).collect();
        words.sort_unstable();
        words
    };
    sorted(one) == sorted(other)
}

/// Reads a destination of a route.
///
/// # Errors
/// It is no network.
pub(super) fn read_network(text: &str) -> Result<String, String> {
    let (address, bits) = text.split_once('/').unwrap_or((text, "0"));
    let is_network = address.parse::<std::net::IpAddr>().is_ok() && bits.parse::<u8>().is_ok_and(|bits| bits <= 128);
    match is_network || text == "default" {
        true => Ok(text.into()),
        false => Err("it is no network; write it as `ip route` shows it, for example 10.20.0.0/16 or default".into()),
    }
}

fn ip(network: &str) -> Command {
    let mut command = Command::new("ip");
    command.arg(if is_ipv6(network) { "-6" } else { "-4" });
    command
}

/// Whether a route or a network, whose first word is its destination, is of IPv6. `default` is the route of IPv4.
fn is_ipv6(route: &str) -> bool {
    route.split(' ').next().is_some_and(|network| network.contains(':'))
}

/// Words that show a state, and that `ip route change` does not take.
const STATES: [&str; 6] = ["linkdown", "dead", "offload", "trap", "rt_offload", "rt_trap"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_packet_size_of_a_route_changes() {
        let words = |packet: u32| format!("mtu lock {packet} advmss {}", packet - 40);
        let with = |route: &str, packet| with_packets(route, &words(packet));
        let old = "10.20.0.0/16 via 10.1.0.2 dev e0 proto static metric 100";
        let new = "10.20.0.0/16 via 10.1.0.2 dev e0 proto static metric 100 mtu lock 1400 advmss 1360";
        assert_eq!(with(old, 1400), new);
        assert_eq!(with(&with(old, 1500), 1400), new);
        let other = "10.20.0.0/16 dev e0 mtu 1450 window 65536 advmss 1410 congctl reno";
        assert_eq!(with(other, 1400), "10.20.0.0/16 dev e0 window 65536 congctl reno mtu lock 1400 advmss 1360");
        assert_eq!((mtu(other), mtu(new), mtu(old)), (Some(1450), Some(1400), None));
        assert_eq!(with("2001:db8::/32 dev e0 metric 1024", 1400), "2001:db8::/32 dev e0 metric 1024 mtu lock 1400");
        assert_eq!(
            super::words("a dev e0 rto_min lock 9ms mtu lock 1400").join(" "),
            "a dev e0 rto_min 9ms mtu lock 1400"
        );
        assert!(is_same("a dev e0 mtu 1400 window 9", "a dev e0 window 9 mtu 1400") && !is_same(old, new));
        for (text, is_network) in [("10.20.0.0/16", true), ("default", true), ("2001:db8::/32", true), ("-h", false)] {
            assert_eq!(read_network(text).is_ok(), is_network, "{text}");
        }
    }
}
