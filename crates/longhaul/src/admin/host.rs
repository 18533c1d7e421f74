//! The name by which a browser came. A page elsewhere can give its own name the address of this host (DNS rebinding), and its scripts
//! could then read the addresses of the flows. So the HTTP listener answers only to names that are this machine's.

use hyper::StatusCode;
use hyper::header::HOST;
use hyper::http::request::Parts;
use longhaul_config::value::is_host_name;
use std::fs;
use std::net::IpAddr;

/// Returns the status code and the reason if the request with this head names no host, or one that is neither this machine nor among
/// `hosts`. A request without a name (HTTP/1.0) is no browser's.
pub(super) fn refusal(head: &Parts, hosts: &[String]) -> Option<(StatusCode, String)> {
    // RFC 9112 3.2.2: a whole address in the first line counts more than the header.
    let named = match head.uri.authority() {
        Some(authority) => authority.as_str().into(),
        None => String::from_utf8_lossy(head.headers.get(HOST)?.as_bytes()),
    };
    let name = without_dot(without_port(&named)).to_ascii_lowercase();
    let is_known = is_address(&name)
        || name == "localhost"
        || hosts.iter().any(|host| without_dot(host).eq_ignore_ascii_case(&name))
        || is_of_this_machine(&name);
    match is_known {
        true => None,
        false if is_host_name(&name) => Some((
            StatusCode::MISDIRECTED_REQUEST,
            format!(
                "{name:?} is no name of this machine that the daemon knows: write hosts = [{name:?}] below [admin], and reload"
            ),
        )),
        // RFC 9112 3.2
        false => Some((
            StatusCode::BAD_REQUEST,
            format!(
                "the Host of the request is {name:?}, which is no host name: ask by the relay's address or by its name"
            ),
        )),
    }
}

/// Returns `name` without the dot that ends a fully qualified name.
fn without_dot(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
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

    fn refused(uri: &str, host: Option<&str>) -> Option<u16> {
        let request = Request::builder().uri(uri);
        let request = host.into_iter().fold(request, |request, host| request.header(HOST, host));
        let head = request.body(()).unwrap().into_parts().0;
        refusal(&head, &["relay.example".into(), "dot.example.".into()]).map(|(code, _)| code.as_u16())
    }

    #[test]
    fn an_address_localhost_and_the_names_of_the_file_are_known() {
        for host in [
            "127.0.0.1", "127.0.0.1:9650", "[::1]:9650", "[2001:db8::1]", "LocalHost:9650", "relay.example:80",
            "relay.example.", "Relay.Example.:80", "dot.example", "dot.example.",
        ] {
            assert_eq!(refused("/", Some(host)), None, "{host}");
        }
        assert_eq!(refused("/", None), None, "HTTP/1.0");
        for host in ["evil.example", "evil.example:9650", "127.0.0.1.evil.example"] {
            assert_eq!(refused("/", Some(host)), Some(421), "{host}");
        }
        // `hosts` accepts none of them.
        for host in ["", ":9650", ".", "x:y", "::1:evil", "b\u{fc}cher.example"] {
            assert_eq!(refused("/", Some(host)), Some(400), "{host:?}");
        }
        assert_eq!(refused("http://evil.example/", Some("127.0.0.1")), Some(421));
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
