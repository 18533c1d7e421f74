//! The three files by which libc resolves names. They are read before each query, so a change takes effect without a
//! reload. Like libc, this module ignores lines that it does not understand.

use longhaul_sys::route::interface_number;
use resolv_conf::{Config, ScopedIp};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};
use std::time::Duration;

/// The files, as text. A file that cannot be read is empty.
#[derive(Clone, Debug, Default)]
pub(super) struct Files {
    /// /etc/resolv.conf.
    pub(super) resolv_conf: String,
    /// /etc/hosts.
    pub(super) hosts: String,
    /// /etc/nsswitch.conf.
    pub(super) nsswitch: String,
}

impl Files {
    /// Reads the files. It may block.
    pub(super) fn read() -> Files {
        let read = |path| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
        Files { resolv_conf: read("/etc/resolv.conf"), hosts: read("/etc/hosts"), nsswitch: read("/etc/nsswitch.conf") }
    }
}

/// The part of resolv.conf(5) that longhaul obeys.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ResolvConf {
    /// The nameservers in the order written, one to three.
    pub(super) servers: Vec<SocketAddr>,
    /// The domains of `search` or `domain`, the later of the two.
    pub(super) search: Vec<String>,
    /// Number of dots from which on a name is first asked for as it is.
    pub(super) ndots: usize,
    /// Time that a nameserver has to answer.
    pub(super) timeout: Duration,
    /// Number of times that each nameserver is asked, 1 to 5.
    pub(super) attempts: usize,
}

/// Parses /etc/resolv.conf. The limits are those of resolv.conf(5).
pub(super) fn resolv_conf(text: &str) -> ResolvConf {
    // Each option has a line of its own here, so that an unknown one does not drop the others.
    let options = |words: &str| words.split_whitespace().map(|word| format!("options {word}")).collect();
    let lines = text.lines().flat_map(|line| match line.strip_prefix("options") {
        Some(words) => options(words),
        None => vec![line.to_owned()],
    });
    let understood: Vec<String> = lines.filter(|line| Config::parse(line).is_ok()).collect();
    let config = Config::parse(understood.join("\n")).unwrap_or_else(|_| Config::new());
    let servers: Vec<SocketAddr> = config.nameservers.iter().filter_map(server).take(MAX_SERVERS).collect();
    ResolvConf {
        // resolv.conf(5): "If no nameserver entries are present, the default is to use the name server on the local
        // machine."
        servers: if servers.is_empty() { vec![SocketAddr::from((Ipv4Addr::LOCALHOST, PORT))] } else { servers },
        search: config.get_last_search_or_domain().map(ToString::to_string).collect(),
        ndots: config.ndots.min(15) as usize,
        timeout: Duration::from_secs(config.timeout.clamp(1, 30).into()),
        attempts: config.attempts.clamp(1, 5) as usize,
    }
}

fn server(address: &ScopedIp) -> Option<SocketAddr> {
    Some(match address {
        ScopedIp::V4(ip) => SocketAddr::from((*ip, PORT)),
        ScopedIp::V6(ip, None) => SocketAddr::from((*ip, PORT)),
        ScopedIp::V6(ip, Some(zone)) => {
            // The interface, by number or name.
            let scope = zone.parse().ok().or_else(|| interface_number(zone))?;
            SocketAddrV6::new(*ip, PORT, 0, scope).into()
        }
    })
}

/// Returns the addresses of `name` in the text of hosts(5), in its order. Case and a final dot do not matter.
pub(super) fn in_hosts(text: &str, name: &str) -> Vec<IpAddr> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let of_line = |line: &str| {
        let mut words = line.split('#').next()?.split_whitespace();
        let address = words.next()?.parse().ok()?;
        words.any(|alias| alias.eq_ignore_ascii_case(name)).then_some(address)
    };
    text.lines().filter_map(of_line).collect()
}

