//! The name by which a browser came. A page elsewhere can give its own name the address of this host (DNS rebinding), and its scripts
//! could then read the addresses of the flows. So the HTTP listener answers only to names that are this machine's.

use hyper::header::HOST;
use hyper::http::request::Parts;
use std::fs;
use std::net::IpAddr;

/// Returns the name in the request with this head if it is no name of this machine, and not among `hosts`. A request without a name
/// (HTTP/1.0) is no browser's.
pub(super) fn foreign_name(head: &Parts, hosts: &[String]) -> Option<String> {
    // RFC 9112 3.2.2: a whole address in the first line counts more than the header.
    let named = head.uri.authority().map(|authority| authority.as_str());
    let named = named.or_else(|| head.headers.get(HOST)?.to_str().ok())?;
    let name = without_port(named).to_ascii_lowercase();
    let is_known =
        is_address(&name) || name == "localhost" || hosts.iter().any(|host| host.eq_ignore_ascii_case(&name));
    (!is_known && !is_of_this_machine(&name)).then_some(name)
}

fn without_port(named: &str) -> &str {
    match named.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => named,
    }
}

fn is_address(name: &str) -> bool {
    name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok()
}

fn is_of_this_machine(name: &str) -> bool {
    let own = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let hosts = fs::read_to_string("/etc/hosts").unwrap_or_default();
    is_among(name, own.trim(), &hosts)
}

/// Whether `name` is the `own` name of this machine, its first part, or a name that stands with it or with loopback in `hosts`, the
/// text of hosts(5).
fn is_among(name: &str, own: &str, hosts: &str) -> bool {
    let is_own = |other: &str| own.eq_ignore_ascii_case(other);
    let first = own.split('.').next().unwrap_or_default();
    let is_line_of_ours = |words: &[&str]| {
        let is_loopback = words[0].parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        (is_loopback || words[1..].iter().any(|word| is_own(word)))
            && words[1..].iter().any(|word| word.eq_ignore_ascii_case(name))
    };
    let lines =
        hosts.lines().map(|line| line.split('#').next().unwrap_or_default().split_whitespace().collect::<Vec<_>>());
    !name.is_empty()
        && (is_own(name)
            || first.eq_ignore_ascii_case(name)
            || lines.filter(|words| words.len() > 1).any(|words| is_line_of_ours(&words)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Request;

    fn foreign(uri: &str, host: Option<&str>) -> Option<String> {
        let request = Request::builder().uri(uri);
        let request = host.into_iter().fold(request, |request, host| request.header(HOST, host));
        foreign_name(&request.body(()).unwrap().into_parts().0, &["relay.example".into()])
    }

    #[test]
    fn an_address_localhost_and_the_names_of_the_file_are_known() {
        for host in ["127.0.0.1", "127.0.0.1:9650", "[::1]:9650", "[2001:db8::1]", "LocalHost:9650", "relay.example:80"]
        {
            assert_eq!(foreign("/", Some(host)), None, "{host}");
        }
        assert_eq!(foreign("/", None), None, "HTTP/1.0");
        for host in ["evil.example", "evil.example:9650", "127.0.0.1.evil.example", "", "x:y", "::1:evil"] {
            assert!(foreign("/", Some(host)).is_some(), "{host:?}");
        }
        assert_eq!(foreign("http://evil.example/", Some("127.0.0.1")).as_deref(), Some("evil.example"));
    }

    #[test]
    fn a_machine_has_the_names_of_its_lines_in_hosts() {
        let hosts =
            "127.0.0.1 localhost a # old\n10.0.0.7 relay1.far.example relay1\n10.0.0.8 other.far.example relay2\n\n#";
        for (name, is_ours) in
            [("relay1", true), ("RELAY1.far.example", true), ("a", true), ("old", false), ("other.far.example", false)]
        {
            assert_eq!(is_among(name, "relay1", hosts), is_ours, "{name}");
        }
        assert!(is_among("relay1", "relay1.far.example", "") && !is_among("", "", hosts));
    }
}
