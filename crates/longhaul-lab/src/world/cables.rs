//! Cables, addresses and routes of a host, as commands of ip(8), one per line.

use crate::plan::place::Host;
use crate::plan::profile::Profile;
use crate::plan::setup::Topology;
use std::fmt::Write as _;
use std::net::IpAddr;

/// The surroundings of a host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site {
    /// The order of hosts and cables.
    pub(crate) topology: Topology,
    /// Whether the hosts have IPv6.
    pub(crate) ipv6: bool,
}

/// Returns the commands for the devices, addresses and routes of `host`. `relays` are the paths of the network namespaces of
/// the near and the far relay host.
pub(crate) fn furnish(host: Host, profile: &Profile, relays: &[String; 2], site: Site) -> String {
    let mut commands = format!("link set lo up\n{}", devices(host, profile, relays, site));
    if site.ipv6 {
        commands += &addresses(host, [Host::lan6, Host::wan6], 64, site);
    }
    commands += &addresses(host, [Host::lan, Host::wan], 24, site);
    commands + &routes(host, &profile.route, site)
}

/// Returns the commands for the routes of `host`, with `attributes`: to its LAN, and to everything else through its relay or the
/// other relay.
pub(crate) fn routes(host: Host, attributes: &str, site: Site) -> String {
    let mut text = String::new();
    let ipv4 = (["10.10.10.0/24", "10.20.20.0/24", "10.99.0.0/24"], Host::lan as Address, Host::wan as Address);
    let v6 = (["fd00:10::/64", "fd00:20::/64", "fd00:99::/64"], Host::lan6 as Address, Host::wan6 as Address);
    for ([site_a, site_b, wan_net], lan, wan) in [ipv4, v6].into_iter().take(if site.ipv6 { 2 } else { 1 }) {
        let (own, next, device) = match host {
            Host::A => (site_a, lan(Host::Near), LAN_DEVICE),
            Host::B => (site_b, lan(Host::Far), LAN_DEVICE),
            Host::Near | Host::Far if site.topology == Topology::OneHop => {
                let _ = writeln!(text, "route replace {site_a} dev {LAN_DEVICE} {attributes}");
                let _ = writeln!(text, "route replace {site_b} dev {OTHER_LAN_DEVICE} {attributes}");
                continue;
            }
            Host::Near => (site_a, wan(Host::Far), WAN_DEVICE),
            Host::Far => (site_b, wan(Host::Near), WAN_DEVICE),
        };
        let _ = writeln!(text, "route replace {own} dev {LAN_DEVICE} {attributes}");
        if device == WAN_DEVICE {
            let _ = writeln!(text, "route replace {wan_net} dev {WAN_DEVICE} {attributes}");
        }
        let _ = writeln!(text, "route replace default via {next} dev {device} {attributes}");
    }
    text
}

/// Returns rules of nft(8) that limit the window field of every segment that the host sends to `max`. SYNs are excluded, because
/// their window is never scaled (RFC 7323 2.2).
pub(crate) fn window_rules(max: u16) -> String {
    format!(
        "add table inet lab; add chain inet lab out {{ type filter hook output priority mangle; }}; \
         add rule inet lab out tcp flags & syn == 0 tcp window > {max} tcp window set {max}"
    )
}

/// Returns the commands for the devices of `host`. A and B create both ends of the cable to their relay. A relay has a device to
/// the link.
fn devices(host: Host, profile: &Profile, relays: &[String; 2], site: Site) -> String {
    let mtu = profile.mtu;
    // A device without segmentation offload must get single segments only.
    let up = if profile.offload { "up" } else { "gso_max_segs 1 up" };
    let cable = |net: &str, far_end: &str| {
        format!(
            "link add {LAN_DEVICE} mtu {mtu} type veth peer name {far_end} mtu {mtu} netns {net}\n\
             link set {LAN_DEVICE} {up}\n"
        )
    };
    match host {
        Host::A => cable(&relays[0], LAN_DEVICE),
        Host::B => cable(
            &relays[1],
            match site.topology {
                Topology::OneHop => OTHER_LAN_DEVICE,
                Topology::Wan => LAN_DEVICE,
            },
        ),
        Host::Near | Host::Far if site.topology == Topology::OneHop => {
            format!("link set {LAN_DEVICE} {up}\nlink set {OTHER_LAN_DEVICE} {up}\n")
        }
        // The link's thread shares its core with senders, so the device must queue their packets until the thread runs again.
        Host::Near | Host::Far => {
            format!("link set {WAN_DEVICE} mtu {mtu} txqueuelen {DEVICE_QUEUE} {up}\nlink set {LAN_DEVICE} {up}\n")
        }
    }
}

fn addresses(host: Host, [lan, wan]: [Address; 2], prefix: u8, site: Site) -> String {
    let mut text = String::new();
    let mut add = |address: IpAddr, device: &str| {
        let nodad = if address.is_ipv6() { " nodad" } else { "" };
        let _ = writeln!(text, "addr add {address}/{prefix} dev {device} noprefixroute{nodad}");
    };
    add(lan(host), LAN_DEVICE);
    match host {
        Host::A | Host::B => {}
        Host::Near | Host::Far if site.topology == Topology::OneHop => add(lan(Host::Far), OTHER_LAN_DEVICE),
        Host::Near | Host::Far => add(wan(host), WAN_DEVICE),
    }
    text
}

/// A function that returns one of the addresses of a host.
type Address = fn(Host) -> IpAddr;

/// The device between the relays.
pub(crate) const WAN_DEVICE: &str = "wan0";
/// The device at both ends of a host's cable.
pub(crate) const LAN_DEVICE: &str = "lan0";
/// The relay's end of B's cable, if one relay host joins both cables.
const OTHER_LAN_DEVICE: &str = "lan1";
const DEVICE_QUEUE: u32 = 20_000;