/// Whether libc, by the text of nsswitch.conf(5), asks for host names first /etc/hosts and then DNS, and nothing else
/// that knows other hosts.
pub(super) fn is_files_and_dns(text: &str) -> bool {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let Some(sources) = lines.filter_map(|line| line.trim_start().strip_prefix("hosts:")).next_back() else {
        return true; // nsswitch.conf(5): the default is "files dns"
    };
    let (mut before, mut has_dns, mut in_action) = ("", false, false);
    for word in sources.split_whitespace() {
        match word {
            // An action is about the source before it. `files [NOTFOUND=return]` asks no DNS.
            _ if word.starts_with('[') && before == "files" => return false,
            _ if word.starts_with('[') || in_action => in_action = !word.ends_with(']'),
            "files" if has_dns => return false,
            "dns" => has_dns = true,
            "files" => {}
            // This host's own names, and those in .local, which no relay at another site has.
            "myhostname" | "mdns" | "mdns4" | "mdns6" | "mdns_minimal" | "mdns4_minimal" | "mdns6_minimal" => {}
            _ => return false,
        }
        before = word;
    }
    has_dns
}

/// Port of nameservers.
const PORT: u16 = 53;
/// MAXNS of resolv.conf(5).
const MAX_SERVERS: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolv_conf_is_read_as_libc_reads_it() {
        let conf = resolv_conf(
            "# a comment\nnonsense here\nnameserver 192.0.2.1\nnameserver not-an-address\nnameserver 2001:db8::1\n\
             domain old.example\nsearch site.example example\noptions ndots:2 timeout:3 attempts:1 unheard-of\n",
        );
        assert_eq!(conf.servers, ["192.0.2.1:53".parse().unwrap(), "[2001:db8::1]:53".parse().unwrap()]);
        assert_eq!((conf.search, conf.ndots), (vec!["site.example".to_owned(), "example".to_owned()], 2));
        assert_eq!((conf.timeout, conf.attempts), (Duration::from_secs(3), 1));
    }

    #[test]
    fn an_empty_resolv_conf_means_the_nameserver_of_this_host() {
        let conf = resolv_conf("");
        assert_eq!(conf.servers, ["127.0.0.1:53".parse().unwrap()]);
        assert_eq!((conf.search, conf.ndots), (Vec::new(), 1));
        assert_eq!((conf.timeout, conf.attempts), (Duration::from_secs(5), 2));
        let many = "nameserver 192.0.2.1\n".repeat(9) + "options timeout:0 attempts:99 ndots:99\n";
        let conf = resolv_conf(&many);
        assert_eq!((conf.servers.len(), conf.ndots, conf.attempts), (3, 15, 5));
        assert_eq!(conf.timeout, Duration::from_secs(1));
        assert_eq!(resolv_conf("nameserver fe80::1%7\n").servers, ["[fe80::1%7]:53".parse().unwrap()]);
        assert_eq!(resolv_conf("nameserver fe80::1%nosuch0\n").servers, ["127.0.0.1:53".parse().unwrap()]);
    }

    #[test]
    fn hosts_has_names_and_aliases() {
        let text =
            "127.0.0.1 localhost # and more\n::1\tlocalhost ip6-localhost\n#192.0.2.9 b\n192.0.2.1 B.example b\n";
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(in_hosts(text, "localhost"), [ip("127.0.0.1"), ip("::1")]);
        assert_eq!(in_hosts(text, "b.EXAMPLE."), [ip("192.0.2.1")]);
        assert_eq!(in_hosts(text, "b"), [ip("192.0.2.1")]);
        assert!(in_hosts(text, "and").is_empty() && in_hosts("junk\n1.2.3\n", "junk").is_empty());
    }

    #[test]
    fn nsswitch_decides_whether_dns_answers_as_libc_does() {
        for (sources, dns) in [
            ("files dns", true),
            ("files dns myhostname", true),
            ("files mdns4_minimal [NOTFOUND=return] dns", true),
            ("files mdns4_minimal [!UNAVAIL=continue NOTFOUND=return] dns mdns4", true),
            ("dns", true),
            ("dns files", false),
            ("files", false),
            ("", false),
            ("files [NOTFOUND=return] dns", false),
            ("files mymachines resolve [!UNAVAIL=return] dns myhostname", false),
            ("files sss dns", false),
            ("files dns wins", false),
        ] {
            assert_eq!(is_files_and_dns(&format!("passwd: files ldap\nhosts: {sources} # why\n")), dns, "{sources}");
        }
        assert!(is_files_and_dns("") && is_files_and_dns("#hosts: ldap\n"));
    }
}
