//! The change of a setting, and that of a route.
//!
//! No command has a route of the paste in it: `ip route` leaves out words that its arguments say (`table 100`, `proto static`), hops
//! stand in other lines, and a line may be cut. A command without them would change another route, and its undo would not restore it.

use super::reader::Hint;
use longhaul_core::advice::Goal;
use longhaul_core::path::BBR;

/// A change of a setting, with its commands.
pub(super) struct Change {
    /// The value to set.
    pub(super) want: String,
    /// Command that sets the value until the next boot; empty if there is none.
    pub(super) set_now: String,
    /// Command that makes it permanent; empty if there is none.
    pub(super) set_permanent: String,
    /// Command that undoes both; empty if there is none.
    pub(super) undo: String,
    /// Caveats; may be empty.
    pub(super) caveat: String,
}

/// Whether a route's packets are as large as the path carries.
pub(super) fn is_whole_packet(hint: &Hint, goal: &Goal) -> bool {
    // IPv6 has 20 bytes more of headers.
    let more = if is_ipv6(&hint.place) { 20 } else { 0 };
    let least = match hint.setting {
        MTU => goal.packet,
        MSS => goal.mss() - more,
        _ => return false,
    };
    hint.value.parse::<u32>().is_ok_and(|value| value >= least)
}

/// Returns the change of the route in `place`: it takes the metrics `settings` off, and puts those there that the path wants. One for all
/// findings of a route, because OLD is the same in all.
pub(super) fn of_route(place: &str, mut settings: Vec<&str>, goal: &Goal) -> Change {
    let mut words = Vec::new();
    if goal.is_packet_short && (settings.contains(&MTU) || settings.contains(&MSS)) {
        settings.retain(|setting| ![MTU, MSS].contains(setting));
        settings.extend([MTU, MSS]);
        words.push(format!("mtu lock {}", goal.packet));
        // Without advmss, the kernel computes the MSS from the MTU.
        words.extend((!is_ipv6(place)).then(|| format!("advmss {}", goal.mss())));
    }
    words.extend(settings.contains(&CONTROL).then(|| format!("congctl {BBR}")));
    let (words, ip) = (words.join(" "), ip(place));
    let metrics: Vec<&str> = settings.iter().filter_map(|setting| setting.strip_prefix(METRIC)).collect();
    Change {
        set_now: format!("{ip} route change ROUTE {words}").trim_end().into(),
        set_permanent: String::new(),
        undo: format!("{ip} route change OLD"),
        caveat: format!(
            "OLD is the whole route, with the hops below it, as `{ip} route show table all` shows it on the host. ROUTE is OLD without \
             its {}. {NOTE}",
            metrics.join(", ")
        ),
        want: if words.is_empty() { "none".into() } else { words },
    }
}

/// Returns ip(8) for the route in `place`: with `-6`, and the network namespace.
fn ip(place: &str) -> String {
    let netns = place.split_once(" netns ").and_then(|(_, rest)| rest.split(' ').next());
    let netns = netns.map(|name| if is_plain(name) && !name.starts_with('-') { name } else { "NETNS" });
    let netns = netns.map(|name| format!(" -n {name}")).unwrap_or_default();
    format!("ip{netns}{}", if is_ipv6(place) { " -6" } else { "" })
}

/// Whether the place of a route is one of IPv6.
fn is_ipv6(place: &str) -> bool {
    place.starts_with("IPv6") || place.split(' ').nth(1).is_some_and(|destination| destination.contains(':'))
}

/// Returns whether a text has only characters that mean nothing to a shell, or are what values have: `4096 131072 6291456`, `*IFC`.
pub(super) fn is_plain(text: &str) -> bool {
    text.chars().all(|char| char.is_ascii_alphanumeric() || " ._-+:/,=%*@".contains(char))
}

/// Beginning of the settings that are metrics of a route.
pub(super) const METRIC: &str = "route ";
const MTU: &str = "route mtu";
const MSS: &str = "route advmss";
pub(super) const CONTROL: &str = "route congctl";
const NOTE: &str = "Metrics stand before the first `nexthop`. Leave out `lock` behind `rto_min`, and `expires`, `nhid` and `linkdown`: ip(8) does \
    not take them back. If there is another route with the same destination and metric, it may change that one: delete and add it instead. The change lasts until the next boot, or \
    until the network configuration sets the route anew.";

#[cfg(test)]
mod tests {
    use crate::audit::finding::Audited;
    use crate::audit::finding::tests::{BUFFERS, audited, megabits};
    use crate::path::Path;
    use longhaul_units::Rate;
    use std::time::Duration;

    /// Returns setting, value wanted and command of each finding on a path with an MTU and a share of lost packets.
    fn changes(paste: &str, mtu: u32, loss: f64) -> Vec<(&'static str, String, String)> {
        let host = crate::audit::host::read(paste.as_bytes(), "paste", None).unwrap().unwrap();
        let path = Path { mtu, loss, ..Path::new(Duration::from_millis(63), Rate(1_000_000_000)) };
        let findings = Audited::new(host, &path).findings.into_iter();
        findings
            .map(|finding| (finding.setting, finding.change.unwrap()))
            .map(|(setting, change)| (setting, change.want, change.set_now))
            .collect()
    }

    /// A route whose packets are as large as the path's is no finding. A smaller one has one change, for MTU and MSS.
    #[test]
    fn the_packets_of_a_route_are_compared_with_those_of_the_path() {
        let route = |metrics: &str| format!("$ ip route\ndefault via 10.0.0.1 dev e0 {metrics}\n");
        let of_ipv6 = |metrics: &str| format!("$ ip -6 route\ndefault dev e0 metric 1024 {metrics} pref medium\n");
        for fits in [route("mtu lock 1200 advmss 1160"), of_ipv6("mtu lock 1200 advmss 1140")] {
            assert_eq!(changes(&fits, 1200, 0.0), [], "{fits}");
        }
        for (paste, words, command) in [
            (route("mtu lock 1000 advmss 960"), "mtu lock 1400 advmss 1360", "ip route change ROUTE"),
            (of_ipv6("mtu 1000 advmss 940"), "mtu lock 1400", "ip -6 route change ROUTE"),
            (
                route("mtu 1000 advmss 940").replace("ip route", "ip -n b route"),
                "mtu lock 1400 advmss 1360",
                "ip -n b route change ROUTE",
            ),
        ] {
            let found = changes(&paste, 1400, 0.0);
            let change = (words.to_string(), format!("{command} {words}"));
            assert_eq!(found.len(), 2, "{paste}");
            assert!(found.into_iter().all(|(_, want, set_now)| (want, set_now) == change), "{paste}");
        }
    }

    #[test]
    fn the_congestion_control_of_a_route_counts() {
        let paste =
            format!("{BUFFERS}net.ipv4.tcp_congestion_control = bbr\n$ ip route\ndefault dev e0 congctl reno\n");
        assert!(megabits(audited(&paste, 1e-4).rates()[0]) < 30.0);
        let change = ("route congctl", "congctl bbr".to_string(), "ip route change ROUTE congctl bbr".to_string());
        assert_eq!(changes(&paste, 1500, 1e-4), [change]);
        assert_eq!(changes(&paste, 1500, 0.0), []);
        // A faster one of a single route says nothing of the others.
        let host = audited(&format!("{BUFFERS}$ ip route\n10.9.0.0/16 dev e1 congctl bbr\n"), 1e-3);
        assert_eq!((megabits(host.rates()[0]), host.doubt.is_some()), (7.04, true));
    }
}
